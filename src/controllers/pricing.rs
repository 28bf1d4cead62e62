//! Controller `cloudprovider.pricing`: keeps prices current and shows what is on offer.
//!
//! Run every minute: asks the feed when its answer is five minutes old, lets the catalogue take in what changed (prices, cool-downs that ended), which
//! moves its revision, and writes the offering metrics (surface §5.5). Decides nothing.

use crate::cloud::spot::SpotProvider;
use crate::cloud::spot::catalogue::Catalogue;
use crate::cloud::spot::feed::Refreshed;
use crate::k8s::queue::{Next, ReconcileError};
use crate::resources::names;
use crate::telemetry::{OfferingSample, PriceMetrics};
use std::sync::Arc;
use std::time::Duration;

/// Name of the loop.
pub const NAME: &str = "cloudprovider.pricing";
/// How often it runs.
pub const PERIOD: Duration = Duration::from_mins(1);

/// The controller; the wiring runs [`Pricing::refresh`] as a loop.
#[derive(Clone)]
pub struct Pricing {
    provider: Arc<SpotProvider>,
    metrics: PriceMetrics,
}

impl Pricing {
    /// A controller that keeps this provider's prices.
    pub fn new(provider: Arc<SpotProvider>, metrics: PriceMetrics) -> Self {
        Self { provider, metrics }
    }

    /// One run. A feed that fails is no failure of the run: the prices in use stay good, and the feed has said it.
    pub async fn refresh(&self) -> Result<Next, ReconcileError> {
        let refreshed = self.provider.feed().refresh().await;
        let catalogue = self.provider.stock().current();
        if refreshed == Refreshed::Changed {
            tracing::debug!(types = catalogue.types.len(), "prices changed");
        }
        self.show(&catalogue);
        Ok(Next::Done)
    }

    #[allow(clippy::cast_precision_loss)] // a count of classes
    fn show(&self, catalogue: &Catalogue) {
        for kind in catalogue.types.iter() {
            let offerings: Vec<OfferingSample> = kind
                .offerings
                .iter()
                .map(|offering| OfferingSample {
                    capacity_type: offering.capacity_type().map_or("", |kind| kind.as_str()),
                    zone: offering.zone().unwrap_or_default().to_owned(),
                    price: offering.price,
                    available: offering.availability.is_available(),
                })
                .collect();
            let amount = |name| kind.capacity.amount(name).approximate();
            self.metrics
                .show(&kind.name, amount(names::CPU), amount(names::MEMORY), &offerings);
        }
        self.metrics.retain(|name| catalogue.get(name).is_some());
        self.metrics.unpriced(catalogue.unpriced.len() as f64);
    }
}
