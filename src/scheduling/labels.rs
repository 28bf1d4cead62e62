//! The labels that scheduling gives a meaning to (scheduling §6).
//!
//! Decides which keys are well known, which are restricted, and what an old key is called today. Called by the requirement algebra, by
//! validation and by whoever writes labels on a NodeClaim.

use std::collections::BTreeSet;

/// Names the NodePool of a machine.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// How a machine is paid for: spot, on-demand or reserved.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// The zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The processor architecture.
pub const ARCH: &str = "kubernetes.io/arch";
/// The operating system.
pub const OS: &str = "kubernetes.io/os";
/// The Windows build.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// The machine itself.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// The domain whose labels are restricted unless well known.
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";

/// The well-known labels before a provider adds its own (scheduling 6-1).
pub const WELL_KNOWN: [&str; 8] = [
    NODE_POOL,
    CAPACITY_TYPE,
    ZONE,
    REGION,
    INSTANCE_TYPE,
    ARCH,
    OS,
    WINDOWS_BUILD,
];

/// The labels that a pod may ask for although the NodePool does not define them: upstream's and those the provider registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WellKnownLabels(BTreeSet<String>);

impl Default for WellKnownLabels {
    fn default() -> Self {
        Self::with([])
    }
}

impl WellKnownLabels {
    /// Upstream's set and the provider's additions.
    pub fn with<'a>(additional: impl IntoIterator<Item = &'a str>) -> Self {
        Self(WELL_KNOWN.into_iter().chain(additional).map(str::to_owned).collect())
    }

    /// Nothing is well known: every label must be defined ("strict", scheduling 5-13).
    pub const fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Whether the key is in the set.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    /// The keys, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether a key may be used neither in a pod's selectors nor in a NodePool (scheduling 6-4).
    pub fn restricts(&self, key: &str) -> bool {
        !self.contains(key) && (key == HOSTNAME || is_karpenter_domain(domain(key)))
    }
}

/// What an old spelling of a key is called today; any other key is itself (scheduling 6-3).
pub fn normalised(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => REGION,
        "beta.kubernetes.io/arch" => ARCH,
        "beta.kubernetes.io/os" => OS,
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        _ => key,
    }
}

/// The part of a key before its slash; empty when there is none.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

fn is_karpenter_domain(domain: &str) -> bool {
    domain == KARPENTER_DOMAIN
        || domain
            .strip_suffix(KARPENTER_DOMAIN)
            .is_some_and(|rest| rest.ends_with('.'))
}

/// Whether the text is what Kubernetes calls a qualified name: an optional DNS prefix and a name of at most 63 characters.
pub fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name_part(key),
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name_part(name),
    }
}

/// Whether the text may be the value of a label.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name_part(value)
}

fn is_name_part(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= 63
        && edge(text.as_bytes().first())
        && edge(text.as_bytes().last())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(|part| {
            edge(part.as_bytes().first())
                && edge(part.as_bytes().last())
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_karpenters_own_domain_and_the_hostname_are_restricted() {
        let labels = WellKnownLabels::default();
        for key in ["karpenter.sh/registered", "a.karpenter.sh/x", HOSTNAME] {
            assert!(labels.restricts(key), "{key}");
        }
        for key in [
            NODE_POOL,
            "notkarpenter.sh/x",
            "kubernetes.io/x",
            "x",
            "node.kubernetes.io/y",
            "karpenter.sh",
        ] {
            assert!(!labels.restricts(key), "{key}");
        }
    }

    #[test]
    fn a_provider_can_make_a_label_well_known() {
        assert!(!WellKnownLabels::with(["a.karpenter.sh/x"]).restricts("a.karpenter.sh/x"));
    }

    #[test]
    fn qualified_names_are_told_from_others() {
        for good in ["a", "a.b/c-d", "example.com/A_b.c"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "A.b/c", "-a", "bad key"] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
    }
}
