//! The framework metrics of the Kubernetes border (surface §5.7): requests, queues, watches, events.
//!
//! Relies on nothing but the prometheus registry it is given. The wiring creates one [`BorderMetrics`] and hands clones to the client, the hub, the
//! queues and the recorder; tests take [`BorderMetrics::detached`].

use crate::telemetry::{Declaration, Kind};
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::Collector,
};
use std::time::Duration;

/// Surface §5 list D, up to the 60 s that the framework uses.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];

/// How a reconcile ended, in the framework's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing more to do.
    Success,
    /// It failed and is tried again with back-off, or was given up.
    Error,
    /// Asked to come again at once.
    Requeue,
    /// Asked to come again later.
    RequeueAfter,
}

impl ReconcileResult {
    /// Every result, each pre-set to 0 per controller (surface §5.7).
    pub const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Requeue, Self::RequeueAfter];

    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

/// The metrics of the Kubernetes border; cheap to clone, all clones count together.
#[derive(Debug, Clone)]
pub struct BorderMetrics {
    pub(crate) requests: IntCounterVec,
    pub(crate) request_seconds: HistogramVec,
    pub(crate) reconciles: IntCounterVec,
    pub(crate) reconcile_errors: IntCounterVec,
    pub(crate) reconcile_terminal_errors: IntCounterVec,
    pub(crate) reconcile_panics: IntCounterVec,
    pub(crate) reconcile_seconds: HistogramVec,
    pub(crate) max_workers: IntGaugeVec,
    pub(crate) active_workers: IntGaugeVec,
    pub(crate) depth: IntGaugeVec,
    pub(crate) delayed: IntGaugeVec,
    pub(crate) adds: IntCounterVec,
    pub(crate) retries: IntCounterVec,
    pub(crate) queued_seconds: HistogramVec,
    pub(crate) work_seconds: HistogramVec,
    pub(crate) unfinished_seconds: GaugeVec,
    pub(crate) longest_seconds: GaugeVec,
    pub(crate) queue_full: IntCounterVec,
    pub(crate) undecodable: IntCounterVec,
    pub(crate) unserved: IntGaugeVec,
    pub(crate) relists: IntCounterVec,
    pub(crate) last_event: GaugeVec,
    pub(crate) inbox_full: IntCounter,
    pub(crate) events_dropped: IntCounterVec,
    pub(crate) events_queued: IntGauge,
    pub(crate) leading: IntGaugeVec,
    pub(crate) stalled: IntGaugeVec,
}

/// Declares metrics and remembers them, so that one failing declaration is reported and none is forgotten.
#[derive(Default)]
struct Declare {
    collectors: Vec<Box<dyn Collector>>,
    declarations: Vec<Declaration>,
}

