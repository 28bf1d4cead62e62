//! What this build is: version, revision, architecture.
//!
//! Shown by `karpenter_build_info`, the log lines and the user agent.

use crate::api::nodeclass::NODE_CLASS_LABEL;
use crate::telemetry::BuildInfo;

/// Version of the operator.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Revision, if the build was told (`KARPENTER_COMMIT`): `make build` and the image do.
pub fn commit() -> Option<&'static str> {
    option_env!("KARPENTER_COMMIT").filter(|commit| !commit.is_empty())
}

/// The architecture in Go's word, as the label `goarch` of upstream has it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The label key of the node class as a Prometheus label.
fn node_class_label() -> String {
    NODE_CLASS_LABEL.replace(|character: char| !character.is_ascii_alphanumeric(), "_")
}

/// Calls `with` with what the metrics say about this build.
pub(super) fn with_info<T>(with: impl FnOnce(BuildInfo<'_>) -> T) -> T {
    let label = node_class_label();
    with(BuildInfo {
        version: VERSION,
        commit: commit().unwrap_or_default(),
        arch: architecture(),
        compiler: concat!("rust", env!("CARGO_PKG_RUST_VERSION")),
        node_class_kind: "rackspacespotnodeclass",
        node_class_label: &label,
    })
}
