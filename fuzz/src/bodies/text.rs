//! Texts of one line: quantities, durations, schedules; and the settings.

use chrono::{DateTime, TimeDelta, Utc};
use karpenter::api::nodepool::Budget;
use karpenter::api::{GoDuration, NillableDuration, SpelledDuration};
use karpenter::disruption::{budgets, cron::Schedule};
use karpenter::operator::{Environment, Options};
use karpenter::resources::{Format, Quantity};
use std::str::from_utf8;

/// A quantity is refused or keeps its value when it is written and read again.
pub(super) fn quantity(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let mut sum = Quantity::ZERO;
    for word in text.split_whitespace() {
        let Ok(read) = Quantity::parse(word) else { continue };
        let written = read.to_string();
        assert_eq!(
            Quantity::parse(&written).ok(),
            Some(read),
            "{word} was written as {written}"
        );
        assert_eq!(read.is_negative(), word.starts_with('-') && !read.is_zero(), "{word}");
        let _ = (
            read.value(),
            read.milli_value(),
            read.approximate(),
            read.text_as_read(word),
        );
        agrees_with_digits(word, read);
        sum = sum + read;
        sum = sum - Quantity::from_nanos(read.nanos() / 2, Format::BinarySi);
    }
    let _ = sum.to_string();
}

/// A plain decimal number of moderate size is read to the nano, rounded up, however many digits follow.
fn agrees_with_digits(word: &str, read: Quantity) {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 18 || !digits(whole) || !digits(fraction) {
        return;
    }
    let nine: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let rest = fraction.get(9..).unwrap_or_default().bytes().any(|byte| byte != b'0');
    let (Ok(whole), Ok(nanos)) = (whole.parse::<i128>(), nine.parse::<i128>()) else {
        return;
    };
    assert_eq!(read.nanos(), whole * 1_000_000_000 + nanos + i128::from(rest), "{word}");
}

/// A duration is refused with a word about it, or keeps its spelling.
pub(super) fn duration(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    match GoDuration::parse(text) {
        Ok(read) => {
            let _ = (read.as_std(), read.as_secs_f64());
            let _ = DateTime::UNIX_EPOCH.checked_add_signed(read.as_time_delta());
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.remedy().is_empty()),
    }
    if let Ok(spelled) = SpelledDuration::parse(text) {
        assert_eq!(spelled.as_str(), text);
        assert_eq!(GoDuration::parse(text), Ok(spelled.value()));
    }
    if let Ok(spelled) = NillableDuration::parse(text) {
        assert_eq!(spelled.as_str(), text);
        assert_eq!(spelled.is_never(), spelled.value().is_none());
    }
}

/// A schedule is refused, or names instants that lie ahead, in order; a budget by it allows a number or nothing.
pub(super) fn cron(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let (schedule, rest) = text.split_once('\n').unwrap_or((text, "1h"));
    let now = DateTime::from_timestamp(1_772_441_999, 999_999_999).unwrap_or_default();
    if let Ok(schedule) = Schedule::parse(schedule) {
        for start in [
            now,
            DateTime::UNIX_EPOCH,
            DateTime::<Utc>::MIN_UTC,
            DateTime::<Utc>::MAX_UTC,
        ] {
            let Some(first) = schedule.next_after(start) else {
                continue;
            };
            assert!(first > start, "{schedule:?} from {start}: {first}");
            // Nothing is skipped: asked a second earlier than the hit, it is the hit still.
            let before = first - TimeDelta::seconds(1);
            if before > start {
                let again = schedule.next_after(before);
                assert!(
                    again == Some(first) || text.trim_start().starts_with('@'),
                    "{schedule:?} from {before}: {again:?}"
                );
            }
        }
    }
    let (duration, nodes) = rest.split_once('\n').unwrap_or((rest, "10%"));
    let budget = Budget {
        nodes: nodes.to_owned(),
        schedule: Some(schedule.to_owned()),
        duration: SpelledDuration::parse(duration).ok(),
        ..Budget::default()
    };
    for count in [0, 7, usize::MAX] {
        match budgets::allowed(&budget, count, now) {
            Ok(allowed) => assert!((0..=budgets::UNLIMITED).contains(&allowed), "{allowed}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Settings, one `NAME=value` a line, are refused with the name of the setting, or read.
pub(super) fn settings(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let mut environment = Environment::from([
        ("SPOT_CLOUDSPACE_NAME", "space"),
        ("SPOT_REFRESH_TOKEN", "not-to-be-shown"),
    ]);
    let mut flags = Vec::new();
    for line in text.lines() {
        match line.split_once('=') {
            Some((name, value)) if !line.starts_with('-') && !name.ends_with("_FILE") => {
                environment = environment.with(name, value);
            }
            _ => flags.push(line.to_owned()),
        }
    }
    let alone = flags.is_empty();
    match Options::read(flags, &environment) {
        Ok(options) => assert!(!format!("{options:?}").contains("not-to-be-shown")),
        Err(error) => {
            let words = error.to_string();
            let names_it = text
                .lines()
                .filter_map(|line| line.split_once('='))
                .any(|(name, _)| words.contains(name));
            let gates = words.contains("feature gates");
            assert!(names_it || gates || !alone, "{words:?} names no setting");
            assert!(!words.contains("not-to-be-shown"));
        }
    }
}
