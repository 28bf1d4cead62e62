//! Claims, volumes and storage classes.

use crate::case::{Case, DRIVER, object};
use crate::dice::Dice;
use crate::machines::ZONES;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use karpenter::scheduling::labels;
use serde_json::{Value, json};

/// What generic ephemeral volumes are called.
const EPHEMERAL: &str = "scratch";

/// The classes of a case: one for any zone, one for two of three; both wait for the first pod.
pub fn classes(seed: u64) -> Vec<StorageClass> {
    let class = |name: &str, topologies: Value| {
        object(json!({
            "metadata": {"name": format!("s{seed}-{name}")},
            "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies,
        }))
    };
    let zones = json!([{"matchLabelExpressions": [{"key": labels::ZONE, "values": ["z1", "z2"]}]}]);
    vec![class("anywhere", Value::Null), class("zonal", zones)]
}

/// A volume of the pretended provisioner, usable in these zones, for a claim.
pub fn volume(name: &str, zones: &[Vec<&str>], claim: (&str, &str), class: &str) -> PersistentVolume {
    let terms: Vec<Value> = zones
        .iter()
        .map(|zones| json!({"matchExpressions": [{"key": labels::ZONE, "operator": "In", "values": zones}]}))
        .collect();
    let affinity = if terms.is_empty() {
        Value::Null
    } else {
        json!({"required": {"nodeSelectorTerms": terms}})
    };
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": claim.0, "name": claim.1},
            "nodeAffinity": affinity,
        },
    }))
}

/// A claim that waits for its first pod.
pub fn waiting(namespace: &str, name: &str, class: &str) -> PersistentVolumeClaim {
    object(json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    }))
}

/// A claim that has its volume.
pub fn bound(namespace: &str, name: &str, class: &str, volume: &str) -> PersistentVolumeClaim {
    let mut claim = waiting(namespace, name, class);
    bind(&mut claim, volume);
    claim
}

/// Binds a claim to a volume for good.
pub fn bind(claim: &mut PersistentVolumeClaim, volume: &str) {
    let annotations = claim.metadata.annotations.get_or_insert_default();
    annotations.insert("pv.kubernetes.io/bind-completed".to_owned(), "yes".to_owned());
    claim.spec.get_or_insert_default().volume_name = Some(volume.to_owned());
    claim.status.get_or_insert_default().phase = Some("Bound".to_owned());
}

impl Case {
    /// A claim for one pod, bound or waiting; answers its name.
    pub fn add_claim(&mut self, dice: &mut Dice, namespace: &str, name: &str, only_bound: bool) -> String {
        let seed = self.seed;
        if only_bound || dice.chance(50) {
            let class = format!("s{seed}-anywhere");
            let volume_name = format!("s{seed}-{name}");
            let one = |dice: &mut Dice| vec![*dice.pick(&ZONES)];
            let zones = match dice.below(4) {
                0 => Vec::new(),
                1 => vec![one(dice), one(dice)],
                2 => vec![dice.some(&ZONES)],
                _ => vec![one(dice)],
            };
            self.volumes
                .push(volume(&volume_name, &zones, (namespace, name), &class));
            self.claims.push(bound(namespace, name, &class, &volume_name));
        } else {
            self.add_waiting(dice, namespace, name);
        }
        name.to_owned()
    }

    /// A claim that waits for its first pod.
    pub fn add_waiting(&mut self, dice: &mut Dice, namespace: &str, name: &str) {
        let class = self.class(dice);
        self.claims.push(waiting(namespace, name, &class));
    }

    /// Gives a pod a generic ephemeral volume, and the claim that Kubernetes makes of it: the pod's own, and waiting.
    pub fn add_ephemeral(&mut self, dice: &mut Dice, pod: &mut Value) {
        let class = self.class(dice);
        let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
        let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
        let mut claim = waiting(&namespace, &format!("{name}-{EPHEMERAL}"), &class);
        claim.metadata.owner_references = Some(vec![object(json!({
            "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true,
        }))]);
        let template = json!({"spec": claim.spec});
        pod["spec"]["volumes"] = json!([{"name": EPHEMERAL, "ephemeral": {"volumeClaimTemplate": template}}]);
        self.claims.push(claim);
    }

    fn class(&self, dice: &mut Dice) -> String {
        format!("s{}-{}", self.seed, dice.pick(&["anywhere", "zonal"]))
    }
}

/// The names of the claims behind a pod's volumes.
pub fn claim_names(pod: &Pod) -> Vec<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(format!("{name}-{}", volume.name)),
        (None, None) => None,
    });
    claims.collect()
}

/// Whether Kubernetes makes the claim for a pod, and takes it away with it.
pub fn is_ephemeral(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.owner_references.is_some()
}
