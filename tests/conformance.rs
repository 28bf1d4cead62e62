//! The recorded answers of upstream's own code, held against ours.
//!
//! `make conformance VECTORS=DIR` runs any folder that is made like `tests/data/vectors`; without it, that folder. The READMEs beside the vectors
//! say how they came to be and what "equal" means on each level.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "conformance/algebra.rs"]
mod algebra;
#[path = "conformance/answer.rs"]
mod answer;
#[path = "conformance/compare.rs"]
mod compare;
#[path = "conformance/feasibility.rs"]
mod feasibility;
#[path = "conformance/folder.rs"]
mod folder;
#[path = "conformance/machines.rs"]
mod machines;
#[path = "conformance/neighbours.rs"]
mod neighbours;
#[path = "conformance/phrases.rs"]
mod phrases;
#[path = "conformance/predicates.rs"]
mod predicates;
#[path = "conformance/removal.rs"]
mod removal;
#[path = "conformance/report.rs"]
mod report;
#[path = "conformance/requirements.rs"]
mod requirements;
#[path = "conformance/scenario.rs"]
mod scenario;
#[path = "conformance/scheduling.rs"]
mod scheduling;

use report::Report;
use std::path::{Path, PathBuf};

fn vectors() -> PathBuf {
    let given = std::env::var_os("VECTORS").filter(|folder| !folder.is_empty());
    given.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors"),
        PathBuf::from,
    )
}

#[test]
fn recorded_answers_are_reproduced() {
    let folder = vectors();
    let mut report = Report::default();
    algebra::run(&folder.join("algebra"), &mut report);
    scheduling::run(&folder.join("scheduling"), &mut report);
    print!("{report}");
    assert!(report.cases() > 0, "no vectors in {}", folder.display());
    assert_eq!(report.failed(), 0, "the families above say which");
}
