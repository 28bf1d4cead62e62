//! What passed and what failed, by family.

use std::collections::BTreeMap;
use std::fmt;

/// The failures shown of each family.
const SHOWN: usize = 20;

/// The cases of one family.
#[derive(Default)]
struct Family {
    passed: usize,
    failed: usize,
    /// Passed though different, by the rule that says why.
    by_rule: BTreeMap<&'static str, usize>,
    /// Not built yet: counted, neither passed nor failed.
    not_yet: usize,
    failures: Vec<String>,
}

/// How a case ended.
pub enum Outcome {
    /// Equal.
    Passed,
    /// Different, for a written reason.
    DiffersBy(&'static str),
    /// About something that is not built yet.
    NotYet,
    /// Different; how.
    Failed(String),
}

impl Outcome {
    /// Failed with the differences given, passed when there are none.
    pub fn of(differences: Vec<String>) -> Self {
        if differences.is_empty() {
            Self::Passed
        } else {
            Self::Failed(differences.join("; "))
        }
    }
}

/// All families.
#[derive(Default)]
pub struct Report(BTreeMap<String, Family>);

impl Report {
    /// Notes how a case ended.
    pub fn note(&mut self, family: &str, case: &str, outcome: Outcome) {
        let family = self.0.entry(family.to_owned()).or_default();
        match outcome {
            Outcome::Passed => family.passed += 1,
            Outcome::DiffersBy(rule) => {
                family.passed += 1;
                *family.by_rule.entry(rule).or_default() += 1;
            }
            Outcome::NotYet => family.not_yet += 1,
            Outcome::Failed(difference) => {
                family.failed += 1;
                family.failures.push(format!("{case}: {difference}"));
            }
        }
    }

    /// Cases that failed.
    pub fn failed(&self) -> usize {
        self.0.values().map(|family| family.failed).sum()
    }

    /// All cases.
    pub fn cases(&self) -> usize {
        self.0
            .values()
            .map(|family| family.passed + family.failed + family.not_yet)
            .sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, family) in &self.0 {
            write!(f, "{name}: {} passed, {} failed", family.passed, family.failed)?;
            if family.not_yet > 0 {
                write!(f, ", {} not yet", family.not_yet)?;
            }
            for (rule, times) in &family.by_rule {
                write!(f, ", {times} differ by {rule}")?;
            }
            writeln!(f)?;
            for failure in family.failures.iter().take(SHOWN) {
                let short: String = failure.chars().take(900).collect();
                writeln!(f, "    {short}")?;
            }
        }
        let passed: usize = self.0.values().map(|family| family.passed).sum();
        writeln!(f, "total: {passed} passed, {} failed", self.failed())
    }
}
