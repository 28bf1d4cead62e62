//! The candidate: acquires the lease, renews it, loses it or gives it back.
//!
//! ```text
//! look ─▶ free? ─▶ take ─▶ led ─▶ renew every 2 s ─┬─▶ no renewal for 10 s, or somebody else holds it ─▶ Lost
//!   ▲      │ no                        ▲  │        └─▶ asked to leave ─▶ given back, or left to expire ─▶ Left
//!   └──────┘                           └──┘
//! ```
//!
//! The term of the [`Keeper`] ends by itself; this task only extends it. Started by the operator's wiring, which stops everything else when the
//! lease is lost.

use super::lease::{Place, is_beaten};
use super::record::{Missing, Record, Sighting};
use super::terms::Terms;
use crate::clock::SharedClock;
use crate::k8s::client::ApiClient;
use crate::k8s::leadership::Keeper;
use crate::k8s::metrics::BorderMetrics;
use futures::FutureExt as _;
use futures::future::FusedFuture as _;
use k8s_openapi::api::coordination::v1::Lease;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Which lease, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who this process is: `<host>_<uuid>` (surface §6.4).
    pub identity: String,
    /// How long everything takes.
    pub terms: Terms,
}

/// How a candidacy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Asked to leave: the lease is given back, or left to expire, or was never held.
    Left,
    /// The lease was held and is lost.
    Lost,
}

/// A candidate for the lease.
#[derive(Debug)]
pub struct Candidate {
    place: Place,
    settings: LeaseSettings,
    keeper: Keeper,
    clock: Clock,
    metrics: BorderMetrics,
    sighting: Sighting,
}

/// The clock, without being asked for its looks.
struct Clock(SharedClock);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// The lease is held.
struct Hold {
    lease: Lease,
    /// When the request that got or renewed it was about to be sent.
    sent: Instant,
}

/// What a look at the lease came to.
enum Look {
    Held(Box<Hold>),
    /// Somebody else has it; worth another look then.
    NotYet(Instant),
}

/// Why a renewal did not come about.
enum Failed {
    /// Somebody else holds the lease.
    Taken(String),
    /// Anything that may pass.
    ForNow(kube::Error),
}

impl Candidate {
    /// A candidate over a client of its own, so that no other request makes it wait (surface §6.4).
    pub fn new(
        client: ApiClient,
        settings: LeaseSettings,
        keeper: Keeper,
        clock: SharedClock,
        metrics: BorderMetrics,
    ) -> Self {
        metrics.leading.with_label_values(&[&settings.name]).set(0);
        let place = Place {
            client,
            namespace: settings.namespace.clone(),
            name: settings.name.clone(),
        };
        Self {
            place,
            settings,
            keeper,
            clock: Clock(clock),
            metrics,
            sighting: Sighting::default(),
        }
    }

    /// Runs for the lease, cancels `led` when it is won, and holds it until `leave`.
    pub async fn run(mut self, led: CancellationToken, leave: CancellationToken) -> Ended {
        tracing::info!("attempting to acquire leader lease {}...", self.words());
        let hold = tokio::select! {
            biased;
            () = leave.cancelled() => return Ended::Left,
            hold = self.acquire() => hold,
        };
        self.keeper.hold_until(self.deadline(&hold));
        self.shown().set(1);
        tracing::info!("successfully acquired lease {}", self.words());
        led.cancel();
        let ended = self.hold(hold, leave).await;
        self.keeper.end();
        self.shown().set(0);
        ended
    }

