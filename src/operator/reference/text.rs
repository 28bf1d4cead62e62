//! The tables as Markdown, for docs/reference.

use super::{CONDITIONS, ConditionRow, EVENTS};
use crate::k8s::metrics::BorderMetrics;
use crate::operator::build;
use crate::operator::process::PROCESS;
use crate::operator::settings::{Kind, SETTINGS, Setting};
use crate::telemetry::{Declaration, DeclareError, Exposition, Metrics};
use std::fmt::Write as _;

/// Every family that the operator can show, by name.
pub fn metrics() -> Result<Vec<Declaration>, MetricsError> {
    let exposition = Exposition::new();
    build::with_info(|info| Metrics::new(&exposition, info))?;
    let mut all = exposition.declarations();
    all.extend(BorderMetrics::declarations()?);
    all.extend(PROCESS.map(|(name, kind, help)| Declaration {
        name: name.to_owned(),
        kind,
        help: help.to_owned(),
        labels: Vec::new(),
        bounds: Vec::new(),
    }));
    all.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(all)
}

/// A family that is malformed: a defect.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// One of the operator's own.
    #[error(transparent)]
    Own(#[from] DeclareError),
    /// One of the Kubernetes border's.
    #[error("declaring the metrics of the Kubernetes border")]
    Border(#[from] prometheus::Error),
}

/// Families that `DISABLE_CLUSTER_STATE_OBSERVABILITY` leaves out (surface T28), by the beginning of their names.
const OBSERVABILITY: &[&str] = &[
    "karpenter_cluster_utilization_percent",
    "karpenter_nodepools_cost_total",
    "karpenter_nodepools_limit",
    "karpenter_nodepools_usage",
    "karpenter_nodes_allocatable",
    "karpenter_nodes_current_lifetime_seconds",
    "karpenter_nodes_system_overhead",
    "karpenter_nodes_total_",
    "karpenter_pods_bound_duration_seconds",
    "karpenter_pods_provisioning_bound_duration_seconds",
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "karpenter_pods_provisioning_startup_duration_seconds",
    "karpenter_pods_provisioning_unbound_time_seconds",
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "karpenter_pods_startup_duration_seconds",
    "karpenter_pods_state",
    "karpenter_pods_unbound_time_seconds",
    "karpenter_pods_unstarted_time_seconds",
    "operator_",
];

/// Whether `DISABLE_CLUSTER_STATE_OBSERVABILITY` leaves this family out.
pub fn describes_objects(family: &str) -> bool {
    OBSERVABILITY.iter().any(|start| family.starts_with(start))
}

/// docs/reference/metrics.md.
pub fn metrics_table() -> Result<String, MetricsError> {
    let mut out = String::from(
        "<!-- Written by `make generate`. Do not edit. -->\n\n# Metrics\n\nServed on `:<METRICS_PORT>/metrics` (8080) in the Prometheus text format, without authentication, by every replica.\n\
         A series appears with its first value and goes with the object that it describes. Families marked † are left out with\n\
         `DISABLE_CLUSTER_STATE_OBSERVABILITY=true`. Durations are seconds, memory is bytes, CPU is cores; `resource_type` is the resource's name\n\
         in lower case with underscores.\n\n| Metric | Type | Labels | Meaning |\n| --- | --- | --- | --- |\n",
    );
    for family in metrics()? {
        let mark = if describes_objects(&family.name) { " †" } else { "" };
        let labels = family.labels.join(", ");
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "| `{}`{mark} | {} | {labels} | {} |",
            family.name,
            family.kind.as_str(),
            cell(&family.help)
        );
    }
    Ok(out)
}

/// docs/reference/settings.md.
pub fn settings_table() -> String {
    let mut out = String::from(
        "<!-- Written by `make generate`. Do not edit. -->\n\n# Settings\n\nA flag wins over its variable, a variable over the default. Flags take one dash or two, `--x=v` or `--x v`; a boolean flag alone means\n\
         true. Settings without a flag are read from their variable only, and one of those that does not parse ends the start; a core variable\n\
         that does not parse as a number, boolean or duration counts as its default.\n\n\
         | Variable | Flag | Takes | Default | Meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for setting in SETTINGS {
        let flag = if setting.flag.is_empty() {
            String::new()
        } else {
            format!("`--{}`", setting.flag)
        };
        let default = if setting.default.is_empty() {
            String::new()
        } else {
            format!("`{}`", setting.default)
        };
        let _ = writeln!(
            out,
            "| `{}` | {flag} | {} | {default} | {} |",
            setting.variable,
            cell(&takes(setting)),
            cell(setting.help)
        );
    }
    out
}

fn takes(setting: &Setting) -> String {
    match setting.kind {
        Kind::Text => "text".to_owned(),
        Kind::Integer => "whole number".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Boolean => "true, false".to_owned(),
        Kind::Duration => "duration (`1h30m`)".to_owned(),
        Kind::Choice(words) => words
            .iter()
            .map(|word| {
                if word.is_empty() {
                    "empty".to_owned()
                } else {
                    format!("`{word}`")
                }
            })
            .collect::<Vec<_>>()
            .join(", "),
        Kind::Quantity => "quantity (`500m`, `1Gi`)".to_owned(),
        Kind::Secret => "secret, never shown".to_owned(),
    }
}

/// docs/reference/events.md.
pub fn events_table() -> String {
    let mut out = String::from(
        "<!-- Written by `make generate`. Do not edit. -->\n\n# Events\n\nCore v1 Events from the component `karpenter`, in the object's namespace, or in `default` for objects without one. What is the same as\n\
         an earlier Event is dropped for the time given; identical Events raise a count, and many similar ones are combined. What each one\n\
         means for you is in [the runbook](../runbook.md).\n\n| Reason | Type | On | Text | The same, and for how long | When |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in EVENTS {
        let texts: Vec<String> = row.messages.iter().map(|text| format!("`{}`", cell(text))).collect();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            row.reason,
            row.type_,
            row.objects.join(", "),
            texts.join("<br>"),
            cell(row.repeats),
            cell(row.when)
        );
    }
    out
}

/// docs/reference/conditions.md.
pub fn conditions_table() -> String {
    let mut out = String::from(
        "<!-- Written by `make generate`. Do not edit. -->\n\n# Conditions\n\n`Ready` follows from the others: True when those that it depends on are True, False when one is False, else Unknown, with a\n\
         message that lists the unhealthy ones. What each one means for you is in [the runbook](../runbook.md).\n",
    );
    let mut kind = "";
    for ConditionRow {
        kind: of,
        type_,
        status,
        reason,
        meaning,
    } in CONDITIONS
    {
        if *of != kind {
            kind = of;
            let _ = write!(
                out,
                "\n## {kind}\n\n| Type | Status | Reason | Meaning |\n| --- | --- | --- | --- |\n"
            );
        }
        let _ = writeln!(out, "| {type_} | {status} | `{reason}` | {} |", cell(meaning));
    }
    out
}

/// A text that does not end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
