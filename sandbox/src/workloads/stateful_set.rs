//! StatefulSets: pods with numbers and volumes of their own, one after the other unless told otherwise.
//!
//! Differs: claims are always kept (no persistentVolumeClaimRetentionPolicy), there are no ControllerRevision objects.

use super::act::{Act, Plan, Sort};
use super::hash;
use super::owned::{available_at, count, is_finished, is_going, is_ready, many, phase, pod_from, put};
use super::seen::Seen;
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const REVISION: &str = "controller-revision-hash";

struct View<'a> {
    set: &'a StatefulSet,
    spec: StatefulSetSpec,
    name: &'a Name,
    revision: String,
    pods: BTreeMap<usize, &'a Arc<Pod>>,
    parallel: bool,
    now: DateTime<Utc>,
}

pub(crate) fn plan(seen: &Seen, name: &Name, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let Some(set) = seen.stateful_sets.get(name) else {
        return plan;
    };
    let spec = set.spec.clone().unwrap_or_default();
    let number = |pod: &Pod| -> Option<usize> {
        pod.metadata
            .name
            .as_deref()?
            .strip_prefix(&name.name)?
            .strip_prefix('-')?
            .parse()
            .ok()
    };
    let own = seen.pods_of(set.metadata.uid.as_ref());
    let view = View {
        set,
        revision: format!("{}-{}", name.name, hash::of(&spec.template)),
        parallel: spec.pod_management_policy.as_deref() == Some("Parallel"),
        pods: own.into_iter().filter_map(|p| Some((number(p)?, p))).collect(),
        spec,
        name,
        now,
    };
    if set.metadata.deletion_timestamp.is_none() {
        view.step(&mut plan, seen);
    }
    if plan.acts.is_empty() {
        view.tell(&mut plan);
    }
    plan
}

fn delete(plan: &mut Plan, pod: &Pod) {
    plan.acts
        .push(Act::delete(Sort::Pod, &Name::of(pod), pod.metadata.uid.as_ref(), None));
}

impl View<'_> {
    fn wished(&self) -> std::ops::Range<usize> {
        let start = self.spec.ordinals.as_ref().and_then(|o| o.start).map_or(0, many);
        start..start.saturating_add(many(self.spec.replicas.unwrap_or(1)))
    }

    fn is_available(&self, pod: &Pod, plan: &mut Plan) -> bool {
        let running = phase(pod) == "Running" && !is_going(pod);
        running && available_at(pod, self.spec.min_ready_seconds).is_some_and(|at| plan.due(at, self.now))
    }

    fn step(&self, plan: &mut Plan, seen: &Seen) {
        for number in self.wished() {
            let settled = match self.pods.get(&number) {
                None => {
                    self.make(plan, seen, number);
                    false
                }
                Some(pod) if is_finished(pod) && !is_going(pod) => {
                    delete(plan, pod);
                    false
                }
                Some(pod) => self.is_available(pod, plan),
            };
            if !settled && !self.parallel {
                return;
            }
        }
        let wished = self.wished();
        for (_, pod) in self.pods.iter().rev().filter(|(number, _)| !wished.contains(number)) {
            if !is_going(pod) {
                delete(plan, pod);
            }
            if !self.parallel {
                return;
            }
        }
        self.update(plan);
    }

    /// Replaces the pod with the highest number that is of an old template, when all others work.
    fn update(&self, plan: &mut Plan) {
        let strategy = self.spec.update_strategy.clone().unwrap_or_default();
        if strategy.type_.as_deref() == Some("OnDelete") || !plan.acts.is_empty() {
            return;
        }
        let partition = strategy.rolling_update.and_then(|r| r.partition).map_or(0, many);
        for (_, pod) in self.pods.iter().rev().take_while(|(number, _)| **number >= partition) {
            if !is_going(pod) && self.is_old(pod) {
                delete(plan, pod);
                return;
            }
            if !self.is_available(pod, plan) {
                return;
            }
        }
    }

    fn is_old(&self, pod: &Pod) -> bool {
        pod.metadata.labels.as_ref().and_then(|l| l.get(REVISION)) != Some(&self.revision)
    }

    fn make(&self, plan: &mut Plan, seen: &Seen, number: usize) {
        let name = format!("{}-{number}", self.name.name);
        let mut pod = pod_from(self.set, &self.spec.template);
        put(&mut pod, "/metadata", "name", name.clone());
        put(
            &mut pod,
            "/metadata/labels",
            "statefulset.kubernetes.io/pod-name",
            name.clone(),
        );
        put(
            &mut pod,
            "/metadata/labels",
            "apps.kubernetes.io/pod-index",
            number.to_string(),
        );
        put(&mut pod, "/metadata/labels", REVISION, self.revision.clone());
        put(&mut pod, "/spec", "hostname", name.clone());
        if let Some(service) = &self.spec.service_name {
            put(&mut pod, "/spec", "subdomain", service.clone());
        }
        let mut volumes = pod
            .pointer("/spec/volumes")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for template in self.spec.volume_claim_templates.iter().flatten() {
            let volume = template.metadata.name.clone().unwrap_or_default();
            let claim = Name::new(&self.name.namespace, &format!("{volume}-{name}"));
            volumes.retain(|v| v.get("name").and_then(Value::as_str) != Some(&volume));
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim.name}}));
            if seen.claims.get(&claim).is_none() {
                let mut labels = template.metadata.labels.clone().unwrap_or_default();
                labels.extend(self.spec.selector.match_labels.clone().unwrap_or_default());
                plan.acts.push(Act::create(Sort::Claim, &claim.namespace, json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"name": claim.name, "labels": labels, "annotations": template.metadata.annotations},
                    "spec": template.spec,
                })));
            }
        }
        put(&mut pod, "/spec", "volumes", volumes);
        plan.acts.push(Act::create(Sort::Pod, &self.name.namespace, pod));
    }

    fn tell(&self, plan: &mut Plan) {
        let live: Vec<&&Arc<Pod>> = self.pods.values().filter(|p| !is_going(p)).collect();
        let ready = live.iter().filter(|p| is_ready(p)).count();
        let available = live.iter().filter(|p| self.is_available(p, plan)).count();
        let updated = live.iter().filter(|p| !self.is_old(p)).count();
        let shown = self.set.status.clone().unwrap_or_default();
        let revision = if updated == live.len() {
            &self.revision
        } else {
            shown.current_revision.as_ref().unwrap_or(&self.revision)
        };
        let truth = json!({
            "observedGeneration": self.set.metadata.generation, "replicas": count(live.len()), "readyReplicas": count(ready),
            "availableReplicas": count(available), "updatedReplicas": count(updated), "currentReplicas": count(updated),
            "currentRevision": revision, "updateRevision": self.revision,
        });
        let mut merged = json!(shown);
        json_patch::merge(&mut merged, &truth);
        if merged != json!(shown) {
            plan.acts
                .push(Act::status(Sort::StatefulSet, self.name, json!({ "status": truth })));
        }
    }
}
