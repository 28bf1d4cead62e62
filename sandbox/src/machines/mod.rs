//! The machines of the simulated platform: kubelets, the cloud controller, the CSI node plugin and the platform's pool controller, as far as Kubernetes sees them
//! (rackspace-spot §5).
//!
//! [`Fleet`] follows the servers of a [`crate::spot::Spot`] and plays them against any Kubernetes API through a `kube::Client`. What to do next is decided by two pure
//! modules, one for Nodes and one for pods; the fleet only watches, waits and writes.

pub(crate) mod agenda;
mod birth;
mod draft;
mod fleet;
mod hands;
mod node_plan;
mod options;
mod pod_plan;

pub use fleet::Fleet;
pub use options::{MachineOptions, NodeLifecycle};
pub use pod_plan::RUN_SECONDS;
