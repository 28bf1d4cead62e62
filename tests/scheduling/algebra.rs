//! The requirement algebra by example (scheduling §5): fourteen forms of one label, against each other and against values.

use crate::world::ZONE;
use karpenter::scheduling::{
    Incompatibility, Operator, Pod, Requirement, Requirements, Undefined, WellKnownLabels, labels,
};

/// The forms, by the names that the scenarios use.
const NAMES: [&str; 14] = [
    "Ex", "DNE", "inA", "inB", "inAB", "notA", "in1", "in9", "in19", "not12", "gt1", "gt9", "lt1", "lt9",
];

fn form(key: &str, name: &str) -> Requirement {
    let of = |operator: Operator, values: &[&str]| Requirement::new(key, operator, values.iter().copied());
    match name {
        "Ex" => of(Operator::Exists, &[]),
        "DNE" => of(Operator::DoesNotExist, &[]),
        "inA" => of(Operator::In, &["A"]),
        "inB" => of(Operator::In, &["B"]),
        "inAB" => of(Operator::In, &["A", "B"]),
        "notA" => of(Operator::NotIn, &["A"]),
        "in1" => of(Operator::In, &["1"]),
        "in9" => of(Operator::In, &["9"]),
        "in19" => of(Operator::In, &["1", "9"]),
        "not12" => of(Operator::NotIn, &["1", "2"]),
        "gt1" => of(Operator::Gt, &["1"]),
        "gt9" => of(Operator::Gt, &["9"]),
        "lt1" => of(Operator::Lt, &["1"]),
        "lt9" => of(Operator::Lt, &["9"]),
        other => panic!("no form {other}"),
    }
}

fn f(name: &str) -> Requirement {
    form("key", name)
}

/// The text of an intersection, both ways round.
fn meet(a: &str, b: &str) -> String {
    let (one, other) = (f(a).intersection(&f(b)), f(b).intersection(&f(a)));
    assert_eq!(one, other, "{a} and {b}");
    one.to_string()
}

/// The table of ALG-10 to ALG-27: what is not listed is DoesNotExist.
fn expected(a: &str, b: &str) -> Option<String> {
    let text = |name: &str| Some(f(name).to_string());
    let pair = |x: &str, y: &str| (a, b) == (x, y) || (a, b) == (y, x);
    let any = |x: &str, ys: &[&str]| (a == x && ys.contains(&b)) || (b == x && ys.contains(&a));
    let other = |x: &str| if a == x { b } else { a };
    if a == "DNE" || b == "DNE" {
        return text("DNE");
    }
    if a == "Ex" || b == "Ex" {
        return text(other("Ex"));
    }
    if a == b {
        return text(a);
    }
    if any("inA", &["inAB", "not12"]) {
        return text("inA");
    }
    if any("inB", &["inAB", "notA", "not12"]) || pair("inAB", "notA") {
        return text("inB");
    }
    if pair("inAB", "not12") {
        return text("inAB");
    }
    if any("notA", &["in1", "in9", "in19", "gt1", "gt9", "lt1", "lt9"]) {
        return text(other("notA"));
    }
    if pair("notA", "not12") {
        return Some("key NotIn [1 2 A]".to_owned());
    }
    if any("in1", &["in19", "lt9"]) || pair("in19", "lt9") {
        return text("in1");
    }
    if any("in9", &["in19", "not12", "gt1"]) || any("in19", &["not12", "gt1"]) {
        return text("in9");
    }
    let bounded = [
        ("not12", "gt1", "key NotIn [2] >=2"),
        ("not12", "gt9", "key Exists >=10"),
        ("not12", "lt1", "key Exists <=0"),
        ("not12", "lt9", "key NotIn [1 2] <=8"),
        ("gt1", "gt9", "key Exists >=10"),
        ("lt1", "lt9", "key Exists <=0"),
        ("gt1", "lt9", "key Exists >=2 <=8"),
    ];
    let listed = bounded.iter().find(|(x, y, _)| pair(x, y));
    listed.map_or_else(|| text("DNE"), |(_, _, text)| Some((*text).to_owned()))
}

#[test]
fn every_pair_of_forms_has_the_intersection_of_the_table() {
    // ALG-10 to ALG-27
    for a in NAMES {
        for b in NAMES {
            assert_eq!(Some(meet(a, b)), expected(a, b), "{a} and {b}");
        }
    }
}

