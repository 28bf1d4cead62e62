//! One pass after the other (scheduling 2-1).

use super::batcher::{Batcher, Windows};
use super::cautions::Cautions;
use super::create::{self, CreateError, Sent};
use super::doubts::Doubts;
use super::observe::{self, Question, Wanted};
use super::record;
use super::ruled_out::RuledOut;
use super::simulation::Simulation;
use crate::cluster::{MachineId, Snapshot};
use crate::controllers::Kit;
use crate::k8s::queue::{Busy, Next, ReconcileError};
use crate::k8s::watchdog::Vital;
use crate::scheduling::{NewClaim, Options, Problem, Results, WellKnownLabels, solve_promised};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A solve that takes longer returns what it has (scheduling §0).
const SOLVE_LIMIT: Duration = Duration::from_mins(1);
/// Names tried for one claim before its pods wait for the next pass.
const NAMES_TRIED: usize = 5;

/// Where the solve runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the pass's own task, so that a simulation replays exactly.
    Inline,
    /// On a thread of its own, so that other tasks go on.
    Blocking,
}

/// What the operator's settings say of provisioning.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How pods are gathered.
    pub windows: Windows,
    /// How the solver treats preferences and `minValues`.
    pub options: Options,
    /// Where the solve runs.
    pub place: Place,
    /// Where the names of claims come from.
    pub seed: u64,
}

/// What a pass decided, and by what.
struct Decided {
    snapshot: Arc<Snapshot>,
    question: Arc<Question>,
    results: Results,
}

/// Does a computation at its place. What it is given tells it when nobody waits for its result any more.
async fn attended<T: Send + 'static>(
    place: Place,
    work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
) -> Result<T, ReconcileError> {
    let left_alone = CancellationToken::new();
    if place == Place::Inline {
        return Ok(work(&left_alone));
    }
    let _waiting = left_alone.clone().drop_guard();
    tokio::task::spawn_blocking(move || work(&left_alone))
        .await
        .map_err(ReconcileError::new)
}

/// The controller.
#[derive(Debug)]
pub struct Provisioner {
    kit: Kit,
    batcher: Batcher,
    settings: Settings,
    well_known: Arc<WellKnownLabels>,
    doubts: Doubts,
    cautions: Cautions,
    ruled_out: RuledOut,
    drawn: AtomicU64,
    busy: Busy,
}

impl Provisioner {
    /// The controller.
    pub fn new(kit: Kit, batcher: Batcher, settings: Settings) -> Self {
        let drawn = AtomicU64::new(settings.seed);
        let well_known = WellKnownLabels::with(kit.provider.well_known_labels().iter().copied());
        Self {
            kit,
            batcher,
            settings,
            well_known: Arc::new(well_known),
            doubts: Doubts::default(),
            cautions: Cautions::default(),
            ruled_out: RuledOut::default(),
            drawn,
            busy: Busy::default(),
        }
    }

    /// What a watchdog looks at: a pass that goes on. Waiting for pods is no work.
    pub fn vital(&self) -> Vital {
        self.busy.vital("provisioner")
    }

