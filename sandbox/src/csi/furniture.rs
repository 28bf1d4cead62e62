//! What the driver's installation leaves in a cluster: its storage classes.

use serde_json::{Value, json};

/// The name of the driver.
pub(crate) const DRIVER: &str = "cinder.csi.openstack.org";
/// The platform's classes (rackspace-spot 5.4); the first is the default.
const STORAGE: [&str; 4] = ["ssd", "ssd-large", "sata", "sata-large"];

/// The storage classes of a cloudspace.
pub fn storage_classes() -> Vec<Value> {
    STORAGE.into_iter().map(class).collect()
}

fn class(name: &str) -> Value {
    let default = Some(name) == STORAGE.first().copied();
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default.to_string()}},
        "provisioner": DRIVER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    })
}
