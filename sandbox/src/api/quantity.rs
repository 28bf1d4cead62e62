//! Quantities as the API server writes them back: `1000m` becomes `1`, `1024Mi` becomes `1Gi`, a number becomes text.
//!
//! Only for built-in kinds; custom kinds keep the user's spelling. Exact: integers only, nothing is rounded but what is finer than nano.

use serde_json::Value;

/// The fields that hold resource lists.
const AMOUNTS: [&str; 6] = [
    "requests",
    "limits",
    "capacity",
    "allocatable",
    "overhead",
    "allocatedResources",
];

/// Canonicalises every resource list in an object.
pub(crate) fn canonical_in(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                if AMOUNTS.contains(&key.as_str())
                    && let Value::Object(list) = child
                {
                    list.values_mut().for_each(canonicalise);
                } else {
                    canonical_in(child);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(canonical_in),
        _ => {}
    }
}

/// Makes text of the numbers in resource lists, which the typed form only knows as text.
pub(crate) fn numbers_to_text(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                if AMOUNTS.contains(&key.as_str())
                    && let Value::Object(list) = child
                {
                    for amount in list.values_mut() {
                        if let Value::Number(number) = amount {
                            *amount = Value::String(number.to_string());
                        }
                    }
                } else if key == "sizeLimit"
                    && let Value::Number(number) = child
                {
                    *child = Value::String(number.to_string());
                } else if key != "drivers" {
                    // A CSINode's drivers have an `allocatable` too, but its count is a plain integer.
                    numbers_to_text(child);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(numbers_to_text),
        _ => {}
    }
}

fn canonicalise(value: &mut Value) {
    if let Value::String(text) = value
        && let Some(canonical) = canonical(text)
    {
        *text = canonical;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Binary,
    Decimal,
    Exponent,
}

/// The canonical text, or `None` when the text is not a quantity (or far too large to be one).
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (nano, style) = parse(text)?;
    let negative = nano < 0;
    let nano = nano.checked_abs()?;
    let body = match style {
        Style::Binary if nano.checked_rem(NANO)? == 0 => binary(nano.checked_div(NANO)?),
        Style::Exponent => exponent(nano),
        _ => decimal(nano),
    };
    Some(if negative { format!("-{body}") } else { body })
}

const NANO: i128 = 1_000_000_000;

fn parse(text: &str) -> Option<(i128, Style)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let (multiplier, divisor, style) = scale(suffix)?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let places = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let top = digits.checked_mul(multiplier)?.checked_mul(NANO)?;
    let bottom = places.checked_mul(divisor)?;
    // Finer than nano is rounded up, as upstream.
    let nano = top.checked_add(bottom.checked_sub(1)?)?.checked_div(bottom)?;
    let style = if style == Style::Binary && nano.checked_rem(NANO)? != 0 {
        Style::Decimal
    } else {
        style
    };
    Some((if negative { nano.checked_neg()? } else { nano }, style))
}

fn scale(suffix: &str) -> Option<(i128, i128, Style)> {
    let binary = |power: u32| Some((1024_i128.checked_pow(power)?, 1, Style::Binary));
    let thousand = |power: u32| Some((1000_i128.checked_pow(power)?, 1, Style::Decimal));
    match suffix {
        "" => thousand(0),
        "n" => Some((1, NANO, Style::Decimal)),
        "u" => Some((1, 1_000_000, Style::Decimal)),
        "m" => Some((1, 1000, Style::Decimal)),
        "k" => thousand(1),
        "M" => thousand(2),
        "G" => thousand(3),
        "T" => thousand(4),
        "P" => thousand(5),
        "E" => thousand(6),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        other => {
            let power: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let factor = 10_i128.checked_pow(power.unsigned_abs())?;
            Some(if power < 0 {
                (1, factor, Style::Exponent)
            } else {
                (factor, 1, Style::Exponent)
            })
        }
    }
}

fn shrink(mut amount: i128, base: i128, suffixes: &[&'static str]) -> (i128, &'static str) {
    let mut suffix = suffixes.first().copied().unwrap_or_default();
    for next in suffixes.iter().skip(1) {
        match (amount.checked_rem(base), amount.checked_div(base)) {
            (Some(0), Some(smaller)) if amount != 0 => {
                amount = smaller;
                suffix = next;
            }
            _ => break,
        }
    }
    (amount, suffix)
}

fn binary(amount: i128) -> String {
    // Below 1024 upstream writes binary amounts as plain numbers.
    let (amount, suffix) = shrink(amount, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]);
    format!("{amount}{suffix}")
}

fn decimal(nano: i128) -> String {
    if nano == 0 {
        return "0".into();
    }
    let (amount, suffix) = shrink(nano, 1000, &["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]);
    format!("{amount}{suffix}")
}

fn exponent(nano: i128) -> String {
    if nano == 0 {
        return "0".into();
    }
    let suffixes = ["e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"];
    let (amount, suffix) = shrink(nano, 1000, &suffixes);
    format!("{amount}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_the_api_server_writes_them() {
        for (text, wanted) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000Mi", "1000Mi"),
            ("0", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("2e3", "2e3"),
            ("-1", "-1"),
            ("128974848", "128974848"),
            ("0.1n", "1n"),
            ("16Gi", "16Gi"),
            ("16777216Ki", "16Gi"),
            ("110", "110"),
            ("1.25", "1250m"),
            ("0Ki", "0"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(wanted), "{text}");
        }
        for bad in [
            "",
            "x",
            "1.2.3",
            "1Kib",
            "e3",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
