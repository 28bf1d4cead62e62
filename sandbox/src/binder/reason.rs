//! Why a pod does not go on a node, in kube-scheduler's words.

use std::fmt;

/// The first filter that refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// No such node.
    NoSuchNode,
    /// A taint that the pod does not tolerate.
    Taint {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Node selector or required node affinity.
    NodeAffinity,
    /// A host port is taken.
    Ports,
    /// These resources do not suffice; `pods` is the number of pods.
    Resources(Vec<String>),
    /// A claim does not exist.
    ClaimMissing(String),
    /// A claim is being deleted.
    ClaimDeleting(String),
    /// A claim is unbound although it does not wait for a pod.
    ClaimUnbound,
    /// A claim's volume does not exist.
    VolumeMissing,
    /// A bound volume is not reachable from the node.
    VolumeAffinity,
    /// A bound volume is in another zone.
    VolumeZone,
    /// An unbound claim finds no volume that the node can use.
    NoVolume,
    /// The node has as many volumes of a driver as it can.
    VolumeLimit,
    /// Another pod has the claim for itself.
    ExclusiveClaim,
    /// The spread would exceed its skew.
    Spread,
    /// The node lacks the label of a spread constraint.
    SpreadLabel,
    /// Required pod affinity.
    Affinity,
    /// Required pod anti-affinity of the pod itself.
    AntiAffinity,
    /// Required pod anti-affinity of a pod that is there.
    ExistingAntiAffinity,
}

impl Reason {
    /// kube-scheduler's words; one entry per shortage.
    pub fn words(&self) -> Vec<String> {
        let one = |text: &str| vec![text.to_owned()];
        match self {
            Self::Unschedulable => one("node(s) were unschedulable"),
            Self::NoSuchNode => one("node(s) didn't match the requested node name"),
            Self::Taint { key, value } => vec![format!("node(s) had untolerated taint {{{key}: {value}}}")],
            Self::NodeAffinity => one("node(s) didn't match Pod's node affinity/selector"),
            Self::Ports => one("node(s) didn't have free ports for the requested pod ports"),
            Self::Resources(names) => names.iter().map(|n| shortage(n)).collect(),
            Self::ClaimMissing(name) => vec![format!("persistentvolumeclaim {name:?} not found")],
            Self::ClaimDeleting(name) => vec![format!("persistentvolumeclaim {name:?} is being deleted")],
            Self::ClaimUnbound => one("pod has unbound immediate PersistentVolumeClaims"),
            Self::VolumeMissing => one("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
            Self::VolumeAffinity => one("node(s) had volume node affinity conflict"),
            Self::VolumeZone => one("node(s) had no available volume zone"),
            Self::NoVolume => one("node(s) didn't find available persistent volumes to bind"),
            Self::VolumeLimit => one("node(s) exceed max volume count"),
            Self::ExclusiveClaim => {
                one("node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode")
            }
            Self::Spread => one("node(s) didn't match pod topology spread constraints"),
            Self::SpreadLabel => one("node(s) didn't match pod topology spread constraints (missing required label)"),
            Self::Affinity => one("node(s) didn't match pod affinity rules"),
            Self::AntiAffinity => one("node(s) didn't match pod anti-affinity rules"),
            Self::ExistingAntiAffinity => one("node(s) didn't satisfy existing pods anti-affinity rules"),
        }
    }

    /// Whether fewer pods on the node could change it.
    pub fn is_about_pods(&self) -> bool {
        matches!(
            self,
            Self::Ports
                | Self::Resources(_)
                | Self::VolumeLimit
                | Self::ExclusiveClaim
                | Self::Spread
                | Self::AntiAffinity
                | Self::ExistingAntiAffinity
        )
    }
}

fn shortage(resource: &str) -> String {
    if resource == "pods" {
        "Too many pods".to_owned()
    } else {
        format!("Insufficient {resource}")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(", "))
    }
}
