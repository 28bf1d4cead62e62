//! The columns that kubectl prints: of a CRD from its definition, of built-in kinds from the printers in [`super::printers`].
//!
//! Relies on [`super::columns`] for the simplified JSON paths. Called by [`super::render`].

use super::columns;
use super::kinds::{Origin, Resource};
use super::object;
use super::printers;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

/// The column definitions of a kind.
pub(crate) fn definitions(resource: &Resource) -> Value {
    let name = json!({ "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0 });
    let define = |name: &str, kind: &str, priority: i64| json!({ "name": name, "type": kind, "format": "", "description": "", "priority": priority });
    let mut all = vec![name];
    match &resource.origin {
        Origin::Custom(_) if resource.columns.is_empty() => all.push(define("Age", "date", 0)),
        Origin::Custom(_) => all.extend(resource.columns.iter().map(|c| define(&c.name, &c.kind, c.priority))),
        Origin::BuiltIn(_) => {
            let columns = printers::of(&resource.kind);
            if columns.first().is_some_and(|c| c.name == "Last Seen") {
                // Events are printed without their names.
                all.clear();
            }
            all.extend(columns.iter().map(|c| define(c.name, c.kind, c.priority)));
        }
    }
    Value::Array(all)
}

/// One row's cells.
pub(crate) fn cells(resource: &Resource, object: &Value, now: DateTime<Utc>) -> Value {
    let name = Value::from(object::name(object));
    let mut all = vec![name];
    match &resource.origin {
        Origin::Custom(_) if resource.columns.is_empty() => all.push(age(object, now)),
        Origin::Custom(_) => {
            for column in &resource.columns {
                let found = columns::evaluate(&column.path, object);
                all.push(custom_cell(&column.kind, &found, now));
            }
        }
        Origin::BuiltIn(_) => {
            let columns = printers::of(&resource.kind);
            if columns.first().is_some_and(|c| c.name == "Last Seen") {
                all.clear();
            }
            all.extend(columns.iter().map(|c| (c.print)(object, now)));
        }
    }
    Value::Array(all)
}

fn custom_cell(kind: &str, found: &[&Value], now: DateTime<Utc>) -> Value {
    match (kind, found) {
        (_, []) => Value::Null,
        ("date", [Value::String(text), ..]) => since(text, now),
        ("integer" | "number", [number @ Value::Number(_), ..]) => (*number).clone(),
        ("boolean", [flag @ Value::Bool(_), ..]) => (*flag).clone(),
        (_, many) => {
            let text = |v: &&Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            Value::from(many.iter().map(text).collect::<Vec<String>>().join(","))
        }
    }
}

/// The age of an object.
pub(crate) fn age(object: &Value, now: DateTime<Utc>) -> Value {
    since(object::text(object, "/metadata/creationTimestamp"), now)
}

/// The time since an instant, as kubectl writes it.
pub(crate) fn since(text: &str, now: DateTime<Utc>) -> Value {
    match object::parse_time(text) {
        Some(at) => Value::from(human(now.signed_duration_since(at))),
        None => Value::from("<unknown>"),
    }
}

/// A duration in the two most telling units, as upstream's `HumanDuration`.
pub(crate) fn human(duration: TimeDelta) -> String {
    let seconds = duration.num_seconds();
    let (minutes, hours, days) = (duration.num_minutes(), duration.num_hours(), duration.num_days());
    let rest = |value: i64, of: i64| value.checked_rem(of).unwrap_or(0);
    let pair = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".into(),
        -1..=0 => "0s".into(),
        1..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", rest(seconds, 60), "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", rest(minutes, 60), "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", rest(hours, 24), "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days.checked_div(365).unwrap_or(0), "y", rest(days, 365), "d"),
        _ => format!("{}y", days.checked_div(365).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        for (seconds, wanted) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (601, "10m"),
            (7300, "121m"),
            (10_900, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
        ] {
            assert_eq!(human(TimeDelta::seconds(seconds)), wanted, "{seconds}");
        }
    }
}
