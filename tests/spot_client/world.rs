//! A platform, a client and a provider, with the words that the tests use.

use axum::Router;
use axum::body::Body;
use chrono::{DateTime, Utc};
use karpenter::api::{
    Conditioned, NodeClaim, NodeSelectorRequirementWithMinValues, Operator, RackspaceSpotNodeClass, conditions, labels,
    nodeclass, time,
};
use karpenter::capacity::OverheadSettings;
use karpenter::clock::{SharedClock, TokioClock};
use karpenter::cloud::spot::{
    AuthSettings, ClientSettings, NodeClasses, PUBLIC_CLIENT_ID, PriceFeed, ProviderSettings, RetrySettings,
    ServiceTransport, SpotClient, SpotProvider, Tokens, Transport,
};
use karpenter::cloud::{CreateOutcome, MachineIdentity, MachineState, Provider, Stage};
use karpenter::pricing::BidRulesSetting;
use karpenter::scheduling::CapacityType;
use sandbox::spot::{Admin, Control, Fault, Options, Spot};
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;

pub const CLASS: &str = "gp.vs1.large-iad";

/// When every world starts.
const START: DateTime<Utc> = DateTime::from_timestamp_nanos(1_780_000_000_000_000_000);

/// Everything that a test needs.
pub struct World {
    pub spot: Spot,
    pub client: SpotClient,
    pub provider: SpotProvider,
    pub clock: SharedClock,
}

/// How the operator is set.
#[derive(Clone)]
pub struct Setup {
    pub options: Options,
    pub rules: BidRulesSetting,
    pub tries: u32,
    pub percentile: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            options: Options::default(),
            rules: BidRulesSetting::Auto,
            tries: 4,
            percentile: "P80",
        }
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(Setup::default())
    }

    #[allow(clippy::needless_pass_by_value)] // reads best at the call
    pub fn with(setup: Setup) -> Self {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(START));
        let spot = Spot::new(setup.options.clone(), Arc::clone(&clock), Admin::Hidden);
        let (client, provider) = operator(&spot, &clock, &setup);
        Self {
            spot,
            client,
            provider,
            clock,
        }
    }

    /// The operator starts anew; the platform and its pools stay.
    pub fn restart(&mut self, setup: &Setup) {
        (self.client, self.provider) = operator(&self.spot, &self.clock, setup);
    }

    pub fn control(&self, control: Control) {
        self.spot.with(|platform| platform.control(control));
    }

    /// The next so many requests with this method and part of a path meet a fault.
    pub fn fault(&self, method: &str, path: &str, times: u32, fault: Fault) {
        self.control(Control::Fault {
            method: Some(method.into()),
            path: path.into(),
            times,
            fault,
        });
    }

    /// Requests so far with this method and part of a path.
    pub fn asked(&self, method: &str, path: &str) -> usize {
        self.spot.with(|platform| {
            platform
                .ledger()
                .requests()
                .filter(|r| r.method == method && r.path.contains(path))
                .count()
        })
    }

    /// Names of the pools that exist.
    pub fn pools(&self) -> Vec<String> {
        self.spot
            .with(|platform| platform.pools().map(|pool| pool.meta.name.clone()).collect())
    }

    /// Bids that were accepted, by pool in the order in which they came.
    pub fn bids(&self) -> Vec<String> {
        self.spot.with(|platform| {
            platform
                .ledger()
                .bids()
                .iter()
                .filter(|b| b.refused.is_none())
                .map(|b| b.bid.clone())
                .collect()
        })
    }

    /// A claim made now that asks for one class.
    pub fn claim(&self, number: u8, class: &str, capacity_type: &str) -> NodeClaim {
        let mut claim = claim(number, capacity_type);
        claim.spec.requirements.push(NodeSelectorRequirementWithMinValues::new(
            labels::INSTANCE_TYPE,
            Operator::In,
            [class],
        ));
        // Well after the start: no earlier process can have ordered for it.
        claim.metadata.creation_timestamp = Some(time::to_k8s(self.clock.now() + chrono::TimeDelta::hours(1)));
        claim
    }

    /// Asks about a claim's machine until it has a server; gives the time that took.
    pub async fn wait_until_attached(&self, claim: &NodeClaim) -> Duration {
        let started = tokio::time::Instant::now();
        loop {
            let state = self.provider.get(&identity(claim)).await;
            if matches!(
                state,
                Ok(MachineState::Present {
                    stage: Stage::Attached,
                    ..
                })
            ) {
                return started.elapsed();
            }
            assert!(
                started.elapsed() < Duration::from_hours(1),
                "no server within an hour: {state:?}"
            );
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }
}

