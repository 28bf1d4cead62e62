//! Quantities as kube-scheduler counts them: cpu in thousandths, everything else whole, both rounded up.

/// A quantity in billionths.
pub(crate) fn billionths(text: &str) -> Option<i128> {
    let text = text.trim();
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let mut digits: i128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        digits = digits.checked_mul(10)?.checked_add(i128::from(digit.to_digit(10)?))?;
    }
    let places = i32::try_from(fraction.len()).ok()?;
    let (times, power) = scale(suffix)?;
    let value = shift(digits.checked_mul(times)?, power.checked_sub(places)?.checked_add(9)?)?;
    value.checked_mul(sign)
}

/// A factor, and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    let binary = |n: u32| 1024_i128.checked_pow(n).map(|f| (f, 0));
    match suffix {
        "" => Some((1, 0)),
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => suffix.strip_prefix(['e', 'E'])?.parse().ok().map(|power| (1, power)),
    }
}

/// Times a power of ten, rounded up.
fn shift(value: i128, power: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    if power >= 0 {
        value.checked_mul(factor?)
    } else {
        Some(factor.map_or(i128::from(value > 0), |f| ceil(value, f)))
    }
}

fn ceil(value: i128, by: i128) -> i128 {
    let whole = value.div_euclid(by);
    if value.rem_euclid(by) == 0 {
        whole
    } else {
        whole.saturating_add(1)
    }
}

/// A quantity of a named resource in the unit the scheduler counts it in; what cannot be read counts as 0.
pub(crate) fn units(resource: &str, text: &str) -> i64 {
    let unit = if resource == "cpu" { 1_000_000 } else { 1_000_000_000 };
    let value = ceil(billionths(text).unwrap_or(0), unit);
    i64::try_from(value).unwrap_or(if value > 0 { i64::MAX } else { i64::MIN })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_all_notations() {
        let cases = [
            ("1", 1000),
            ("100m", 100),
            ("0.1", 100),
            ("1.5", 1500),
            ("1u", 1),
            ("1n", 1),
            ("1e3", 1_000_000),
            ("2E-1", 200),
            ("1k", 1_000_000),
            (".5", 500),
            ("-1", -1000),
            ("+2", 2000),
            ("", 0),
            ("x", 0),
            ("1.2.3", 0),
            ("1Zi", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(units("cpu", text), expected, "{text}");
        }
        let cases = [
            ("1Ki", 1024),
            ("1.5Gi", 1_610_612_736),
            ("1E", 1_000_000_000_000_000_000),
            ("7Ei", 8_070_450_532_247_928_832),
            ("100Ei", i64::MAX),
            ("1m", 1),
            ("1024000m", 1024),
            ("0", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(units("memory", text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,12}", number in "[0-9]{0,30}(\\.[0-9]{0,30})?(e-?[0-9]{0,9}|[kMGTPE]i?)?") {
            let _ = (units("cpu", &text), units("memory", &number));
        }
    }
}
