//! The provider's words stay where the provider is: the core says "machine", so that a second provider fits.

use crate::sources::{assert_none, rust_files};
use regex::Regex;

/// Where Rackspace's words belong.
const PLACES: &[&str] = &[
    "src/lib.rs",
    "src/main.rs",
    "src/api/nodeclass.rs",
    "src/capacity/",
    "src/cloud/spot/",
    "src/controllers/capacity.rs",
    "src/controllers/node/link.rs",
    "src/controllers/nodeclass",
    "src/controllers/pricing.rs",
    "src/operator/",
    "src/pricing/",
    "src/telemetry/cloud.rs",
    "src/webhook/",
];

/// Files that name the provider's objects, and why they may.
const NAMES: &[(&str, &str)] = &[
    ("src/api/conditions", "the condition types of the node class"),
    ("src/api/crd/", "the node class is one of the generated resources"),
    ("src/api/labels.rs", "the label keys of the provider"),
    ("src/api/mod.rs", "re-exports and documents the node class"),
    ("src/cloud/mod.rs", "declares the provider's module"),
];

#[test]
fn the_core_does_not_know_rackspace() {
    let words = Regex::new(r"(?i)rackspace|cloudspace|server_?class|\bbids?\b|_bids?\b|\bbid_").unwrap();
    let mut found = Vec::new();
    for source in rust_files(&["src"]) {
        let allowed = PLACES.iter().any(|place| source.path.starts_with(place))
            || NAMES.iter().any(|(file, _)| source.path.starts_with(file));
        if allowed {
            continue;
        }
        for (index, line) in source.product().filter(|(_, line)| words.is_match(line)) {
            found.push(format!("{}: {}", source.at(index), line.trim()));
        }
    }
    assert_none(&found, "Rackspace's words outside their places:");
}
