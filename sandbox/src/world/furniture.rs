//! What a cluster of the platform holds before anybody uses it: the product's kinds, if wanted, and the platform's storage classes.

use super::builder::Crds;
use super::running::World;
use super::verbs::WorldError;
use crate::csi::storage_classes;
use serde_json::Value;
use std::sync::LazyLock;

/// The product's kinds; derived from its types once, since a process may make thousands of worlds.
static KINDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let all = karpenter::api::crd::all().into_iter();
    all.map(|definition| definition.manifest).collect()
});

/// Installs it.
pub(super) async fn place(world: &World, crds: Crds) -> Result<(), WorldError> {
    if crds == Crds::Installed {
        for kind in KINDS.iter() {
            world.apply_value(kind).await?;
        }
    }
    for class in storage_classes() {
        world.apply_value(&class).await?;
    }
    Ok(())
}
