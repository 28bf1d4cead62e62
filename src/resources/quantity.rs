//! A Kubernetes quantity: a decimal number down to nano, and the way it likes to be written.
//!
//! Decides how quantities are parsed, compared, added and printed (scheduling 8-6). Relies on nothing. Called by whatever reads or sums
//! resources.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

const NANO: i128 = 1_000_000_000;
/// What a number too large to hold becomes. Far beyond any machine, and sums of many still fit.
const LIMIT: i128 = i128::MAX / (1 << 20);
/// A value with a binary suffix is cut to this many units, as Kubernetes does.
const BINARY_LIMIT: i128 = (i64::MAX as i128) * NANO;

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `1Gi`
    BinarySi,
    /// `1G`, `100m`
    #[default]
    DecimalSi,
}

/// An exact quantity. Comparison and equality look at the number only, never at the spelling.
#[derive(Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a quantity such as 500m, 2 or 4Gi")]
pub struct ParseQuantityError {
    text: String,
}

/// The parts of a quantity's text: its digits and what they are multiplied with.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    /// The base is 2 for binary suffixes, else 10.
    exponent: i32,
    format: Format,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let (exponent, format) = suffix_meaning(suffix)?;
        Some(Self {
            negative,
            whole: whole.trim_start_matches('0'),
            fraction: fraction.trim_end_matches('0'),
            exponent,
            format,
        })
    }
}

fn suffix_meaning(suffix: &str) -> Option<(i32, Format)> {
    let decimal = |exponent| Some((exponent, Format::DecimalSi));
    let binary = |exponent| Some((exponent, Format::BinarySi));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = digits.parse().ok()?;
            Some((exponent, Format::DecimalExponent))
        }
    }
}

/// The number with `digits`, of which the first `point` are before the point, times `factor`: in nanos, rounded away from zero, cut at [`LIMIT`].
/// `point` may lie outside the digits; zeros are meant there. Exact however many digits there are.
fn scaled(digits: &str, point: i64, factor: i128) -> i128 {
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return 0;
    }
    let point = point.saturating_sub(i64::try_from(digits.len() - significant.len()).unwrap_or(i64::MAX));
    // 10^40 units are beyond the limit, 10^-40 of the largest factor are far below a nano.
    if !(-40..=40).contains(&point) {
        return if point > 0 { LIMIT } else { 1 };
    }
    let unit = factor.saturating_mul(NANO);
    let leading = usize::try_from(-point).unwrap_or(0);
    let whole = usize::try_from(point).unwrap_or(0);
    let all = std::iter::repeat_n(b'0', leading).chain(significant.bytes());
    let before = all.clone().chain(std::iter::repeat(b'0')).take(whole);
    let value = before.fold(0_i128, |value, digit| {
        value.saturating_mul(10).saturating_add(i128::from(digit - b'0'))
    });
    // From the last digit on, each step divides by ten: what is cut off on the way only says that something is left over.
    let after: Vec<u8> = all.skip(whole).collect();
    let (fraction, rest) = after.iter().rev().fold((0_i128, false), |(sum, rest), digit| {
        let sum = sum + i128::from(digit - b'0') * unit;
        (sum / 10, rest || sum % 10 != 0)
    });
    value
        .saturating_mul(unit)
        .saturating_add(fraction + i128::from(rest))
        .min(LIMIT)
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::DecimalSi,
    };

    /// So many whole units.
    pub const fn units(value: i64) -> Self {
        Self {
            nanos: value as i128 * NANO,
            format: Format::DecimalSi,
        }
    }

    /// So many thousandths.
    pub const fn millis(value: i64) -> Self {
        Self {
            nanos: value as i128 * 1_000_000,
            format: Format::DecimalSi,
        }
    }

    /// So many bytes, written with binary suffixes.
    pub const fn bytes(value: i64) -> Self {
        Self {
            nanos: value as i128 * NANO,
            format: Format::BinarySi,
        }
    }

    /// So many billionths, written as `format` says. Beyond any machine's size it is cut.
    pub fn from_nanos(nanos: i128, format: Format) -> Self {
        Self {
            nanos: nanos.clamp(-LIMIT, LIMIT),
            format,
        }
    }

    /// The exact value in billionths.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// How it is written.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Whether it is exactly nothing.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below nothing.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whole units, a part of one counted as one more (away from zero), cut to what an `i64` holds.
    ///
    /// Differs: upstream answers beyond the range of an `i64` are accidents of overflow.
    pub fn value(self) -> i64 {
        clamp_i64(divide_away(self.nanos, NANO))
    }

    /// Thousandths, rounded away from zero, cut to what an `i64` holds.
    pub fn milli_value(self) -> i64 {
        clamp_i64(divide_away(self.nanos, 1_000_000))
    }

    /// A floating approximation, for metrics and shares only.
    #[allow(clippy::cast_precision_loss)] // an approximation is what is asked for
    pub fn approximate(self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// Parses a quantity as the Kubernetes API does.
    pub fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        let parts = Parts::split(text).ok_or_else(|| ParseQuantityError { text: text.to_owned() })?;
        let digits = [parts.whole, parts.fraction].concat();
        let point = i64::try_from(parts.whole.len()).unwrap_or(i64::MAX);
        let nanos = if parts.format == Format::BinarySi {
            scaled(&digits, point, 1_i128 << parts.exponent).min(BINARY_LIMIT)
        } else {
            scaled(&digits, point.saturating_add(parts.exponent.into()), 1)
        };
        Ok(Self {
            nanos: if parts.negative { -nanos } else { nanos },
            format: parts.format,
        })
    }

    /// What Kubernetes prints for a value that was parsed from `text` and not calculated with: the spelling is kept where its decimal
    /// exponent is already one of the suffixes and no thousands can be folded, else the canonical form.
    pub fn text_as_read(self, text: &str) -> String {
        let keeps = Parts::split(text).is_some_and(|parts| {
            let exponent = i64::from(parts.exponent) - i64::try_from(parts.fraction.len()).unwrap_or(0);
            let digits = [parts.whole, parts.fraction].concat();
            parts.format != Format::BinarySi
                && exponent % 3 == 0
                && exponent >= -9
                && !digits.is_empty()
                && digits.len() <= 18
                && !digits.ends_with("000")
        });
        if keeps { text.to_owned() } else { self.to_string() }
    }
}

