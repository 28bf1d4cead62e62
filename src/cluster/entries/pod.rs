//! A Pod: what placement looks at ([`scheduling::pod::Pod`](crate::scheduling::pod::Pod)), and what the rest of its life needs.
//!
//! A Pod of the API weighs kilobytes and there are thousands; here it is read once and what is equal among siblings is shared.

use super::Labels;
use crate::api::time;
use crate::cluster::intern::{Pool, hash_of};
use crate::cluster::object::{Entry, Key, Meta, Version};
use crate::resources::ResourceList;
use crate::scheduling::pod::{Constraints, Pod};
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{self as core, PodStatus, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::sync::Arc;

/// A Pod, by what decisions look at.
pub type PodEntry = Entry<PodFacts>;

/// An owner reference, as far as anybody asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// apiVersion, compared literally (scheduling 3-2).
    pub api_version: Arc<str>,
    /// kind, compared literally (scheduling 3-2).
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// Whether it is the controller.
    pub controls: bool,
}

/// A PersistentVolumeClaim that the pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimUse {
    /// The volume's name in the pod.
    pub volume: Arc<str>,
    /// The claim's name, for an ephemeral volume `<pod>-<volume>`.
    pub claim: Arc<str>,
    /// For an ephemeral volume: the storage class that its claim will ask for, if it names one.
    pub ephemeral: Option<Option<Arc<str>>>,
}

/// A condition's state and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since<T> {
    /// The state.
    pub state: T,
    /// lastTransitionTime.
    pub since: Option<DateTime<Utc>>,
}

/// What is known of a Pod.
#[derive(Debug, Clone)]
pub struct PodFacts {
    /// What placement and disruption look at; its `standing` says phase, node, grace period and annotations.
    pub pod: Arc<Pod>,
    /// All owner references.
    pub owners: Arc<[Owner]>,
    /// The PersistentVolumeClaims it uses, ephemeral ones included.
    pub claims: Arc<[ClaimUse]>,
    /// spec.priorityClassName, which orders draining (lifecycle 14.4).
    pub priority_class: Option<Arc<str>>,
    /// spec.schedulerName.
    pub scheduler: Option<Arc<str>>,
    /// Whether scheduling gates hold it back.
    pub gated: bool,
    /// The PodScheduled condition.
    pub scheduled: Option<Since<bool>>,
    /// The Ready condition.
    pub ready: Option<Since<bool>>,
}

impl PodFacts {
    /// The node that it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.pod.standing.node.as_deref().filter(|name| !name.is_empty())
    }

    /// Failed or succeeded (scheduling 3-3).
    pub fn is_terminal(&self) -> bool {
        self.pod.standing.is_terminal()
    }

    /// Whether it waits for a machine that we could get (scheduling 3-1).
    pub fn is_provisionable(&self) -> bool {
        self.pod.standing.is_provisionable()
    }

    /// The DaemonSet that made it, if one did.
    pub fn daemon_set(&self) -> Option<&Owner> {
        self.owners
            .iter()
            .find(|owner| owner.controls && &*owner.kind == "DaemonSet" && &*owner.api_version == "apps/v1")
    }

    /// Whether it must stay away from other pods.
    pub fn has_required_anti_affinity(&self) -> bool {
        !self.pod.constraints.anti_affinity.is_empty()
    }
}

/// Reads objects and shares what is equal among them.
#[derive(Debug, Default)]
pub struct Reader {
    words: Pool<str>,
    labels: Pool<Labels>,
    owners: Pool<[Owner]>,
    claims: Pool<[ClaimUse]>,
    amounts: Pool<ResourceList>,
    constraints: Pool<Constraints>,
}

impl Reader {
    /// A reader that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A shared word.
    pub fn word(&mut self, text: &str) -> Arc<str> {
        self.words.share(hash_of(text), text, || text.into())
    }

    /// Shared labels.
    pub fn labels(&mut self, labels: Labels) -> Arc<Labels> {
        let labels = Arc::new(labels);
        self.labels.share_own(hash_of(&*labels), &labels)
    }

