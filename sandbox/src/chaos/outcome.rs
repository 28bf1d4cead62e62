//! What came of a seed.

use super::mortal::Traffic;
use super::plan::Troubles;
use chrono::TimeDelta;
use std::fmt;

/// What came of a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Its kinds of trouble.
    pub troubles: Troubles,
    /// What may not be so and was; empty if all is well.
    pub violations: Vec<String>,
    /// How much time passed in its world.
    pub simulated: TimeDelta,
    /// How many claims there were.
    pub claims: usize,
    /// How many operators ran, one after the other.
    pub operators: u32,
    /// What the operators sent.
    pub traffic: Traffic,
    /// What the platform charged, in dollars.
    pub cost_usd: f64,
    /// What was told; as much as was asked for.
    pub log: Vec<String>,
}

impl Outcome {
    /// Whether nothing was wrong.
    pub fn is_well(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Outcome {
    /// One line, and one more for each violation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_well() { "ok" } else { "FAILED" };
        let sum = |counts: &std::collections::BTreeMap<String, u64>| counts.values().sum::<u64>();
        write!(
            f,
            "seed {:<6} {verdict:<6} {:<38} {:>4} min, {:>2} claims, {} operators, {} + {} requests, ${:.4}",
            self.seed,
            self.troubles.to_string(),
            self.simulated.num_minutes(),
            self.claims,
            self.operators,
            sum(&self.traffic.kubernetes),
            sum(&self.traffic.spot),
            self.cost_usd,
        )?;
        self.violations.iter().try_for_each(|words| write!(f, "\n    {words}"))
    }
}

impl fmt::Display for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.api, "api"),
            (self.platform, "platform"),
            (self.market, "market"),
            (self.apps, "apps"),
            (self.hands, "hands"),
            (self.kills, "kills"),
        ];
        let there: Vec<&str> = all.iter().filter(|(there, _)| *there).map(|(_, name)| *name).collect();
        f.pad(&if there.is_empty() {
            "calm".to_owned()
        } else {
            there.join(" ")
        })
    }
}