    /// Waits for pods that come together, then makes one pass. A stop ends it, except for what is being created by then (architecture §7.18).
    pub async fn run_once(&self, stop: &CancellationToken) -> Result<Next, ReconcileError> {
        let waiting = async {
            self.kit.cluster.completed().await.map_err(ReconcileError::new)?;
            self.batcher.window(self.settings.windows).await;
            Ok::<_, ReconcileError>(())
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(Next::Done),
            outcome = waiting => outcome?,
        }
        let _pass = self.busy.begin();
        self.doubts.settle(&self.kit).await?;
        let decided = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(Next::Done),
            decided = self.decide() => decided?,
        };
        if let Some(Decided {
            snapshot,
            question,
            results,
        }) = decided
        {
            self.create(&snapshot, &question, &results.new_claims).await?;
        }
        // the batcher paces the loop
        Ok(Next::Again)
    }

    async fn decide(&self) -> Result<Option<Decided>, ReconcileError> {
        let started = Instant::now();
        self.kit.arrivals.deciding();
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        self.kit.arrivals.decided_by(&snapshot);
        let Some(question) = self.question(&snapshot).await else {
            return Ok(None);
        };
        let pending = question.problem.pods.get(..question.pending).unwrap_or_default();
        self.cautions.tell(pending, self.settings.options.preferences);
        let question = Arc::new(question);
        let simulation = Simulation::begin(&self.kit, &question, [self.draw(), self.draw()]).await?;
        let results = self.solve(&question).await?;
        simulation.end(&results);
        let took = started.elapsed();
        self.kit
            .metrics
            .scheduler
            .scheduling_seconds
            .observe(["provisioner"], took.as_secs_f64());
        record::failures(&self.kit, &question, &results);
        let until = record::nominated_until(self.kit.now(), self.settings.windows.longest);
        record::nominations(&self.kit, &snapshot, &question, &results, until)
            .await
            .map_err(ReconcileError::new)?;
        record::new_claims(&question, &results, took);
        Ok(Some(Decided {
            snapshot,
            question,
            results,
        }))
    }

    /// What is to be decided; nothing when there are no pods.
    ///
    /// Differs: without a usable pool upstream ends the pass here (scheduling 2-2.6). Pods that fit what there is are told so all the same, and the others
    /// why they wait.
    async fn question(&self, snapshot: &Snapshot) -> Option<Question> {
        let held = self.doubts.held();
        let overwritten = self.kit.provider.overwritten_labels();
        let labels = observe::Labels {
            well_known: &self.well_known,
            overwritten,
            ruled_out: self.ruled_out.look(snapshot, overwritten, self.kit.now()),
        };
        let Wanted { pods, pending, invalid } = observe::wanted(snapshot, &held, &labels, self.kit.now());
        if pods.is_empty() && invalid.is_empty() {
            return None;
        }
        let usable = observe::usable_pools(snapshot, &self.kit);
        if usable.is_empty() {
            tracing::info!("{}", record::NO_POOLS);
        }
        let mut pools = Vec::with_capacity(usable.len());
        for pool in &usable {
            pools.push(observe::with_types(&self.kit, &pool.facts).await);
        }
        let (nodes, machines) = observe::machines(snapshot, &held, &pools, &self.kit.arrivals);
        let problem = Problem {
            pools,
            nodes,
            pods,
            daemons: snapshot.daemons_for_scheduling(),
            namespaces: snapshot.namespaces_for_scheduling(),
            volumes: snapshot.volumes_for_scheduling(),
            well_known: Arc::clone(&self.well_known),
        };
        let pools: BTreeMap<_, _> = usable.into_iter().map(|pool| (pool.name().to_owned(), pool)).collect();
        Some(Question {
            problem,
            pools,
            promises: observe::promises(snapshot, &machines),
            machines,
            invalid,
            pending,
        })
    }

    /// Solves, for as long as somebody waits for it: a thread that was left alone by a stop would go on to its limit.
    async fn solve(&self, question: &Arc<Question>) -> Result<Results, ReconcileError> {
        let deadline = Instant::now() + SOLVE_LIMIT;
        let options = self.settings.options;
        let question = Arc::clone(question);
        let work = move |left_alone: &CancellationToken| {
            solve_promised(&question.problem, &options, &question.promises, &|| {
                !left_alone.is_cancelled() && Instant::now() < deadline
            })
        };
        attended(self.settings.place, work).await
    }

    /// Creates all claims at once; what fails is tried again with the next pass, what succeeds stands (scheduling 2-6).
    async fn create(
        &self,
        snapshot: &Snapshot,
        question: &Question,
        claims: &[NewClaim],
    ) -> Result<(), ReconcileError> {
        let totals = snapshot.totals();
        let work = claims.iter().map(|claim| {
            let usage = totals
                .get(&claim.pool)
                .map(|total| total.resources.clone())
                .unwrap_or_default();
            async move { self.create_one(snapshot, question, claim, &usage).await }
        });
        let failed = join_all(work)
            .await
            .into_iter()
            .filter_map(Result::err)
            .reduce(|first, _| first);
        failed.map_or(Ok(()), Err)
    }

    async fn create_one(
        &self,
        snapshot: &Snapshot,
        question: &Question,
        claim: &NewClaim,
        usage: &crate::resources::ResourceList,
    ) -> Result<(), ReconcileError> {
        let Some(pool) = question.pools.get(&claim.pool) else {
            return Ok(());
        };
        create::over_limit(&pool.facts, usage).map_err(ReconcileError::new)?;
        self.doubts.admit().map_err(ReconcileError::new)?;
        for _ in 0..NAMES_TRIED {
            let name = create::claim_name(pool.name(), self.draw());
            if snapshot.claim(&name).is_some() {
                continue;
            }
            let object = create::object(name.clone(), claim, &pool.facts);
            match create::send(&self.kit, &object).await {
                Ok(Sent::Created) => {
                    let plans = create::plans(&name, &claim.pods);
                    self.kit.cluster.plan(plans).await.map_err(ReconcileError::new)?;
                    create::record(&self.kit, pool.name(), claim, &name);
                    record::promised(&self.kit, &claim.pods, &MachineId::Claim(name.as_str().into()));
                    return Ok(());
                }
                Ok(Sent::NameTaken) => {}
                Err(error @ CreateError::InDoubt(_)) => {
                    self.doubts.add(object, claim, self.kit.now());
                    return Err(ReconcileError::new(error));
                }
                Err(CreateError::Write(error)) => return Err(error.into()),
                Err(error) => return Err(ReconcileError::new(error)),
            }
        }
        Ok(())
    }

    /// A number that does not repeat within a process (splitmix64 of a counter).
    fn draw(&self) -> u64 {
        let mut z = self.drawn.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    // architecture §7.18
    #[tokio::test]
    async fn a_solve_that_nobody_waits_for_any_more_is_told_so() {
        let (began, begun) = tokio::sync::oneshot::channel();
        let (ended, seen) = mpsc::channel();
        let work = attended(Place::Blocking, move |left_alone| {
            let _ = began.send(());
            for _ in 0..10_000 {
                if left_alone.is_cancelled() {
                    let _ = ended.send(());
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // the stop comes in the middle of the computation
        tokio::select! {
            _ = work => panic!("it ended by itself"),
            _ = begun => {}
        }
        assert_eq!(seen.recv_timeout(Duration::from_secs(5)), Ok(()));
    }

    #[tokio::test]
    async fn a_solve_that_is_waited_for_goes_on_to_its_end() {
        for place in [Place::Inline, Place::Blocking] {
            let outcome = attended(place, |left_alone| !left_alone.is_cancelled()).await;
            assert!(outcome.unwrap(), "{place:?}");
        }
    }
}