impl Declare {
    fn keep<C: Collector + Clone + 'static>(&mut self, kind: Kind, bounds: &[f64], collector: C) -> C {
        self.declarations
            .extend(collector.desc().into_iter().map(|desc| Declaration {
                name: desc.fq_name.clone(),
                kind,
                help: desc.help.clone(),
                labels: desc.variable_labels.clone(),
                bounds: bounds.to_vec(),
            }));
        self.collectors.push(Box::new(collector.clone()));
        collector
    }

    fn counters(&mut self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        Ok(self.keep(Kind::Counter, &[], IntCounterVec::new(Opts::new(name, help), labels)?))
    }

    fn gauges(&mut self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        Ok(self.keep(Kind::Gauge, &[], IntGaugeVec::new(Opts::new(name, help), labels)?))
    }

    fn seconds(&mut self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<GaugeVec> {
        Ok(self.keep(Kind::Gauge, &[], GaugeVec::new(Opts::new(name, help), labels)?))
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> prometheus::Result<HistogramVec> {
        let vec = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?;
        Ok(self.keep(Kind::Histogram, buckets, vec))
    }
}

impl BorderMetrics {
    /// Declares the metrics and registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let (metrics, declared) = Self::declare()?;
        for collector in declared.collectors {
            registry.register(collector)?;
        }
        Ok(metrics)
    }

    /// The same metrics, shown nowhere.
    pub fn detached() -> prometheus::Result<Self> {
        Self::declare().map(|(metrics, _)| metrics)
    }

    /// What is declared, for the reference in the docs.
    pub fn declarations() -> prometheus::Result<Vec<Declaration>> {
        Self::declare().map(|(_, declared)| declared.declarations)
    }

    #[allow(clippy::too_many_lines)] // one line per metric: a table, not a procedure
    fn declare() -> prometheus::Result<(Self, Declare)> {
        let mut d = Declare::default();
        let by_controller = ["controller"];
        let by_queue = ["name", "controller"];
        let work_buckets = prometheus::exponential_buckets(1e-8, 10.0, 12)?;
        let request_buckets = prometheus::exponential_buckets(0.001, 1.5, 20)?;
        let metrics = Self {
            requests: d.counters(
                "client_go_request_total",
                "Requests to the API server.",
                &["code", "method"],
            )?,
            request_seconds: d.histogram(
                "client_go_request_duration_seconds",
                "Time until the API server answered.",
                &request_buckets,
                &["verb", "group", "version", "kind", "subresource"],
            )?,
            reconciles: d.counters(
                "controller_runtime_reconcile_total",
                "Reconciles by how they ended.",
                &["controller", "result"],
            )?,
            reconcile_errors: d.counters(
                "controller_runtime_reconcile_errors_total",
                "Reconciles that failed.",
                &by_controller,
            )?,
            reconcile_terminal_errors: d.counters(
                "controller_runtime_terminal_reconcile_errors_total",
                "Reconciles that failed and are not tried again.",
                &by_controller,
            )?,
            reconcile_panics: d.counters(
                "controller_runtime_reconcile_panics_total",
                "Reconciles that ended by a defect.",
                &by_controller,
            )?,
            reconcile_seconds: d.histogram(
                "controller_runtime_reconcile_time_seconds",
                "Time of one reconcile.",
                &RECONCILE_BUCKETS,
                &by_controller,
            )?,
            max_workers: d.gauges(
                "controller_runtime_max_concurrent_reconciles",
                "Reconciles that may run at once.",
                &by_controller,
            )?,
            active_workers: d.gauges(
                "controller_runtime_active_workers",
                "Reconciles that run now.",
                &by_controller,
            )?,
            depth: d.gauges(
                "workqueue_depth",
                "Keys that wait.",
                &["name", "controller", "priority"],
            )?,
            delayed: d.gauges(
                "karpenter_workqueue_delayed",
                "Keys whose time has not come: the next look at an object, or the next try after a failure.",
                &by_controller,
            )?,
            adds: d.counters("workqueue_adds_total", "Keys added.", &by_queue)?,
            retries: d.counters("workqueue_retries_total", "Keys added again with back-off.", &by_queue)?,
            queued_seconds: d.histogram(
                "workqueue_queue_duration_seconds",
                "Time a key waited.",
                &work_buckets,
                &by_queue,
            )?,
            work_seconds: d.histogram(
                "workqueue_work_duration_seconds",
                "Time spent on a key.",
                &work_buckets,
                &by_queue,
            )?,
            unfinished_seconds: d.seconds(
                "workqueue_unfinished_work_seconds",
                "Sum of the time of the work that runs now.",
                &by_queue,
            )?,
            longest_seconds: d.seconds(
                "workqueue_longest_running_processor_seconds",
                "Time of the longest work that runs now.",
                &by_queue,
            )?,
            queue_full: d.counters(
                "karpenter_workqueue_full_total",
                "Keys refused because the queue was at its limit; the next resync brings them again.",
                &by_controller,
            )?,
            undecodable: d.counters(
                "karpenter_watch_undecodable_objects_total",
                "Objects left out because they could not be read.",
                &["kind"],
            )?,
            unserved: d.gauges(
                "karpenter_watch_unserved",
                "1 while an optional kind is not served or not permitted.",
                &["kind"],
            )?,
            relists: d.counters("karpenter_watch_relists_total", "Full lists made.", &["kind"])?,
            last_event: d.seconds(
                "karpenter_watch_last_event_timestamp_seconds",
                "When the watch last said anything, bookmarks included.",
                &["kind"],
            )?,
            inbox_full: d.keep(
                Kind::Counter,
                &[],
                IntCounter::new(
                    "karpenter_cluster_state_inbox_full_total",
                    "Times a sender had to wait for the cluster task.",
                )?,
            ),
            events_dropped: d.counters(
                "karpenter_events_dropped_total",
                "Kubernetes Events not sent: queue full, or refused by the server.",
                &["cause"],
            )?,
            events_queued: d.keep(
                Kind::Gauge,
                &[],
                IntGauge::new("karpenter_events_queued", "Kubernetes Events that wait to be sent.")?,
            ),
            leading: d.gauges(
                "leader_election_master_status",
                "1 while this process holds the lease, else 0.",
                &["name"],
            )?,
            stalled: d.gauges(
                "karpenter_watchdog_stalled",
                "1 while a watch, a controller or a task does not work although it did not end.",
                &["kind", "name"],
            )?,
        };
        Ok((metrics, d))
    }

    /// Counts one answered request.
    pub(crate) fn observe_request(&self, code: &str, method: &str, route: &Route<'_>, took: Duration) {
        self.requests.with_label_values(&[code, method]).inc();
        self.request_seconds
            .with_label_values(&[route.verb, route.group, "", route.resource, ""])
            .observe(took.as_secs_f64());
    }
}

