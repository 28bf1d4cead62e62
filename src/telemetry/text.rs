//! The Prometheus text format for the families that we keep ourselves.
//!
//! Used by [`SeriesStore`](super::SeriesStore) and [`Summaries`](super::Summaries); the families kept by the `prometheus` crate are written by it.

use chrono::{DateTime, Utc};
use std::fmt::Write as _;

/// Writes the two comment lines that open a family.
pub(super) fn header(out: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a String cannot fail; the result is the formatter's, here and below.
    let _ = writeln!(out, "# HELP {name} {}", help.replace('\\', "\\\\").replace('\n', "\\n"));
    let _ = writeln!(out, "# TYPE {name} {kind}");
}

/// Appends a label value, escaped.
pub(super) fn escape(out: &mut String, value: &str) {
    let mut rest = value;
    // nearly all values have nothing to escape
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = special.chars();
        out.push_str(match characters.next() {
            Some('\\') => "\\\\",
            Some('"') => "\\\"",
            _ => "\\n",
        });
        rest = characters.as_str();
    }
    out.push_str(rest);
}

/// Escaped label values joined by newlines, of which an escaped value has none.
pub(super) fn joined<const N: usize>(values: [&str; N]) -> Box<str> {
    let mut joined = String::with_capacity(values.iter().map(|value| value.len() + 1).sum());
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            joined.push('\n');
        }
        escape(&mut joined, value);
    }
    joined.into()
}

/// Appends one sample; the label values are already escaped.
pub(super) fn sample<'a>(out: &mut String, name: &str, labels: impl Iterator<Item = (&'a str, &'a str)>, value: f64) {
    out.push_str(name);
    let mut opened = false;
    for (label, escaped) in labels {
        out.push(if opened { ',' } else { '{' });
        opened = true;
        out.push_str(label);
        out.push_str("=\"");
        out.push_str(escaped);
        out.push('"');
    }
    if opened {
        out.push('}');
    }
    out.push(' ');
    number(out, value);
    out.push('\n');
}

/// Appends one sample; the label values are escaped on the way.
pub(super) fn raw_sample<'a>(
    out: &mut String,
    name: &str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    value: f64,
) {
    out.push_str(name);
    let mut opened = false;
    for (label, text) in labels {
        out.push(if opened { ',' } else { '{' });
        opened = true;
        out.push_str(label);
        out.push_str("=\"");
        escape(out, text);
        out.push('"');
    }
    if opened {
        out.push('}');
    }
    out.push(' ');
    number(out, value);
    out.push('\n');
}

/// An instant as the number that ages are counted from.
#[allow(clippy::cast_precision_loss)] // microseconds of this century, below 2^52
pub(super) fn instant(at: DateTime<Utc>) -> f64 {
    at.timestamp_micros() as f64 / 1e6
}

/// Seconds since then, never negative: clocks of other machines may be ahead of ours.
pub(super) fn age(since: f64, now: DateTime<Utc>) -> f64 {
    let exact = (instant(now) - since).max(0.0);
    // milliseconds: what a subtraction leaves below them is noise
    (exact * 1e3).round() / 1e3
}

/// Appends a number in the spelling that every Prometheus parser takes.
fn number(out: &mut String, value: f64) {
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else {
        let _ = write!(out, "{value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_quotes_backslashes_and_newlines_stays_on_one_line() {
        let mut out = String::new();
        escape(&mut out, "a\"b\\c\nd");
        assert_eq!(out, "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn a_sample_without_labels_has_no_braces() {
        let mut out = String::new();
        sample(&mut out, "up", std::iter::empty(), 1.0);
        sample(&mut out, "up", std::iter::empty(), f64::NAN);
        assert_eq!(out, "up 1\nup NaN\n");
    }
}
