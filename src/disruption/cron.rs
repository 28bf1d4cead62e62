//! When a budget's window opens: schedules in the dialect that Karpenter's CRD documents.
//!
//! Five fields (minute, hour, day of month, month, day of week) or one of the `@` words, always UTC. The dialect is that of the library upstream
//! uses, quirks included, since users' schedules were written against it: `5/15` means from 5 on, `?` is `*`, days of the week run from 0 (Sunday)
//! to 6, a day matches if *either* day field does unless one of them is a star. No crate speaks it (docs/adr/0003), hence our own. Called by
//! `budgets`; never panics, never loops for more than five years of days.

use crate::api::GoDuration;
use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveTime, TimeDelta, Timelike, Utc};
use thiserror::Error;

/// How far ahead a hit is looked for; a schedule without one in this time never hits.
const HORIZON_YEARS: i32 = 5;

/// Why a schedule cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CronError {
    /// Not five fields.
    #[error("expected exactly 5 fields, found {found}: {fields}")]
    Fields {
        /// How many there are.
        found: usize,
        /// The fields, in brackets.
        fields: String,
    },
    /// Nothing at all.
    #[error("empty spec string")]
    Empty,
    /// An `@` word that is not known.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    /// A part of a field that is not a number or name.
    #[error("failed to parse int from {0}")]
    Number(String),
    /// More than one `-` in a range.
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    /// More than one `/` in a range.
    #[error("too many slashes: {0}")]
    Slashes(String),
    /// Outside the field's bounds, or reversed.
    #[error("{what}: {text}")]
    Range {
        /// What is wrong with the range.
        what: String,
        /// The range as written.
        text: String,
    },
}

/// A schedule, ready to be asked for its hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Every so often, counted from the asking instant.
    Every(TimeDelta),
    Fields(Fields),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fields {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

/// The values a field admits, a bit each, and whether it was written as a star.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Field {
    bits: u64,
    star: bool,
}

impl Field {
    fn has(self, value: u32) -> bool {
        self.bits & (1u64 << value.min(63)) != 0
    }
}

struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MINUTE: Bounds = Bounds {
    min: 0,
    max: 59,
    names: &[],
};
const HOUR: Bounds = Bounds {
    min: 0,
    max: 23,
    names: &[],
};
const DAY: Bounds = Bounds {
    min: 1,
    max: 31,
    names: &[],
};
const MONTH: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAY: Bounds = Bounds {
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Schedule {
    /// Reads a schedule.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(CronError::Empty);
        }
        if text.starts_with('@') {
            return descriptor(text).map(Self);
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts.as_slice() else {
            return Err(CronError::Fields {
                found: parts.len(),
                fields: format!("[{}]", parts.join(" ")),
            });
        };
        Ok(Self(Kind::Fields(Fields {
            minute: field(minute, &MINUTE)?,
            hour: field(hour, &HOUR)?,
            day: field(day, &DAY)?,
            month: field(month, &MONTH)?,
            weekday: field(weekday, &WEEKDAY)?,
        })))
    }

    /// The first hit strictly after `after`; `None` when there is none within five years.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match &self.0 {
            Kind::Every(step) => after.with_nanosecond(0)?.checked_add_signed(*step),
            Kind::Fields(fields) => fields.next_after(after),
        }
    }
}

