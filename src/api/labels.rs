//! The names that users see: labels, annotations, taints, finalizers, and which label keys are whose.
//!
//! Decides whether a key is well known, restricted or an old alias (surface §2). Relies on nothing; called by whoever reads or writes one.

use k8s_openapi::api::core::v1::Taint;

/// Karpenter's own API group and label domain.
pub const GROUP: &str = "karpenter.sh";

/// Label: the NodePool that a claim or node belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// Label: how a machine is paid for.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Label `true` on nodes whose registration finished.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Label `true` on nodes whose initialization finished.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// Label `true` on a node: the claim's taints must not be copied to it.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Label `karpenter` on nodes that are being terminated, so that load balancers forget them.
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Value of [`EXCLUDE_FROM_LOAD_BALANCERS`].
pub const EXCLUDE_FROM_LOAD_BALANCERS_VALUE: &str = "karpenter";
/// Label: instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Label: zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label: region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Label: processor architecture.
pub const ARCH: &str = "kubernetes.io/arch";
/// Label: operating system.
pub const OS: &str = "kubernetes.io/os";
/// Label: the Windows build.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Label: the node's own name; nobody may ask for it in a template.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Value of [`CAPACITY_TYPE`]: bought at auction, may be taken away.
pub const CAPACITY_TYPE_SPOT: &str = "spot";
/// Value of [`CAPACITY_TYPE`]: bought at a fixed price.
pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
/// Value of [`CAPACITY_TYPE`]: paid for in advance.
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";

/// Annotation: keeps a pod, or the whole node, from being disrupted.
pub const DO_NOT_DISRUPT_ANNOTATION: &str = "karpenter.sh/do-not-disrupt";
/// Annotation: the hash of the pool's template.
pub const NODEPOOL_HASH_ANNOTATION: &str = "karpenter.sh/nodepool-hash";
/// Annotation: which algorithm made the hash.
pub const NODEPOOL_HASH_VERSION_ANNOTATION: &str = "karpenter.sh/nodepool-hash-version";
/// Annotation: the instant after which a node's pods are removed by force.
pub const TERMINATION_TIMESTAMP_ANNOTATION: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Annotation: whether `minValues` were relaxed for this claim.
pub const MIN_VALUES_RELAXED_ANNOTATION: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// Annotation: an overlay changed the price of the claim's instance types.
pub const PRICE_OVERLAY_APPLIED_ANNOTATION: &str = "karpenter.sh/price-overlay-applied";
/// Annotation: an overlay changed the capacity of the claim's instance types.
pub const CAPACITY_OVERLAY_APPLIED_ANNOTATION: &str = "karpenter.sh/capacity-overlay-applied";
/// Annotation on pods: what their eviction costs.
pub const POD_DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Taint key: the node was chosen to go.
pub const DISRUPTED_TAINT_KEY: &str = "karpenter.sh/disrupted";
/// Taint key: the node has joined and is not registered yet.
pub const UNREGISTERED_TAINT_KEY: &str = "karpenter.sh/unregistered";

/// Taint effect: new pods stay away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Taint effect: new pods stay away if they can.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Taint effect: pods are thrown out.
pub const NO_EXECUTE: &str = "NoExecute";

/// Finalizer on claims and nodes.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

/// The labels that Karpenter itself understands, sorted (surface §2.3).
pub const WELL_KNOWN: &[&str] = &[
    CAPACITY_TYPE,
    NODEPOOL,
    ARCH,
    OS,
    INSTANCE_TYPE,
    WINDOWS_BUILD,
    REGION,
    ZONE,
];

/// The labels by which the offerings of one instance type differ (surface §2.3).
pub const OFFERING: &[&str] = &[ZONE, CAPACITY_TYPE];

/// The resources that every node has (surface §2.3).
pub const WELL_KNOWN_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage", "pods"];

/// Label domains that belong to Karpenter, with their subdomains (surface §2.3).
pub const RESTRICTED_DOMAINS: &[&str] = &[GROUP];

/// Single labels that nobody may ask for (surface §2.3).
pub const RESTRICTED: &[&str] = &[HOSTNAME];

/// The values that a well-known label can have, when they are fixed (surface §2.3).
pub fn known_values(key: &str) -> Option<&'static [&'static str]> {
    (key == CAPACITY_TYPE).then_some(&[CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT, CAPACITY_TYPE_RESERVED])
}

/// Whether Karpenter itself understands the label.
pub fn is_well_known(key: &str) -> bool {
    WELL_KNOWN.contains(&key)
}

