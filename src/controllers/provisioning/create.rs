//! Creates the claims that a pass decided on (scheduling 2-6, 21-3).
//!
//! The name is chosen before the request is sent, so that a create whose outcome is unknown is looked up by it before anything else happens, and
//! kept among the [`doubts`](super::doubts) if that tells nothing (architecture §3.5). The created claim is in the cluster state, and its pods are promised to it, before the next pass can look.

use crate::api::{NodeClaim, NodeClaimSpec, NodePool, ResourceRequirements, labels};
use crate::cluster::{Key, MachineId, Plan};
use crate::controllers::Kit;
use crate::k8s::write::{Remedy, Target};
use crate::k8s::{Cause, WriteError};
use crate::resources::ResourceList;
use crate::scheduling::{NewClaim, Pod};
use crate::telemetry::Structured;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Letters and digits of generated names, as Kubernetes uses them: none that make words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many of them end a claim's name.
const SUFFIX: usize = 5;
/// The longest name with a generated end that Kubernetes makes.
const LONGEST_PREFIX: usize = 63 - SUFFIX;
/// How long the claim behind a name is looked for.
const READ_WITHIN: Duration = Duration::from_secs(4);
/// Instance types that a log line names.
const SHOWN_TYPES: usize = 5;

/// Why a claim was not created.
#[derive(Debug, thiserror::Error)]
pub(super) enum CreateError {
    /// The pool has reached a limit meanwhile (scheduling 2-6.2).
    #[error("creating node claim, resource usage exceeds limit (limit={limit}, resource={resource}, usage={usage})")]
    Limit {
        resource: String,
        limit: String,
        usage: String,
    },
    /// The API server did not take it.
    #[error("creating node claim")]
    Write(#[from] WriteError),
    /// It may or may not have taken effect.
    #[error("creating node claim, whether it was created is not known yet")]
    InDoubt(#[source] WriteError),
    /// Of too many creates it is not known whether they took effect.
    #[error("creating node claim, too many earlier ones have no answer yet")]
    TooManyDoubts,
}

/// What came of a create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// The claim is there, and the cluster state knows it.
    Created,
    /// A claim of this name was there before.
    NameTaken,
}

/// `<nodepool>-` and five characters drawn from `draw` (surface §2.5).
pub(super) fn claim_name(pool: &str, draw: u64) -> String {
    let mut rest = draw;
    let base = u64::try_from(ALPHABET.len()).unwrap_or(1);
    let prefix = format!("{pool}-");
    let mut name: String = prefix.chars().take(LONGEST_PREFIX).collect();
    for _ in 0..SUFFIX {
        let at = usize::try_from(rest % base).unwrap_or_default();
        name.push(ALPHABET.get(at).copied().map_or('x', char::from));
        rest /= base;
    }
    name
}

/// The object of a new claim (scheduling 21-3).
pub(super) fn object(name: String, claim: &NewClaim, pool: &NodePool) -> NodeClaim {
    let template = &pool.spec.template.spec;
    let spec = NodeClaimSpec {
        node_class_ref: template.node_class_ref.clone(),
        requirements: claim.requirements.to_api(),
        resources: ResourceRequirements {
            requests: claim.requests.to_api(),
        },
        taints: template.taints.clone(),
        startup_taints: template.startup_taints.clone(),
        expire_after: template.expire_after.clone(),
        termination_grace_period: template.termination_grace_period.clone(),
    };
    let owner = OwnerReference {
        api_version: NodePool::api_version(&()).into_owned(),
        kind: NodePool::kind(&()).into_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    NodeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(claim.labels.clone()),
            annotations: Some(claim.annotations.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// Whether the pool's usage is over a limit already (scheduling 2-6.2).
pub(super) fn over_limit(pool: &NodePool, usage: &ResourceList) -> Result<(), CreateError> {
    let limits = ResourceList::from_api(&pool.spec.limits);
    match limits.exceeded_by(usage) {
        None => Ok(()),
        Some((resource, usage, limit)) => Err(CreateError::Limit {
            resource: resource.to_owned(),
            limit: limit.to_string(),
            usage: usage.to_string(),
        }),
    }
}

/// Sends one claim for the first time. A claim of that name that was there before is not ours, however much it looks like it.
pub(super) async fn send(kit: &Kit, object: &NodeClaim) -> Result<Sent, CreateError> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    // before the claim can be seen
    kit.arrivals.sending(name);
    let outcome = send_once(kit, object).await;
    if !matches!(outcome, Ok(Sent::Created) | Err(CreateError::InDoubt(_))) {
        kit.arrivals.given_up(name);
    }
    outcome
}

async fn send_once(kit: &Kit, object: &NodeClaim) -> Result<Sent, CreateError> {
    let error = match kit.writer.create(object).await {
        Ok(_) => return Ok(Sent::Created),
        Err(error) if error.is_already_there() => return Ok(Sent::NameTaken),
        Err(error) => error,
    };
    if error.remedy() != Remedy::LookUp {
        return Err(error.into());
    }
    match look_up(kit, object).await {
        Ok(Some(found)) if is_ours(&found, object) => Ok(Sent::Created),
        Ok(Some(_)) => Ok(Sent::NameTaken),
        // What is not there yet may still come.
        Ok(None) | Err(_) => Err(CreateError::InDoubt(error)),
    }
}

/// Reads the claim of that name from the API server; a read that takes long says nothing.
pub(super) async fn look_up(kit: &Kit, object: &NodeClaim) -> Result<Option<NodeClaim>, WriteError> {
    let target = Target::object(object);
    let read = tokio::time::timeout(READ_WITHIN, kit.writer.look_up::<NodeClaim>(&target));
    read.await.unwrap_or_else(|_| {
        let what = format!("NodeClaim {}", target.name);
        Err(WriteError::new("reading", what, Cause::UnknownOutcome(None)))
    })
}

/// Whether the claim found under the name is the one that was sent; its launch may have added labels.
pub(super) fn is_ours(found: &NodeClaim, sent: &NodeClaim) -> bool {
    let labels = found.metadata.labels.iter().flatten().collect::<BTreeMap<_, _>>();
    let has = |(key, value): (&String, &String)| labels.get(key).is_some_and(|there| *there == value);
    found.spec == sent.spec && sent.metadata.labels.iter().flatten().all(has)
}

/// Promises a claim's pods to it (architecture §3.3).
pub(super) fn plans(name: &str, pods: &[Arc<Pod>]) -> Vec<Plan> {
    let machine = MachineId::Claim(name.into());
    let plan = |pod: &Arc<Pod>| Plan {
        pod: Key {
            scope: Arc::clone(&pod.namespace),
            name: Arc::clone(&pod.name),
        },
        uid: Arc::clone(&pod.uid),
        machine: machine.clone(),
    };
    pods.iter().map(plan).collect()
}

/// Tells and counts a created claim (surface §8.2, §5.1).
pub(super) fn record(kit: &Kit, pool: &str, claim: &NewClaim, name: &str) {
    let names: Vec<&str> = claim.instance_types.iter().map(|type_| type_.name.as_str()).collect();
    tracing::info!(
        NodePool = pool,
        NodeClaim = name,
        requests = ?Structured(claim.requests.to_value()),
        "instance-types" = some_of(&names, SHOWN_TYPES),
        "created nodeclaim"
    );
    let relaxed = claim
        .annotations
        .get(labels::MIN_VALUES_RELAXED_ANNOTATION)
        .map_or("false", String::as_str);
    kit.metrics.nodeclaims.created.increment(["provisioned", pool, relaxed]);
}

/// The first few words, and how many more there are.
pub(super) fn some_of(words: &[&str], most: usize) -> String {
    let shown: Vec<&str> = words.iter().take(most).copied().collect();
    let text = shown.join(", ");
    match words.len().saturating_sub(most) {
        0 => text,
        more => format!("{text} and {more} other(s)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_pool_and_five_characters_and_never_too_long() {
        assert_eq!(claim_name("default", 0), "default-bbbbb");
        assert_ne!(claim_name("default", 1), claim_name("default", 2));
        let long = claim_name(&"p".repeat(300), 7);
        assert_eq!(long.len(), 63);
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(some_of(&["a", "b"], 5), "a, b");
        assert_eq!(some_of(&["a", "b", "c"], 2), "a, b and 1 other(s)");
    }

    #[test]
    fn a_pool_at_its_limit_may_still_be_filled_and_one_over_it_not() {
        let mut pool = NodePool::default();
        pool.spec.limits.insert(
            "cpu".into(),
            k8s_openapi::apimachinery::pkg::api::resource::Quantity("8".into()),
        );
        let usage = |cpu: &str| {
            let map = [(
                "cpu".to_owned(),
                k8s_openapi::apimachinery::pkg::api::resource::Quantity(cpu.into()),
            )];
            ResourceList::from_api(map.iter().map(|(k, v)| (k, v)))
        };
        assert!(over_limit(&pool, &usage("8")).is_ok());
        let refused = over_limit(&pool, &usage("8100m")).unwrap_err().to_string();
        assert_eq!(
            refused,
            "creating node claim, resource usage exceeds limit (limit=8, resource=cpu, usage=8100m)"
        );
    }
}
