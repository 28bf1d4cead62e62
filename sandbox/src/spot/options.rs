//! What can be set about the simulated platform; the defaults are the assumptions of rackspace-spot §7.
//!
//! One value, readable from a file (`--options FILE`), changeable while the platform runs, by tests and through `/_sandbox/options`.

use super::chance::Distribution;
use super::money::Price;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Options {
    /// Where all chance comes from.
    pub seed: u64,
    /// How many times faster the platform's delays pass: auction, build, notice, release, and the hours that are billed. Kubernetes heartbeats and tokens stay real.
    pub speed: u32,
    /// Who owns what.
    pub account: Account,
    /// How long things take.
    pub delays: Delays,
    /// Prices and stock.
    pub market: Market,
    /// Which increments a bid may have.
    pub bid_rules: BidRules,
    /// How the platform behaves where nobody published it.
    pub quirks: Quirks,
    /// What goes wrong on the wire.
    pub faults: Faults,
    /// What the price feed gives.
    pub feed: FeedMode,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            speed: 1,
            account: Account::default(),
            delays: Delays::default(),
            market: Market::default(),
            bid_rules: BidRules::Ladder,
            quirks: Quirks::default(),
            faults: Faults::default(),
            feed: FeedMode::Normal,
        }
    }
}

impl Options {
    /// The defaults with delays of seconds, for a demonstration that takes less than a minute.
    pub fn short() -> Self {
        Self {
            delays: Delays::short(),
            ..Self::default()
        }
    }

    /// A platform delay as it passes on the clock, at the speed that is set.
    pub fn at_speed(&self, delay: TimeDelta) -> TimeDelta {
        let speed = i32::try_from(self.speed).unwrap_or(i32::MAX).max(1);
        delay.checked_div(speed).unwrap_or(delay)
    }
}

/// The organization, its token and its cloudspaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Account {
    /// The refresh token that is accepted; a simulated one, no secret.
    pub refresh_token: String,
    /// The OAuth client that may exchange it.
    pub client_id: String,
    /// Organizations in the order they are listed (rackspace-spot 7 row 33).
    pub organizations: Vec<Organization>,
    /// The organization that the token belongs to: second in the list by default, so that "the first one" is wrong.
    pub organization: String,
    /// Its cloudspaces.
    pub cloudspaces: Vec<CloudspaceSeed>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            refresh_token: "sandbox-refresh-token".into(),
            client_id: "mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa".into(),
            organizations: vec![
                Organization {
                    id: "org_Fz83hqTUbGsUbKMk".into(),
                    name: "elsewhere".into(),
                    display_name: "Elsewhere".into(),
                },
                Organization {
                    id: "org_kNYILtp8ZZNvkZ5g".into(),
                    name: "acme".into(),
                    display_name: "Acme".into(),
                },
            ],
            organization: "org_kNYILtp8ZZNvkZ5g".into(),
            cloudspaces: vec![CloudspaceSeed::default()],
        }
    }
}

impl Account {
    /// The API namespace of the token's organization.
    pub fn namespace(&self) -> String {
        namespace_of(&self.organization)
    }
}

/// The API namespace of an organization id: lower case, `_` replaced (rackspace-spot 1).
pub fn namespace_of(organization: &str) -> String {
    organization.to_lowercase().replace('_', "-")
}

/// An organization the user belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Organization {
    /// Mixed-case id.
    pub id: String,
    /// Short name.
    pub name: String,
    /// Name for people.
    pub display_name: String,
}

/// A cloudspace that exists from the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CloudspaceSeed {
    /// Its name.
    pub name: String,
    /// The one region it is in.
    pub region: String,
    /// Kubernetes version it reports.
    pub kubernetes_version: String,
    /// Called when servers are taken, if set.
    pub webhook: Option<String>,
}

impl Default for CloudspaceSeed {
    fn default() -> Self {
        Self {
            name: "sandbox".into(),
            region: "us-east-iad-1".into(),
            kubernetes_version: "1.33.0".into(),
            webhook: None,
        }
    }
}