impl Fields {
    fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let start = after
            .with_second(0)?
            .with_nanosecond(0)?
            .checked_add_signed(TimeDelta::minutes(1))?;
        let last_year = start.year().checked_add(HORIZON_YEARS)?;
        let mut date = start.date_naive();
        let mut from = start.time();
        while date.year() <= last_year {
            if self.admits(date)
                && let Some(time) = self.time_from(from)
            {
                return Some(date.and_time(time).and_utc());
            }
            date = date.checked_add_days(Days::new(1))?;
            from = NaiveTime::MIN;
        }
        None
    }

    /// A day is admitted if both day fields agree; when neither is a star, one of them is enough.
    fn admits(&self, date: NaiveDate) -> bool {
        let day = self.day.has(date.day());
        let weekday = self.weekday.has(date.weekday().num_days_from_sunday());
        let by_day = if self.day.star || self.weekday.star {
            day && weekday
        } else {
            day || weekday
        };
        self.month.has(date.month()) && by_day
    }

    fn time_from(&self, from: NaiveTime) -> Option<NaiveTime> {
        (from.hour()..=HOUR.max)
            .filter(|hour| self.hour.has(*hour))
            .find_map(|hour| {
                let first = if hour == from.hour() { from.minute() } else { 0 };
                let minute = (first..=MINUTE.max).find(|minute| self.minute.has(*minute))?;
                NaiveTime::from_hms_opt(hour, minute, 0)
            })
    }
}

fn descriptor(text: &str) -> Result<Kind, CronError> {
    let once = |bounds: &Bounds| Field {
        bits: 1 << bounds.min,
        star: false,
    };
    let all = |bounds: &Bounds| Field {
        bits: bits(bounds.min, bounds.max, 1),
        star: true,
    };
    let at = |day: Field, month: Field, weekday: Field, hour: Field| {
        Ok(Kind::Fields(Fields {
            minute: once(&MINUTE),
            hour,
            day,
            month,
            weekday,
        }))
    };
    match text {
        "@yearly" | "@annually" => at(once(&DAY), once(&MONTH), all(&WEEKDAY), once(&HOUR)),
        "@monthly" => at(once(&DAY), all(&MONTH), all(&WEEKDAY), once(&HOUR)),
        "@weekly" => at(all(&DAY), all(&MONTH), once(&WEEKDAY), once(&HOUR)),
        "@daily" | "@midnight" => at(all(&DAY), all(&MONTH), all(&WEEKDAY), once(&HOUR)),
        "@hourly" => at(all(&DAY), all(&MONTH), all(&WEEKDAY), all(&HOUR)),
        _ => text
            .strip_prefix("@every ")
            .and_then(|duration| GoDuration::parse(duration).ok())
            // whole seconds, at least one
            .map(|step| Kind::Every(TimeDelta::seconds(step.as_time_delta().num_seconds().max(1))))
            .ok_or_else(|| CronError::Descriptor(text.to_owned())),
    }
}

/// A comma-separated list of ranges; empty elements are passed over.
fn field(text: &str, bounds: &Bounds) -> Result<Field, CronError> {
    let mut whole = Field::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let part = range(part, bounds)?;
        whole.bits |= part.bits;
        whole.star |= part.star;
    }
    Ok(whole)
}

