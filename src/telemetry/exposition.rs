//! Where metric families are declared and the text of a scrape comes from.
//!
//! Three kinds of families meet here: those of the `prometheus` crate (counters, small gauges, histograms), the gauges that describe objects
//! ([`SeriesStore`]), and summaries. Every declaration is recorded, so a test can compare all of them with what upstream shows, also those that have no
//! series yet. The wiring makes one per process; tests make as many as they like.

use super::series::Shown;
use super::text;
use super::{Counters, Gauges, Histograms, SeriesStore, Summaries};
use chrono::{DateTime, Utc};
use prometheus::{CounterVec, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry, TextEncoder};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The family that tells of full stores.
const REFUSED: &str = "karpenter_telemetry_series_refused_total";

/// Why a family could not be declared: its name or labels are malformed, or somebody else declared it.
#[derive(Debug, thiserror::Error)]
#[error("declaring metric {name}")]
pub struct DeclareError {
    /// The family.
    pub name: String,
    /// What the library said.
    #[source]
    pub source: prometheus::Error,
}

/// The type of a family, in Prometheus' word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts per bucket.
    Histogram,
    /// Quantiles over a sliding window.
    Summary,
}

impl Kind {
    /// The word of the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// What was declared of one family.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// What it means, one sentence.
    pub help: String,
    /// Its label names, in the order in which values are given.
    pub labels: Vec<String>,
    /// Bounds of a histogram, quantiles of a summary, else nothing.
    pub bounds: Vec<f64>,
}

/// A family that writes its own text.
pub trait Family: Debug + Send + Sync {
    /// Appends header and samples, or nothing when there are no samples.
    fn write(&self, out: &mut String, now: DateTime<Utc>);

    /// The same text, for families that are too large to be written at once; what is yielded is not empty but in a family without samples.
    fn parts(&self, now: DateTime<Utc>) -> Box<dyn Iterator<Item = String> + Send> {
        let mut text = String::new();
        self.write(&mut text, now);
        Box::new(std::iter::once(text))
    }

    /// Name of the family and how many objects it had no room for, if any.
    fn refused(&self) -> Option<(&str, u64)> {
        None
    }
}

/// All families of the process.
#[derive(Debug, Clone, Default)]
pub struct Exposition {
    registry: Registry,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    families: Vec<Arc<dyn Family>>,
    declarations: Vec<Declaration>,
}

impl Exposition {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The registry behind it, for collectors of other modules.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Adds a family that writes itself.
    pub fn add(&self, family: Arc<dyn Family>) {
        self.lock().families.push(family);
    }

    /// What was declared so far, sorted by name.
    pub fn declarations(&self) -> Vec<Declaration> {
        let mut all = self.lock().declarations.clone();
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }

    /// The text of a scrape. `now` ends the sliding window of the summaries.
    pub fn render(&self, now: DateTime<Utc>) -> Result<String, prometheus::Error> {
        Ok(self.parts(now)?.collect())
    }

