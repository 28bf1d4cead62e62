//! Gauges that describe objects, kept by object.
//!
//! A pod, node or pool has a handful of series whose labels change during its life. [`SeriesStore`] replaces all series of an object at once and removes
//! them with it, so nothing stale stays behind. It is compact on purpose: 15,000 pods with twelve labels each are a few megabytes here, and some
//! twenty in a `prometheus::GaugeVec`. It is bounded: past [`LIMIT`] objects new ones are refused and counted
//! (`karpenter_telemetry_series_refused_total`). A store of ages holds since when, and shows how long that is at the moment of the scrape.

use super::exposition::Family;
use super::text;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many objects a store holds at most.
const LIMIT: usize = 200_000;

/// One series: label values in the declared order, and the value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a, const N: usize> {
    /// The label values.
    pub labels: [&'a str; N],
    /// The value.
    pub value: f64,
}

/// What the values of a store are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Shown as they are.
    Values,
    /// Instants in Unix seconds, of which the age is shown.
    Ages,
}

/// A family of gauges with `N` labels whose series belong to objects.
#[derive(Debug, Clone)]
pub struct SeriesStore<const N: usize> {
    name: Arc<str>,
    help: Arc<str>,
    labels: Arc<[String; N]>,
    shown: Shown,
    limit: usize,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<Box<str>, Box<[Stored]>>,
    refused: u64,
}

/// Escaped label values joined by newlines (an escaped value has none), and the value.
#[derive(Debug)]
struct Stored {
    labels: Box<str>,
    value: f64,
}

impl<const N: usize> SeriesStore<N> {
    pub(super) fn new(name: &str, help: &str, labels: [&str; N], shown: Shown) -> Self {
        Self::bounded(name, help, labels, shown, LIMIT)
    }

    fn bounded(name: &str, help: &str, labels: [&str; N], shown: Shown, limit: usize) -> Self {
        Self {
            name: name.into(),
            help: help.into(),
            labels: Arc::new(labels.map(str::to_owned)),
            shown,
            limit,
            inner: Arc::default(),
        }
    }

    /// Replaces the series of `object` (a UID, or `namespace/name`) by these.
    pub fn replace<'a>(&self, object: &str, samples: impl IntoIterator<Item = Sample<'a, N>>) {
        let stored: Box<[Stored]> = samples.into_iter().map(|sample| store(&sample)).collect();
        let mut inner = self.lock();
        if let Some(present) = inner.objects.get_mut(object) {
            *present = stored;
        } else if inner.objects.len() < self.limit {
            inner.objects.insert(object.into(), stored);
        } else {
            inner.refused += 1;
        }
    }

    /// Replaces the series of `object` by a single one.
    pub fn set(&self, object: &str, labels: [&str; N], value: f64) {
        self.replace(object, [Sample { labels, value }]);
    }

    /// Replaces the series of `object` in a store of ages by one that began then.
    pub fn set_since(&self, object: &str, labels: [&str; N], since: DateTime<Utc>) {
        self.set(object, labels, text::instant(since));
    }

    /// Removes all series of `object`.
    pub fn remove(&self, object: &str) {
        self.lock().objects.remove(object);
    }

    /// Removes the objects for which `keep` is false, for whoever only sees what is left.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().objects.retain(|object, _| keep(object));
    }

    /// How many objects have series.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Whether no object has series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // An object's series are replaced in one step: what a panicking thread left behind is still right.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<const N: usize> Family for SeriesStore<N> {
    fn write(&self, out: &mut String, now: DateTime<Utc>) {
        let inner = self.lock();
        if inner.objects.values().any(|series| !series.is_empty()) {
            text::header(out, &self.name, &self.help, "gauge");
        }
        for series in inner.objects.values().flatten() {
            let names = self.labels.iter().map(String::as_str);
            let value = match self.shown {
                Shown::Values => series.value,
                Shown::Ages => text::age(series.value, now),
            };
            text::sample(out, &self.name, names.zip(series.labels.split('\n')), value);
        }
    }

    fn refused(&self) -> Option<(&str, u64)> {
        let refused = self.lock().refused;
        (refused > 0).then_some((&*self.name, refused))
    }
}

fn store<const N: usize>(sample: &Sample<'_, N>) -> Stored {
    Stored {
        labels: text::joined(sample.labels),
        value: sample.value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered<const N: usize>(store: &SeriesStore<N>) -> String {
        let mut out = String::new();
        store.write(&mut out, DateTime::UNIX_EPOCH);
        out
    }

    #[test]
    fn the_series_of_an_object_are_replaced_together() {
        let store = SeriesStore::new("m", "Help.", ["name", "phase"], Shown::Values);
        store.replace(
            "uid-1",
            [
                Sample {
                    labels: ["a", "Pending"],
                    value: 1.0,
                },
                Sample {
                    labels: ["a", "Other"],
                    value: 1.0,
                },
            ],
        );
        store.set("uid-1", ["a", "Running"], 2.5);
        assert_eq!(
            rendered(&store),
            "# HELP m Help.\n# TYPE m gauge\nm{name=\"a\",phase=\"Running\"} 2.5\n"
        );
    }

    #[test]
    fn an_age_grows_between_scrapes_by_itself_and_is_never_negative() {
        let store = SeriesStore::new("m", "Help.", ["name"], Shown::Ages);
        let at = |millis: i64| DateTime::from_timestamp_millis(1_750_000_000_000 + millis).unwrap();
        store.set_since("1", ["a"], at(0));
        let shown = |millis| {
            let mut out = String::new();
            store.write(&mut out, at(millis));
            out.lines().last().unwrap().to_owned()
        };
        assert_eq!(shown(1500), "m{name=\"a\"} 1.5");
        assert_eq!(shown(61_000), "m{name=\"a\"} 61");
        assert_eq!(shown(-1), "m{name=\"a\"} 0");
    }

    #[test]
    fn a_removed_object_leaves_nothing_behind() {
        let store = SeriesStore::new("m", "Help.", ["name"], Shown::Values);
        store.set("uid-1", ["a"], 1.0);
        store.remove("uid-1");
        assert!(store.is_empty());
        assert_eq!(rendered(&store), "");
    }

    #[test]
    fn hostile_label_values_stay_inside_their_quotes() {
        let store = SeriesStore::new("m", "Help.", ["a", "b"], Shown::Values);
        store.set("x", ["1\"}\n2", "\\"], 1.0);
        assert!(
            rendered(&store).ends_with("m{a=\"1\\\"}\\n2\",b=\"\\\\\"} 1\n"),
            "{}",
            rendered(&store)
        );
    }

    #[test]
    fn a_full_store_refuses_new_objects_says_so_and_still_updates_old_ones() {
        let store = SeriesStore::bounded("m", "Help.", ["name"], Shown::Values, 1);
        store.set("1", ["a"], 1.0);
        store.set("2", ["b"], 1.0);
        store.set("1", ["a"], 7.0);
        assert_eq!(rendered(&store), "# HELP m Help.\n# TYPE m gauge\nm{name=\"a\"} 7\n");
        assert_eq!(store.refused(), Some(("m", 1)));
    }
}
