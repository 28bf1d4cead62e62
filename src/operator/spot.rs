//! Rackspace Spot, set up from the settings.
//!
//! Called by the wiring; the only place that turns [`SpotOptions`] into the provider's own settings.

use super::spot_options::{SpotHttpOptions, SpotOptions};
use crate::capacity::OverheadSettings;
use crate::clock::SharedClock;
use crate::cloud::spot::{
    AuthSettings, ClientSettings, NodeClasses, PUBLIC_CLIENT_ID, PriceFeed, ProviderSettings, RetrySettings,
    SpotClient, SpotProvider, Tokens, Transport,
};
use crate::telemetry::PriceMetrics;
use std::sync::Arc;

/// Requests to the platform in flight at once, per second in the long run, and without waiting after a pause. The platform publishes no limits; these are a
/// small part of what its own clients send.
const AT_ONCE: usize = 10;
const PER_SECOND: u32 = 10;
const BURST: u32 = 30;

/// The provider with its client and its price feed.
pub(super) fn provider(
    options: &SpotOptions,
    transport: &Arc<dyn Transport>,
    clock: &SharedClock,
    seed: u64,
    prices: PriceMetrics,
) -> Arc<SpotProvider> {
    let timeout = options.http.request_timeout;
    let auth = AuthSettings {
        url: options.auth_url.clone(),
        client_id: options.client_id.clone().unwrap_or_else(|| PUBLIC_CLIENT_ID.to_owned()),
        refresh_token: options.credentials.refresh_token.clone(),
        access_token: options.credentials.access_token.clone(),
        timeout,
        retry: retry(&options.http),
    };
    let tokens = Tokens::new(Arc::clone(transport), Arc::clone(clock), auth, seed);
    let client = ClientSettings {
        base_url: options.base_url.clone(),
        request_timeout: timeout,
        retry: retry(&options.http),
        at_once: AT_ONCE,
        per_second: PER_SECOND,
        burst: BURST,
    };
    // Another seed than the tokens': two parts that wait by the same chance would wait together.
    let client = SpotClient::new(
        Arc::clone(transport),
        tokens,
        Arc::clone(clock),
        client,
        seed.wrapping_add(1),
    );
    let url = options.price_feed_url.clone();
    let feed = PriceFeed::new(Arc::clone(transport), url, timeout, Arc::clone(clock), Some(prices));
    let settings = ProviderSettings {
        cloudspace: options.cloudspace_name.clone(),
        launch_timeout: options.launch_timeout,
        bid_rules: options.bid_rules,
        overhead: OverheadSettings {
            memory_share: options.capacity.memory_overhead,
            reserved_cpu: options.capacity.kube_reserved_cpu,
            reserved_memory: options.capacity.kube_reserved_memory,
        },
        // The answer was given up after one time-out; the platform may work on for about as long.
        settles_in: timeout.saturating_mul(2),
    };
    Arc::new(SpotProvider::new(
        client,
        Arc::new(feed),
        Arc::new(NodeClasses::default()),
        clock,
        settings,
    ))
}

fn retry(http: &SpotHttpOptions) -> RetrySettings {
    RetrySettings {
        tries: http.max_retries,
        initial: http.retry_initial_interval,
        multiplier: http.retry_multiplier,
        randomization: http.retry_randomization_factor,
        most_wait: http.retry_wait_max,
    }
}
