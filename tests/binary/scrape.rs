//! A scrape of the running operator against what upstream showed while it ran (`tests/data/observed/metrics.json`).
//!
//! When it differs: see `tests/surface/metrics.rs`; this is the same table for whatever really has series.

use std::collections::{BTreeMap, BTreeSet};

/// Labels of the observed run's own provider.
const OTHER_PROVIDER: &str =
    "karpenter_kwok_sh_kwoknodeclass instance_cpu instance_family instance_memory instance_size";
const OUR_CLASS: &str = "karpenter_rackspace_com_rackspacespotnodeclass";

#[derive(Default)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
}

/// Checks types and label names of every family that upstream has too, and that no family has two headers or samples without one.
pub fn assert_is_as_upstream_shows_it(text: &str) {
    let observed: Vec<serde_json::Value> = serde_json::from_str(include_str!("../data/observed/metrics.json")).unwrap();
    for (name, family) in families(text) {
        let Some(theirs) = observed.iter().find(|theirs| theirs["name"] == *name) else {
            continue;
        };
        assert_eq!(theirs["type"], *family.kind, "type of {name}");
        let theirs = theirs["labels"].as_object().unwrap().keys();
        let expected: BTreeSet<&str> = theirs
            .map(String::as_str)
            .filter(|label| !OTHER_PROVIDER.contains(label))
            .collect();
        let ours: BTreeSet<&str> = family
            .labels
            .iter()
            .map(String::as_str)
            .filter(|label| *label != OUR_CLASS)
            .collect();
        assert_eq!(ours, expected, "labels of {name}");
    }
}

fn families(text: &str) -> BTreeMap<String, Family> {
    let mut all: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            let known = all.insert(
                name.to_owned(),
                Family {
                    kind: kind.to_owned(),
                    labels: BTreeSet::new(),
                },
            );
            assert!(known.is_none(), "{name} is declared twice");
        } else if !line.starts_with('#') && !line.is_empty() {
            let name = line.split(['{', ' ']).next().unwrap();
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix));
            let base = base.filter(|base| all.contains_key(*base)).unwrap_or(name).to_owned();
            let family = all.get_mut(&base).unwrap_or_else(|| panic!("{line} has no type"));
            family.labels.extend(label_names(line));
        }
    }
    all
}

/// Label names of a sample, without those that belong to its type.
fn label_names(line: &str) -> Vec<String> {
    let Some((_, rest)) = line.split_once('{') else {
        return Vec::new();
    };
    let labels = rest.rsplit_once('}').unwrap().0;
    let names = labels
        .split("\",")
        .filter_map(|label| Some(label.split_once("=\"")?.0.to_owned()));
    names.filter(|name| name != "le" && name != "quantile").collect()
}
