//! What was decided: these nodes go, and these machines come in their place first (disruption 1.8).

use super::candidate::Candidate;
use super::method::Method;
use crate::cluster::MachineId;
use chrono::{DateTime, Utc};
use std::fmt;
use std::sync::Arc;

/// What kind of command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The nodes go.
    Delete,
    /// The nodes go once others have taken their place.
    Replace,
}

impl Decision {
    /// The word that metrics and logs show.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Replace => "replace",
        }
    }
}

/// A machine that comes in place of those that go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The name of its claim.
    pub claim: Arc<str>,
    /// Whether it was ever seen initialized; what happens to it later does not matter (disruption 11.2).
    pub was_initialized: bool,
}

/// A command.
#[derive(Debug, Clone)]
pub struct Command {
    /// What names it in logs.
    pub id: String,
    /// Who chose.
    pub method: Method,
    /// The nodes that go.
    pub candidates: Vec<Candidate>,
    /// What comes first.
    pub replacements: Vec<Replacement>,
    /// When it was decided.
    pub created: DateTime<Utc>,
}

impl Command {
    /// What kind of command it is.
    pub fn decision(&self) -> Decision {
        if self.replacements.is_empty() {
            Decision::Delete
        } else {
            Decision::Replace
        }
    }

    /// The machines that go.
    pub fn machines(&self) -> impl Iterator<Item = &MachineId> {
        self.candidates.iter().map(|candidate| &candidate.machine.id)
    }

    /// The pools that it touches, each once, in order.
    pub fn pools(&self) -> Vec<&str> {
        let mut pools: Vec<&str> = self.candidates.iter().map(Candidate::pool_name).collect();
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// How many pods must find another place.
    pub fn pod_count(&self) -> usize {
        self.candidates
            .iter()
            .map(|candidate| candidate.reschedulable.len())
            .sum()
    }
}

impl fmt::Display for Command {
    /// As the log line shows it (surface §8.2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reason, decision) = (self.method.reason(), self.decision().as_str());
        write!(f, "{reason}/{}: {decision}", self.id)?;
        if self.replacements.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.candidates.iter().map(|candidate| candidate.node.name()).collect();
        write!(
            f,
            ": nodepools=[{}]: [{}] -> [{} replacement{}]",
            self.pools().join(", "),
            names.join(", "),
            self.replacements.len(),
            if self.replacements.len() == 1 { "" } else { "s" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::fixture::{Fixture, now};

    #[test]
    fn a_command_says_what_it_does() {
        let mut fixture = Fixture::new();
        fixture.machine("a");
        let mut command = Command {
            id: "7".into(),
            method: Method::Emptiness,
            candidates: vec![fixture.candidate("a")],
            replacements: Vec::new(),
            created: now(),
        };
        assert_eq!(command.to_string(), "Empty/7: delete");
        assert_eq!(command.decision(), Decision::Delete);
        command.replacements.push(Replacement {
            claim: "b".into(),
            was_initialized: false,
        });
        assert_eq!(
            command.to_string(),
            "Empty/7: replace: nodepools=[default]: [a] -> [1 replacement]"
        );
    }
}
