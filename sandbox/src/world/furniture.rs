//! What a cluster of the platform holds before anybody uses it: the product's kinds, if wanted, and the platform's storage classes.

use super::builder::Crds;
use super::running::World;
use super::verbs::WorldError;
use crate::csi::storage_classes;

/// Installs it.
pub(super) async fn place(world: &World, crds: Crds) -> Result<(), WorldError> {
    if crds == Crds::Installed {
        for crd in karpenter::api::crd::all() {
            world.apply_value(&crd.manifest).await?;
        }
    }
    for class in storage_classes() {
        world.apply_value(&class).await?;
    }
    Ok(())
}