/// What a request path is about, in the words of the request metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    pub(crate) verb: &'static str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
}

impl<'a> Route<'a> {
    /// Reads a path such as `/api/v1/namespaces/x/pods/y` or `/apis/g/v1/things`.
    pub(crate) fn of(method: &http::Method, path: &'a str) -> Self {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next() {
            Some("apis") => parts.next().unwrap_or(""),
            _ => "",
        };
        let _version = parts.next();
        let rest: Vec<&str> = parts.collect();
        let (resource, name) = match rest.as_slice() {
            ["namespaces", _, resource, name @ ..] | [resource, name @ ..] => (*resource, name.first()),
            [] => ("", None),
        };
        let verb = match (method.as_str(), name) {
            ("GET", Some(_)) => "GET",
            ("GET", None) => "LIST",
            ("POST", _) => "CREATE",
            ("PATCH", _) => "PATCH",
            ("PUT", _) => "UPDATE",
            ("DELETE", _) => "DELETE",
            _ => "OTHER",
        };
        Self { verb, group, resource }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_metrics_register_once() {
        let registry = Registry::new();
        BorderMetrics::new(&registry).unwrap();
        assert!(
            BorderMetrics::new(&registry).is_err(),
            "a second registration must not pass unseen"
        );
    }

    #[test]
    fn paths_are_told_apart_by_group_resource_and_name() {
        let get = http::Method::GET;
        let route = |path| Route::of(&get, path);
        assert_eq!(
            route("/api/v1/namespaces/x/pods/y"),
            Route {
                verb: "GET",
                group: "",
                resource: "pods"
            }
        );
        assert_eq!(
            route("/apis/karpenter.sh/v1/nodeclaims"),
            Route {
                verb: "LIST",
                group: "karpenter.sh",
                resource: "nodeclaims"
            }
        );
        assert_eq!(
            route("/api/v1/namespaces/x"),
            Route {
                verb: "GET",
                group: "",
                resource: "namespaces"
            }
        );
        assert_eq!(
            route("/"),
            Route {
                verb: "LIST",
                group: "",
                resource: ""
            }
        );
    }
}
