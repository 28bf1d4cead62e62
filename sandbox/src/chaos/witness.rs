//! Who wrote while who held the lease: every write of every operator, to the instant, in any weather (architecture §3.5).
//!
//! ```text
//! renewal sent ── a write may leave, + 10 s ── it has taken effect or never will, + 14 s ── others may take the lease, + 15 s
//! ```
//!
//! A write is judged twice by the Lease that the API server has at that instant: when it leaves an operator, and, at the Kubernetes API, when it takes
//! effect. All clocks of a world are one, so both are exact: what the Lease says of its last renewal is when its holder sent it. Without election nobody is
//! judged. Asked by the operators' ways out, and by a hook in the API server.

use super::census::{LEASES, text};
use super::mortal::{Chair, LEASE};
use crate::api::{ApiServer, HookPoint, HookVerdict, WriteSeen};
use crate::world::World;
use chrono::{DateTime, TimeDelta, Utc};
use karpenter::k8s::election::Terms;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The operators of a trial, among all who write.
const OPERATORS: &str = "operator-";

/// What the Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    by: String,
    /// When its holder sent the last renewal that got through.
    renewed: DateTime<Utc>,
}

/// Watches the writes of a world's operators.
#[derive(Debug)]
pub(super) struct Witness {
    server: Weak<crate::api::Inner>,
    chair: Chair,
    found: Mutex<BTreeSet<String>>,
}

impl Witness {
    /// A witness of this world.
    pub(super) fn of(world: &World, chair: Chair) -> Arc<Self> {
        let witness = Arc::new(Self {
            server: Arc::downgrade(&world.api().inner),
            chair,
            found: Mutex::default(),
        });
        if chair == Chair::Lease {
            Arc::clone(&witness).sees_next_landing(world.api());
        }
        witness
    }

    /// Who may write now: whoever holds the lease and has renewed it lately.
    pub(super) fn leader(&self) -> Option<String> {
        let (held, now) = self.held()?;
        (now - held.renewed < leaving()).then_some(held.by)
    }

    /// Who is named in the Lease.
    pub(super) fn holder(&self) -> Option<String> {
        self.held().map(|(held, _)| held.by)
    }

    /// What was wrong so far.
    pub(super) fn found(&self) -> Vec<String> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().cloned().collect()
    }

    /// A write leaves an operator.
    pub(super) fn sees_leave(&self, user: &str, what: &str) {
        // Whoever has no lease asks for it. Which object an Event is about is seen when it lands.
        if !what.ends_with(" leases") && what != "POST events" {
            self.judge(user, what, "sent", leaving());
        }
    }

    /// Has the next write that takes effect shown to itself, and so on.
    fn sees_next_landing(self: Arc<Self>, server: &ApiServer) {
        server.hook_write(HookPoint::After, 1, None, move |seen| {
            if let Some(inner) = self.server.upgrade() {
                self.sees_land(seen);
                self.sees_next_landing(&ApiServer { inner });
            }
            HookVerdict::Continue
        });
    }

    fn sees_land(&self, seen: &WriteSeen) {
        // who leads, and no longer does, is told in Events after the fact
        let tells = seen.resource == "events" && self.last_written_is_about_the_lease();
        if seen.user.starts_with(OPERATORS) && seen.resource != LEASES && !tells {
            let what = format!("{} {} {}", seen.verb.as_str(), seen.resource, seen.name);
            self.judge(&seen.user, &what, "got through with", landing());
        }
    }

    /// Whether what has just been written is an Event about the lease; the request itself names none.
    fn last_written_is_about_the_lease(&self) -> bool {
        let Some(server) = self.server.upgrade() else {
            return false;
        };
        let core = server.core();
        let last = core.store.revision();
        let mut events = core.store.objects("events");
        events.any(|(_, event)| event.revision() == last && text(event.value(), "/involvedObject/name") == Some(LEASE))
    }

    fn judge(&self, user: &str, what: &str, how: &str, within: TimeDelta) {
        if self.chair == Chair::Alone {
            return;
        }
        let held = self.held();
        if let Some(why) = wrong(held.as_ref().map(|(held, now)| (held, *now)), user, within) {
            let at = self.server.upgrade().map(|server| server.now().to_rfc3339());
            let words = format!("{user} {how} {what} at {}, and {why}", at.unwrap_or_default());
            self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(words);
        }
    }

    /// The Lease, if somebody holds it, and what time it is.
    fn held(&self) -> Option<(Held, DateTime<Utc>)> {
        let server = self.server.upgrade()?;
        let now = server.now();
        let core = server.core();
        let (_, lease) = core.store.objects(LEASES).find(|(key, _)| key.name == LEASE)?;
        let lease = lease.value();
        let held = Held {
            by: text(lease, "/spec/holderIdentity")
                .filter(|by| !by.is_empty())?
                .to_owned(),
            renewed: text(lease, "/spec/renewTime")?.parse().ok()?,
        };
        Some((held, now))
    }
}

