//! The algebra's laws, on random requirements.

use super::{Operator, Requirement};
use proptest::prelude::*;

const VALUES: [&str; 10] = ["", "-1", "0", "1", "2", "3", "007", "a", "b", "9223372036854775807"];

fn requirement() -> impl Strategy<Value = Requirement> {
    let operator = prop::sample::select(vec![
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::Gt,
        Operator::Lt,
        Operator::Gte,
        Operator::Lte,
    ]);
    let values = prop::collection::vec(prop::sample::select(VALUES.to_vec()), 0..4);
    let least = prop::option::of(0_u32..4);
    (operator, values, least)
        .prop_map(|(operator, values, least)| Requirement::new("k", operator, values).with_min_values(least))
}

proptest! {
    #[test]
    fn intersection_does_not_depend_on_sides_or_brackets(a in requirement(), b in requirement(), c in requirement()) {
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        let (left, right) = (a.intersection(&b).intersection(&c), a.intersection(&b.intersection(&c)));
        for value in VALUES {
            prop_assert_eq!(left.has(value), right.has(value));
        }
        prop_assert_eq!(left.min_values(), right.min_values());
    }

    #[test]
    fn intersecting_twice_is_intersecting_once(a in requirement(), b in requirement()) {
        let once = a.intersection(&b);
        prop_assert_eq!(once.intersection(&b).intersection(&a), once);
    }

    #[test]
    fn intersection_agrees_with_membership(a in requirement(), b in requirement()) {
        let both = a.intersection(&b);
        for value in VALUES {
            prop_assert_eq!(both.has(value), a.has(value) && b.has(value), "{:?}", value);
        }
        if VALUES.iter().any(|value| both.has(value)) {
            prop_assert!(a.has_intersection(&b));
        }
    }

    #[test]
    fn the_value_chosen_for_a_label_is_allowed(a in requirement()) {
        let chosen = a.any();
        prop_assert!(chosen.is_empty() || a.has(&chosen), "{} chose {:?}", a, chosen);
    }

    #[test]
    fn the_interned_algebra_gives_the_same_answers(a in requirement(), b in requirement()) {
        crate::scheduling::symbols::agrees(&a, &b);
    }
}