/// How long things take, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Delays {
    /// Between two auctions (row 9).
    pub auction: f64,
    /// From the creation of a pool to `Pending` (row 10: the status is absent before).
    pub pending: f64,
    /// From winning to a VM that runs (row 32).
    pub build: Distribution,
    /// From a running VM to its key in `assignedServers` (row 14: none).
    pub attach: Distribution,
    /// From a running VM to its Node (row 14).
    pub join: Distribution,
    /// From the Node to Ready.
    pub ready: Distribution,
    /// From the Node to the platform's and the pool's labels (row 23).
    pub labels: Distribution,
    /// From Ready to the pool's taints, once (row 23).
    pub taints: f64,
    /// From the Node to the cloud controller's first pass over it.
    pub cloud_controller: f64,
    /// From the notice to the death of the VM (row 18).
    pub notice: f64,
    /// From DELETE to the end of the VM (row 21).
    pub release: f64,
    /// From the death of a VM to the deletion of its Node by the cloud controller (row 19); passes in real time, since it follows the Kubernetes heartbeats.
    pub node_deletion: Distribution,
    /// Between two tries of the webhook (row 16).
    pub webhook_retry: f64,
    /// How long the webhook may take to answer (row 16); passes in real time.
    pub webhook_timeout: f64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            auction: 10.0,
            pending: 1.0,
            build: Distribution::LongTail {
                median: 465.0,
                sigma: 0.45,
                max: 1680.0,
            },
            attach: Distribution::Fixed(0.0),
            join: Distribution::Between(30.0, 120.0),
            ready: Distribution::Between(10.0, 30.0),
            labels: Distribution::Between(0.0, 5.0),
            taints: 60.0,
            cloud_controller: 2.0,
            notice: 360.0,
            release: 30.0,
            node_deletion: Distribution::Between(45.0, 60.0),
            webhook_retry: 5.0,
            webhook_timeout: 10.0,
        }
    }
}

impl Delays {
    /// Seconds where the real platform takes minutes.
    pub fn short() -> Self {
        Self {
            auction: 1.0,
            pending: 0.2,
            build: Distribution::Between(2.0, 4.0),
            join: Distribution::Between(1.0, 2.0),
            ready: Distribution::Between(1.0, 2.0),
            labels: Distribution::Between(0.0, 0.5),
            taints: 5.0,
            cloud_controller: 0.5,
            notice: 10.0,
            release: 1.0,
            node_deletion: Distribution::Between(3.0, 5.0),
            ..Self::default()
        }
    }
}

/// Prices and stock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Market {
    /// How many servers of a class there are, unless said otherwise (row 31).
    pub stock: u32,
    /// Stock by class.
    pub stock_of: BTreeMap<String, u32>,
    /// Starting market prices that differ from the data files.
    pub prices: BTreeMap<String, Price>,
    /// Floors that differ from the data files.
    pub floors: BTreeMap<String, Price>,
    /// How many random price moves there are per week over all classes; none by default, since a test says itself when prices move.
    pub moves_per_week: f64,
    /// Moves at given seconds after the start.
    pub script: Vec<ScriptedMove>,
    /// The regions that sell anything; empty means all. A world that looks at one of them is several times cheaper to simulate.
    pub regions: BTreeSet<String>,
}

impl Default for Market {
    fn default() -> Self {
        Self {
            stock: 50,
            stock_of: BTreeMap::new(),
            prices: BTreeMap::new(),
            floors: BTreeMap::new(),
            moves_per_week: 0.0,
            script: Vec::new(),
            regions: BTreeSet::new(),
        }
    }
}

/// A price move that is known beforehand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScriptedMove {
    /// Platform seconds after the start (they pass at the speed that is set).
    pub after: f64,
    /// The class that moves.
    pub class: String,
    /// Its new market price.
    pub price: Price,
}

/// Which increments a bid may have (rackspace-spot 4.2 and 7 row 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BidRules {
    /// Up to three decimals and nothing else.
    #[serde(rename = "three-decimals")]
    ThreeDecimals,
    /// Up to three decimals to 0.05, whole cents above.
    #[serde(rename = "seed")]
    Seed,
    /// Multiples of 0.005 to 0.05, whole cents above.
    #[serde(rename = "0.005")]
    HalfCents,
    /// The ladder of July 2026.
    #[serde(rename = "ladder")]
    Ladder,
}

