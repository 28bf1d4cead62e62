//! Whether this process shares its work with others, and as whom it runs for the lease (surface §6.1, §6.4).
//!
//! Read from the settings by [`start`](super::start()); tests and simulations say it themselves.

use super::options::Options;
use crate::k8s::election::{LeaseSettings, Terms};

/// Whether there may be other replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidacy {
    /// There is none: it leads from the start and for ever.
    Alone,
    /// There may be: whoever holds the lease leads.
    Lease(LeaseSettings),
}

/// Nobody says where the lease is.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "no namespace for the lease: this is no pod (no service account is mounted), and LEADER_ELECTION_NAMESPACE is empty; set it, or DISABLE_LEADER_ELECTION=true where there is one replica only"
)]
pub struct NoNamespace;

/// Who this process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whoami {
    /// The machine's name.
    pub host: String,
    /// Something that no other process has.
    pub unique: uuid::Uuid,
    /// The pod's own namespace, if this is a pod.
    pub namespace: Option<String>,
}

const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
const RANDOM_UUID: &str = "/proc/sys/kernel/random/uuid";

impl Whoami {
    /// Asks the kernel and the pod's mounts. `salt` makes the process unique where the kernel has no chance to offer.
    pub fn ask(salt: u64) -> Self {
        let read = |path: &str| {
            let text = std::fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let drawn = read(RANDOM_UUID).and_then(|text| uuid::Uuid::parse_str(&text).ok());
        let made = uuid::Uuid::from_u64_pair(salt, u64::from(std::process::id()));
        Self {
            host: read(HOST_NAME).unwrap_or_else(|| "unknown".to_owned()),
            unique: drawn.unwrap_or(made),
            namespace: read(POD_NAMESPACE),
        }
    }
}

impl Candidacy {
    /// What the settings say: the lease is in the namespace that they name, else in the pod's own.
    pub fn of(options: &Options, whoami: &Whoami) -> Result<Self, NoNamespace> {
        if options.disable_leader_election {
            return Ok(Self::Alone);
        }
        let named = Some(options.leader_election_namespace.clone()).filter(|namespace| !namespace.is_empty());
        Ok(Self::Lease(LeaseSettings {
            namespace: named.or_else(|| whoami.namespace.clone()).ok_or(NoNamespace)?,
            name: options.leader_election_name.clone(),
            identity: format!("{}_{}", whoami.host, whoami.unique),
            terms: Terms::of(options.leader_election_lease_duration),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Environment;

    fn candidacy(set: &[(&str, &str)], pod: Option<&str>) -> Result<Candidacy, NoNamespace> {
        let needed = [("SPOT_CLOUDSPACE_NAME", "c"), ("SPOT_REFRESH_TOKEN", "t")];
        let environment = set
            .iter()
            .fold(Environment::from(needed), |environment, (name, value)| {
                environment.with(name, value)
            });
        let whoami = Whoami {
            host: "pod-1".into(),
            unique: uuid::Uuid::from_u128(7),
            namespace: pod.map(str::to_owned),
        };
        Candidacy::of(&options(&environment), &whoami)
    }

    fn options(environment: &Environment) -> Options {
        Options::read([], environment).unwrap()
    }

    fn lease(candidacy: Candidacy) -> LeaseSettings {
        match candidacy {
            Candidacy::Lease(settings) => settings,
            Candidacy::Alone => panic!("no lease"),
        }
    }

    // surface §6.1, surface §6.4
    #[test]
    fn the_lease_is_in_the_named_namespace_or_in_the_pods_own() {
        let settings = lease(candidacy(&[], Some("karpenter")).unwrap());
        assert_eq!(
            (&*settings.namespace, &*settings.name),
            ("karpenter", "karpenter-leader-election")
        );
        assert_eq!(settings.identity, "pod-1_00000000-0000-0000-0000-000000000007");
        assert_eq!(settings.terms, Terms::default());
        let named = [("LEADER_ELECTION_NAMESPACE", "other"), ("LEADER_ELECTION_NAME", "mine")];
        let settings = lease(candidacy(&named, Some("karpenter")).unwrap());
        assert_eq!((&*settings.namespace, &*settings.name), ("other", "mine"));
    }

    // surface §6.1
    #[test]
    fn outside_a_pod_somebody_has_to_say_where_the_lease_is_unless_there_is_none() {
        assert_eq!(candidacy(&[], None), Err(NoNamespace));
        assert_eq!(candidacy(&[("LEADER_ELECTION_NAMESPACE", "")], None), Err(NoNamespace));
        assert_eq!(
            candidacy(&[("DISABLE_LEADER_ELECTION", "true")], None),
            Ok(Candidacy::Alone)
        );
    }

    #[test]
    fn no_two_processes_are_the_same() {
        assert_ne!(Whoami::ask(1).unique, Whoami::ask(1).unique);
    }
}
