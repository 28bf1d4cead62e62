//! What others may ask of the hub: when each watch last said anything, and to list again.

use crate::cluster::{Key, Source};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// An object that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Which watch.
    pub source: Source,
    /// The kind as Kubernetes writes it.
    pub kind: String,
    /// Its key.
    pub key: Key,
    /// Its UID.
    pub uid: String,
    /// Where the trouble is and what it is, for its author.
    pub message: String,
}

/// What went wrong with a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The error's words.
    pub words: String,
    /// When it was told last.
    pub at: DateTime<Utc>,
}

/// How one watch is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pulse {
    /// When it last said anything, its opening, its bookmarks and its end included.
    pub last_event: Option<DateTime<Utc>>,
    /// When a piece of the list under way came in.
    pub last_piece: Option<DateTime<Utc>>,
    /// When its last complete list came in.
    pub last_list: Option<DateTime<Utc>>,
    /// What went wrong last, if nothing went right since.
    pub trouble: Option<Trouble>,
    /// Whether the kind is not served or not permitted, and optional.
    pub unserved: bool,
}

impl Pulse {
    /// When it last gave a sign of life. A list that goes on is one, unless it is tried again because it failed: one that breaks off at the same place
    /// again and again goes on too.
    pub fn last_sign(&self) -> Option<DateTime<Utc>> {
        let piece = self.last_piece.filter(|_| self.trouble.is_none());
        self.last_event.max(piece)
    }
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) pulse: Mutex<Pulse>,
    /// Lists that were asked for, by number.
    pub(super) wanted: watch::Sender<u64>,
    /// The newest number whose list is in the cluster state's inbox.
    pub(super) done: watch::Sender<u64>,
}

impl Line {
    fn new() -> Self {
        Self {
            pulse: Mutex::default(),
            wanted: watch::Sender::new(0),
            done: watch::Sender::new(0),
        }
    }

    pub(super) fn beat(&self, change: impl FnOnce(&mut Pulse)) {
        change(&mut self.pulse.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The way to the hub; cheap to clone.
#[derive(Debug, Clone)]
pub struct HubHandle {
    lines: Arc<BTreeMap<Source, Line>>,
}

impl HubHandle {
    pub(super) fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        Self {
            lines: Arc::new(sources.into_iter().map(|source| (source, Line::new())).collect()),
        }
    }

    pub(super) fn line(&self, source: &Source) -> Option<&Line> {
        self.lines.get(source)
    }

    /// How each watch is doing.
    pub fn pulses(&self) -> BTreeMap<Source, Pulse> {
        let read = |line: &Line| line.pulse.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.lines
            .iter()
            .map(|(source, line)| (source.clone(), read(line)))
            .collect()
    }

    /// The kinds whose first list is not in, by name; optional ones that are not served are waited for by nobody.
    pub fn unlisted(&self) -> Vec<String> {
        let pulses = self.pulses();
        let missing = pulses
            .iter()
            .filter(|(_, pulse)| pulse.last_list.is_none() && !pulse.unserved);
        missing.map(|(source, _)| source.name().to_owned()).collect()
    }

    /// Makes a watch list again: what heals a watch that is suspected of having lost something.
    pub fn relist(&self, source: &Source) {
        if let Some(line) = self.lines.get(source) {
            line.wanted.send_modify(|wanted| *wanted = wanted.saturating_add(1));
        }
    }

    /// Lists these again and waits until lists that began after this call are with the cluster task. What a new leader does before it decides
    /// anything (architecture §3.5). Sources that are not watched are ignored.
    pub async fn refresh(&self, sources: &[Source]) {
        let mut awaited = Vec::new();
        for source in sources {
            if let Some(line) = self.lines.get(source) {
                self.relist(source);
                awaited.push((line.done.subscribe(), *line.wanted.borrow()));
            }
        }
        for (mut done, number) in awaited {
            // The sender lives as long as this handle.
            let _ = done.wait_for(|done| *done >= number).await;
        }
    }
}