/// How the platform behaves where nobody published it; each default is the assumption of rackspace-spot §7.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "the switches of an options file: each is independent and written as true or false"
)]
pub struct Quirks {
    /// Life of an id_token in seconds (row 1).
    pub id_token_seconds: i64,
    /// What `expires_in` claims (row 1).
    pub expires_in: i64,
    /// Code of a webhook denial (row 3): 403, 422 or 400.
    pub denial_code: u16,
    /// Whether an update that leaves the bid alone checks it against the market again (row 8).
    pub revalidate_bid_on_update: bool,
    /// Whether the server adds `ngpc.rxt.io/cloudspace` to pools (row 15).
    pub adds_cloudspace_label: bool,
    /// Shape of the webhook body (row 16).
    pub webhook_shape: WebhookShape,
    /// What the webhook calls the server (row 16).
    pub webhook_server: WebhookServer,
    /// How often the webhook is tried (row 16).
    pub webhook_tries: u32,
    /// Whether the webhook is also called when the user releases servers (row 17).
    pub webhook_on_release: bool,
    /// Whether a pre-empted server gets its notice (row 18).
    pub preemption_notice: bool,
    /// Whether the Node of a dead VM stays, NotReady (row 19).
    pub node_lingers: bool,
    /// Whether a pool that lost its servers may win again (row 20).
    pub wins_again: bool,
    /// Whether DELETE answers with the object instead of a Status (rackspace-spot 3.0).
    pub delete_returns_object: bool,
    /// Whether the Node registers before the key shows (row 14: both orders happen).
    pub node_before_key: bool,
    /// Whether server classes carry `spec.resources.gpu` (row 27).
    pub gpu_count: bool,
    /// How many servers a new account may have in all (rackspace-spot 6, SpeedBump).
    pub speed_bump: Option<u32>,
    /// Share of servers that are won and never built (rackspace-spot 6).
    pub never_built: f64,
    /// Classes of which none is ever built.
    pub never_built_classes: BTreeSet<String>,
    /// Share of servers that are attached but whose Node never joins.
    pub never_joins: f64,
    /// Classes of which no Node ever joins.
    pub never_joins_classes: BTreeSet<String>,
    /// Whether the platform's autoscaler wipes custom labels as soon as they were applied (rackspace-spot 6).
    pub wipes_labels: bool,
    /// Share of GETs of an existing pool that answer 404 all the same.
    pub flapping_not_found: f64,
    /// Lists show pools this many seconds late, both new and deleted ones.
    pub list_lag: f64,
    /// Whether revoking the refresh token also ends id_tokens already given.
    pub revocation_is_immediate: bool,
    /// Extra seconds the controllers of the platform do nothing with `bidStatus` (pools stay unlabelled).
    pub status_frozen: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            id_token_seconds: 3600,
            expires_in: 86400,
            denial_code: 403,
            revalidate_bid_on_update: true,
            adds_cloudspace_label: true,
            webhook_shape: WebhookShape::Bare,
            webhook_server: WebhookServer::Nova,
            webhook_tries: 3,
            webhook_on_release: false,
            preemption_notice: true,
            node_lingers: false,
            wins_again: true,
            delete_returns_object: false,
            node_before_key: false,
            gpu_count: false,
            speed_bump: None,
            never_built: 0.0,
            never_built_classes: BTreeSet::new(),
            never_joins: 0.0,
            never_joins_classes: BTreeSet::new(),
            wipes_labels: false,
            flapping_not_found: 0.0,
            list_lag: 0.0,
            revocation_is_immediate: false,
            status_frozen: false,
        }
    }
}

/// Shape of the webhook body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WebhookShape {
    /// The object itself.
    Bare,
    /// `{"text": "<the object>"}`.
    Slack,
}

/// What the webhook calls the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WebhookServer {
    /// The UUID that is also in the provider ID.
    Nova,
    /// A UUID that means nothing outside.
    Unrelated,
}

/// What goes wrong on the wire, by chance; scripted faults are given to the platform one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Faults {
    /// Requests a second that are served; more get 429 with `Retry-After` (row 29: no limit).
    pub rate_limit: Option<u32>,
    /// Share of requests that fail with 500, 502 or 503 before they have an effect.
    pub server_errors: f64,
    /// Share of requests that never answer and have no effect.
    pub lost_before: f64,
    /// Share of requests that take effect and never answer.
    pub lost_after: f64,
    /// Share of requests that are slow.
    pub slow: f64,
    /// How slow, in milliseconds.
    pub slow_milliseconds: u64,
    /// How long a request that never answers is held, in seconds, before the gateway's 504.
    pub hold_seconds: u64,
    /// Everything but the feed answers 503.
    pub outage: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rate_limit: None,
            server_errors: 0.0,
            lost_before: 0.0,
            lost_after: 0.0,
            slow: 0.0,
            slow_milliseconds: 3000,
            hold_seconds: 120,
            outage: false,
        }
    }
}

/// What the price feed gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FeedMode {
    /// Prices as they are.
    Normal,
    /// 503.
    Outage,
    /// JSON cut off in the middle.
    Broken,
    /// An object without regions.
    Empty,
    /// Regions without classes.
    NoClasses,
    /// Many megabytes.
    Huge,
    /// Well-formed JSON with wrong types, negative and absurd numbers.
    Hostile,
    /// S3's XML for a missing key.
    Missing,
}
