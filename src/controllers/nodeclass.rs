//! Controller `nodeclass.status`: says of each RackspaceSpotNodeClass whether machines can be had by it, and why not (surface §3.4).
//!
//! [`decide`] is pure: what was found out about the platform in, the status out. The controller reads the class, asks the provider at most every five
//! minutes for all classes together, writes the status if it differs, and hands the class to the provider, whose creates look at it. Triggered by
//! changes of NodeClasses. Server classes without a price, which are not offered, are told of on the class, each once (architecture §7.8).

use crate::api::{Conditioned, RackspaceSpotNodeClass, conditions};
use crate::cloud::spot::nodeclasses::percentile_of;
use crate::cloud::spot::{Discovery, SpotError, SpotProvider};
use crate::cluster::Key;
use crate::k8s::cluster_task::ClusterHandle;
use crate::k8s::events::{Event, EventType, Involved, Recorder};
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{Lock, Target, Writer};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use kube::Resource as _;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long what was discovered is good.
pub const REFRESH: Duration = Duration::from_mins(5);
/// How soon a failed discovery is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// The platform could not be asked or refused (surface §3.4).
const LIST_FAILED: &str = "ListServerClassesFailed";
/// Differs: two reasons that the Go provider does not have, for what it never noticed.
const NO_CLASSES: &str = "NoServerClasses";
const BAD_PERCENTILE: &str = "InvalidBidPercentile";

/// What was found out about the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The cloudspace's region and what is sold there.
    Classes(Discovery),
    /// Nothing; the words are for the condition.
    Nothing(String),
}

impl Found {
    /// What a discovery came to, in words for the class's author.
    pub fn of(cloudspace: &str, result: Result<Discovery, SpotError>) -> Self {
        match result {
            Ok(discovery) => Self::Classes(discovery),
            Err(SpotError::NotFound { .. }) => Self::Nothing(format!(
                "cloudspace {cloudspace:?} does not exist in the token's organization; SPOT_CLOUDSPACE_NAME names it"
            )),
            Err(error @ SpotError::Credentials { .. }) => {
                Self::Nothing(format!("{error}; a new refresh token is needed"))
            }
            Err(error) => Self::Nothing(crate::cloud::CloudError::from(error).full_text()),
        }
    }

    fn good_for(&self) -> Duration {
        match self {
            Self::Classes(_) => REFRESH,
            Self::Nothing(_) => RETRY,
        }
    }
}

/// The class as it should be: status filled in, conditions set. The former region and classes stay while nothing can be found out.
pub fn decide(class: &RackspaceSpotNodeClass, found: &Found, now: DateTime<Utc>) -> RackspaceSpotNodeClass {
    let mut after = class.clone();
    if let Found::Classes(discovery) = found {
        let status = after.status.get_or_insert_default();
        status.region = Some(discovery.region.clone());
        status.server_classes.clone_from(&discovery.server_classes);
    }
    let discovered = conditions::SERVER_CLASSES_DISCOVERED;
    match (percentile_of(&class.spec.bid_percentile), found) {
        (Err(words), _) => after.set_false(discovered, BAD_PERCENTILE, &words, now),
        (Ok(_), Found::Nothing(words)) => after.set_false(discovered, LIST_FAILED, words, now),
        (Ok(_), Found::Classes(discovery)) if discovery.server_classes.is_empty() => {
            let words = format!("no server class is sold in region {}", discovery.region);
            after.set_false(discovered, NO_CLASSES, &words, now)
        }
        (Ok(_), Found::Classes(_)) => after.set_true(discovered, now),
    };
    after
}

/// The controller.
pub struct NodeClassStatus {
    provider: Arc<SpotProvider>,
    cluster: ClusterHandle,
    writer: Writer,
    recorder: Recorder,
    clock: crate::clock::SharedClock,
    cloudspace: String,
    last: Mutex<Option<(Instant, Found)>>,
    /// Server classes without a price that each NodeClass, by name, was told of.
    unpriced: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

impl NodeClassStatus {
    /// A controller for the classes of this provider.
    pub fn new(
        provider: Arc<SpotProvider>,
        cluster: ClusterHandle,
        writer: Writer,
        recorder: Recorder,
        clock: crate::clock::SharedClock,
        cloudspace: String,
    ) -> Self {
        Self {
            provider,
            cluster,
            writer,
            recorder,
            clock,
            cloudspace,
            last: Mutex::new(None),
            unpriced: Mutex::default(),
        }
    }

    /// Whether the watch shows the class. An API server that lags behind may answer that it is not there; nobody would look again at what does not change,
    /// and its machines would be unknown for good. When it goes, the watch tells.
    async fn is_watched(&self, name: &str) -> Result<bool, ReconcileError> {
        let snapshot = self.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let (kind, group) = (RackspaceSpotNodeClass::kind(&()), RackspaceSpotNodeClass::group(&()));
        Ok(snapshot
            .objects
            .classes
            .contains_key(&Key::of_class(&kind, &group, name)))
    }

