//! The platform's CSI driver (Cinder), pretended: makes volumes for claims, attaches them, and ends those that nobody claims any more (rackspace-spot 5.4).
//!
//! ```text
//! kube-scheduler ─ selected-node ─▶ claim ─▶ plan ─▶ PersistentVolume near that node ─▶ volume controller binds
//! attach/detach controller ─▶ VolumeAttachment ─▶ plan ─▶ held, attached ─▶ asked to go ─▶ detached, let go
//! ```
//!
//! [`Csi`] plays the side-cars of the driver against a Kubernetes API that has the volume controllers of kube-controller-manager. The in-process world's
//! own controllers ([`crate::workloads`]) do both halves and share only the shape of a volume ([`volume`]). Pure but for [`Csi`], the loop.

pub(crate) mod furniture;
mod plan;
mod run;
mod seen;
pub(crate) mod volume;

pub use furniture::storage_classes;
pub use run::{Csi, CsiOptions};
