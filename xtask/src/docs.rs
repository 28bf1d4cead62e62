//! The reference in docs/reference: settings, metrics, Events and conditions from the code, chart values from the chart; and the chart's values once
//! more for its templates.

use crate::Output;
use anyhow::{Context, Result};
use karpenter::operator::reference::{conditions_table, events_table, metrics_table, settings_table};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const VALUES: &str = "charts/karpenter/values.yaml";
/// Templates cannot read `values.yaml`, and need it where helm does not lay it under the user's values.
const DEFAULTS: &str = "charts/karpenter/files/defaults.yaml";
const MARK: &str = "<!-- Written by `make generate`. Do not edit. -->\n\n";

/// Every page.
pub(crate) fn outputs(root: &Path) -> Result<Vec<Output>> {
    let values = fs::read_to_string(root.join(VALUES)).with_context(|| format!("reading {VALUES}"))?;
    let pages = [
        ("settings", settings_table()),
        ("metrics", metrics_table()?),
        ("events", events_table()),
        ("conditions", conditions_table()),
        ("chart-values", format!("{MARK}{}", values_table(&values))),
    ];
    let page = |(name, content)| Output {
        path: Path::new("docs/reference").join(format!("{name}.md")),
        content,
    };
    let mut all = Vec::from(pages.map(page));
    all.push(Output {
        path: DEFAULTS.into(),
        content: format!("# Written by `make generate` from values.yaml, for templates, which cannot read that. Do not edit.\n{values}"),
    });
    Ok(all)
}

/// One value of the chart.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    path: String,
    default: String,
    meaning: String,
}

/// Reads keys, defaults and the comments right above them. A list or map that is written in one line is a default; a map of several lines is its
/// parts, and has a row of its own only where it has a comment.
fn rows(values: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut comment = String::new();
    for line in values.lines() {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        if let Some(words) = text.strip_prefix('#') {
            let gap = if comment.is_empty() { "" } else { " " };
            comment.push_str(gap);
            comment.push_str(words.trim());
            continue;
        }
        let Some((key, default)) = text.split_once(':') else {
            comment.clear();
            continue;
        };
        open.retain(|(of, _)| *of < depth);
        open.push((depth, key));
        let default = default.trim();
        if !default.is_empty() || !comment.is_empty() {
            rows.push(Row {
                path: open.iter().map(|(_, key)| *key).collect::<Vec<_>>().join("."),
                default: default.to_owned(),
                meaning: std::mem::take(&mut comment),
            });
        }
    }
    rows
}

fn values_table(values: &str) -> String {
    let mut out = String::from(
        "# Values of the chart\n\nValues of the Go operator's chart are accepted under the same names. What is not explained is what Kubernetes understands under that name.\n\n\
         | Value | Default | Meaning |\n| --- | --- | --- |\n",
    );
    for row in rows(values) {
        let default = if row.default.is_empty() {
            String::new()
        } else {
            format!("`{}`", row.default.replace('|', "\\|"))
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| `{}` | {default} | {} |",
            row.path,
            row.meaning.replace('|', "\\|")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_with_their_defaults_and_comments() {
        let text = "# The file.\n\n# How many.\nreplicas: 1\nimage:\n  # Empty: the\n  # chart's.\n  tag: \"\"\n  pull: [a, b]\nplain: {}\n";
        let row = |path: &str, default: &str, meaning: &str| Row {
            path: path.to_owned(),
            default: default.to_owned(),
            meaning: meaning.to_owned(),
        };
        let wanted = [
            row("replicas", "1", "How many."),
            row("image.tag", "\"\"", "Empty: the chart's."),
            row("image.pull", "[a, b]", ""),
            row("plain", "{}", ""),
        ];
        assert_eq!(rows(text), wanted);
    }
}