#[test]
fn the_larger_wish_for_values_survives_an_intersection() {
    // ALG-30, ALG-31, ALG-32, ALG-33, ALG-34
    let with = |name: &str, least: Option<u32>| f(name).with_min_values(least);
    for a in NAMES {
        for b in NAMES {
            let plain = f(a).intersection(&f(b));
            let one = with(a, Some(3)).intersection(&f(b));
            assert_eq!(
                (one.clone().with_min_values(None), one.min_values()),
                (plain.clone(), Some(3))
            );
            let both = with(a, Some(1)).intersection(&with(b, Some(2)));
            assert_eq!(
                (both.clone().with_min_values(None), both.min_values()),
                (plain, Some(2))
            );
        }
    }
    let text = |a: Requirement, b: Requirement| a.intersection(&b).to_string();
    assert_eq!(
        text(with("inAB", Some(2)), with("inA", Some(1))),
        "key In [A] minValues 2"
    );
    assert_eq!(
        text(with("inAB", Some(2)), with("in1", Some(1))),
        "key DoesNotExist minValues 2"
    );
    assert_eq!(text(with("Ex", Some(1)), f("inAB")), "key In [A B] minValues 1");
}

#[test]
fn a_form_has_the_values_it_should() {
    // ALG-40, ALG-41, ALG-42, ALG-43, ALG-44
    let table: [(&str, &[&str]); 5] = [
        ("A", &["Ex", "inA", "inAB", "not12"]),
        ("B", &["Ex", "inB", "inAB", "notA", "not12"]),
        ("1", &["Ex", "notA", "in1", "in19", "lt9"]),
        ("2", &["Ex", "notA", "gt1", "lt9"]),
        ("9", &["Ex", "notA", "in9", "in19", "not12", "gt1"]),
    ];
    for (value, having) in table {
        for name in NAMES {
            assert_eq!(f(name).has(value), having.contains(&name), "{name} has {value}");
        }
    }
}

#[test]
fn operator_length_and_text_of_each_form() {
    // ALG-45, ALG-46, ALG-48
    let most = u64::try_from(i64::MAX).unwrap();
    let table = [
        ("Ex", Operator::Exists, most, "key Exists"),
        ("DNE", Operator::DoesNotExist, 0, "key DoesNotExist"),
        ("inA", Operator::In, 1, "key In [A]"),
        ("inB", Operator::In, 1, "key In [B]"),
        ("inAB", Operator::In, 2, "key In [A B]"),
        ("notA", Operator::NotIn, most - 1, "key NotIn [A]"),
        ("in1", Operator::In, 1, "key In [1]"),
        ("in9", Operator::In, 1, "key In [9]"),
        ("in19", Operator::In, 2, "key In [1 9]"),
        ("not12", Operator::NotIn, most - 2, "key NotIn [1 2]"),
        ("gt1", Operator::Exists, most, "key Exists >=2"),
        ("gt9", Operator::Exists, most, "key Exists >=10"),
        ("lt1", Operator::Exists, most, "key Exists <=0"),
        ("lt9", Operator::Exists, most, "key Exists <=8"),
    ];
    for (name, operator, length, text) in table {
        let own = f(name);
        assert_eq!(
            (own.operator(), own.len(), own.to_string().as_str()),
            (operator, length, text)
        );
    }
    assert_eq!(
        (meet("gt1", "lt9").as_str(), meet("gt9", "lt1").as_str()),
        ("key Exists >=2 <=8", "key DoesNotExist")
    );
}

#[test]
fn any_value_of_a_form_is_one_it_has() {
    // ALG-47, ALG-71, ALG-72
    assert_eq!(f("DNE").any(), "");
    assert_eq!((f("inA").any().as_str(), f("lt1").any().as_str()), ("A", "0"));
    for name in NAMES.into_iter().filter(|name| *name != "DNE") {
        let value = f(name).any();
        assert!(!value.is_empty() && f(name).has(&value), "{name}: {value}");
    }
    let number = |operator: &str, bound: &str| -> i64 {
        let own = Requirement::new("key", operator.parse().unwrap(), [bound]);
        own.any().parse().unwrap()
    };
    assert!(number("Gte", "5") >= 5 && number("Lte", "10") <= 10);
}

fn all_forms() -> Requirements {
    NAMES.iter().map(|name| form(name, name)).collect()
}

#[test]
fn a_set_is_told_in_the_order_of_its_texts() {
    // ALG-49
    let mut texts: Vec<String> = NAMES.iter().map(|name| form(name, name).to_string()).collect();
    texts.sort();
    assert_eq!(all_forms().to_string(), texts.join(", "));
    let place = |name: &str| {
        texts
            .iter()
            .position(|text| text.starts_with(&format!("{name} ")))
            .unwrap()
    };
    let order: Vec<usize> = ["in1", "in19", "in9", "inA", "inAB", "inB"].map(place).to_vec();
    assert!(order.is_sorted());
}

