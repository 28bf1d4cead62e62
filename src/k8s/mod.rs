//! The Kubernetes border: watches in, writes out, work queues in between. The only module besides `cloud` that talks to somebody.
//!
//! | module | what it is for |
//! |---|---|
//! | [`client`] | the connection: retries of reads, rate limit, request metrics |
//! | [`kinds`] | which kinds are watched, and how one object of each is read |
//! | [`hub`] | one watcher per kind |
//! | [`cluster_task`] | the one owner of the [`cluster`](crate::cluster) state |
//! | [`queue`] | keyed work with back-off per key, and loops without keys |
//! | [`write`] | creates, patches, deletes: preconditions, lease, four seconds, assumption |
//! | [`evict`] | evictions and their outcomes |
//! | [`events`] | Kubernetes Events: dedupe, limits, counts |
//! | [`merge`] | what differs between two states of an object, as a patch |
//! | [`watchdog`] | what has stopped to work without ending |
//! | [`election`] | one leader, by a Lease |
//! | [`leadership`] | whether this process may write |
//!
//! # How a controller is written
//!
//! Observe, decide, act, record. The decision is a pure function elsewhere; the controller has no `if` about policy.
//!
//! ```no_run
//! use karpenter::api::NodeClaim;
//! use karpenter::cluster::{Change, Cluster, Key, Kind};
//! use karpenter::k8s::cluster_task::{ClusterHandle, ClusterTask};
//! use karpenter::k8s::queue::{Next, Queue, ReconcileError, Reconciler};
//! use karpenter::k8s::write::{Lock, Target, Writer};
//!
//! struct Hydration {
//!     cluster: ClusterHandle,
//!     writer: Writer,
//! }
//!
//! #[async_trait::async_trait]
//! impl Reconciler for Hydration {
//!     type Key = Key;
//!
//!     async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
//!         // observe: the state as of now, our own writes included
//!         let snapshot = self.cluster.snapshot().await.map_err(ReconcileError::new)?;
//!         let Some(claim) = snapshot.claim(&key.name) else { return Ok(Next::Done) };
//!         // decide (a pure function of `lifecycle`, say)
//!         let Some(patch) = missing_labels(&claim.facts) else { return Ok(Next::Done) };
//!         // act: a conflict, a lost lease or an unknown outcome becomes a quiet retry with back-off
//!         self.writer.patch::<NodeClaim>(&Target::of(&claim.meta), patch, Lock::Version).await?;
//!         Ok(Next::Done)
//!     }
//! }
//! # fn missing_labels(_: &NodeClaim) -> Option<serde_json::Value> { None }
//!
//! /// In the wiring: each change of a claim puts its key into the queue.
//! fn wire(task: &mut ClusterTask, queue: Queue<Key>) {
//!     task.on_change(move |change: &Change, _: &Cluster| {
//!         if change.kind == Kind::NodeClaim {
//!             queue.add(change.key.clone());
//!         }
//!     });
//! }
//! ```

mod bucket;
pub mod client;
pub mod cluster_task;
pub mod election;
pub mod events;
pub mod evict;
pub mod hub;
pub mod kinds;
pub mod leadership;
pub mod merge;
pub mod metrics;
pub mod queue;
mod reading;
pub mod watchdog;
pub mod write;
mod write_error;
mod write_target;

pub use bucket::{Rate, TokenBucket};
pub use write_error::{Cause, WriteError, write_as_expected};
