//! One seed, from an empty world to an empty world.
//!
//! ```text
//! trouble: deeds at their instants ─▶ over: good weather, old prices ─▶ rest: everything bound or explained ─▶ zero: nothing left
//! ```

mod lives;
mod sky;

use self::lives::Seat;
use self::sky::Heaven;
use super::census::Census;
use super::deeds::{self, After, Deed};
use super::inspector::{self, Inspector, Sky};
use super::journal::{Journal, Verbosity};
use super::mortal::{End, Mortal, Traffic, user};
use super::node_pools::haste;
use super::outcome::Outcome;
use super::plan::Plan;
use super::settle;
use super::weather::{Spell, for_operators};
use super::witness::Witness;
use crate::spot::Control;
use crate::world::{World, WorldError};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often the inspector looks.
const LOOK: Duration = Duration::from_secs(15);
/// Something that is to happen at its instant.
enum Step {
    Deed(Deed),
    After(After),
    /// Somebody starts an operator in this seat.
    Revive(usize),
}

struct Trial<'a> {
    plan: &'a Plan,
    journal: &'a Journal,
    world: World,
    inspector: Inspector,
    steps: BTreeMap<(Instant, u32), Step>,
    number_of_steps: u32,
    seats: Vec<Seat>,
    operators: u32,
    witness: Arc<Witness>,
    traffic: Traffic,
    heaven: Heaven,
    /// How long it took to come to rest, and until nothing was left.
    took: (Duration, Duration),
    last_look: Instant,
    next_look: Instant,
    started: DateTime<Utc>,
}

/// Runs the trial of a plan, on a paused clock.
pub(super) async fn run(plan: &Plan, journal: &Journal) -> Outcome {
    let mut outcome = Outcome {
        seed: plan.seed,
        troubles: plan.troubles,
        violations: Vec::new(),
        simulated: TimeDelta::zero(),
        claims: 0,
        operators: 0,
        took: (Duration::ZERO, Duration::ZERO),
        traffic: Traffic::default(),
        cost_usd: 0.0,
        log: Vec::new(),
    };
    match Trial::begin(plan, journal).await {
        Ok(trial) => {
            let _listening = journal.listen(trial.world.clock());
            trial.live(&mut outcome).await;
        }
        Err(problem) => outcome
            .violations
            .push(format!("the world could not be made: {}", words(&problem))),
    }
    outcome
}

fn words(problem: &WorldError) -> String {
    karpenter::telemetry::with_causes(problem)
}

impl<'a> Trial<'a> {
    /// A world with everything in it but the apps and the operator.
    async fn begin(plan: &'a Plan, journal: &'a Journal) -> Result<Self, WorldError> {
        let world = World::builder(plan.seed).options(plan.world.clone()).start().await?;
        let refused = plan.foreign.place(&world).await?;
        world.apply_value(&plan.class).await?;
        for pool in &plan.pools {
            world.apply_value(pool).await?;
        }
        let inspector = Inspector::new(Census::of(&plan.pools), inspector::grace(plan.longest_wait()), &world);
        let now = Instant::now();
        let mut trial = Self {
            plan,
            journal,
            inspector,
            steps: BTreeMap::new(),
            number_of_steps: 0,
            seats: lives::seats(plan.chair),
            operators: 0,
            witness: Witness::of(&world, plan.chair),
            traffic: Traffic::default(),
            heaven: Heaven::new(now),
            took: (Duration::ZERO, Duration::ZERO),
            last_look: now,
            next_look: now + LOOK,
            started: world.now(),
            world,
        };
        for words in refused {
            trial.inspector.note(words);
        }
        for (after, deed) in &plan.deeds {
            trial.put(now + *after, Step::Deed(deed.clone()));
        }
        Ok(trial)
    }

