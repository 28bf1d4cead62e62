//! What the driver does about one thing now, and when it looks again.

use super::furniture::DRIVER;
use super::run::CsiOptions;
use super::seen::{Key, Seen};
use super::volume::{self, Near};
use crate::binder::{SELECTED_NODE, waits};
use crate::observe::Name;
use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};

/// Which driver shall make the volume; the volume controller says so when it wants one.
const WANTED_OF: &str = "volume.kubernetes.io/storage-provisioner";

/// What there is to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Nothing.
    Rest,
    /// Nothing before this instant.
    WaitUntil(DateTime<Utc>),
    /// Make this volume.
    Make(Value),
    /// End the volume of this name and UID.
    End(Name, String),
    /// Say that this attachment is there.
    Attach(Name, Value),
    /// Write these finalizers on an attachment: ours, so that it stays until the volume is detached, or the others', once it is.
    Hold(Name, Value),
}

/// What keeps an attachment until its volume is detached, as the driver's attacher calls it.
const HOLDS: &str = "external-attacher/cinder-csi-openstack-org";

pub(super) fn step(seen: &mut Seen, key: &Key, options: &CsiOptions, now: DateTime<Utc>) -> Step {
    let (wish, seconds) = match key {
        Key::Claim(name) => (claim(seen, name), options.provision_seconds),
        Key::Volume(name) => (released(seen, name), options.delete_seconds),
        Key::Attachment(name) if is_going(seen, name) => (detachment(seen, name), options.detach_seconds),
        Key::Attachment(name) => (attachment(seen, name), options.attach_seconds),
    };
    let Some(step) = wish else {
        seen.since.remove(key);
        return Step::Rest;
    };
    let since = *seen.since.entry(key.clone()).or_insert(now);
    let due = TimeDelta::try_seconds(i64::from(seconds)).and_then(|delay| since.checked_add_signed(delay));
    match due.filter(|due| *due > now) {
        Some(due) => Step::WaitUntil(due),
        None => step,
    }
}

/// A claim whose first pod has a node gets a volume near it.
fn claim(seen: &Seen, name: &Name) -> Option<Step> {
    let claim = seen.claims.get(name)?;
    let spec = claim.spec.as_ref()?;
    let wanted = annotation(claim, WANTED_OF) == Some(DRIVER);
    if !wanted || spec.volume_name.is_some() || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let class = seen.classes.get(&Name::new("", spec.storage_class_name.as_deref()?))?;
    if class.provisioner != DRIVER || seen.volumes.get(&volume::name(claim)).is_some() {
        return None;
    }
    if !waits(class) {
        return Some(Step::Make(volume::provisioned(claim, class, None)));
    }
    let host = Name::new("", annotation(claim, SELECTED_NODE)?);
    let labels = seen.nodes.get(&host)?.metadata.labels.clone().unwrap_or_default();
    let near = Near {
        labels: &labels,
        plugin: seen.plugins.get(&host).map(AsRef::as_ref),
    };
    Some(Step::Make(volume::provisioned(claim, class, Some(near))))
}

fn annotation<'a>(claim: &'a PersistentVolumeClaim, key: &str) -> Option<&'a str> {
    claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// A volume of ours whose claim is gone, and which no node holds any more, ends if its policy says so.
fn released(seen: &Seen, name: &Name) -> Option<Step> {
    let volume = seen.volumes.get(name)?;
    let (spec, phase) = (volume.spec.as_ref()?, volume.status.as_ref()?.phase.as_deref()?);
    let deletes = spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
    let going = volume.metadata.deletion_timestamp.is_some();
    let held = seen
        .attachments
        .all()
        .any(|(_, attachment)| attachment.spec.source.persistent_volume_name.as_ref() == Some(&name.name));
    let ours = made_by_us(volume) && phase == "Released" && deletes;
    (ours && !going && !held).then(|| Step::End(name.clone(), volume.metadata.uid.clone().unwrap_or_default()))
}

fn made_by_us(volume: &PersistentVolume) -> bool {
    let by = volume.metadata.annotations.as_ref();
    by.and_then(|annotations| annotations.get(volume::PROVISIONED_BY))
        .is_some_and(|by| by == DRIVER)
}

fn ours<'a>(seen: &'a Seen, name: &Name) -> Option<&'a VolumeAttachment> {
    let attachment = seen.attachments.get(name)?;
    (attachment.spec.attacher == DRIVER).then_some(attachment)
}

fn is_going(seen: &Seen, name: &Name) -> bool {
    ours(seen, name).is_some_and(|attachment| attachment.metadata.deletion_timestamp.is_some())
}

/// A volume is attached once its attachment cannot go without us.
fn attachment(seen: &Seen, name: &Name) -> Option<Step> {
    let attachment = ours(seen, name)?;
    let finalizers = attachment.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|one| one == HOLDS) {
        let with_ours = finalizers.into_iter().chain([HOLDS.to_owned()]);
        return Some(Step::Hold(name.clone(), held_by(attachment, with_ours)));
    }
    let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    (!attached).then(|| Step::Attach(name.clone(), json!({"status": {"attached": true}})))
}

/// An attachment that was asked to go is let go once the volume is detached.
fn detachment(seen: &Seen, name: &Name) -> Option<Step> {
    let attachment = ours(seen, name)?;
    let finalizers = attachment.metadata.finalizers.clone().unwrap_or_default();
    let held = finalizers.iter().any(|one| one == HOLDS);
    let others = finalizers.into_iter().filter(|one| one != HOLDS);
    held.then(|| Step::Hold(name.clone(), held_by(attachment, others)))
}

