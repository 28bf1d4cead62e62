//! The conditions that objects have now, kept once per object and written as three families for its kind, and as three older ones without the
//! kind in their name (surface §5.6).
//!
//! Ages are worked out at the moment of a scrape. Filled by the condition controllers through [`ConditionMetrics`](super::ConditionMetrics).

use super::exposition::Family;
use super::text;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A present condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionSample<'a> {
    /// Its type.
    pub condition: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Its reason.
    pub reason: &'a str,
    /// Its last transition, if it is told.
    pub since: Option<DateTime<Utc>>,
}

/// The objects of one kind by name; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects(Arc<Mutex<BTreeMap<Box<str>, Shown>>>);

#[derive(Debug)]
struct Shown {
    /// Escaped values of the extra labels, joined by newlines.
    extras: Box<str>,
    conditions: Box<[Present]>,
    deleting: Option<f64>,
}

#[derive(Debug)]
struct Present {
    /// Escaped type, status and reason, joined by newlines.
    words: Box<str>,
    since: Option<f64>,
}

impl Objects {
    pub(super) fn show<const E: usize>(
        &self,
        name: &str,
        extras: [&str; E],
        conditions: &[ConditionSample<'_>],
        deleting: Option<DateTime<Utc>>,
    ) {
        let present = |sample: &ConditionSample<'_>| Present {
            words: text::joined([sample.condition, sample.status, sample.reason]),
            since: sample.since.map(text::instant),
        };
        let shown = Shown {
            extras: text::joined(extras),
            conditions: conditions.iter().map(present).collect(),
            deleting: deleting.map(text::instant),
        };
        self.lock().insert(name.into(), shown);
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Shown>> {
        // An object is replaced in one step: what a panicking thread left behind is still right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a family says of each object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// 1 for each condition.
    Present,
    /// Since when each condition is as it is.
    Ages,
    /// Since when the object is being deleted.
    Deleting,
}

impl What {
    /// The labels that name the object, and those that name the condition.
    pub(super) fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Present | Self::Ages => &["namespace", "name", "type", "status", "reason"],
            Self::Deleting => &["namespace", "name"],
        }
    }
}

/// One family over the objects of one or more kinds.
#[derive(Debug)]
pub(super) struct ConditionFamily {
    pub(super) name: String,
    pub(super) help: &'static str,
    pub(super) what: What,
    /// Objects, and the labels that come first for all of them.
    pub(super) kinds: Vec<(Vec<(&'static str, String)>, Objects)>,
    /// Names of the extra labels; none where the family leaves them out.
    pub(super) extras: Vec<String>,
}

impl Family for ConditionFamily {
    fn write(&self, out: &mut String, now: DateTime<Utc>) {
        let start = out.len();
        for (first, objects) in &self.kinds {
            for (name, object) in objects.lock().iter() {
                let line = Line {
                    family: self,
                    first,
                    name,
                    extras: &object.extras,
                };
                line.write(out, object, now);
            }
        }
        if out.len() > start {
            let mut header = String::new();
            text::header(&mut header, &self.name, self.help, "gauge");
            out.insert_str(start, &header);
        }
    }
}

/// What the samples of an object have in common.
struct Line<'a> {
    family: &'a ConditionFamily,
    first: &'a [(&'static str, String)],
    name: &'a str,
    extras: &'a str,
}

impl Line<'_> {
    fn write(&self, out: &mut String, object: &Shown, now: DateTime<Utc>) {
        match self.family.what {
            What::Present => object
                .conditions
                .iter()
                .for_each(|present| self.sample(out, Some(&present.words), 1.0)),
            What::Ages => {
                for present in &object.conditions {
                    if let Some(since) = present.since {
                        self.sample(out, Some(&present.words), text::age(since, now));
                    }
                }
            }
            What::Deleting => {
                if let Some(since) = object.deleting {
                    self.sample(out, None, text::age(since, now));
                }
            }
        }
    }

    fn sample(&self, out: &mut String, words: Option<&str>, value: f64) {
        let first = self.first.iter().map(|(label, value)| (*label, value.as_str()));
        let named = [("namespace", ""), ("name", self.name)];
        let words = words
            .into_iter()
            .flat_map(|words| ["type", "status", "reason"].into_iter().zip(words.split('\n')));
        let extras = self
            .family
            .extras
            .iter()
            .map(String::as_str)
            .zip(self.extras.split('\n'));
        text::sample(
            out,
            &self.family.name,
            first.chain(named).chain(words).chain(extras),
            value,
        );
    }
}