    async fn live(mut self, outcome: &mut Outcome) {
        let foreign = self.plan.foreign.picture(&self.world);
        if self.journal.verbosity() == Verbosity::Everything {
            self.tell(&self.plan.class.to_string());
            self.plan.pools.iter().for_each(|pool| self.tell(&pool.to_string()));
        }
        self.revive_all();
        for app in &self.plan.apps {
            for object in &app.objects {
                if let Err(problem) = self.world.apply_value(object).await {
                    self.inspector.note(format!("an app was refused: {}", words(&problem)));
                }
            }
        }
        let trouble_ends = Instant::now() + self.plan.length;
        self.advance(trouble_ends, |_| false).await;
        self.end_of_trouble().await;
        self.come_to_rest().await;
        self.go_to_zero().await;
        if !self.plan.foreign.is_as_in(&foreign, &self.world) {
            self.inspector.note("something that is not ours has changed".into());
        }
        if !self.world.is_whole() {
            self.inspector.note("a part of the simulated world ended".into());
        }
        // its last writes are judged as well
        for seat in 0..self.seats.len() {
            self.stop(seat).await;
        }
        self.look();
        for words in self.witness.found() {
            self.inspector.note(words);
        }
        outcome.simulated = self.world.now() - self.started;
        outcome.claims = self.inspector.census().ever();
        outcome.operators = self.operators;
        outcome.took = self.took;
        outcome.cost_usd = self.world.cost_usd();
        outcome.log = self.journal.lines();
        if self.journal.verbosity() == Verbosity::Everything {
            outcome.log.extend(self.world.log());
            outcome.log.extend(settle::last_words(&self.world));
        }
        outcome.traffic = self.traffic;
        outcome.violations = self.inspector.into_found();
    }

    fn put(&mut self, at: Instant, step: Step) {
        self.number_of_steps = self.number_of_steps.saturating_add(1);
        self.steps.insert((at, self.number_of_steps), step);
    }

    fn tell(&self, words: &str) {
        self.journal.tell(self.world.now(), words);
    }

