//! What a cluster of the platform holds before anybody uses it: the product's kinds, if wanted, and the platform's storage classes.

use super::builder::Crds;
use super::running::World;
use super::verbs::WorldError;
use serde_json::{Value, json};

/// The platform's classes (rackspace-spot 5.4); the first is the default.
const STORAGE: [&str; 4] = ["ssd", "ssd-large", "sata", "sata-large"];

/// Installs it.
pub(super) async fn place(world: &World, crds: Crds) -> Result<(), WorldError> {
    if crds == Crds::Installed {
        for crd in karpenter::api::crd::all() {
            world.apply_value(&crd.manifest).await?;
        }
    }
    for name in STORAGE {
        world.apply_value(&class(name)).await?;
    }
    Ok(())
}

fn class(name: &str) -> Value {
    let default = Some(name) == STORAGE.first().copied();
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default.to_string()}},
        "provisioner": "cinder.csi.openstack.org", "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    })
}
