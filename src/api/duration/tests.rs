//! Durations against upstream's answers (vectors `duration`) and their own algebra.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn vectors() -> Vec<Value> {
    include_str!("../../../tests/data/vectors/algebra/duration.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_text_means_what_it_means_to_upstream() {
    let vectors = vectors();
    assert!(vectors.len() > 50, "the vectors are incomplete");
    for vector in vectors {
        let (id, text) = (&vector["id"], vector["in"].as_str().unwrap());
        let read = GoDuration::parse(text);
        assert_eq!(read.is_ok(), vector["ok"].as_bool().unwrap(), "{id}: {text:?} {read:?}");
        if let Ok(duration) = read {
            assert_eq!(
                duration.nanos().to_string(),
                vector["nanoseconds"].as_str().unwrap(),
                "{id}: {text:?}"
            );
            assert_eq!(duration.to_string(), vector["text"].as_str().unwrap(), "{id}: {text:?}");
        }
        match (NillableDuration::parse(text), vector["nillable"].as_str()) {
            (Ok(nillable), Some(printed)) => assert_eq!(nillable.to_string(), printed, "{id}"),
            (Err(_), None) => assert!(vector["nillableError"].is_string(), "{id}"),
            (read, printed) => panic!("{id}: {text:?} gave {read:?}, upstream {printed:?}"),
        }
    }
}

#[test]
fn never_is_a_word_and_its_spelling_matters() {
    assert!(NillableDuration::parse("Never").unwrap().is_never());
    assert_eq!(NillableDuration::default().as_str(), "Never");
    for text in ["never", "NEVER", "FooNever", "Never ", ""] {
        assert!(NillableDuration::parse(text).is_err(), "{text:?}");
    }
    assert!(SpelledDuration::parse("Never").is_err());
}

#[test]
fn an_error_says_which_part_is_wrong() {
    let unit = |text: &str| match GoDuration::parse(text) {
        Err(DurationError::UnknownUnit { unit, .. }) => unit,
        other => panic!("{text:?} gave {other:?}"),
    };
    assert_eq!(unit("1hr"), "hr");
    assert_eq!(unit("1d"), "d");
    assert_eq!(unit("1h-30m"), "h-");
    assert!(matches!(GoDuration::parse("5"), Err(DurationError::MissingUnit { .. })));
    assert!(matches!(
        GoDuration::parse("2562048h"),
        Err(DurationError::OutOfRange { .. })
    ));
    assert!(matches!(
        GoDuration::parse(&format!("{}h", "9".repeat(400))),
        Err(DurationError::OutOfRange { .. })
    ));
    for text in ["", "-", "+", ".s", "h", "\u{0}", "µ", "é1s", "１s"] {
        assert!(GoDuration::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn the_ends_of_the_range_are_reached_and_not_passed() {
    assert_eq!(GoDuration::parse("9223372036854775807ns").unwrap().nanos(), i64::MAX);
    assert_eq!(GoDuration::parse("-9223372036854775808ns").unwrap().nanos(), i64::MIN);
    assert!(GoDuration::parse("9223372036854775808ns").is_err());
    assert!(GoDuration::parse("-9223372036854775809ns").is_err());
    assert_eq!(
        GoDuration::from_nanos(i64::MIN).to_string(),
        "-2562047h47m16.854775808s"
    );
    assert_eq!(GoDuration::from_secs(i64::MAX).nanos(), i64::MAX);
    assert_eq!(GoDuration::from_nanos(-1).as_std(), std::time::Duration::ZERO);
}

#[test]
fn a_fraction_is_exact_and_what_lies_below_a_nanosecond_is_dropped() {
    assert_eq!(GoDuration::parse("1.5h").unwrap().nanos(), 5_400_000_000_000);
    assert_eq!(GoDuration::parse(".5m").unwrap().nanos(), 30_000_000_000);
    assert_eq!(GoDuration::parse("0.9999999999ns").unwrap(), GoDuration::ZERO);
    assert_eq!(
        GoDuration::parse("0.100000000000000000000h").unwrap().nanos(),
        360_000_000_000
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".*") {
        let _ = GoDuration::parse(&text);
        let _ = NillableDuration::parse(&text);
    }

    #[test]
    fn no_text_that_looks_like_a_duration_makes_the_reader_panic(text in "[-+]?([0-9]{0,25}(\\.[0-9]{0,25})?(h|m|s|ms|us|ns|µs)?){0,4}") {
        let _ = GoDuration::parse(&text);
    }

    #[test]
    fn what_is_written_is_read_as_the_same_duration(nanos in any::<i64>()) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn the_users_spelling_survives(text in "([0-9]{1,4}(h|m|s)){1,3}") {
        // surface T21
        let json = serde_json::to_value(&text).unwrap();
        let nillable: NillableDuration = serde_json::from_value(json.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&nillable).unwrap(), json.clone());
        let spelled: SpelledDuration = serde_json::from_value(json.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&spelled).unwrap(), json);
    }

    #[test]
    fn parts_add_up_in_any_order(hours in 0_i64..1000, minutes in 0_i64..1000, seconds in 0_i64..1000) {
        let expected = GoDuration::from_secs(hours * 3600 + minutes * 60 + seconds);
        prop_assert_eq!(GoDuration::parse(&format!("{hours}h{minutes}m{seconds}s")), Ok(expected));
        prop_assert_eq!(GoDuration::parse(&format!("{seconds}s{hours}h{minutes}m")), Ok(expected));
    }
}