fn clamp_i64(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn divide_away(value: i128, by: i128) -> i128 {
    value / by + (value % by).signum()
}

impl std::ops::Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self::from_nanos(self.nanos.saturating_add(other.nanos), format)
    }
}

impl std::ops::Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self::from_nanos(self.nanos.saturating_sub(other.nanos), format)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SI: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANO == 0;
        if self.format == Format::BinarySi && whole && self.nanos.abs() >= 1024 * NANO {
            let (mantissa, folded) = fold(self.nanos / NANO, 1024, BINARY.len() - 1);
            return write!(f, "{mantissa}{}", BINARY.get(folded).copied().unwrap_or_default());
        }
        if self.format == Format::DecimalExponent {
            let (mantissa, folded) = fold(self.nanos, 1000, usize::MAX);
            let exponent = i64::try_from(folded).unwrap_or(0) * 3 - 9;
            return if exponent == 0 {
                write!(f, "{mantissa}")
            } else {
                write!(f, "{mantissa}e{exponent}")
            };
        }
        let (mantissa, folded) = fold(self.nanos, 1000, SI.len() - 1);
        write!(f, "{mantissa}{}", SI.get(folded).copied().unwrap_or_default())
    }
}

/// Takes `factor` out of `value` as often as it divides, at most `times`.
fn fold(mut value: i128, factor: i128, times: usize) -> (i128, usize) {
    let mut folded = 0;
    while folded < times && value % factor == 0 {
        value /= factor;
        folded += 1;
    }
    (value, folded)
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Text(String),
            Whole(i64),
            Float(f64),
        }
        let text = match Raw::deserialize(deserializer)? {
            Raw::Text(text) => text,
            Raw::Whole(value) => value.to_string(),
            Raw::Float(value) => value.to_string(),
        };
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> for Quantity {
    type Error = ParseQuantityError;

    fn try_from(quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> Result<Self, Self::Error> {
        Self::parse(&quantity.0)
    }
}

impl From<Quantity> for k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

#[cfg(test)]
mod tests;
