//! The string formats that the API server checks.
//!
//! Unknown formats are not checked, as upstream. Called by [`super::structural`].

use chrono::{DateTime, NaiveDate};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a text has a format.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => DateTime::parse_from_rfc3339(text).is_ok(),
        "date" => NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => uuid::Uuid::parse_str(text).is_ok(),
        "byte" => is_base64(text),
        "duration" => is_duration(text),
        _ => true,
    }
}

fn is_base64(text: &str) -> bool {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// Go's duration grammar, reduced: numbers with units.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0_u32;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at_checked(end).unwrap_or(("", ""));
        let unit = ["ns", "us", "µs", "ms", "s", "m", "h"]
            .iter()
            .find(|u| tail.starts_with(**u));
        let (Some(unit), true) = (unit, number.chars().any(|c| c.is_ascii_digit())) else {
            return false;
        };
        rest = tail.strip_prefix(*unit).unwrap_or_default();
        parts = parts.saturating_add(1);
    }
    parts > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        assert!(fits("date-time", "2024-01-01T00:00:00Z") && !fits("date-time", "yesterday"));
        assert!(fits("duration", "1h30m") && fits("duration", "0") && !fits("duration", "h") && !fits("duration", ""));
        assert!(fits("byte", "aGk=") && !fits("byte", "?"));
        assert!(fits("something-else", "?"));
    }
}
