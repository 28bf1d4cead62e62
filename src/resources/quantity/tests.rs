use super::*;
use proptest::prelude::*;

fn q(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

#[test]
fn the_canonical_text_folds_into_the_largest_suffix_that_stays_whole() {
    for (text, canonical) in [
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1000k", "1M"),
        ("1.1Gi", "1181116006400m"),
        ("1E3", "1e3"),
        ("0.00000000001", "1n"),
        ("16Ei", "9223372036854775807"),
        ("-7Ti", "-7Ti"),
        ("m", "0"),
    ] {
        assert_eq!(q(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn what_is_no_quantity_is_refused_and_nothing_panics() {
    for text in ["", " 1", "1x", "0x10", "1e", "1.2.3", "--1", "1 Gi", "é", "1ki"] {
        assert!(Quantity::parse(text).is_err(), "{text}");
    }
    assert!(q("1e999999999") > q("1E"));
    assert_eq!(q("1e-999999999").to_string(), "1e-9");
}

#[test]
fn digits_beyond_any_register_are_counted_exactly() {
    let zeros = "0".repeat(60);
    assert_eq!(q(&format!("1.{zeros}1")).nanos(), NANO + 1);
    assert_eq!(q(&format!("1.{zeros}1Ki")).nanos(), 1024 * NANO + 1);
    assert_eq!(q(&format!("0.{zeros}1")).nanos(), 1);
    assert_eq!(q(&format!("1{zeros}e-60")), q("1"));
    assert_eq!(q(&format!("1{zeros}")).nanos(), LIMIT);
    assert_eq!(q(&format!("-1.{zeros}")), q("-1"));
    assert_eq!(
        q("123456789012345678901234567890123456789012345e-40"),
        q("12345.678901235")
    );
}

#[test]
fn a_sum_is_written_as_its_first_part_unless_that_is_nothing() {
    assert_eq!((q("1Gi") + q("1")).to_string(), "1073741825");
    assert_eq!((q("0Gi") + q("1P")).to_string(), "1P");
    assert_eq!((q("0") - q("24Gi")).to_string(), "-24Gi");
}

proptest! {
    #[test]
    fn printing_and_parsing_agree(nanos in -LIMIT..LIMIT, format in 0..2_u8) {
        let format = if format == 0 { Format::DecimalSi } else { Format::DecimalExponent };
        let quantity = Quantity::from_nanos(nanos, format);
        prop_assert_eq!(q(&quantity.to_string()).nanos(), nanos);
    }

    #[test]
    fn any_text_parses_or_is_refused(text in "\\PC{0,12}|[-+]?[0-9.]{0,30}[numkMGTPEeKi0-9+-]{0,4}") {
        let _ = Quantity::parse(&text);
    }

    #[test]
    fn subtracting_undoes_adding(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000) {
        prop_assert_eq!(Quantity::millis(a) + Quantity::millis(b) - Quantity::millis(b), Quantity::millis(a));
    }
}