    /// Reads a Pod.
    pub fn pod(&mut self, pod: &core::Pod) -> PodEntry {
        let meta = self.meta(&pod.metadata);
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let priority_class = spec
            .and_then(|spec| spec.priority_class_name.as_deref())
            .filter(|name| !name.is_empty());
        let facts = PodFacts {
            pod: Arc::new(self.placement(&meta, Pod::from_api(pod))),
            owners: self.owners(pod.metadata.owner_references.as_deref().unwrap_or_default()),
            claims: self.claims(&meta.key.name, volumes),
            priority_class: priority_class.map(|name| self.word(name)),
            scheduler: spec
                .and_then(|spec| spec.scheduler_name.as_deref())
                .map(|name| self.word(name)),
            gated: spec
                .and_then(|spec| spec.scheduling_gates.as_ref())
                .is_some_and(|gates| !gates.is_empty()),
            scheduled: condition(status, "PodScheduled"),
            ready: condition(status, "Ready"),
        };
        PodEntry { meta, facts }
    }

    fn meta(&mut self, metadata: &ObjectMeta) -> Meta {
        Meta {
            key: Key {
                scope: self.word(metadata.namespace.as_deref().unwrap_or_default()),
                name: metadata.name.as_deref().unwrap_or_default().into(),
            },
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: Version::parse(metadata.resource_version.as_deref().unwrap_or_default()),
            created: time::created(metadata),
            deleting: time::deleting_since(metadata),
        }
    }

    /// The same pod that holds what its siblings have in common together with them, and what the entry has too together with it.
    fn placement(&mut self, meta: &Meta, mut pod: Pod) -> Pod {
        pod.uid = Arc::clone(&meta.uid);
        pod.namespace = Arc::clone(&meta.key.scope);
        pod.name = Arc::clone(&meta.key.name);
        pod.labels = self.labels.share_own(hash_of(&*pod.labels), &pod.labels);
        pod.constraints = self.constraints.share_own(hash_of(&*pod.constraints), &pod.constraints);
        pod.requests = self.amounts(&pod.requests);
        pod.limits = self.amounts(&pod.limits);
        pod.standing.node = pod.standing.node.map(|name| self.word(&name));
        let controller = pod.standing.controller;
        pod.standing.controller = controller.map(|(kind, name)| (self.word(&kind), self.word(&name)));
        pod
    }

    /// Shared amounts. Equal amounts may be written differently (`1Gi`, `1024Mi`) and messages show how: those are kept apart.
    fn amounts(&mut self, list: &Arc<ResourceList>) -> Arc<ResourceList> {
        self.amounts.share_own(hash_of(&list.to_json()), list)
    }

    fn owners(&mut self, references: &[OwnerReference]) -> Arc<[Owner]> {
        let owners: Vec<Owner> = references
            .iter()
            .map(|reference| Owner {
                api_version: self.word(&reference.api_version),
                kind: self.word(&reference.kind),
                name: self.word(&reference.name),
                uid: self.word(&reference.uid),
                controls: reference.controller.unwrap_or_default(),
            })
            .collect();
        self.owners.share(hash_of(&owners), &owners, || owners.clone().into())
    }

    fn claims(&mut self, pod: &str, volumes: &[Volume]) -> Arc<[ClaimUse]> {
        let mut claims = Vec::new();
        for volume in volumes {
            if let Some(source) = &volume.persistent_volume_claim {
                let (volume, claim) = (self.word(&volume.name), source.claim_name.as_str().into());
                claims.push(ClaimUse {
                    volume,
                    claim,
                    ephemeral: None,
                });
            } else if let Some(source) = &volume.ephemeral {
                let template = source.volume_claim_template.as_ref();
                let class = template.and_then(|template| template.spec.storage_class_name.as_deref());
                let claim = format!("{pod}-{}", volume.name).into();
                let class = class.map(|class| self.word(class));
                claims.push(ClaimUse {
                    volume: self.word(&volume.name),
                    claim,
                    ephemeral: Some(class),
                });
            }
        }
        // Most pods have none: one empty list for all of them.
        self.claims.share(hash_of(&claims), &claims, || claims.clone().into())
    }
}

fn condition(status: Option<&PodStatus>, type_: &str) -> Option<Since<bool>> {
    let mut conditions = status?.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == type_)?;
    let since = condition.last_transition_time.as_ref().map(time::from_k8s);
    Some(Since {
        state: condition.status == "True",
        since,
    })
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