#[test]
fn the_api_gets_bounds_that_include_their_ends() {
    // ALG-50, ALG-51, ALG-52
    let entries = |own: &Requirement| -> Vec<String> {
        own.to_specs()
            .map(|spec| format!("{} {:?} {:?}", spec.operator.as_str(), spec.values, spec.min_values))
            .collect()
    };
    for (name, expected) in [
        ("gt1", "Gte [\"2\"]"),
        ("gt9", "Gte [\"10\"]"),
        ("lt1", "Lte [\"0\"]"),
        ("lt9", "Lte [\"8\"]"),
    ] {
        assert_eq!(entries(&f(name)), [format!("{expected} None")]);
    }
    for name in ["Ex", "DNE", "inA", "inAB", "notA", "in19", "not12"] {
        let own = f(name).with_min_values(Some(2));
        let specs: Vec<_> = own.to_specs().collect();
        assert_eq!(
            (specs.len(), specs[0].operator, specs[0].min_values),
            (1, own.operator(), Some(2))
        );
        assert!(specs[0].values.is_sorted());
    }
    assert_eq!(all_forms().to_specs().len(), 14);
    let exact =
        Requirement::new("key", Operator::Gte, ["8"]).intersection(&Requirement::new("key", Operator::Lte, ["8"]));
    assert_eq!(entries(&exact), ["Gte [\"8\"] None", "Lte [\"8\"] None"]);
}

fn bound(operator: &str, value: &str) -> Requirement {
    Requirement::new("key", operator.parse().unwrap(), [value])
}