/// A list cannot be changed in part: another writer's change in between is refused.
fn held_by(attachment: &VolumeAttachment, finalizers: impl Iterator<Item = String>) -> Value {
    let finalizers: Vec<String> = finalizers.collect();
    json!({"metadata": {"finalizers": finalizers, "resourceVersion": attachment.metadata.resource_version}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csi::seen::Watched;
    use crate::csi::storage_classes;
    use crate::observe::News;
    use k8s_openapi::api::core::v1::Node;
    use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

    fn put<K: Watched>(seen: &mut Seen, objects: Vec<Value>) {
        let objects = objects
            .into_iter()
            .map(|o| serde_json::from_value(o).unwrap())
            .collect();
        seen.take::<K>(News::Listed(objects, 9));
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn world(selected: Option<&str>) -> Seen {
        let mut seen = Seen::default();
        put::<StorageClass>(&mut seen, storage_classes());
        put::<Node>(
            &mut seen,
            vec![json!({"metadata": {"name": "n", "labels": {"topology.cinder.csi.openstack.org/zone": "nova"}}})],
        );
        let drivers =
            json!([{"name": DRIVER, "nodeID": "n", "topologyKeys": ["topology.cinder.csi.openstack.org/zone"]}]);
        put::<CSINode>(
            &mut seen,
            vec![json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})],
        );
        let annotations = json!({WANTED_OF: DRIVER, SELECTED_NODE: selected});
        put::<PersistentVolumeClaim>(
            &mut seen,
            vec![json!({
                "metadata": {"name": "data", "namespace": "default", "uid": "u", "annotations": if selected.is_some() { annotations } else { json!({}) }},
                "spec": {"storageClassName": "ssd", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
            })],
        );
        seen
    }

    #[test]
    fn a_claim_gets_a_volume_near_its_node_after_a_while_and_one_alone() {
        let (key, options) = (Key::Claim(Name::new("default", "data")), CsiOptions::default());
        assert_eq!(step(&mut world(None), &key, &options, at(0)), Step::Rest);
        assert_eq!(step(&mut world(Some("elsewhere")), &key, &options, at(0)), Step::Rest);
        let mut seen = world(Some("n"));
        assert_eq!(step(&mut seen, &key, &options, at(0)), Step::WaitUntil(at(1)));
        let Step::Make(volume) = step(&mut seen, &key, &options, at(1)) else {
            panic!("no volume");
        };
        let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"];
        assert_eq!(
            terms,
            &json!([{"key": "topology.cinder.csi.openstack.org/zone", "operator": "In", "values": ["nova"]}])
        );
        put::<PersistentVolume>(&mut seen, vec![volume]);
        assert_eq!(step(&mut seen, &key, &options, at(2)), Step::Rest);
    }

    #[test]
    fn a_released_volume_ends_when_no_node_holds_it() {
        let mut seen = world(Some("n"));
        put::<PersistentVolume>(
            &mut seen,
            vec![json!({
                "metadata": {"name": "pvc-u", "uid": "v", "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
                "spec": {"persistentVolumeReclaimPolicy": "Delete", "csi": {"driver": DRIVER, "volumeHandle": "u"}},
                "status": {"phase": "Released"},
            })],
        );
        put::<VolumeAttachment>(
            &mut seen,
            vec![json!({
                "metadata": {"name": "a"},
                "spec": {"attacher": DRIVER, "nodeName": "n", "source": {"persistentVolumeName": "pvc-u"}},
            })],
        );
        let options = CsiOptions {
            delete_seconds: 0,
            attach_seconds: 0,
            ..CsiOptions::default()
        };
        let volume = Key::Volume(Name::new("", "pvc-u"));
        assert_eq!(step(&mut seen, &volume, &options, at(0)), Step::Rest);
        put::<VolumeAttachment>(&mut seen, Vec::new());
        assert_eq!(
            step(&mut seen, &volume, &options, at(0)),
            Step::End(Name::new("", "pvc-u"), "v".into())
        );
    }

    #[test]
    fn an_attachment_is_held_until_its_volume_is_detached() {
        let (mut seen, name) = (Seen::default(), Name::new("", "a"));
        let mut becomes = |version: u32, finalizers: Value, attached: bool, asked_to_go: Option<&str>, now: i64| {
            let object = json!({
                "metadata": {
                    "name": "a", "resourceVersion": version.to_string(), "finalizers": finalizers, "deletionTimestamp": asked_to_go,
                },
                "spec": {"attacher": DRIVER, "nodeName": "n", "source": {"persistentVolumeName": "pvc-u"}},
                "status": {"attached": attached},
            });
            put::<VolumeAttachment>(&mut seen, vec![object]);
            step(
                &mut seen,
                &Key::Attachment(Name::new("", "a")),
                &CsiOptions::default(),
                at(now),
            )
        };
        let hold = |version: &str, finalizers: Value| {
            Step::Hold(
                name.clone(),
                json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}}),
            )
        };
        assert_eq!(becomes(1, json!(["other"]), false, None, 0), Step::WaitUntil(at(1)));
        assert_eq!(
            becomes(1, json!(["other"]), false, None, 1),
            hold("1", json!(["other", HOLDS]))
        );
        let attach = Step::Attach(name.clone(), json!({"status": {"attached": true}}));
        assert_eq!(becomes(2, json!(["other", HOLDS]), false, None, 1), attach);
        assert_eq!(becomes(3, json!(["other", HOLDS]), true, None, 2), Step::Rest);
        let asked = Some("1970-01-01T00:00:05Z");
        assert_eq!(
            becomes(4, json!(["other", HOLDS]), true, asked, 5),
            Step::WaitUntil(at(6))
        );
        assert_eq!(
            becomes(4, json!(["other", HOLDS]), true, asked, 6),
            hold("4", json!(["other"]))
        );
        assert_eq!(becomes(5, json!(["other"]), true, asked, 7), Step::Rest);
    }
}