/// `number`, `number-number`, `*`, each with an optional `/step`.
fn range(text: &str, bounds: &Bounds) -> Result<Field, CronError> {
    let out_of_range = |what: String| CronError::Range {
        what,
        text: text.to_owned(),
    };
    let (span, step) = match text.split_once('/') {
        None => (text, None),
        Some((_, step)) if step.contains('/') => return Err(CronError::Slashes(text.to_owned())),
        Some((span, step)) => (span, Some(number(step)?)),
    };
    let (first, rest) = match span.split_once('-') {
        None => (span, None),
        Some((first, rest)) => (first, Some(rest)),
    };
    let star = matches!(first, "*" | "?");
    let (start, end) = match (star, rest) {
        (true, _) => (bounds.min, bounds.max),
        (false, Some(rest)) if rest.contains('-') => return Err(CronError::Hyphens(text.to_owned())),
        (false, Some(rest)) => (value(first, bounds)?, value(rest, bounds)?),
        // `5/15`: from five on
        (false, None) if step.is_some() => (value(first, bounds)?, bounds.max),
        (false, None) => value(first, bounds).map(|only| (only, only))?,
    };
    if start < bounds.min {
        return Err(out_of_range(format!(
            "beginning of range ({start}) below minimum ({})",
            bounds.min
        )));
    }
    if end > bounds.max {
        return Err(out_of_range(format!(
            "end of range ({end}) above maximum ({})",
            bounds.max
        )));
    }
    if start > end {
        return Err(out_of_range(format!(
            "beginning of range ({start}) beyond end of range ({end})"
        )));
    }
    match step {
        Some(0) => Err(out_of_range("step of range should be a positive number".to_owned())),
        Some(step) => Ok(Field {
            bits: bits(start, end, step),
            star: star && step == 1,
        }),
        None => Ok(Field {
            bits: bits(start, end, 1),
            star,
        }),
    }
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, CronError> {
    let lower = text.to_ascii_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(index) => Ok(bounds.min.saturating_add(u32::try_from(index).unwrap_or(u32::MAX))),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, CronError> {
    text.parse().map_err(|_| CronError::Number(text.to_owned()))
}

fn bits(start: u32, end: u32, step: u32) -> u64 {
    let step = usize::try_from(step.max(1)).unwrap_or(usize::MAX);
    (start..=end.min(63))
        .step_by(step)
        .fold(0, |bits, value| bits | (1 << value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn instant(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn next(schedule: &str, after: &str) -> Option<DateTime<Utc>> {
        Schedule::parse(schedule).unwrap().next_after(instant(after))
    }

    #[test]
    fn a_hit_is_strictly_later() {
        assert_eq!(
            next("0 9 * * *", "2026-01-01T09:00:00Z"),
            Some(instant("2026-01-02T09:00:00Z"))
        );
        assert_eq!(
            next("0 9 * * *", "2026-01-01T08:59:59.999Z"),
            Some(instant("2026-01-01T09:00:00Z"))
        );
    }

    #[test]
    fn two_day_fields_without_a_star_are_an_or() {
        assert_eq!(
            next("0 12 15 * MON", "2028-01-08T18:07:01Z"),
            Some(instant("2028-01-10T12:00:00Z"))
        );
        assert_eq!(
            next("0 0 29 2 *", "2026-09-02T21:56:33Z"),
            Some(instant("2028-02-29T00:00:00Z"))
        );
    }

    #[test]
    fn a_single_number_with_a_step_runs_to_the_end() {
        assert_eq!(
            next("5/15 * * * *", "2026-01-01T00:21:00Z"),
            Some(instant("2026-01-01T00:35:00Z"))
        );
        assert_eq!(
            next("5/15 * * * *", "2026-01-01T00:50:00Z"),
            Some(instant("2026-01-01T01:05:00Z"))
        );
    }

    #[test]
    fn a_day_that_never_comes_is_no_hit() {
        assert_eq!(next("0 0 30 2 *", "2026-01-01T00:00:00Z"), None);
        assert_eq!(next(", * * * *", "2026-01-01T00:00:00Z"), None);
    }

    #[test]
    fn what_the_dialect_refuses() {
        for bad in [
            "",
            "* * * *",
            "60 * * * *",
            "0 0 0 0 0",
            "10-5 * * * *",
            "30 2 * * 7",
            "@reboot",
            "@every x",
            "*/0 * * * *",
            "0 0 * * tue-mon",
            "1/2/3 * * * *",
            "1-2-3 * * * *",
            "TZ=UTC * * * * *",
            "-1 * * * *",
            "L * * * *",
        ] {
            assert!(Schedule::parse(bad).is_err(), "{bad:?} must be refused");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_hits_are_later(text in "[@*?/,0-9a-zA-Z -]{0,24}", seconds in 0i64..4_000_000_000) {
            let now = DateTime::from_timestamp(seconds, 0).unwrap();
            if let Ok(schedule) = Schedule::parse(&text) && let Some(hit) = schedule.next_after(now) {
                prop_assert!(hit > now);
            }
        }
    }
}
