//! `nodeoverlay.controller`: judges all NodeOverlays and puts what holds before the provider (scheduling 26-2, 26-7, surface §3.3).
//!
//! Runs only while the gate NodeOverlay is on: when an overlay, a NodePool or a NodeClass has a new generation, and every six hours. Decides nothing:
//! [`overlays::evaluate`] does. The types it looks at are the provider's own, without any overlay.

use crate::api::validation::NODEOVERLAY_REASON;
use crate::api::{Conditioned, NodeOverlay, conditions};
use crate::cloud::{OverlayStore, Provider};
use crate::cluster::entries::OverlayEntry;
use crate::cluster::{Key, Kind, Snapshot};
use crate::controllers::Kit;
use crate::k8s::merge::merge_patch;
use crate::k8s::queue::{Next, ReconcileError};
use crate::k8s::write::{Lock, Target};
use crate::scheduling::overlays::{self, OverlayVerdict};
use crate::scheduling::{Pool, WellKnownLabels};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Name of the loop.
pub const NAME: &str = "nodeoverlay.controller";
/// How often everything is looked at anew when nothing moves.
pub const PERIOD: Duration = Duration::from_hours(6);
/// Between two looks when an overlay moved in the middle of one: until then the watch has brought it.
const AGAIN: Duration = Duration::from_secs(1);
/// Reason and message of an overlay that clashes with another one.
const CONFLICT: (&str, &str) = ("Conflict", "conflict with another overlay");

/// What a run depends on: the generation of every overlay, pool and class.
type Generations = BTreeMap<(Kind, Key), i64>;

/// The controller; the wiring runs [`Overlaying::run_once`] as a loop.
pub struct Overlaying {
    kit: Kit,
    bare: Arc<dyn Provider>,
    store: Arc<OverlayStore>,
    well_known: WellKnownLabels,
    last: Mutex<Option<(Generations, Instant)>>,
}

/// How the status of an overlay was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saved {
    Yes,
    /// It moved or went meanwhile: what was found out about it is stale.
    Stale,
}

impl Overlaying {
    /// Judges by the types of `bare`, which no overlay has changed, and fills the store.
    pub fn new(kit: Kit, bare: Arc<dyn Provider>, store: Arc<OverlayStore>) -> Self {
        let well_known = WellKnownLabels::with(bare.well_known_labels().iter().copied());
        Self {
            kit,
            bare,
            store,
            well_known,
            last: Mutex::default(),
        }
    }

    /// One look at everything, if anything moved or it is time.
    pub async fn run_once(&self) -> Result<Next, ReconcileError> {
        self.kit.cluster.completed().await.map_err(ReconcileError::new)?;
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let generations = generations(&snapshot);
        if let Some(left) = self.still_good(&generations) {
            return Ok(Next::After(left));
        }
        let mut failed = None;
        let mut pools = Vec::new();
        let managed = snapshot.objects.pools.values();
        for pool in managed.filter(|pool| pool.is_managed(self.bare.node_class_kinds())) {
            // Differs: upstream gives up on all pools when one fails; here the others go on, and the failed one stays unknown (scheduling 26-2).
            match self.bare.instance_types(&pool.facts).await {
                Ok(types) => pools.push(Pool::from_api(&pool.facts, types)),
                Err(error) => failed = Some(error),
            }
        }
        let all = snapshot.objects.overlays.values().map(|entry| &entry.facts);
        let evaluation = overlays::evaluate(all, &pools, &self.well_known);
        for entry in snapshot.objects.overlays.values() {
            let Some(verdict) = evaluation.verdicts.get(entry.name()) else {
                continue;
            };
            if self.save(entry, verdict).await? == Saved::Stale {
                return Ok(Next::After(AGAIN));
            }
        }
        self.store.replace(evaluation.overlays);
        if let Some(error) = failed {
            return Err(ReconcileError::new(error));
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((generations, Instant::now()));
        Ok(Next::Done)
    }

    /// How long the last look holds, if nothing moved since.
    fn still_good(&self, generations: &Generations) -> Option<Duration> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, at) = last.as_ref()?;
        let left = PERIOD.checked_sub(at.elapsed())?;
        (seen == generations && !left.is_zero()).then_some(left)
    }

    async fn save(&self, entry: &OverlayEntry, verdict: &OverlayVerdict) -> Result<Saved, ReconcileError> {
        let (mut wanted, now) = (entry.facts.clone(), self.kit.now());
        match verdict {
            OverlayVerdict::Accepted => wanted.set_true(conditions::VALIDATION_SUCCEEDED, now),
            OverlayVerdict::Invalid(words) => {
                wanted.set_false(conditions::VALIDATION_SUCCEEDED, NODEOVERLAY_REASON, words, now)
            }
            OverlayVerdict::Conflict => wanted.set_false(conditions::VALIDATION_SUCCEEDED, CONFLICT.0, CONFLICT.1, now),
        };
        let Some(patch) = merge_patch(&status(&entry.facts)?, &status(&wanted)?) else {
            return Ok(Saved::Yes);
        };
        let written = self
            .kit
            .writer
            .patch_status::<NodeOverlay>(&Target::of(&entry.meta), patch, Lock::Version)
            .await;
        match written {
            Ok(_) => Ok(Saved::Yes),
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(Saved::Stale),
            Err(error) => Err(error.into()),
        }
    }
}

fn status(overlay: &NodeOverlay) -> Result<Value, ReconcileError> {
    let status = overlay.status.clone().unwrap_or_default();
    Ok(json!({ "status": serde_json::to_value(status).map_err(ReconcileError::new)? }))
}

fn generations(snapshot: &Snapshot) -> Generations {
    let objects = &snapshot.objects;
    let overlays = objects.overlays.iter().map(|(key, entry)| {
        (
            (Kind::NodeOverlay, key.clone()),
            entry.metadata.generation.unwrap_or_default(),
        )
    });
    let pools = objects.pools.iter().map(|(key, entry)| {
        (
            (Kind::NodePool, key.clone()),
            entry.metadata.generation.unwrap_or_default(),
        )
    });
    let classes = objects
        .classes
        .iter()
        .map(|(key, entry)| ((Kind::NodeClass, key.clone()), entry.generation));
    overlays.chain(pools).chain(classes).collect()
}
