//! The controllers that show objects rather than act on them (surface §5, T28).
//!
//! Called once by [`controllers`](super::controllers). What describes single objects is left out with `DISABLE_CLUSTER_STATE_OBSERVABILITY`.

use super::options::Options;
use super::stand_by::until;
use super::starter::{Kits, Starter};
use crate::clock::SharedClock;
use crate::cluster::{Kind, What};
use crate::controllers::metrics::{
    ClaimConditions, ClassConditions, Follower, NodeConditions, NodeFollower, PodFollower, PoolConditions,
    PoolFollower, SETTLE, SeenPods, State, watch_sync,
};
use crate::k8s::queue::{Next, ReconcileError, Singleton, Wake};
use std::sync::Arc;
use std::time::Duration;

/// Whoever follows misses nothing between wakes: this only bounds what a defect could do.
const PERIOD: Duration = Duration::from_mins(10);
/// Prices of machines are asked for again this often (surface §5.2).
const PRICES: Duration = Duration::from_hours(1);

/// Starts them.
pub(super) fn start(starter: &mut Starter<'_>, kits: &Kits, options: &Options, clock: &SharedClock) {
    state(starter, clock);
    if options.disable_cluster_state_observability {
        return;
    }
    objects(starter, kits, clock);
    conditions(starter, clock);
}

/// What is always shown.
fn state(starter: &mut Starter<'_>, clock: &SharedClock) {
    let metrics = starter.borders.metrics.clone();
    let decisions = metrics.pods.decisions.clone();
    starter.cluster.on_change(move |change, _| {
        if change.kind == Kind::Pod && change.what == What::Gone {
            decisions.forget(&change.uid);
        }
    });
    follow(
        starter,
        "state.node",
        &[Kind::Node, Kind::NodeClaim],
        State::new(metrics.cluster.clone()),
        clock,
    );
    let (cluster, hub) = (starter.borders.cluster.clone(), starter.borders.hub.clone());
    let (clock, stop, watched) = (Arc::clone(clock), starter.stop.clone(), starter.watched.clone());
    starter.tasks.spawn("cluster state sync", async move {
        if until(&watched, &stop).await {
            watch_sync(cluster, hub, metrics.cluster, clock).await;
            stop.cancelled().await;
        }
    });
}

fn objects(starter: &mut Starter<'_>, kits: &Kits, clock: &SharedClock) {
    let metrics = starter.borders.metrics.clone();
    let seen = SeenPods::default();
    starter.cluster.on_change(seen.trigger());
    let kinds = &[Kind::Pod, Kind::Node];
    follow(
        starter,
        "metrics.pod",
        kinds,
        PodFollower::new(metrics.pods, seen),
        clock,
    );
    let kinds = &[Kind::Pod, Kind::Node, Kind::NodeClaim];
    follow(
        starter,
        "metrics.node",
        kinds,
        NodeFollower::new(metrics.nodes.gauges),
        clock,
    );
    pools(starter, kits);
}

fn pools(starter: &mut Starter<'_>, kits: &Kits) {
    let name = "metrics.nodepool";
    let follower = Arc::new(PoolFollower::new(kits.of(name)));
    let singleton = Singleton::new(
        name,
        PRICES,
        woken(starter, &[Kind::NodePool, Kind::NodeClaim]),
        starter.borders.queues.clone(),
    );
    let (cluster, stop) = (starter.borders.cluster.clone(), starter.stop.clone());
    let vital = singleton.vital();
    let work = singleton.run(stop.clone(), move || {
        let (follower, cluster, stop) = (Arc::clone(&follower), cluster.clone(), stop.clone());
        async move {
            let look = async {
                cluster.completed().await?;
                tokio::time::sleep(SETTLE).await;
                follower.follow(&*cluster.snapshot().await?).await;
                Ok(Next::Done)
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(Next::Done),
                done = look => done.map_err(|closed: crate::k8s::cluster_task::Closed| ReconcileError::new(closed)),
            }
        }
    });
    starter.watch_over(vital);
    starter.task(name, work);
}

fn conditions(starter: &mut Starter<'_>, clock: &SharedClock) {
    let metrics = starter.borders.metrics.clone();
    let recorder = starter.borders.recorder.clone();
    let legacy = metrics.legacy_conditions;
    let claims = ClaimConditions::new(metrics.nodeclaim_conditions, legacy.clone(), recorder.clone());
    follow(
        starter,
        "operatorpkg.nodeclaim.status",
        &[Kind::NodeClaim],
        claims,
        clock,
    );
    let pools = PoolConditions::new(metrics.nodepool_conditions, legacy, recorder.clone());
    follow(starter, "operatorpkg.nodepool.status", &[Kind::NodePool], pools, clock);
    let nodes = NodeConditions::new(metrics.node_conditions, recorder.clone());
    follow(starter, "operatorpkg.node.status", &[Kind::Node], nodes, clock);
    let classes = ClassConditions::new(metrics.nodeclass_conditions, recorder);
    let name = "operatorpkg.rackspacespotnodeclass.status";
    follow(starter, name, &[Kind::NodeClass], classes, clock);
}

/// A wake for changes of these kinds.
fn woken(starter: &mut Starter<'_>, kinds: &'static [Kind]) -> Wake {
    let wake = Wake::new();
    let woken = wake.clone();
    starter.cluster.on_change(move |change, _| {
        if kinds.contains(&change.kind) {
            woken.wake();
        }
    });
    wake
}

/// Runs a follower after changes of these kinds, at most once in [`SETTLE`].
fn follow(
    starter: &mut Starter<'_>,
    name: &'static str,
    kinds: &'static [Kind],
    follower: impl Follower,
    clock: &SharedClock,
) {
    let follower = Arc::new(follower);
    let singleton = Singleton::new(name, PERIOD, woken(starter, kinds), starter.borders.queues.clone());
    let (cluster, clock, stop) = (starter.borders.cluster.clone(), Arc::clone(clock), starter.stop.clone());
    let vital = singleton.vital();
    let work = singleton.run(stop.clone(), move || {
        let (follower, cluster) = (Arc::clone(&follower), cluster.clone());
        let (clock, stop) = (Arc::clone(&clock), stop.clone());
        async move {
            let look = async {
                cluster.completed().await?;
                tokio::time::sleep(SETTLE).await;
                follower.follow(&*cluster.snapshot().await?, clock.now());
                Ok(Next::Done)
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(Next::Done),
                done = look => done.map_err(|closed: crate::k8s::cluster_task::Closed| ReconcileError::new(closed)),
            }
        }
    });
    starter.watch_over(vital);
    starter.task(name, work);
}
