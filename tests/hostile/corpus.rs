//! The bodies of the fuzz targets over what is committed, and over what is made up anew.

use super::bodies;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::{Path, PathBuf};

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hostile")
}

/// The committed inputs of a body: each file of its folder, and each line of its text file, in which `\n` stands for a line break.
fn inputs(body: &str) -> Vec<(String, Vec<u8>)> {
    let mut inputs = Vec::new();
    if let Ok(text) = std::fs::read_to_string(folder().join(format!("{body}.txt"))) {
        inputs.extend(
            text.lines()
                .map(|line| (line.to_owned(), line.replace("\\n", "\n").into_bytes())),
        );
    }
    if let Ok(files) = std::fs::read_dir(folder().join(body)) {
        inputs.extend(files.map(|file| {
            let path = file.unwrap().path();
            (path.display().to_string(), std::fs::read(&path).unwrap())
        }));
    }
    inputs.sort();
    inputs
}

/// Runs a body and names the input that made it panic.
fn run(body: &str, name: &str, input: &[u8]) {
    let outcome = std::panic::catch_unwind(|| bodies::run(body, input));
    assert!(outcome.is_ok(), "{body} stumbled over {name}");
}

#[test]
fn every_body_stands_the_committed_corpus() {
    for (body, _) in bodies::ALL {
        let inputs = inputs(body);
        assert!(inputs.len() >= 10, "only {} inputs for {body}", inputs.len());
        for (name, input) in inputs {
            run(body, &name, &input);
        }
    }
}

#[test]
fn every_corpus_belongs_to_a_body() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".txt").unwrap_or(&name);
        assert!(
            stem == "reactions" || bodies::ALL.iter().any(|(body, _)| *body == stem),
            "{name} is of no body"
        );
    }
}

/// Bytes cut from, put into and swapped within a committed input: stays close to what is valid, where bugs are.
fn mutated(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let words: &[&[u8]] = &[
        b"null",
        b"-1",
        b"1e400",
        b"9223372036854775808",
        b"\"\"",
        b"[]",
        b"{}",
        b"true",
        b"\xff",
        b"\0",
        b"0",
        b"%",
        b"Ei",
        b".",
        b"-",
        b"*/0",
        b"\xe2\x80\xae",
        b"\"NaN\"",
        b"99999999999999999999999999999999999999999999",
        b"\"1e1000000000\"",
    ];
    let edit = (
        any::<prop::sample::Index>(),
        0_usize..8,
        prop::option::of(prop::sample::select(words)),
    );
    (prop::sample::select(seeds), prop::collection::vec(edit, 0..6)).prop_map(|(mut bytes, edits)| {
        for (at, cut, word) in edits {
            let at = at.index(bytes.len() + 1);
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, word.unwrap_or_default().iter().copied());
        }
        bytes
    })
}

/// The same number of tries for each body; more where one try is cheap.
fn try_generated(body: &str, cases: u32) {
    let seeds: Vec<_> = inputs(body)
        .into_iter()
        .map(|(_, input)| input)
        .filter(|input| input.len() < 20_000)
        .collect();
    let strategy = prop_oneof![4 => mutated(seeds), 1 => prop::collection::vec(any::<u8>(), 0..200), 1 => ".{0,60}".prop_map(String::into_bytes)];
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&strategy, |input| {
        bodies::run(body, &input);
        Ok(())
    });
    if let Err(error) = outcome {
        let input = match &error {
            proptest::test_runner::TestError::Fail(_, input) => String::from_utf8_lossy(input).into_owned(),
            proptest::test_runner::TestError::Abort(_) => String::new(),
        };
        panic!("{body} stumbled over {input:?}: {error}");
    }
}

#[test]
fn generated_texts_of_one_line_do_no_harm() {
    for body in ["cron", "duration", "quantity", "settings"] {
        try_generated(body, 2_000);
    }
}

#[test]
fn generated_objects_do_no_harm() {
    for body in ["objects", "selector"] {
        try_generated(body, 600);
    }
}

#[test]
fn generated_objects_do_the_solver_no_harm() {
    try_generated("placing", 300);
}

/// Bytes are choices here, so any will do, and long ones say most.
#[test]
fn generated_clusters_do_the_solver_no_harm() {
    let config = Config {
        cases: 1_500,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&prop::collection::vec(any::<u8>(), 0..1_500), |input| {
        bodies::run("structured", &input);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("the solver stumbled over {error}"));
}

#[test]
fn generated_answers_of_the_platform_do_no_harm() {
    for body in ["feed", "spot", "token"] {
        try_generated(body, 300);
    }
}