#[test]
fn bounds_include_or_exclude_as_their_names_say() {
    // ALG-60, ALG-61, ALG-62, ALG-63, ALG-69, ALG-70, ALG-73
    let has = |own: &Requirement, values: &[i64]| {
        values
            .iter()
            .map(|value| own.has(&value.to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        has(&bound("Gte", "2"), &[2, 3, 100, 1, 0]),
        [true, true, true, false, false]
    );
    assert_eq!(
        has(&bound("Lte", "8"), &[8, 7, 0, 9, 10]),
        [true, true, true, false, false]
    );
    let both = bound("Gte", "2").intersection(&bound("Lte", "8"));
    assert_eq!(has(&both, &[2, 5, 8, 1, 9]), [true, true, true, false, false]);
    assert_eq!(
        (bound("Gte", "2"), bound("Lte", "8")),
        (bound("Gt", "1"), bound("Lt", "9"))
    );
    assert_eq!(has(&bound("Gte", "0"), &[0, -1]), [true, false]);
    assert_eq!(has(&bound("Lte", "0"), &[0, 1]), [true, false]);
    let beyond = bound("Gt", &i64::MAX.to_string());
    assert_eq!((beyond.operator(), beyond.len()), (Operator::DoesNotExist, 0));
}

#[test]
fn two_bounds_of_one_side_become_one() {
    // ALG-64, ALG-65, ALG-66, ALG-67, ALG-68
    let joint = |a: (&str, &str), b: (&str, &str)| bound(a.0, a.1).intersection(&bound(b.0, b.1));
    assert_eq!(joint(("Gt", "4"), ("Gte", "5")), bound("Gte", "5"));
    assert_eq!(joint(("Gt", "5"), ("Gte", "5")), bound("Gte", "6"));
    assert_eq!(joint(("Gt", "3"), ("Gte", "6")), bound("Gte", "6"));
    assert_eq!(joint(("Lt", "5"), ("Lte", "5")), bound("Lte", "4"));
    assert_eq!(joint(("Lt", "9"), ("Lte", "5")), bound("Lte", "5"));
}

/// The rows of ALG-80 to ALG-94: for each A the B that go with it; "unc" is no requirement at all.
const COMPATIBLE: [(&str, &str); 15] = [
    ("unc", "unc Ex DNE inA inB inAB notA in1 in9 in19 not12 gt1 gt9 lt1 lt9"),
    ("Ex", "unc Ex inA inB inAB notA in1 in9 in19 not12 gt1 gt9 lt1 lt9"),
    ("DNE", "unc DNE notA not12"),
    ("inA", "unc Ex inA inAB not12"),
    ("inB", "unc Ex inB inAB notA not12"),
    ("inAB", "unc Ex inA inB inAB notA not12"),
    ("notA", "unc Ex DNE inB inAB notA in1 in9 in19 not12 gt1 gt9 lt1 lt9"),
    ("in1", "unc Ex notA in1 in19 lt9"),
    ("in9", "unc Ex notA in9 in19 not12 gt1"),
    ("in19", "unc Ex notA in1 in9 in19 not12 gt1 lt9"),
    ("not12", "unc Ex DNE inA inB inAB notA in9 in19 not12 gt1 gt9 lt1 lt9"),
    ("gt1", "unc Ex notA in9 in19 not12 gt1 gt9 lt9"),
    ("gt9", "unc Ex notA not12 gt1 gt9"),
    ("lt1", "unc Ex notA not12 lt1 lt9"),
    ("lt9", "unc Ex notA in1 in19 not12 gt1 lt1 lt9"),
];

#[test]
fn every_pair_of_forms_goes_together_as_the_table_says() {
    // ALG-80 to ALG-95
    let set = |name: &str| -> Requirements {
        let own = (name != "unc").then(|| form(ZONE, name));
        own.into_iter().collect()
    };
    let well_known = WellKnownLabels::default();
    for (a, row) in COMPATIBLE {
        let row: Vec<&str> = row.split(' ').collect();
        for (b, _) in COMPATIBLE {
            let allowed = set(a).compatible(&set(b), Undefined::Allow(&well_known)).is_ok();
            assert_eq!(allowed, row.contains(&b), "{a} with {b}");
            let strict = set(a).compatible(&set(b), Undefined::Strict).is_ok();
            let expected = if a == "unc" {
                ["unc", "DNE", "notA", "not12"].contains(&b)
            } else {
                row.contains(&b)
            };
            assert_eq!(strict, expected, "{a} with {b}, strictly");
        }
    }
}

#[test]
fn a_label_that_nobody_knows_gets_a_hint() {
    // ALG-100 to ALG-111
    let well_known = WellKnownLabels::default();
    let told = |key: &str, undefined: Undefined<'_>| -> String {
        let wanted: Requirements = [Requirement::exists(key)].into_iter().collect();
        let refused: Incompatibility = Requirements::new().compatible(&wanted, undefined).unwrap_err();
        refused.to_string()
    };
    let (zone, region, pool) = (labels::ZONE, labels::REGION, labels::NODE_POOL);
    for (key, meant) in [
        ("zone", zone),
        ("region", region),
        ("nodepool", pool),
        ("instance-type", labels::INSTANCE_TYPE),
        ("arch", labels::ARCH),
        ("capacity-type", labels::CAPACITY_TYPE),
        ("topology.kubernetesio/zone", zone),
        ("node.io/zone", zone),
        ("topology.kubernetes.io/regio", region),
        ("node.kubernetes.io/region", region),
        ("karpenter/nodepool", pool),
    ] {
        let expected = format!("label \"{key}\" does not have known values (typo of \"{meant}\"?)");
        assert_eq!(told(key, Undefined::Allow(&well_known)), expected);
    }
    assert_eq!(
        told("deployment", Undefined::Strict),
        "label \"deployment\" does not have known values"
    );
}

#[test]
fn old_names_of_labels_mean_the_new_ones() {
    // ALG-1, ALG-2
    let old = [
        ("failure-domain.beta.kubernetes.io/zone", labels::ZONE),
        ("failure-domain.beta.kubernetes.io/region", labels::REGION),
        ("beta.kubernetes.io/arch", labels::ARCH),
        ("beta.kubernetes.io/os", labels::OS),
        ("beta.kubernetes.io/instance-type", labels::INSTANCE_TYPE),
    ];
    let own = old.map(|(old, _)| (old.to_owned(), "v".to_owned()));
    let from_labels = Requirements::from_labels(&std::collections::BTreeMap::from(own));
    let as_requirements: Requirements = old.iter().map(|(old, _)| Requirement::is(old, "v")).collect();
    let mut fragments: Vec<serde_json::Value> = old.iter().map(|(old, _)| crate::pods::sel(old, "v")).collect();
    fragments.extend(old.iter().map(|(old, _)| crate::pods::must(old, "In", &["v"])).take(1));
    fragments.extend(
        old.iter()
            .map(|(old, _)| crate::pods::prefer(1, old, "In", &["v"]))
            .take(1),
    );
    let pod: Pod = crate::pods::pod("p", &fragments);
    let of_pod = pod
        .constraints
        .node_requirements(karpenter::scheduling::Preferences::Respect);
    let mut stable: Vec<&str> = old.iter().map(|(_, new)| *new).collect();
    stable.sort_unstable();
    for set in [&from_labels, &as_requirements, &of_pod] {
        let mut keys: Vec<&str> = set.keys().collect();
        keys.sort_unstable();
        assert_eq!(keys, stable);
    }
    let new: Requirements = [Requirement::is(labels::ZONE, "test")].into_iter().collect();
    let legacy: Requirements = [Requirement::is(old[0].0, "test")].into_iter().collect();
    assert!(new.compatible(&legacy, Undefined::Strict).is_ok());
}
