//! `sandbox chaos`: seeds of trouble, a line each.

use crate::chaos::{Outcome, Seeds, Times, Verbosity, run_seeds};
use anyhow::bail;
use clap::Args;

/// Runs the operator through simulated bad days, by seed; fails if anything that matters breaks.
#[derive(Debug, Clone, Args)]
pub struct Chaos {
    /// Which seeds, both ends included, such as 1..500.
    #[arg(long, value_name = "A..B", default_value = "1..100")]
    pub seeds: Seeds,
    /// How many at once; as many as there are cores unless told.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Prints the log of each seed: what was done to its world, what the operator said, every request.
    #[arg(long)]
    pub verbose: bool,
    /// Runs each seed twice; fails if the second run is not the first to the byte of its log.
    #[arg(long)]
    pub twice: bool,
}

impl Chaos {
    /// Runs them.
    ///
    /// # Errors
    /// A seed failed or did not end.
    pub fn run(&self, say: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
        let threads = self
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let verbosity = if self.verbose {
            Verbosity::Everything
        } else {
            Verbosity::Deeds
        };
        let times = if self.twice { Times::Twice } else { Times::Once };
        let mut failed = Vec::new();
        run_seeds(&self.seeds, threads, verbosity, times, |outcome: Outcome| {
            if self.verbose {
                outcome.log.iter().for_each(|line| say(line));
            }
            say(&outcome.to_string());
            if !outcome.is_well() {
                failed.push(outcome.seed.to_string());
            }
        })?;
        if !failed.is_empty() {
            bail!(
                "{} of {} seeds failed: {}; see one with make chaos SEEDS={} VERBOSE=1",
                failed.len(),
                self.seeds.count(),
                failed.join(" "),
                failed.first().map_or("", String::as_str)
            );
        }
        Ok(())
    }
}
