//! Holds what the catalogue is made from, and the catalogue; says when it changed.
//!
//! Rebuilt when asked and something moved (classes, prices, a measurement, a cool-down beginning or ending), so that many changes cost one build. The
//! revision moves only when something on offer is different. Called by the provider and the pricing and capacity controllers.

use crate::capacity::{Measured, Observation, OverheadSettings};
use crate::clock::SharedClock;
use crate::cloud::spot::catalogue::{Catalogue, Ingredients};
use crate::cloud::spot::cooldown::{Cause, Cooldowns};
use crate::cloud::spot::feed::PriceFeed;
use crate::cloud::spot::types::ServerClass;
use crate::pricing::PriceTable;
use crate::resources::ResourceList;
use crate::scheduling::CapacityType;
use chrono::{DateTime, Utc};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

struct State {
    region: Option<String>,
    classes: Vec<ServerClass>,
    measured: Measured,
    cooldowns: Cooldowns,
    built: Arc<Catalogue>,
    built_from: Option<Arc<PriceTable>>,
    dirty: bool,
    /// When a cool-down ends and the catalogue must be built again.
    good_until: Option<DateTime<Utc>>,
}

/// The stock.
pub struct Stock {
    feed: Arc<PriceFeed>,
    clock: SharedClock,
    overhead: OverheadSettings,
    state: Mutex<State>,
    revision: watch::Sender<u64>,
}

impl Stock {
    /// An empty stock with prices from `feed`.
    pub fn new(feed: Arc<PriceFeed>, clock: SharedClock, overhead: OverheadSettings) -> Self {
        let state = State {
            region: None,
            classes: Vec::new(),
            measured: Measured::default(),
            cooldowns: Cooldowns::default(),
            built: Arc::default(),
            built_from: None,
            dirty: true,
            good_until: None,
        };
        Self {
            feed,
            clock,
            overhead,
            state: Mutex::new(state),
            revision: watch::Sender::new(0),
        }
    }

    /// The region, once it is known.
    pub fn region(&self) -> Option<String> {
        self.lock().region.clone()
    }

    /// Moves when something on offer changes.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Takes in what the platform listed.
    pub fn set_classes(&self, region: &str, classes: Vec<ServerClass>) {
        let mut state = self.lock();
        if state.region.as_deref() != Some(region) || state.classes != classes {
            state.region = Some(region.to_owned());
            state.classes = classes;
            state.dirty = true;
        }
        drop(state);
        self.current();
    }

    /// Takes in one class that was read again.
    pub fn replace_class(&self, class: ServerClass) {
        let mut state = self.lock();
        if let Some(old) = state.classes.iter_mut().find(|old| old.name == class.name) {
            *old = class;
            state.dirty = true;
        }
        drop(state);
        self.current();
    }

    /// Takes in what a node of a class reports.
    pub fn observe_node(&self, class: &str, capacity: &ResourceList, allocatable: &ResourceList) -> Observation {
        let mut state = self.lock();
        let observation = state.measured.observe(class, capacity, allocatable);
        state.dirty |= observation == Observation::Changed;
        drop(state);
        if observation == Observation::Changed {
            self.current();
        }
        observation
    }

    /// Leaves something alone for a while; says until when.
    pub fn cool_down(&self, class: &str, capacity_type: CapacityType, cause: Cause) -> DateTime<Utc> {
        let mut state = self.lock();
        let until = state.cooldowns.failed(class, capacity_type, cause, self.clock.now());
        state.dirty = true;
        drop(state);
        self.current();
        until
    }

    /// It delivered.
    pub fn delivered(&self, class: &str, capacity_type: CapacityType) {
        let mut state = self.lock();
        state.dirty |= state.cooldowns.delivered(class, capacity_type);
    }

    /// What is on offer now.
    pub fn current(&self) -> Arc<Catalogue> {
        let now = self.clock.now();
        let prices = self.feed.table();
        let mut state = self.lock();
        let same_prices = state.built_from.as_ref().is_some_and(|from| Arc::ptr_eq(from, &prices));
        if !state.dirty && same_prices && state.good_until.is_none_or(|end| now < end) {
            return Arc::clone(&state.built);
        }
        let built = Catalogue::build(Ingredients {
            region: state.region.as_deref().unwrap_or_default(),
            classes: &state.classes,
            prices: &prices,
            before: Some(&state.built),
            measured: &state.measured,
            cooldowns: &state.cooldowns,
            overhead: &self.overhead,
            now,
        });
        let changed = !built.offers_the_same_as(&state.built);
        let newly_unpriced: Vec<String> = built
            .unpriced
            .iter()
            .filter(|name| !state.built.unpriced.contains(name))
            .cloned()
            .collect();
        state.good_until = state.cooldowns.next_end(now);
        state.dirty = false;
        state.built_from = Some(prices);
        state.built = Arc::new(built);
        let current = Arc::clone(&state.built);
        drop(state);
        if !newly_unpriced.is_empty() {
            tracing::warn!(
                server_classes = newly_unpriced.join(","),
                "not offered: no price is known"
            );
        }
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
        }
        current
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
