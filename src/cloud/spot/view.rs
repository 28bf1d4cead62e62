//! What the platform says of all our pools at one moment, read once and shared by every claim that waits.
//!
//! ```text
//! claims ─▶ view at most 5 s old? ─▶ the read in flight, or a new one ─▶ cloudspace + both kinds of pools (3 requests, however many claims)
//! ```
//!
//! A view knows which parts of it are complete; conclusions from absence are drawn only from those (architecture §6). Called by the provider.

use crate::clock::patiently;
use crate::cloud::spot::client::SpotClient;
use crate::cloud::spot::error::SpotError;
use crate::cloud::spot::types::{Cloudspace, Pool, PoolKind};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How old a view may be for a claim that waits: bounds the platform's load to one read in this time.
pub const GOOD_FOR: Duration = Duration::from_secs(5);

/// All pools of our cloudspace and its servers, as of one moment.
#[derive(Debug)]
pub struct View {
    /// When the read began: what was accepted later may be missing.
    pub began: Instant,
    /// The cloudspace, if it could be read.
    pub cloudspace: Option<Cloudspace>,
    /// Pools by kind and name.
    pub pools: BTreeMap<(PoolKind, String), Pool>,
    /// The kinds that were read completely.
    pub complete: BTreeSet<PoolKind>,
}

impl View {
    /// Whether both kinds were read completely.
    pub fn is_complete(&self) -> bool {
        PoolKind::ALL.iter().all(|kind| self.complete.contains(kind))
    }
}

type Reading = Shared<BoxFuture<'static, Result<Arc<View>, Arc<SpotError>>>>;

#[derive(Default)]
struct State {
    latest: Option<Arc<View>>,
    in_flight: Option<(Instant, Reading)>,
}

/// Reads views and keeps the latest.
#[derive(Clone)]
pub struct Views {
    client: SpotClient,
    cloudspace: Arc<str>,
    state: Arc<Mutex<State>>,
}

impl Views {
    /// Views of one cloudspace.
    pub fn new(client: SpotClient, cloudspace: &str) -> Self {
        Self {
            client,
            cloudspace: cloudspace.into(),
            state: Arc::default(),
        }
    }

    /// A view that began at most `age` ago; waits for the read in flight if that will do.
    pub async fn not_older_than(&self, age: Duration) -> Result<Arc<View>, Arc<SpotError>> {
        let reading = {
            let mut state = self.lock();
            if let Some(view) = &state.latest
                && view.began.elapsed() <= age
            {
                return Ok(Arc::clone(view));
            }
            match &state.in_flight {
                Some((began, reading)) if began.elapsed() <= age => reading.clone(),
                _ => self.start(&mut state),
            }
        };
        self.wait_for(reading).await
    }

    /// A view that begins now.
    pub async fn fresh(&self) -> Result<Arc<View>, Arc<SpotError>> {
        let reading = {
            let mut state = self.lock();
            self.start(&mut state)
        };
        self.wait_for(reading).await
    }

    /// Only one of those who wait for a reading carries it on; the others are not stuck either.
    async fn wait_for(&self, reading: Reading) -> Result<Arc<View>, Arc<SpotError>> {
        patiently(self.client.longest_call(), reading).await
    }

    fn start(&self, state: &mut State) -> Reading {
        let began = Instant::now();
        let reading = read(self.clone(), began).boxed().shared();
        state.in_flight = Some((began, reading.clone()));
        reading
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(views: Views, began: Instant) -> Result<Arc<View>, Arc<SpotError>> {
    let (cloudspace, spot, on_demand) = tokio::join!(
        views.client.cloudspace(&views.cloudspace),
        views.client.pools(PoolKind::Spot),
        views.client.pools(PoolKind::OnDemand),
    );
    let mut view = View {
        began,
        cloudspace: None,
        pools: BTreeMap::new(),
        complete: BTreeSet::new(),
    };
    let mut failure = None;
    match cloudspace {
        Ok(cloudspace) => view.cloudspace = Some(cloudspace),
        Err(error) => failure = Some(error),
    }
    for (kind, listed) in [(PoolKind::Spot, spot), (PoolKind::OnDemand, on_demand)] {
        match listed {
            Ok(listed) => {
                if let Some(field) = listed.unreadable.first() {
                    tracing::warn!(kind = kind.kind(), reason = %field, "a pool cannot be read, nothing is concluded from absence");
                } else {
                    view.complete.insert(kind);
                }
                let ours = listed
                    .items
                    .into_iter()
                    .filter(|pool| *pool.cloudspace == *views.cloudspace);
                view.pools.extend(ours.map(|pool| ((kind, pool.name.clone()), pool)));
            }
            Err(error) => failure = Some(error),
        }
    }
    let mut state = views.lock();
    if state.in_flight.as_ref().is_some_and(|(at, _)| *at == began) {
        state.in_flight = None;
    }
    match failure {
        // Nothing at all was answered.
        Some(error) if view.cloudspace.is_none() && view.complete.is_empty() => Err(Arc::new(error)),
        _ => {
            let view = Arc::new(view);
            if state.latest.as_ref().is_none_or(|latest| latest.began <= began) {
                state.latest = Some(Arc::clone(&view));
            }
            Ok(view)
        }
    }
}