    /// Lets time pass, with everything that happens in it; ends early when something is so at one of the looks.
    async fn advance(&mut self, until: Instant, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            let step = self.steps.first_key_value().map_or(until, |((at, _), _)| *at);
            let next = step.min(self.next_look).min(until);
            tokio::select! {
                biased;
                (seat, end) = lives::end_of(&mut self.seats) => self.operator_ended(seat, end).await,
                () = tokio::time::sleep_until(next) => {
                    while let Some(step) = self.due() {
                        self.take(step).await;
                    }
                    if Instant::now() >= self.next_look {
                        self.look();
                        if done(self) {
                            return true;
                        }
                    }
                    if Instant::now() >= until {
                        return false;
                    }
                }
            }
        }
    }

    fn due(&mut self) -> Option<Step> {
        let entry = self.steps.first_entry()?;
        (entry.key().0 <= Instant::now()).then(|| entry.remove())
    }

    fn look(&mut self) {
        let now = Instant::now();
        self.heaven.works(self.at_work(), now);
        let sky = if self.heaven.is_clear_since(self.last_look) {
            Sky::Clear
        } else {
            Sky::Covered
        };
        (self.last_look, self.next_look) = (now, now + LOOK);
        self.inspector.look(&self.world, &self.plan.foreign, sky);
    }

    async fn take(&mut self, step: Step) {
        // what was so before the deed is judged by itself
        self.look();
        match step {
            Step::Deed(deed) => {
                self.tell(&format!("{deed:?}"));
                self.carry_out(&deed).await;
            }
            Step::After(after) => {
                self.tell(&format!("{after:?}"));
                if after == After::RestoreToken {
                    self.heaven.restore(Instant::now());
                }
                after.carry_out(&self.world);
            }
            Step::Revive(seat) => self.revive(seat),
        }
        self.heaven.works(self.at_work(), Instant::now());
    }

    async fn carry_out(&mut self, deed: &Deed) {
        match deed {
            Deed::Begin(number, spell) => {
                self.heaven.begin(*number, spell.clone());
                self.make_weather();
            }
            Deed::End(number) => {
                self.heaven.end(*number, Instant::now());
                self.make_weather();
            }
            Deed::Compact => self.world.api().compact(),
            Deed::Restart(away) => {
                let seat = self.first_seat();
                if self.stop(seat).await {
                    self.put(Instant::now() + *away, Step::Revive(seat));
                }
            }
            Deed::KillNow(away) => {
                let seat = self.stays_away(*away);
                self.operator_ended(seat, End::Killed).await;
            }
            Deed::KillAt(trap, away) => {
                self.stays_away(*away);
                if let Some(operator) = self.first() {
                    operator.set_trap(*trap);
                }
            }
            Deed::CutOff(lasts) => {
                let until = Instant::now() + *lasts;
                self.heaven.darken(until);
                if let Some(operator) = self.first() {
                    operator.darken(until);
                }
            }
            platform_or_people => {
                if matches!(deed, Deed::RevokeToken(_)) {
                    self.heaven.revoke();
                }
                for (lasts, after) in deeds::to_platform(platform_or_people, &self.world, &self.plan.foreign) {
                    self.put(Instant::now() + lasts, Step::After(after));
                }
                deeds::by_people(platform_or_people, &self.world, &self.plan.foreign).await;
            }
        }
    }

    /// Puts all spells in force that are on, and no other.
    fn make_weather(&mut self) {
        let users: Vec<String> = (1..=lives::MOST_OPERATORS).map(user).collect();
        let spells = self.heaven.spells();
        let rules = spells.flat_map(|spell| match spell {
            Spell::Api(rules) => rules.as_slice(),
            Spell::Spot(_) => &[],
        });
        let rules: Vec<_> = rules.cloned().collect();
        self.world.api().set_faults(for_operators(&rules, &users));
        let wanted = &self.plan.world.spot;
        self.world.spot().with(|platform| {
            let options = platform.options_mut();
            options.faults = wanted.faults.clone();
            options.quirks = wanted.quirks.clone();
            options.feed = wanted.feed;
            for spell in self.heaven.spells() {
                if let Spell::Spot(spell) = spell {
                    spell.begin(options);
                }
            }
        });
    }

    /// Faults are over, prices are as they were, and the operator runs.
    async fn end_of_trouble(&mut self) {
        self.tell("trouble is over");
        let left: Vec<Step> = std::mem::take(&mut self.steps).into_values().collect();
        for step in left {
            if matches!(step, Step::After(_)) {
                self.take(step).await;
            }
        }
        // A node that is not ready counts against its budget like one that is being disrupted (disruption 4.5): somebody mends it.
        for pool in self.world.pools() {
            self.world
                .spot()
                .with(|platform| platform.control(Control::SetSick { pool, sick: false }));
        }
        self.heaven.clear(Instant::now());
        self.make_weather();
        for operator in self.seats.iter().filter_map(|seat| seat.operator.as_ref()) {
            operator.disarm();
            operator.darken(Instant::now());
        }
        self.revive_all();
        self.heaven.works(self.at_work(), Instant::now());
    }

    async fn come_to_rest(&mut self) {
        let (plan, since, from) = (self.plan, self.world.now(), Instant::now());
        let open = |trial: &Self| settle::open_matters(&trial.world, plan, trial.inspector.census(), since);
        let rested = self
            .advance(from + plan.rest_limit(), |trial| open(trial).is_empty())
            .await;
        self.took.0 = from.elapsed();
        if !rested {
            for words in open(self) {
                self.inspector.note(format!(
                    "{} min after all trouble: {words}",
                    plan.rest_limit().as_secs() / 60
                ));
            }
        }
        // The platform taints a user's node a moment after it is ready; a pod that was quicker needs its planned machine no more.
        let taken = self.inspector.census().were_used(&plan.foreign.nodes(&self.world));
        if plan.troubles.is_steady() && !taken {
            for claim in self.inspector.census().needless() {
                self.inspector.note(format!(
                    "claim {claim} was bought for nothing: no pod ever ran on its node"
                ));
            }
        }
    }

    async fn go_to_zero(&mut self) {
        self.tell("everything is scaled to zero");
        let plan = self.plan;
        let mut wishes = Vec::new();
        for pool in &plan.pools {
            let mut wish = haste();
            wish["apiVersion"] = json!("karpenter.sh/v1");
            wish["kind"] = json!("NodePool");
            wish["metadata"] = json!({"name": pool["metadata"]["name"]});
            wishes.push(self.world.apply_value(&wish).await.map(drop));
        }
        for target in plan.apps.iter().filter_map(|app| app.target.as_deref()) {
            wishes.push(self.world.scale(target, 0).await);
        }
        for node in settle::dead_nodes_for_people(&self.world) {
            self.tell(&format!("a person deletes the dead node {node}"));
            wishes.push(self.world.delete(&format!("node/{node}")).await);
        }
        for problem in wishes.into_iter().filter_map(Result::err) {
            self.inspector.note(format!("scaling to zero: {}", words(&problem)));
        }
        for pool in settle::for_people(&self.world, &plan.foreign) {
            self.tell(&format!("a person deletes pool {pool}"));
            self.world.give_back(&pool);
        }
        let from = Instant::now();
        let empty = self
            .advance(from + plan.rest_limit(), |trial| {
                settle::remains(&trial.world, &plan.foreign).is_empty()
            })
            .await;
        self.took.1 = from.elapsed();
        if !empty {
            for words in settle::remains(&self.world, &plan.foreign) {
                self.inspector.note(format!(
                    "left {} min after everything was scaled to zero: {words}",
                    plan.rest_limit().as_secs() / 60
                ));
            }
        }
    }
}
