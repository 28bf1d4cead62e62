//! Looks at everything every few seconds; tells in the log, a metric and readiness; heals, and ends the process as the last resort.

use super::judge::{Cure, Finding, Limits, Part, Watched, of_cluster_state, of_watch, of_work};
use super::vital::Vitals;
use crate::clock::SharedClock;
use crate::cluster::Source;
use crate::k8s::cluster_task::ClusterHandle;
use crate::k8s::hub::{HubHandle, Pulse};
use crate::k8s::metrics::BorderMetrics;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often it looks.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A watch that stays silent is listed again this often.
const RELIST_EVERY: Duration = Duration::from_mins(1);

/// What does not work at present; cheap to clone. Readiness shows it.
#[derive(Debug, Clone, Default)]
pub struct Report(Arc<Mutex<Vec<String>>>);

impl Report {
    /// What does not work, in words; nothing if everything does.
    pub fn trouble(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!lines.is_empty()).then(|| lines.join("; "))
    }

    fn set(&self, lines: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lines;
    }
}

/// The watchdog.
pub struct Watchdog {
    hub: HubHandle,
    cluster: ClusterHandle,
    vitals: Vitals,
    clock: SharedClock,
    metrics: BorderMetrics,
    report: Report,
    limits: Limits,
    /// Since when each part is known not to work.
    known: BTreeMap<Part, Instant>,
    relisted: BTreeMap<Source, Instant>,
}

impl std::fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchdog")
            .field("vitals", &self.vitals)
            .finish_non_exhaustive()
    }
}

impl Watchdog {
    /// A watchdog over the watches, the cluster state and these vitals, with the usual limits.
    pub fn new(
        hub: HubHandle,
        cluster: ClusterHandle,
        vitals: Vitals,
        clock: SharedClock,
        metrics: BorderMetrics,
    ) -> Self {
        Self {
            hub,
            cluster,
            vitals,
            clock,
            metrics,
            report: Report::default(),
            limits: Limits::default(),
            known: BTreeMap::new(),
            relisted: BTreeMap::new(),
        }
    }

    /// The same with other limits.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Where it says what does not work.
    pub fn report(&self) -> Report {
        self.report.clone()
    }

    /// Looks until `stop`. Returns before that only when the process should end: whoever runs it takes that for the end of a task.
    pub async fn run(mut self, stop: CancellationToken) {
        let began = self.clock.now();
        let mut unanswered = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            // An answer comes at once; a question that waits until the next look has none.
            unanswered = match tokio::time::timeout(LOOK_EVERY, self.cluster.snapshot()).await {
                Ok(_) => Duration::ZERO,
                Err(_) => unanswered.saturating_add(LOOK_EVERY.saturating_mul(2)),
            };
            if self.look(began, unanswered) == Cure::End {
                return;
            }
        }
    }

    /// One look at everything; yields the strongest cure that is called for.
    fn look(&mut self, began: DateTime<Utc>, unanswered: Duration) -> Cure {
        let now = Instant::now();
        let mut findings: Vec<Finding> = self
            .vitals
            .signs()
            .into_iter()
            .filter_map(|(name, signs)| of_work(name, signs, &self.limits))
            .collect();
        findings.extend(of_cluster_state(unanswered, &self.limits));
        let mut silent = Vec::new();
        for (source, pulse) in self.hub.pulses() {
            if let Some(finding) = self.of_watch(&source, &pulse, began, now) {
                silent.push((source, finding.cure));
                findings.push(finding);
            }
        }
        for (source, cure) in silent {
            if cure == Cure::Relist {
                self.relist(&source, now);
            }
        }
        self.tell(&findings, now);
        findings.iter().map(|finding| finding.cure).max().unwrap_or(Cure::Wait)
    }

    fn of_watch(&self, source: &Source, pulse: &Pulse, began: DateTime<Utc>, now: Instant) -> Option<Finding> {
        if pulse.unserved {
            return None;
        }
        let ago = |then: DateTime<Utc>| {
            let now = self.clock.now();
            now.signed_duration_since(then).to_std().unwrap_or_default()
        };
        let name = source.name().to_owned();
        let known = self.known.get(&Part::Watch(name.clone()));
        let watched = Watched {
            silent: ago(pulse.last_sign().unwrap_or(began).max(began)),
            known: known.map(|since| now.duration_since(*since)).unwrap_or_default(),
            trouble: pulse.trouble.as_ref().map(|trouble| (&*trouble.words, ago(trouble.at))),
        };
        of_watch(&name, watched, &self.limits)
    }

    fn relist(&mut self, source: &Source, now: Instant) {
        let lately = self.relisted.get(source);
        if lately.is_none_or(|at| now.duration_since(*at) >= RELIST_EVERY) {
            self.relisted.insert(source.clone(), now);
            self.hub.relist(source);
        }
    }

    /// Tells what is new, and what works again.
    fn tell(&mut self, findings: &[Finding], now: Instant) {
        let present: BTreeSet<&Part> = findings.iter().map(|finding| &finding.part).collect();
        for finding in findings {
            let first = !self.known.contains_key(&finding.part);
            if first {
                self.known.insert(finding.part.clone(), now);
                self.metrics.stalled.with_label_values(&finding.part.labels()).set(1);
            }
            if first || finding.cure == Cure::End {
                let cure = match finding.cure {
                    Cure::Wait => "waiting",
                    Cure::Relist => "listing again",
                    Cure::End => "ending the process",
                };
                tracing::error!(part = %finding.part, trouble = finding.trouble, cure, "stalled");
            }
        }
        let over: Vec<Part> = self
            .known
            .keys()
            .filter(|part| !present.contains(part))
            .cloned()
            .collect();
        for part in over {
            self.known.remove(&part);
            self.metrics.stalled.with_label_values(&part.labels()).set(0);
            tracing::info!(part = %part, "works again");
        }
        let lines = findings
            .iter()
            .map(|finding| format!("{}: {}", finding.part, finding.trouble));
        self.report.set(lines.collect());
    }
}
