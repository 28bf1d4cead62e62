//! The controllers by which nodes go: marks, disruption, termination, evictions, collection.
//!
//! Called once by [`controllers`](super::controllers).

use super::controllers::of_kind;
use super::starter::{Kits, Starter};
use crate::cluster::{Change, Cluster, Kind};
use crate::controllers::disruption::{self, Commands, Execution};
use crate::controllers::eviction::{Evictions, Evictor};
use crate::controllers::node::termination::NodeTermination;
use crate::controllers::nodeclaim::garbage::{self, Garbage, Seen};
use crate::controllers::nodeclaim::machine::Orders;
use crate::controllers::nodeclaim::marks::Marks;
use crate::controllers::nodeclaim::podevents::{self, PodEvents};
use crate::k8s::queue::{BackOff, Next, Queue, QueueSettings, Singleton, Subject, Wake, workers_at};
use std::sync::Arc;
use std::time::Duration;

/// Starts them.
pub(super) fn start(starter: &mut Starter<'_>, kits: &Kits, cores: usize, orders: Arc<Orders>) {
    marks(starter, kits);
    termination(starter, kits, cores, orders);
    collection(starter, kits);
    disruption(starter, kits);
}

fn marks(starter: &mut Starter<'_>, kits: &Kits) {
    starter.queue(
        QueueSettings::new("nodeclaim.disruption", 10).about(Subject::NODE_CLAIM),
        Marks::new(kits.of("nodeclaim.disruption")),
        |change: &Change, cluster: &Cluster| match change.kind {
            // all claims: a pool or class rarely changes, and a claim that is looked at in vain costs nothing
            Kind::NodePool | Kind::NodeClass => cluster.objects().claims.keys().cloned().collect(),
            _ => of_kind(change, Kind::NodeClaim),
        },
    );
    let settings = QueueSettings::new("nodeclaim.podevents", 10)
        .about(Subject::NODE_CLAIM)
        .with_mode(starter.mode);
    let queue = Queue::new(settings, starter.borders.queues.clone());
    starter.cluster.on_change(podevents::trigger(queue.clone()));
    starter.run(queue, PodEvents::new(kits.of("nodeclaim.podevents")));
}

fn termination(starter: &mut Starter<'_>, kits: &Kits, cores: usize, orders: Arc<Orders>) {
    // lifecycle 0.7
    let workers = workers_at(cores, 100, 5000);
    let evictions = Evictions::new(workers, starter.mode, starter.borders.queues.clone());
    let evictor = Evictor::new(kits.of("eviction-queue"), evictions.clone());
    starter.run(evictions.queue(), evictor);
    let settings = QueueSettings::new("node.termination", workers)
        .about(Subject::NODE)
        .with_back_off(BackOff::doubling(Duration::from_millis(100), Duration::from_secs(10)));
    let termination = NodeTermination::new(kits.of("node.termination"), orders, evictions);
    starter.queue(settings, termination, |change, _| of_kind(change, Kind::Node));
}

fn collection(starter: &mut Starter<'_>, kits: &Kits) {
    let name = "nodeclaim.garbagecollection";
    let seen = Seen::default();
    starter.cluster.on_change(seen.trigger());
    let garbage = Arc::new(Garbage::new(kits.of(name), starter.borders.client.clone(), seen));
    let singleton = Singleton::new(name, garbage::PERIOD, Wake::new(), starter.borders.queues.clone());
    starter.watch_over(singleton.vital());
    let stop = starter.stop.clone();
    let work = singleton.run(stop.clone(), move || {
        let (garbage, stop) = (Arc::clone(&garbage), stop.clone());
        async move {
            // the cloud may take longer to answer than a stop may last
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(Next::Done),
                done = garbage.run() => done,
            }
        }
    });
    starter.task(name, work);
}

fn disruption(starter: &mut Starter<'_>, kits: &Kits) {
    let commands = Commands::default();
    let settings = QueueSettings::new("disruption.queue", 100)
        .with_back_off(BackOff::doubling(Duration::from_secs(1), Duration::from_secs(10)))
        .with_mode(starter.mode);
    let queue = Queue::new(settings, starter.borders.queues.clone());
    starter.run(
        queue.clone(),
        Execution::new(kits.of("disruption.queue"), commands.clone()),
    );
    let wake = Wake::new();
    let woken = wake.clone();
    starter.cluster.on_change(move |change, _| {
        // the marks of claims and the budgets of pools are what a pass waits for
        if matches!(change.kind, Kind::NodeClaim | Kind::NodePool) {
            woken.wake();
        }
    });
    let kit = kits.of("disruption");
    let disruption = Arc::new(disruption::Loop::new(kit, commands, queue, starter.stop.clone()));
    let singleton = Singleton::new("disruption", disruption::PERIOD, wake, starter.borders.queues.clone());
    starter.watch_over(singleton.vital());
    let work = singleton.run(starter.stop.clone(), move || {
        let disruption = Arc::clone(&disruption);
        async move { disruption.run().await }
    });
    starter.task("disruption", work);
}
