//! Texts of settings as Go reads them.
//!
//! Users carry their flags and variables over from the Go operator, so what was a number there must be the same number here. Called by
//! [`Options`](super::Options) and [`Gates`](super::Gates).

/// A boolean in one of Go's forms.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A whole number of a variable: decimal digits with an optional sign.
pub(super) fn decimal(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// A whole number of a flag, where Go also takes the prefixes `0x`, `0o`, `0b`, a leading zero for octal, and underscores between digits.
pub(super) fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, rest) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, lower.get(2..)?),
        [b'0', b'o', ..] => (8, lower.get(2..)?),
        [b'0', b'b', ..] => (2, lower.get(2..)?),
        [b'0', _, ..] => (8, lower.get(1..)?),
        _ => (10, lower.as_str()),
    };
    // An underscore stands between two digits, or after a prefix.
    let prefixed = rest.len() < lower.len();
    let misplaced = rest.ends_with('_') || rest.contains("__") || (!prefixed && rest.starts_with('_'));
    if misplaced || rest.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = i128::from_str_radix(&rest.replace('_', ""), radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_of_flags_are_read_as_go_reads_them() {
        for (text, value) in [
            ("0", Some(0)),
            ("8080", Some(8080)),
            ("-1", Some(-1)),
            ("+7", Some(7)),
            ("0x1F", Some(31)),
            ("0b101", Some(5)),
            ("0o17", Some(15)),
            ("017", Some(15)),
            ("0x_ff", Some(255)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("08", None),
            ("1_000", Some(1000)),
            ("0_17", Some(15)),
            ("_1", None),
            ("1__0", None),
            ("1.5", None),
            ("--5", None),
            ("0x", None),
            ("0x-5", None),
            (" 5", None),
        ] {
            assert_eq!(integer(text), value, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in ".{0,24}") {
            let _ = (boolean(&text), decimal(&text), integer(&text));
        }

        #[test]
        fn every_number_is_read_back(number: i64) {
            prop_assert_eq!(decimal(&number.to_string()), Some(number));
            prop_assert_eq!(integer(&number.to_string()), Some(number));
        }
    }
}