    /// What is known of the platform, asked for again when it is old, on behalf of this class.
    async fn found(&self, nodeclass: &str) -> Found {
        let known = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, found)) = known
            && at.elapsed() < found.good_for()
        {
            return found;
        }
        let result = self.provider.discover().await;
        if let Err(error) = &result {
            tracing::error!(nodeclass, %error, "server class discovery failed");
        }
        let found = Found::of(&self.cloudspace, result);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), found.clone()));
        found
    }

    /// Tells of server classes that have no price since the last look.
    fn tell_unpriced(&self, class: &RackspaceSpotNodeClass) {
        let catalogue = self.provider.stock().current();
        let now: BTreeSet<String> = catalogue.unpriced.iter().cloned().collect();
        let name = class.metadata.name.clone().unwrap_or_default();
        let before = self.told().insert(name, now.clone()).unwrap_or_default();
        for server_class in now.difference(&before) {
            self.recorder.publish(no_price(class, server_class));
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        self.unpriced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Event about a server class that is not offered.
fn no_price(class: &RackspaceSpotNodeClass, server_class: &str) -> Event {
    let message = format!("Server class {server_class} is not offered: no price is known");
    let uid = class.metadata.uid.clone().unwrap_or_default();
    Event::new(EventType::Warning, "NoPrice", Involved::object(class), message)
        .deduped_by([uid, server_class.to_owned()])
}

#[async_trait]
impl Reconciler for NodeClassStatus {
    type Key = String;

    async fn reconcile(&self, name: &String) -> Result<Next, ReconcileError> {
        let target = Target::named(name.as_str());
        let Some(class) = self.writer.look_up::<RackspaceSpotNodeClass>(&target).await? else {
            if self.is_watched(name).await? {
                return Ok(Next::After(RETRY));
            }
            self.provider.node_classes().remove(name);
            self.told().remove(name);
            return Ok(Next::Done);
        };
        if class.is_deleting() {
            self.provider.node_classes().put(Arc::new(class));
            return Ok(Next::Done);
        }
        // At once: what it said of itself before a restart holds until the platform says otherwise.
        self.provider.node_classes().put(Arc::new(class.clone()));
        let found = self.found(name).await;
        let after = decide(&class, &found, self.clock.now());
        if after.status != class.status {
            let patch = json!({ "status": after.status });
            self.writer
                .patch_status::<RackspaceSpotNodeClass>(&Target::object(&class), patch, Lock::Version)
                .await?;
        }
        if matches!(found, Found::Classes(_)) {
            self.tell_unpriced(&class);
        }
        self.provider.node_classes().put(Arc::new(after));
        Ok(Next::After(found.good_for()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> RackspaceSpotNodeClass {
        let mut class = RackspaceSpotNodeClass::default();
        class.metadata.name = Some("default".into());
        class
    }

    fn classes(names: &[&str]) -> Found {
        Found::Classes(Discovery {
            region: "us-east-iad-1".into(),
            server_classes: names.iter().map(|n| (*n).to_owned()).collect(),
        })
    }

    fn decided(class: &RackspaceSpotNodeClass, found: &Found) -> RackspaceSpotNodeClass {
        decide(class, found, DateTime::UNIX_EPOCH)
    }

    fn trouble(class: &RackspaceSpotNodeClass) -> (String, String) {
        let condition = class.condition(conditions::SERVER_CLASSES_DISCOVERED).unwrap();
        assert!(condition.is_false() && !class.is_ready());
        (condition.reason.clone(), condition.message.clone())
    }

    #[test]
    fn a_region_with_server_classes_makes_the_class_ready() {
        // surface §3.4
        let after = decided(&class(), &classes(&["gp.vs1.large-iad"]));
        assert!(after.is_ready());
        let status = after.status.unwrap();
        assert_eq!(status.region.as_deref(), Some("us-east-iad-1"));
        assert_eq!(status.server_classes, ["gp.vs1.large-iad"]);
    }

    #[test]
    fn deciding_twice_changes_nothing() {
        let once = decided(&class(), &classes(&["a"]));
        let later = DateTime::from_timestamp(1_000, 0).unwrap();
        assert_eq!(decide(&once, &classes(&["a"]), later), once);
    }

    #[test]
    fn a_percentile_that_is_none_is_said_in_the_condition() {
        let mut bad = class();
        bad.spec.bid_percentile = "P95".into();
        let (reason, words) = trouble(&decided(&bad, &classes(&["a"])));
        assert_eq!(reason, "InvalidBidPercentile");
        assert!(words.contains("P95") && words.contains("P80"), "{words}");
    }

    #[test]
    fn an_unknown_cloudspace_is_named_with_its_setting() {
        let result = Err(SpotError::NotFound {
            object: "cloudspace nowhere".into(),
        });
        let (reason, words) = trouble(&decided(&class(), &Found::of("nowhere", result)));
        assert_eq!(reason, "ListServerClassesFailed");
        assert!(
            words.contains("\"nowhere\"") && words.contains("SPOT_CLOUDSPACE_NAME"),
            "{words}"
        );
    }

    #[test]
    fn a_revoked_token_is_said_and_the_former_classes_stay_listed() {
        let ready = decided(&class(), &classes(&["a"]));
        let result = Err(SpotError::Credentials {
            words: "the refresh token was not accepted".into(),
        });
        let after = decided(&ready, &Found::of("cs", result));
        let (_, words) = trouble(&after);
        assert!(words.contains("refresh token was not accepted"), "{words}");
        assert_eq!(after.status.unwrap().server_classes, ["a"]);
    }

    #[test]
    fn a_region_without_server_classes_is_said() {
        let (reason, words) = trouble(&decided(&class(), &classes(&[])));
        assert_eq!(reason, "NoServerClasses");
        assert!(words.contains("us-east-iad-1"), "{words}");
    }
}