/// The part of a key before its first slash, empty when there is none.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// Whether users must not ask for the label: Karpenter's own domains but for the well-known keys, and single keys (surface §2.3).
///
/// The schema's rule is wider (surface T7): it also refuses `foo-karpenter.sh/x`. Both are kept as they are.
pub fn is_restricted(key: &str) -> bool {
    !is_well_known(key) && is_reserved(key)
}

/// The same without regard to which keys are well known, for those who know of more.
pub fn is_reserved(key: &str) -> bool {
    let domain = domain(key);
    let owned = |owner: &str| domain == owner || domain.strip_suffix(owner).is_some_and(|rest| rest.ends_with('.'));
    RESTRICTED.contains(&key) || RESTRICTED_DOMAINS.iter().any(|owner| owned(owner))
}

/// The present name of a label that has an older one (surface §2.3, scheduling 6-3); any other key as it is.
pub fn normalize(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => REGION,
        "beta.kubernetes.io/arch" => ARCH,
        "beta.kubernetes.io/os" => OS,
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        present => present,
    }
}

/// The taint of a node that was chosen to go (lifecycle 0.1).
pub fn disrupted_taint() -> Taint {
    taint(DISRUPTED_TAINT_KEY, None, NO_SCHEDULE)
}

/// The taint of a node that is not registered yet (lifecycle 0.1).
pub fn unregistered_taint() -> Taint {
    taint(UNREGISTERED_TAINT_KEY, None, NO_EXECUTE)
}

/// Taints that come with a starting node and go by themselves (lifecycle 0.2).
pub fn known_ephemeral_taints() -> Vec<Taint> {
    vec![
        taint("node.kubernetes.io/not-ready", None, NO_SCHEDULE),
        taint("node.kubernetes.io/not-ready", None, NO_EXECUTE),
        taint("node.kubernetes.io/unreachable", None, NO_SCHEDULE),
        taint(
            "node.cloudprovider.kubernetes.io/uninitialized",
            Some("true"),
            NO_SCHEDULE,
        ),
        unregistered_taint(),
    ]
}

/// Whether two taints are the same one: key and effect count, the value does not (lifecycle 0.2).
pub fn same_taint(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.effect == b.effect
}

/// All of `base`, then those of `more` that `base` has no counterpart for (lifecycle 0.3).
pub fn merge_taints(base: &[Taint], more: &[Taint]) -> Vec<Taint> {
    let mut merged = base.to_vec();
    for taint in more {
        if !merged.iter().any(|present| same_taint(present, taint)) {
            merged.push(taint.clone());
        }
    }
    merged
}

fn taint(key: &str, value: Option<&str>, effect: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.map(str::to_owned),
        effect: effect.to_owned(),
        time_added: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_keys_are_never_restricted_and_the_rest_of_the_domain_always_is() {
        for key in WELL_KNOWN {
            assert!(!is_restricted(key), "{key}");
        }
        for key in [
            REGISTERED,
            INITIALIZED,
            "karpenter.sh/foo",
            "sub.karpenter.sh/foo",
            HOSTNAME,
        ] {
            assert!(is_restricted(key), "{key}");
        }
    }

    #[test]
    fn a_domain_that_only_ends_alike_is_somebody_elses() {
        // surface T7: at runtime the domain must match exactly or end after a dot
        for key in [
            "foo-karpenter.sh/x",
            "notkarpenter.sh/foo",
            "karpenter.sh",
            "kubernetes.io/foo",
            "kubernetes.io/hostname/test",
        ] {
            assert!(!is_restricted(key), "{key}");
        }
    }

    #[test]
    fn old_names_become_the_present_ones() {
        assert_eq!(normalize("beta.kubernetes.io/arch"), ARCH);
        assert_eq!(normalize("failure-domain.beta.kubernetes.io/zone"), ZONE);
        assert_eq!(normalize("failure-domain.beta.kubernetes.io/region"), REGION);
        assert_eq!(normalize("beta.kubernetes.io/os"), OS);
        assert_eq!(normalize("beta.kubernetes.io/instance-type"), INSTANCE_TYPE);
        assert_eq!(normalize("team"), "team");
    }

    #[test]
    fn merging_keeps_what_is_there_whatever_its_value() {
        // lifecycle 0.3
        let there = taint("a", Some("1"), NO_SCHEDULE);
        let merged = merge_taints(
            std::slice::from_ref(&there),
            &[
                taint("a", Some("2"), NO_SCHEDULE),
                taint("a", None, NO_EXECUTE),
                taint("b", None, NO_SCHEDULE),
            ],
        );
        assert_eq!(
            merged,
            vec![there, taint("a", None, NO_EXECUTE), taint("b", None, NO_SCHEDULE)]
        );
    }
}
