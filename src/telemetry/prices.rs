//! Metrics of the price feed and of what is on offer (surface §5.5, last table).
//!
//! Counted by the price feed and the pricing controller. The offering families carry the names that other providers' dashboards know.

use super::{Counters, DeclareError, Exposition, Gauges, Sample, SeriesStore};

/// What is counted of prices and offerings.
#[derive(Debug, Clone)]
pub struct PriceMetrics {
    fallback: Gauges<0>,
    last_success: Gauges<0>,
    failures: Counters<1>,
    unpriced: Gauges<0>,
    price: SeriesStore<3>,
    available: SeriesStore<3>,
    cores: SeriesStore<1>,
    memory: SeriesStore<1>,
}

/// One offering, as shown.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferingSample {
    /// `spot` or `on-demand`.
    pub capacity_type: &'static str,
    /// The zone.
    pub zone: String,
    /// What an hour is billed.
    pub price: f64,
    /// Whether it can be had now.
    pub available: bool,
}

impl PriceMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        let offering = ["instance_type", "capacity_type", "zone"];
        Ok(Self {
            fallback: exposition.gauges(
                "karpenter_cloudprovider_price_feed_fallback",
                "1 while the prices built into the binary are used because the feed never answered well, else 0.",
                [],
            )?,
            last_success: exposition.gauges(
                "karpenter_cloudprovider_price_feed_last_success_timestamp_seconds",
                "When the price feed last answered well, in Unix seconds.",
                [],
            )?,
            failures: exposition.counters(
                "karpenter_cloudprovider_price_feed_failures_total",
                "Answers of the price feed that were not used, by what was wrong with them.",
                ["problem"],
            )?,
            unpriced: exposition.gauges(
                "karpenter_cloudprovider_instance_types_without_price",
                "Instance types that are not offered because no price is known for them.",
                [],
            )?,
            price: exposition.series(
                "karpenter_cloudprovider_instance_type_offering_price_estimate",
                "Hourly price of an offering.",
                offering,
            ),
            available: exposition.series(
                "karpenter_cloudprovider_instance_type_offering_available",
                "Whether an offering can be had now.",
                offering,
            ),
            cores: exposition.series(
                "karpenter_cloudprovider_instance_type_cpu_cores",
                "Cores of an instance type.",
                ["instance_type"],
            ),
            memory: exposition.series(
                "karpenter_cloudprovider_instance_type_memory_bytes",
                "Memory of an instance type.",
                ["instance_type"],
            ),
        })
    }

    /// The feed answered well at this instant (Unix seconds).
    pub fn feed_is_good(&self, unix_seconds: f64) {
        self.fallback.set([], 0.0);
        self.last_success.set([], unix_seconds);
    }

    /// The feed gave nothing usable; `falls_back` is 1 when there are no good prices but the built-in ones.
    pub fn feed_failed(&self, problem: &str, falls_back: f64) {
        self.failures.increment([problem]);
        self.fallback.set([], falls_back);
    }

    /// How many types have no price.
    pub fn unpriced(&self, count: f64) {
        self.unpriced.set([], count);
    }

    /// Shows one instance type with its offerings.
    pub fn show(&self, instance_type: &str, cores: f64, memory: f64, offerings: &[OfferingSample]) {
        self.cores.set(instance_type, [instance_type], cores);
        self.memory.set(instance_type, [instance_type], memory);
        let labels = |o: &OfferingSample| [instance_type.to_owned(), o.capacity_type.to_owned(), o.zone.clone()];
        let all: Vec<([String; 3], &OfferingSample)> = offerings.iter().map(|o| (labels(o), o)).collect();
        let samples = |value: fn(&OfferingSample) -> f64| {
            all.iter().map(move |(names, o)| Sample {
                labels: names.each_ref().map(String::as_str),
                value: value(o),
            })
        };
        self.price.replace(instance_type, samples(|o| o.price));
        self.available
            .replace(instance_type, samples(|o| f64::from(u8::from(o.available))));
    }

    /// Removes the types that are no longer sold.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        for store in [&self.price, &self.available] {
            store.retain(&keep);
        }
        for store in [&self.cores, &self.memory] {
            store.retain(&keep);
        }
    }
}
