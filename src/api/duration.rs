//! Durations as Go writes them, the word `Never`, and the spelling that the user chose.
//!
//! Decides what a text means as a duration and how a duration is written. Relies on nothing; called by the types of this module, by the settings and
//! by whoever reads a duration from an annotation. Nothing here panics, whatever the text.
//!
//! ```text
//! duration = [sign] ( "0" | part+ )      part = digits [ "." [digits] ] unit  |  "." digits unit      unit = ns | us | µs | ms | s | m | h
//! ```

use chrono::TimeDelta;
use std::fmt;
use std::str::FromStr;

mod spelled;

pub use spelled::{NEVER, NillableDuration, SpelledDuration};

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not follow the grammar.
    #[error("invalid duration {text:?}: a number and one of the units h, m, s, ms, us, ns are expected, as in 1h30m")]
    Malformed {
        /// What was written.
        text: String,
    },
    /// A number has no unit.
    #[error("missing unit in duration {text:?}")]
    MissingUnit {
        /// What was written.
        text: String,
    },
    /// A unit is not one of Go's.
    #[error("unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// What was written.
        text: String,
        /// The unit in it.
        unit: String,
    },
    /// It is longer than about 292 years.
    #[error("duration {text:?} is out of range")]
    OutOfRange {
        /// What was written.
        text: String,
    },
}

impl DurationError {
    /// What to do about it: only the author of the text can.
    pub fn remedy(&self) -> &'static str {
        "write a duration such as 30s, 1h30m or 720h"
    }
}

const NANOSECOND: u64 = 1;
const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The digits after the point beyond which nothing below a nanosecond can change (an hour has 3.6 · 10^12 of them).
const FRACTION_DIGITS: u32 = 18;

/// A length of time in whole nanoseconds, negative ones included: up to about 292 years either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    nanos: i64,
}

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self { nanos: 0 };

    /// A duration of this many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// A duration of this many seconds; held at the greatest one if there are too many.
    pub const fn from_secs(seconds: i64) -> Self {
        Self {
            nanos: seconds.saturating_mul(1_000_000_000),
        }
    }

    /// Reads a duration.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        if unsigned == "0" {
            return Ok(Self::ZERO);
        }
        if unsigned.is_empty() {
            return Err(DurationError::Malformed { text: text.to_owned() });
        }
        let out_of_range = || DurationError::OutOfRange { text: text.to_owned() };
        let mut total: u64 = 0;
        let mut rest = unsigned;
        while !rest.is_empty() {
            let (part, after) = read_part(text, rest)?;
            total = total.checked_add(part).ok_or_else(out_of_range)?;
            rest = after;
        }
        let nanos = if negative {
            0_i64.checked_sub_unsigned(total)
        } else {
            0_i64.checked_add_unsigned(total)
        };
        nanos.map(Self::from_nanos).ok_or_else(out_of_range)
    }

    /// The number of nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.nanos
    }

    /// As chrono counts.
    pub const fn as_time_delta(self) -> TimeDelta {
        TimeDelta::nanoseconds(self.nanos)
    }

    /// As the standard library counts: a negative duration is none.
    pub fn as_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(0))
    }

    /// In seconds, for metrics and ratios.
    #[allow(clippy::cast_precision_loss)] // a metric needs no more than 53 bits
    pub fn as_secs_f64(self) -> f64 {
        self.nanos as f64 / 1e9
    }
}

/// Reads one number with its unit from the front of `rest`: its nanoseconds, and what follows. `text` is only for the error.
fn read_part<'t>(text: &str, rest: &'t str) -> Result<(u64, &'t str), DurationError> {
    let malformed = || DurationError::Malformed { text: text.to_owned() };
    let out_of_range = || DurationError::OutOfRange { text: text.to_owned() };
    let (whole, after_whole) = take_while(rest, |c| c.is_ascii_digit());
    let (fraction, after_number) = match after_whole.strip_prefix('.') {
        Some(after_point) => take_while(after_point, |c| c.is_ascii_digit()),
        None => ("", after_whole),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(malformed());
    }
    let (unit_text, after) = take_while(after_number, |c| c != '.' && !c.is_ascii_digit());
    let unit = match unit_text {
        "ns" => NANOSECOND,
        // the micro sign and the Greek letter mu
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        "" => return Err(DurationError::MissingUnit { text: text.to_owned() }),
        _ => {
            return Err(DurationError::UnknownUnit {
                text: text.to_owned(),
                unit: unit_text.to_owned(),
            });
        }
    };
    let count: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| out_of_range())?
    };
    let nanos = count
        .checked_mul(unit)
        .and_then(|nanos| nanos.checked_add(fraction_of(fraction, unit)))
        // one more than the greatest positive value: the most negative duration has that size
        .filter(|nanos| *nanos <= 1 << 63)
        .ok_or_else(out_of_range)?;
    Ok((nanos, after))
}

/// The whole nanoseconds in `0.<digits>` of a unit.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let mut numerator: u128 = 0;
    let mut scale: u128 = 1;
    for digit in digits
        .chars()
        .filter_map(|c| c.to_digit(10))
        .take(FRACTION_DIGITS as usize)
    {
        numerator = numerator * 10 + u128::from(digit);
        scale *= 10;
    }
    u64::try_from(numerator * u128::from(unit) / scale).unwrap_or(0)
}

fn take_while(text: &str, accept: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !accept(c)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

impl fmt::Display for GoDuration {
    /// As Go writes it: `1h30m0s`, `1.5s`, `250ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.nanos.unsigned_abs();
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        match size {
            0 => f.write_str("0s"),
            _ if size < MICROSECOND => write!(f, "{size}ns"),
            _ if size < MILLISECOND => write!(
                f,
                "{}µs",
                Decimal {
                    value: size,
                    unit: MICROSECOND
                }
            ),
            _ if size < SECOND => write!(
                f,
                "{}ms",
                Decimal {
                    value: size,
                    unit: MILLISECOND
                }
            ),
            _ => {
                let (hours, minutes) = (size / HOUR, size % HOUR / MINUTE);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(
                    f,
                    "{}s",
                    Decimal {
                        value: size % MINUTE,
                        unit: SECOND
                    }
                )
            }
        }
    }
}

/// A number of nanoseconds, written in a unit with as many digits after the point as it needs.
struct Decimal {
    value: u64,
    unit: u64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.value / self.unit, self.value % self.unit);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let width = self.unit.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl From<GoDuration> for TimeDelta {
    fn from(duration: GoDuration) -> Self {
        duration.as_time_delta()
    }
}

#[cfg(test)]
mod tests;
