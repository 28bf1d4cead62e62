//! What a trial tells: its deeds, and on request every line of the operator.

use chrono::{DateTime, SecondsFormat, Utc};
use karpenter::clock::SharedClock;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// What happened to the world.
    Deeds,
    /// Also the operator's log, and every write to either API.
    Everything,
}

/// The lines of a trial; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    verbosity: Verbosity,
    lines: Arc<Mutex<Lines>>,
}

#[derive(Debug, Default)]
struct Lines {
    all: Vec<String>,
    /// Identifiers of reconciles in the order of their first lines. They differ from run to run, since a process gives each one once.
    reconciles: BTreeMap<String, usize>,
}

impl Lines {
    fn push(&mut self, line: String) {
        let line = self.numbered(line);
        self.all.push(line);
    }

    /// The line with a number in place of its reconcile's identifier.
    fn numbered(&mut self, line: String) -> String {
        let Some((before, rest)) = line.split_once(RECONCILE) else {
            return line;
        };
        let Some((id, after)) = rest.split_once('"') else {
            return line;
        };
        let next = self.reconciles.len();
        let number = *self.reconciles.entry(id.to_owned()).or_insert(next);
        format!("{before}{RECONCILE}{number}\"{after}")
    }
}

const RECONCILE: &str = "reconcileID=\"";

impl Journal {
    pub(super) fn new(verbosity: Verbosity) -> Self {
        Self {
            verbosity,
            lines: Arc::default(),
        }
    }

    pub(super) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Writes one line.
    pub(super) fn tell(&self, now: DateTime<Utc>, words: &str) {
        self.lock().push(format!("{}  {words}", stamp(now)));
    }

    /// All lines so far.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lock().all.clone()
    }

    /// From here on, and as long as the guard lives, the log of this thread goes into the journal, if it is to.
    pub(super) fn listen(&self, clock: &SharedClock) -> Option<DefaultGuard> {
        if self.verbosity != Verbosity::Everything {
            return None;
        }
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("karpenter=debug,sandbox=info")
            .with_timer(WorldTime(Arc::clone(clock)))
            .with_ansi(false)
            .with_writer(self.clone())
            .finish();
        Some(tracing::subscriber::set_default(subscriber))
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(now: DateTime<Utc>) -> String {
    now.to_rfc3339_opts(SecondsFormat::Millis, true)
}

struct WorldTime(SharedClock);

impl FormatTime for WorldTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&stamp(self.0.now()))
    }
}

impl<'a> MakeWriter<'a> for Journal {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            journal: self.clone(),
            bytes: Vec::new(),
        }
    }
}

/// One line of the log; it is in the journal when it is dropped.
pub(super) struct Line {
    journal: Journal,
    bytes: Vec<u8>,
}

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes).trim_end().to_owned();
        self.journal.lock().push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciles_are_numbered_in_the_order_in_which_they_are_heard_of() {
        let mut lines = Lines::default();
        for line in [
            "a{reconcileID=\"x-1\"}: one",
            "b{reconcileID=\"x-2\"}: two",
            "plain",
            "a{reconcileID=\"x-1\"}: three",
        ] {
            lines.push(line.to_owned());
        }
        let wanted = [
            "a{reconcileID=\"0\"}: one",
            "b{reconcileID=\"1\"}: two",
            "plain",
            "a{reconcileID=\"0\"}: three",
        ];
        assert_eq!(lines.all, wanted);
    }
}
