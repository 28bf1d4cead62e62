//! What came of a seed.

use super::mortal::Traffic;
use super::plan::Troubles;
use chrono::TimeDelta;
use std::fmt;
use std::time::Duration;

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
    /// How long it took to come to rest after all trouble, and until nothing was left after the wish.
    pub took: (Duration, Duration),
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

    /// Where another run of the same seed was otherwise, in words: the first line of the log that differs, or what came of it.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let lines = self.log.len().max(other.log.len());
        let line = |of: &Self, number: usize| of.log.get(number).map_or("(no line)", String::as_str).to_owned();
        let mut pairs = (0..lines).map(|number| (number, line(self, number), line(other, number)));
        if let Some((number, one, two)) = pairs.find(|(_, one, two)| one != two) {
            return Some(format!(
                "it does not replay: line {number} is\n      {one}\n      {two}"
            ));
        }
        (self != other).then(|| format!("it does not replay: this came of it\n      {self}\n      {other}"))
    }
}

impl fmt::Display for Outcome {
    /// One line, and one more for each violation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_well() { "ok" } else { "FAILED" };
        let sum = |counts: &std::collections::BTreeMap<String, u64>| counts.values().sum::<u64>();
        write!(
            f,
            "seed {:<6} {verdict:<6} {:<38} {:>4} min (rest {:>3} zero {:>3}), {:>2} claims, {} operators, {} + {} requests, ${:.4}",
            self.seed,
            self.troubles.to_string(),
            self.simulated.num_minutes(),
            self.took.0.as_secs() / 60,
            self.took.1.as_secs() / 60,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_two_runs_is_told_by_its_first_line() {
        let one = Outcome {
            seed: 1,
            troubles: super::super::plan::Plan::draw(1).troubles,
            violations: Vec::new(),
            simulated: TimeDelta::zero(),
            claims: 0,
            operators: 1,
            took: (Duration::ZERO, Duration::ZERO),
            traffic: Traffic::default(),
            cost_usd: 0.0,
            log: vec!["a".into(), "b".into()],
        };
        assert_eq!(one.difference(&one.clone()), None);
        let mut other = one.clone();
        other.log.push("c".into());
        assert!(one.difference(&other).is_some_and(|words| words.contains("line 2")));
        other = one.clone();
        other.cost_usd = 0.1;
        assert!(one.difference(&other).is_some_and(|words| words.contains("came of it")));
    }
}
