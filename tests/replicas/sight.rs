//! What is there and what ever was, told by watches: a claim that lived for a moment is seen as well, and nobody has to ask all the time.

use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use sandbox::spot::Spot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::JoinSet;

/// What is there.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct There {
    /// UIDs of claims.
    pub claims: BTreeSet<String>,
    /// Names of pools.
    pub pools: BTreeSet<String>,
    /// Names of nodes.
    pub nodes: BTreeSet<String>,
    /// Phases of pods, by their UIDs.
    pub pods: BTreeMap<String, String>,
}

/// What was ever there.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// UIDs of claims.
    pub claims: BTreeSet<String>,
    /// Names of pools.
    pub pools: BTreeSet<String>,
}

/// Looks at a cluster and a platform as long as it lives.
pub struct Sight {
    shared: Arc<Shared>,
    /// Ends with it.
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    now: Mutex<(There, Seen)>,
    moved: Notify,
}

/// Which part of the picture a watch keeps.
#[derive(Clone, Copy)]
enum Part {
    Claims,
    Nodes,
    Pods,
}

impl Part {
    fn kind(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Claims => ("karpenter.sh", "v1", "NodeClaim"),
            Self::Nodes => ("", "v1", "Node"),
            Self::Pods => ("", "v1", "Pod"),
        }
    }
}

impl Sight {
    /// Begins to look.
    pub fn open(client: &kube::Client, spot: &Spot) -> Self {
        let shared = Arc::<Shared>::default();
        let mut watches = JoinSet::new();
        for part in [Part::Claims, Part::Nodes, Part::Pods] {
            watches.spawn(follow(client.clone(), part, Arc::clone(&shared)));
        }
        watches.spawn(follow_platform(spot.clone(), Arc::clone(&shared)));
        Self {
            shared,
            _watches: watches,
        }
    }

    /// What is there, as far as it was told.
    pub fn there(&self) -> There {
        self.shared.lock().0.clone()
    }

    /// What was ever there.
    pub fn seen(&self) -> Seen {
        self.shared.lock().1.clone()
    }

    /// From now on only what is there counts as seen.
    pub fn forget(&self) {
        let mut now = self.shared.lock();
        now.1 = Seen {
            claims: now.0.claims.clone(),
            pools: now.0.pools.clone(),
        };
    }

    /// The next change; to be enabled before one looks.
    pub fn moved(&self) -> Notified<'_> {
        self.shared.moved.notified()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, (There, Seen)> {
        self.now.lock().unwrap()
    }

    /// One event of a watch, and whether the picture is another one now. `listed` gathers a list that began.
    fn take(&self, part: Part, listed: &mut Vec<DynamicObject>, event: Event<DynamicObject>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => listed.push(object),
            Event::InitDone => {
                let mut now = self.lock();
                now.0.empty(part);
                for object in listed.drain(..) {
                    put(&mut now, part, &object);
                }
            }
            Event::Apply(object) => put(&mut self.lock(), part, &object),
            Event::Delete(object) => self.lock().0.remove(part, &object),
        }
        self.moved.notify_waiters();
    }
}

fn uid(object: &DynamicObject) -> String {
    object.uid().unwrap()
}

fn put(now: &mut (There, Seen), part: Part, object: &DynamicObject) {
    match part {
        Part::Claims => {
            now.0.claims.insert(uid(object));
            now.1.claims.insert(uid(object));
        }
        Part::Nodes => {
            now.0.nodes.insert(object.name_any());
        }
        Part::Pods => {
            let phase = object.data["status"]["phase"].as_str().unwrap_or_default();
            now.0.pods.insert(uid(object), phase.to_owned());
        }
    }
}

impl There {
    fn empty(&mut self, part: Part) {
        match part {
            Part::Claims => self.claims.clear(),
            Part::Nodes => self.nodes.clear(),
            Part::Pods => self.pods.clear(),
        }
    }

    fn remove(&mut self, part: Part, object: &DynamicObject) {
        match part {
            Part::Claims => {
                self.claims.remove(&uid(object));
            }
            Part::Nodes => {
                self.nodes.remove(&object.name_any());
            }
            Part::Pods => {
                self.pods.remove(&uid(object));
            }
        }
    }
}

async fn follow(client: kube::Client, part: Part, shared: Arc<Shared>) {
    let (group, version, kind) = part.kind();
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => shared.take(part, &mut listed, event),
            // it begins anew by itself
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
        }
    }
}

/// The names of all pools.
pub fn pools(spot: &Spot) -> BTreeSet<String> {
    spot.with(|platform| platform.pools().map(|pool| pool.meta.name.clone()).collect())
}

async fn follow_platform(spot: Spot, shared: Arc<Shared>) {
    let mut changes = spot.changes();
    loop {
        changes.note();
        let pools = pools(&spot);
        let changed = {
            let mut now = shared.lock();
            let changed = now.0.pools != pools;
            now.1.pools.extend(pools.iter().cloned());
            now.0.pools = pools;
            changed
        };
        if changed {
            shared.moved.notify_waiters();
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