/// How long after it sent its last renewal a holder may send a write.
fn leaving() -> TimeDelta {
    TimeDelta::from_std(Terms::default().renew_deadline).unwrap_or_default()
}

/// How long after that renewal the write may take effect.
fn landing() -> TimeDelta {
    let answer = TimeDelta::from_std(Terms::default().write_timeout).unwrap_or_default();
    leaving() + answer
}

/// What is wrong with a write of this user.
fn wrong(held: Option<(&Held, DateTime<Utc>)>, user: &str, within: TimeDelta) -> Option<String> {
    let Some((held, now)) = held else {
        return Some("nobody held the lease".into());
    };
    if held.by != user {
        return Some(format!("{} held the lease", held.by));
    }
    let age = now - held.renewed;
    (age >= within).then(|| format!("the lease had not been renewed for {} s", age.num_seconds()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Identity;
    use serde_json::json;
    use std::time::Duration;

    fn held(by: &str) -> Held {
        Held {
            by: by.into(),
            renewed: DateTime::UNIX_EPOCH,
        }
    }

    // architecture §3.5
    #[test]
    fn a_write_leaves_within_the_renew_deadline_of_its_own_lease_and_nobody_elses() {
        let (mine, theirs) = (held("a"), held("b"));
        let at = |second| DateTime::UNIX_EPOCH + TimeDelta::seconds(second);
        assert_eq!(wrong(Some((&mine, at(9))), "a", leaving()), None);
        assert!(wrong(Some((&mine, at(10))), "a", leaving()).is_some());
        assert_eq!(wrong(Some((&mine, at(13))), "a", landing()), None);
        assert!(wrong(Some((&mine, at(14))), "a", landing()).is_some());
        assert!(wrong(Some((&theirs, at(0))), "a", leaving()).is_some());
        assert!(wrong(None, "a", leaving()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_the_lease_is_seen_on_both_sides_and_with_it_is_not() {
        let world = World::builder(1).start().await.unwrap();
        let witness = Witness::of(&world, Chair::Lease);
        let write = |user: &str, name: &str| {
            let service = world.api().service(Identity::new(user, &["system:masters"]));
            let client = kube::Client::new(service, "default");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            async move {
                let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::default_namespaced(client);
                let map = serde_json::from_value(map).unwrap();
                maps.create(&kube::api::PostParams::default(), &map).await.unwrap();
            }
        };
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE},
            "spec": {"holderIdentity": "operator-1", "renewTime": world.now().format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()}});
        world.apply_value(&lease).await.unwrap();
        assert_eq!(witness.leader().as_deref(), Some("operator-1"));
        witness.sees_leave("operator-1", "POST spotnodepools");
        write("operator-1", "one").await;
        write("somebody", "two").await;
        assert_eq!(witness.found(), Vec::<String>::new());
        write("operator-2", "three").await;
        witness.sees_leave("operator-2", "POST spotnodepools");
        witness.sees_leave("operator-2", "PUT leases");
        assert_eq!(witness.found().len(), 2, "{:?}", witness.found());
        world.pass(Duration::from_secs(12)).await;
        assert_eq!(witness.leader(), None);
        write("operator-1", "four").await;
        assert_eq!(witness.found().len(), 2, "it may have been on its way");
        world.pass(Duration::from_secs(3)).await;
        write("operator-1", "five").await;
        assert_eq!(witness.found().len(), 3, "{:?}", witness.found());
    }
}
