//! Objects of the Kubernetes API, as a webhook or a watch brings them: any JSON.

use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use karpenter::api::Conditioned;
use karpenter::api::nodepool::DisruptionReason;
use karpenter::api::{NodeClaim, NodeOverlay, NodePool, RackspaceSpotNodeClass, conditions, decode, validation};
use karpenter::cloud::spot::labels::{PoolPlan, claim_of_node, pool_of};
use karpenter::cloud::spot::nodeclasses::percentile_of;
use karpenter::cloud::spot::types::PoolKind;
use karpenter::cluster::entries::Reader;
use karpenter::cluster::{Cluster, Delta};
use karpenter::disruption::budgets;
use karpenter::k8s::kinds::{WatchedKind, WatchedKinds};
use karpenter::lifecycle::{drift, expiration};
use karpenter::scheduling::validation::validate_pod;
use karpenter::scheduling::{Pod, Selector, Volumes, WellKnownLabels};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_772_442_000, 0).unwrap_or_default()
}

/// The kinds that the operator watches.
pub(super) fn kinds() -> WatchedKinds {
    WatchedKinds::with([WatchedKind::class::<RackspaceSpotNodeClass>(), WatchedKind::overlays()])
}

/// An empty state of the cluster.
pub(super) fn cluster(kinds: &WatchedKinds) -> Cluster {
    Cluster::new(
        kinds.sources(),
        Arc::new(|labels: &BTreeMap<String, String>| claim_of_node(labels)),
        now(),
    )
}

/// The objects in any bytes: a list's items, or the value itself.
pub(super) fn in_bytes(data: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(data) {
        Ok(Value::Array(items)) => items,
        Ok(mut value) => match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => vec![value],
        },
        Err(_) => Vec::new(),
    }
}

/// The kinds that a value may be: what it says, or any if it says nothing.
pub(super) fn candidates<'k>(kinds: &'k WatchedKinds, object: &Value) -> Vec<&'k WatchedKind> {
    let said = object.get("kind").and_then(Value::as_str);
    kinds
        .iter()
        .filter(|kind| said.is_none_or(|said| kind.label() == said))
        .collect()
}

/// Any JSON is an object of its kind or refused with the place of the fault; what was read is judged, kept and seen in a snapshot.
pub(super) fn objects(data: &[u8]) {
    let kinds = kinds();
    let mut state = cluster(&kinds);
    let mut reader = Reader::new();
    for object in in_bytes(data) {
        for kind in candidates(&kinds, &object) {
            match kind.read(&mut reader, object.clone()) {
                Ok(read) => {
                    state.observe(Delta::Applied(read), now());
                }
                Err(error) => assert!(!error.path.is_empty() && !error.message.is_empty()),
            }
        }
        judged(&object);
    }
    let snapshot = state.snapshot();
    let _ = (
        snapshot.totals(),
        snapshot.claims_by_pool(),
        snapshot.consolidation_state(now()),
    );
    let _ = snapshot.volumes_for_scheduling();
    for machine in snapshot.machines.values() {
        let _ = (
            machine.taints(),
            machine.capacity(),
            machine.allocatable(),
            machine.hostname(),
        );
    }
}

fn judged(object: &Value) {
    let pool = decode::<NodePool>(object.clone());
    let claim = decode::<NodeClaim>(object.clone());
    let class = decode::<RackspaceSpotNodeClass>(object.clone());
    if let Ok(pool) = &pool {
        let findings = validation::validate_nodepool(pool);
        assert_eq!(findings.is_valid(), findings.message().is_empty());
        assert!(!pool.hash().is_empty());
        let budgets = &pool.spec.disruption.budgets;
        for reason in [DisruptionReason::Empty, DisruptionReason::Drifted] {
            let _ = budgets::allowed_for(budgets, &reason, 3, now());
        }
    }
    if let Ok(overlay) = decode::<NodeOverlay>(object.clone()) {
        let findings = validation::validate_nodeoverlay(&overlay);
        assert_eq!(findings.is_valid(), findings.message().is_empty());
    }
    if let Ok(claim) = &claim {
        let expire_after = claim
            .spec
            .expire_after
            .value()
            .map(karpenter::api::GoDuration::as_time_delta);
        let created = karpenter::api::time::created(&claim.metadata).unwrap_or_default();
        let _ = expiration::verdict(created, expire_after, now());
        let _ = (claim.termination_deadline(), claim.last_pod_event(), claim.is_ready());
    }
    if let Ok(class) = &class {
        if let Err(words) = percentile_of(&class.spec.bid_percentile) {
            assert!(!words.is_empty());
        }
        let _ = class.condition(conditions::READY);
    }
    if let (Ok(pool), Ok(claim)) = (&pool, &claim) {
        let _ = drift::reason(pool, claim);
    }
    if let (Ok(claim), Ok(class)) = (&claim, &class) {
        let plan = PoolPlan {
            cloudspace: "c",
            region: "r",
            kind: PoolKind::Spot,
            server_class: "s",
            bid: None,
        };
        assert_eq!(pool_of(claim, class, plan).body("n")["spec"]["desired"], 1);
    }
    if let Ok(pod) = decode::<k8s_openapi::api::core::v1::Pod>(object.clone()) {
        let pod = Pod::from_api(&pod);
        for finding in validate_pod(&pod, &Volumes::default(), &WellKnownLabels::default()) {
            assert!(!finding.to_string().is_empty());
        }
    }
}

/// A selector is refused, or equal selectors select alike, and adding a label only takes away.
pub(super) fn selector(data: &[u8]) {
    let values = in_bytes(data);
    let labels: BTreeMap<String, String> = values
        .get(1)
        .and_then(|value| serde_json::from_value(value.clone()).ok())
        .unwrap_or_default();
    let Some(Ok(selector)) = values.first().map(|value| decode::<LabelSelector>(value.clone())) else {
        return;
    };
    let read = Selector::from_api(&selector);
    let matches = read.matches(&labels);
    assert!(read.is_valid() || !matches, "an invalid selector selects nothing");
    let narrower = read.with_label("a", "b");
    assert!(matches || !narrower.matches(&labels));
    assert_eq!(
        narrower.matches(&labels),
        matches && labels.get("a").is_some_and(|value| value == "b")
    );
    let mut turned = selector.clone();
    turned
        .match_expressions
        .iter_mut()
        .flatten()
        .for_each(|expression| expression.values.iter_mut().for_each(|values| values.reverse()));
    turned
        .match_expressions
        .iter_mut()
        .for_each(|expressions| expressions.reverse());
    assert_eq!(Selector::from_api(&turned), read, "the order of writing says nothing");
}