    /// The text of a scrape in parts, none of them empty, each made when it is asked for: with thousands of nodes and pods the whole is larger than
    /// what it is made of.
    pub fn parts(
        &self,
        now: DateTime<Utc>,
    ) -> Result<impl Iterator<Item = String> + Send + 'static, prometheus::Error> {
        let gathered = TextEncoder::new().encode_to_string(&self.registry.gather())?;
        let families = self.lock().families.clone();
        let mut refused = String::new();
        write_refused(&mut refused, &families);
        let written = families.into_iter().flat_map(move |family| family.parts(now));
        let all = std::iter::once(gathered).chain(written).chain([refused]);
        Ok(all.filter(|part| !part.is_empty()))
    }

    /// Declares a family of counters.
    pub fn counters<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
    ) -> Result<Counters<N>, DeclareError> {
        let vec = CounterVec::new(Opts::new(name, help), &labels).map_err(|source| refused(name, source))?;
        self.register(name, Box::new(vec.clone()))?;
        self.record(name, Kind::Counter, help, &labels, &[]);
        Ok(Counters(vec))
    }

    /// Declares a family of gauges.
    pub fn gauges<const N: usize>(&self, name: &str, help: &str, labels: [&str; N]) -> Result<Gauges<N>, DeclareError> {
        let vec = GaugeVec::new(Opts::new(name, help), &labels).map_err(|source| refused(name, source))?;
        self.register(name, Box::new(vec.clone()))?;
        self.record(name, Kind::Gauge, help, &labels, &[]);
        Ok(Gauges(vec))
    }

    /// Declares a family of histograms.
    pub fn histograms<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
        buckets: &[f64],
    ) -> Result<Histograms<N>, DeclareError> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let vec = HistogramVec::new(opts, &labels).map_err(|source| refused(name, source))?;
        self.register(name, Box::new(vec.clone()))?;
        self.record(name, Kind::Histogram, help, &labels, buckets);
        Ok(Histograms(vec))
    }

    /// Declares a family of summaries with the quantiles of surface §5.
    pub fn summaries<const N: usize>(&self, name: &str, help: &str, labels: [&'static str; N]) -> Summaries<N> {
        let family = Summaries::new(name, help, labels);
        self.record(name, Kind::Summary, help, &labels, &super::summary::QUANTILES);
        self.add(Arc::new(family.clone()));
        family
    }

    /// Declares a family of gauges that describe objects and go with them.
    pub fn series<const N: usize>(&self, name: &str, help: &str, labels: [&str; N]) -> SeriesStore<N> {
        self.store(name, help, labels, Shown::Values)
    }

    /// Declares a family of gauges that show how old something of an object is.
    pub fn ages<const N: usize>(&self, name: &str, help: &str, labels: [&str; N]) -> SeriesStore<N> {
        self.store(name, help, labels, Shown::Ages)
    }

    fn store<const N: usize>(&self, name: &str, help: &str, labels: [&str; N], shown: Shown) -> SeriesStore<N> {
        let store = SeriesStore::new(name, help, labels, shown);
        self.record(name, Kind::Gauge, help, &labels, &[]);
        self.add(Arc::new(store.clone()));
        store
    }

    /// Declares a family of gauges that writes its own text.
    pub(super) fn written(&self, name: &str, help: &str, labels: &[&str], family: Arc<dyn Family>) {
        self.record(name, Kind::Gauge, help, labels, &[]);
        self.add(family);
    }

    fn register(&self, name: &str, collector: Box<dyn prometheus::core::Collector>) -> Result<(), DeclareError> {
        self.registry
            .register(collector)
            .map_err(|source| refused(name, source))
    }

    fn record(&self, name: &str, kind: Kind, help: &str, labels: &[&str], bounds: &[f64]) {
        let labels = labels.iter().map(ToString::to_string).collect();
        let declaration = Declaration {
            name: name.to_owned(),
            kind,
            help: help.to_owned(),
            labels,
            bounds: bounds.to_vec(),
        };
        self.lock().declarations.push(declaration);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Both lists only grow by whole entries: what a panicking thread left behind is still right.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says which families were full, so that a bounded store never looks like a complete one.
fn write_refused(out: &mut String, families: &[Arc<dyn Family>]) {
    let full: Vec<(&str, u64)> = families.iter().filter_map(|family| family.refused()).collect();
    if !full.is_empty() {
        text::header(
            out,
            REFUSED,
            "Objects that a full metric family had no room for.",
            "counter",
        );
    }
    for (metric, count) in full {
        #[allow(clippy::cast_precision_loss)] // a count, far below 2^52
        text::sample(out, REFUSED, std::iter::once(("metric", metric)), count as f64);
    }
}

fn refused(name: &str, source: prometheus::Error) -> DeclareError {
    DeclareError {
        name: name.to_owned(),
        source,
    }
}