    fn words(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    fn shown(&self) -> prometheus::IntGauge {
        self.metrics.leading.with_label_values(&[&self.settings.name])
    }

    fn deadline(&self, hold: &Hold) -> Instant {
        hold.sent + self.settings.terms.renew_deadline
    }

    /// Longest wait for the answers of one look or renewal: several fit into the renew deadline.
    fn patience(&self) -> Duration {
        self.settings.terms.renew_deadline.checked_div(2).unwrap_or_default()
    }

    async fn acquire(&mut self) -> Hold {
        loop {
            let patience = self.patience();
            let now = Instant::now();
            let again = match tokio::time::timeout(patience, self.look()).await {
                Ok(Ok(Look::Held(hold))) if Instant::now() < self.deadline(&hold) => return *hold,
                // won, but the answer took as long as a term: renewed by the next look
                Ok(Ok(Look::Held(_))) => now,
                Ok(Ok(Look::NotYet(until))) => until.min(Instant::now() + self.settings.terms.look_every()),
                Ok(Err(error)) => {
                    tracing::error!(
                        error = crate::telemetry::with_causes(&error),
                        "error retrieving or taking resource lock {}",
                        self.words()
                    );
                    Instant::now() + self.settings.terms.retry
                }
                Err(_) => {
                    tracing::error!(
                        "error retrieving or taking resource lock {}: no answer within {patience:?}",
                        self.words()
                    );
                    Instant::now() + self.settings.terms.retry
                }
            };
            tokio::time::sleep_until(again).await;
        }
    }

    /// One look at the lease, and an attempt to take it if it is free.
    async fn look(&mut self) -> Result<Look, kube::Error> {
        let found = self.place.get().await?;
        let now = Instant::now();
        let record = found.as_ref().map(Record::of).unwrap_or_default();
        match &found {
            Some(_) => self.sighting.see(&record, now),
            None => self.miss(now).await,
        }
        let terms = self.settings.terms;
        if let Some(until) = self.sighting.taken_until(&self.settings.identity, terms.lease, now) {
            return Ok(Look::NotYet(until));
        }
        let next = record.held_by(&self.settings.identity, terms.lease, self.clock.0.now());
        let sent = Instant::now();
        let taken = match &found {
            Some(lease) => self.place.update(lease, &next).await,
            None => self.place.create(&next).await,
        };
        match taken {
            Ok(lease) => Ok(Look::Held(Box::new(Hold { lease, sent }))),
            Err(error) if is_beaten(&error) => Ok(Look::NotYet(Instant::now() + terms.lease)),
            Err(error) => Err(error),
        }
    }

    /// There is no Lease. One that somebody deleted is still held by whoever held it, who makes it again with its next renewal: it is free once it
    /// was missing for its length.
    ///
    /// Differs: whoever finds none makes it at once upstream, and leads while a holder of before may still write. Here only where there is nothing
    /// to lead yet, so that a fresh install does not wait.
    async fn miss(&mut self, now: Instant) {
        if self.sighting.is_missing() {
            return;
        }
        // before anything is asked that may not be answered
        self.sighting.miss(Missing::Since(now));
        if self.sighting.is_empty() && self.place.has_nothing_to_lead().await {
            self.sighting.miss(Missing::NeverThere);
        }
    }

    async fn hold(&self, mut hold: Hold, leave: CancellationToken) -> Ended {
        let lease = hold.lease.clone();
        // nothing may keep the holder from renewing
        let mut telling = pin!(self.tell(&lease, "became leader").fuse());
        let mut next = hold.sent + self.settings.terms.retry;
        loop {
            let deadline = self.deadline(&hold);
            tokio::select! {
                biased;
                () = leave.cancelled() => return self.leave(hold).await,
                () = &mut telling, if !telling.is_terminated() => continue,
                () = tokio::time::sleep_until(next.min(deadline)) => {}
            }
            let now = Instant::now();
            // first of all: whoever was frozen for so long does not ask, since somebody else may lead by now
            if now >= deadline {
                return self.lost("context deadline exceeded");
            }
            let patience = self.patience().min(deadline.saturating_duration_since(now));
            match tokio::time::timeout(patience, self.renew(&hold.lease)).await {
                Ok(Ok(renewed)) => {
                    hold = renewed;
                    self.keeper.hold_until(self.deadline(&hold));
                    next = hold.sent + self.settings.terms.retry;
                    continue;
                }
                Ok(Err(Failed::Taken(holder))) => return self.lost(&format!("it is held by {holder}")),
                Ok(Err(Failed::ForNow(error))) => tracing::error!(
                    error = crate::telemetry::with_causes(&error),
                    "failed to renew lease {}, trying again",
                    self.words()
                ),
                Err(_) => tracing::error!(
                    "failed to renew lease {} within {patience:?}, trying again",
                    self.words()
                ),
            }
            next = Instant::now() + self.settings.terms.retry;
        }
    }

    /// Renews from what is known; where that fails, whatever the reason, from what is found.
    async fn renew(&self, known: &Lease) -> Result<Hold, Failed> {
        if let Ok(held) = self.write(known).await {
            return Ok(held);
        }
        let Some(found) = self.place.get().await.map_err(Failed::ForNow)? else {
            return self.make_again().await;
        };
        let holder = Record::of(&found).holder;
        if holder != self.settings.identity && !holder.is_empty() {
            return Err(Failed::Taken(holder));
        }
        self.write(&found).await.map_err(Failed::ForNow)
    }

    async fn write(&self, known: &Lease) -> Result<Hold, kube::Error> {
        let next = Record::of(known).held_by(&self.settings.identity, self.settings.terms.lease, self.clock.0.now());
        let sent = Instant::now();
        let lease = self.place.update(known, &next).await?;
        Ok(Hold { lease, sent })
    }

    /// Somebody deleted the Lease. Whoever makes it first has it.
    async fn make_again(&self) -> Result<Hold, Failed> {
        let record = Record::default().held_by(&self.settings.identity, self.settings.terms.lease, self.clock.0.now());
        let sent = Instant::now();
        let lease = self.place.create(&record).await.map_err(Failed::ForNow)?;
        Ok(Hold { lease, sent })
    }

    fn lost(&self, why: &str) -> Ended {
        // before anything else, even the line that says so
        self.keeper.end();
        tracing::error!("failed to renew lease {}: {why}", self.words());
        Ended::Lost
    }

    /// Gives the lease back, unless a write may still take effect: then whoever comes next has to wait for the lease's end (architecture §7.18).
    async fn leave(&self, hold: Hold) -> Ended {
        self.keeper.end();
        if self.keeper.has_open_writes(self.settings.terms.lease) {
            tracing::info!(
                "a write has no clear outcome yet, lease {} is left to expire",
                self.words()
            );
            return Ended::Left;
        }
        let record = Record::of(&hold.lease).given_back(self.clock.0.now());
        let giving = self.place.update(&hold.lease, &record);
        match tokio::time::timeout(self.settings.terms.retry, giving).await {
            Ok(Ok(_)) => tracing::info!("released lease {}", self.words()),
            Ok(Err(error)) => tracing::error!(
                error = crate::telemetry::with_causes(&error),
                "failed to release lease {}",
                self.words()
            ),
            Err(_) => tracing::error!("failed to release lease {}: no answer", self.words()),
        }
        // last: a successor waits for the lease, and nobody for this
        self.tell(&hold.lease, "stopped leading").await;
        Ended::Left
    }

    /// Tells it in an Event, unless that takes longer than it is worth.
    async fn tell(&self, lease: &Lease, what: &str) {
        let telling = self
            .place
            .tell(lease, &self.settings.identity, what, self.clock.0.now());
        let _ = tokio::time::timeout(self.settings.terms.retry, telling).await;
    }
}