/// A claim without a class.
pub fn claim(number: u8, capacity_type: &str) -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.uid = Some(uid(number));
    claim.metadata.name = Some(format!("default-{number:05}"));
    claim.metadata.labels = Some([(labels::NODEPOOL.to_owned(), "default".to_owned())].into());
    claim.spec.node_class_ref.group = nodeclass::GROUP.into();
    claim.spec.node_class_ref.kind = "RackspaceSpotNodeClass".into();
    claim.spec.node_class_ref.name = "default".into();
    claim.spec.requirements.push(NodeSelectorRequirementWithMinValues::new(
        labels::CAPACITY_TYPE,
        Operator::In,
        [capacity_type],
    ));
    claim
}

pub fn uid(number: u8) -> String {
    format!("7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c{number:02x}")
}

pub fn identity(claim: &NodeClaim) -> MachineIdentity {
    MachineIdentity {
        claim_uid: claim.uid().to_owned(),
        create_outcome: CreateOutcome::Known,
        ..MachineIdentity::default()
    }
}

pub fn of_type(claim: &NodeClaim, capacity_type: CapacityType) -> MachineIdentity {
    MachineIdentity {
        capacity_type: Some(capacity_type),
        ..identity(claim)
    }
}

fn operator(spot: &Spot, clock: &SharedClock, setup: &Setup) -> (SpotClient, SpotProvider) {
    let transport: Arc<dyn Transport> = Arc::new(ServiceTransport::<Router, Body>::new(spot.router()));
    let retry = RetrySettings {
        tries: setup.tries,
        ..RetrySettings::default()
    };
    let timeout = Duration::from_secs(30);
    let auth = AuthSettings {
        url: "http://spot.test".into(),
        client_id: PUBLIC_CLIENT_ID.into(),
        refresh_token: Some(SecretString::from(setup.options.account.refresh_token.clone())),
        access_token: None,
        timeout,
        retry,
    };
    let settings = ClientSettings {
        base_url: "http://spot.test/".into(),
        request_timeout: timeout,
        retry,
        at_once: 8,
        per_second: 20,
        burst: 40,
    };
    let tokens = Tokens::new(Arc::clone(&transport), Arc::clone(clock), auth, 7);
    let client = SpotClient::new(Arc::clone(&transport), tokens, Arc::clone(clock), settings, 7);
    let url = "http://spot.test/percentiles.json".to_owned();
    let feed = Arc::new(PriceFeed::new(transport, url, timeout, Arc::clone(clock), None));
    let classes = Arc::new(NodeClasses::default());
    classes.put(Arc::new(node_class(setup.percentile)));
    let settings = ProviderSettings {
        cloudspace: "sandbox".into(),
        launch_timeout: Duration::from_mins(30),
        bid_rules: setup.rules,
        overhead: OverheadSettings::default(),
        settles_in: Duration::from_mins(1),
    };
    (
        client.clone(),
        SpotProvider::new(client, feed, classes, clock, settings),
    )
}

pub fn node_class(percentile: &str) -> RackspaceSpotNodeClass {
    let mut class = RackspaceSpotNodeClass::default();
    class.metadata.name = Some("default".into());
    class.spec.bid_percentile = percentile.into();
    class.set_true(conditions::SERVER_CLASSES_DISCOVERED, DateTime::UNIX_EPOCH);
    class
}
