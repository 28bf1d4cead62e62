//! One seed, from an empty world to an empty world.
//!
//! ```text
//! trouble: deeds at their instants ─▶ over: good weather, old prices ─▶ rest: everything bound or explained ─▶ zero: nothing left
//! ```

mod lives;

use super::census::Census;
use super::deeds::{self, After, Deed};
use super::inspector::{Inspector, Sky};
use super::journal::{Journal, Verbosity};
use super::mortal::{End, Mortal, Traffic, user};
use super::node_pools::haste;
use super::outcome::Outcome;
use super::plan::Plan;
use super::settle;
use super::weather::{Spell, for_operators};
use crate::api::ApiFaults;
use crate::spot::Control;
use crate::world::{World, WorldError};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How often the inspector looks.
const LOOK: Duration = Duration::from_secs(15);
/// How long it may take until everything has come to rest, from the end of all trouble.
const REST_LIMIT: Duration = Duration::from_hours(5);
/// How long it may take until nothing is left, from the wish.
const ZERO_LIMIT: Duration = Duration::from_hours(2);
/// How long after the death of its claim a pool may stay: five minutes of age, two rounds of the collector, and some.
const GRACE: TimeDelta = TimeDelta::minutes(11);

/// Something that is to happen at its instant.
enum Step {
    Deed(Deed),
    After(After),
    Revive,
}

struct Trial<'a> {
    plan: &'a Plan,
    journal: &'a Journal,
    world: World,
    inspector: Inspector,
    steps: BTreeMap<(Instant, u32), Step>,
    number_of_steps: u32,
    operator: Option<Mortal>,
    operators: u32,
    /// How long the operator stays away once its trap has sprung.
    away: Duration,
    traffic: Traffic,
    /// A spell of bad weather is on.
    is_stormy: bool,
    /// Good weather and a running operator since then.
    clear_since: Option<Instant>,
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
        let inspector = Inspector::new(Census::of(&plan.pools), GRACE + plan.longest_wait(), &world);
        let now = Instant::now();
        let mut trial = Self {
            plan,
            journal,
            inspector,
            steps: BTreeMap::new(),
            number_of_steps: 0,
            operator: None,
            operators: 0,
            away: Duration::ZERO,
            traffic: Traffic::default(),
            is_stormy: false,
            clear_since: None,
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
        self.revive();
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
        let weather = self.clear_since;
        self.stop().await;
        self.clear_since = weather;
        self.look();
        outcome.simulated = self.world.now() - self.started;
        outcome.claims = self.inspector.census().ever();
        outcome.operators = self.operators;
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
                end = lives::end_of(&mut self.operator) => self.operator_ended(end).await,
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
        self.next_look = Instant::now() + LOOK;
        let sky = if self.clear_since.is_some() {
            Sky::Clear
        } else {
            Sky::Covered
        };
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
                after.carry_out(&self.world);
            }
            Step::Revive => self.revive(),
        }
    }

    async fn carry_out(&mut self, deed: &Deed) {
        match deed {
            Deed::Begin(Spell::Api(rules)) => {
                let users: Vec<String> = (1..=lives::MOST_OPERATORS).map(user).collect();
                self.world.api().set_faults(for_operators(rules, &users));
                (self.is_stormy, self.clear_since) = (true, None);
            }
            Deed::Begin(Spell::Spot(spell)) => {
                self.world.spot().with(|platform| spell.begin(platform.options_mut()));
                (self.is_stormy, self.clear_since) = (true, None);
            }
            Deed::Clear => self.clear(),
            Deed::Compact => self.world.api().compact(),
            Deed::Restart(away) => {
                if self.stop().await {
                    self.put(Instant::now() + *away, Step::Revive);
                }
            }
            Deed::KillNow(away) => {
                self.away = *away;
                self.operator_ended(End::Killed).await;
            }
            Deed::KillAt(trap, away) => {
                self.away = *away;
                if let Some(operator) = &self.operator {
                    operator.set_trap(*trap);
                }
            }
            platform_or_people => {
                if matches!(deed, Deed::RevokeToken(_)) {
                    self.clear_since = None;
                }
                for (lasts, after) in deeds::to_platform(platform_or_people, &self.world, &self.plan.foreign) {
                    self.put(Instant::now() + lasts, Step::After(after));
                }
                deeds::by_people(platform_or_people, &self.world, &self.plan.foreign).await;
            }
        }
    }

    /// All faults end.
    fn clear(&mut self) {
        self.is_stormy = false;
        self.world.api().set_faults(ApiFaults::default());
        let wanted = &self.plan.world.spot;
        self.world.spot().with(|platform| {
            let options = platform.options_mut();
            options.faults = wanted.faults.clone();
            options.quirks = wanted.quirks.clone();
            options.feed = wanted.feed;
        });
        if self.operator.is_some() {
            self.clear_since = Some(Instant::now());
        }
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
        self.clear();
        if let Some(operator) = &self.operator {
            operator.disarm();
        }
        self.revive();
    }

    async fn come_to_rest(&mut self) {
        let limit = Instant::now() + REST_LIMIT;
        let plan = self.plan;
        let rested = self
            .advance(limit, |trial| settle::open_matters(&trial.world, plan).is_empty())
            .await;
        if !rested {
            for words in settle::open_matters(&self.world, plan) {
                self.inspector
                    .note(format!("{} h after all trouble: {words}", REST_LIMIT.as_secs() / 3600));
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
        let limit = Instant::now() + ZERO_LIMIT;
        let empty = self
            .advance(limit, |trial| settle::remains(&trial.world, &plan.foreign).is_empty())
            .await;
        if !empty {
            for words in settle::remains(&self.world, &plan.foreign) {
                self.inspector.note(format!(
                    "left {} h after everything was scaled to zero: {words}",
                    ZERO_LIMIT.as_secs() / 3600
                ));
            }
        }
    }
}
