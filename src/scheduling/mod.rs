//! Pods, machines and offerings in, placements out. Pure: no clock, no randomness, no I/O.
//!
//! # The contract
//!
//! The caller fills a [`Problem`] from its snapshot: NodePools with their instance types ([`Pool::from_api`]), all machines with the pods bound
//! to them ([`Node`]), the pods to place, one pod per DaemonSet ([`Pod::for_daemon_set`]), namespaces and volumes. [`solve`] answers with
//! [`Results`]: claims to create, placements on machines that exist or were asked for, and a reason for each pod that was not placed.
//! The same problem gives the same answer whatever the order of its lists; nothing that users can write makes it panic.
//!
//! Pods are to be checked before with [`validation::validate_pod`] (scheduling 4-1), and pods of leaving machines chosen with
//! [`pdb::is_currently_reschedulable`] (scheduling 3-5). Relies on [`resources`](crate::resources) and [`api`](crate::api); called by
//! provisioning and by disruption's what-ifs.
//!
//! # A pass
//!
//! ```text
//! Problem ──▶ pass::prepare                                   ──▶ solve: the loop                              ──▶ finish
//!             symbols    keys, values, requirement sets           queue: largest pod first (14-1)                 truncation (21-2)
//!             columns    instance types by label, size, price     place (15-1):                                   labels, requirements (21-3)
//!             templates  pools, daemons, limits (11, 12, 20)        1. existing machines  (existing, 15-2)        explain: a reason for
//!             existing   machines (13-5)                            2. planned claims     (line, planned, 15-4)   each pod that failed
//!             shapes     pods that cannot be told apart             3. a new claim        (templates, 15-3)
//!             topology   universe, population, groups (17)        nobody takes it: relax one step (preferences, 16-3), try again;
//!                                                                 nothing left to relax: back into the queue until a whole
//!                                                                 round brings nothing (14-2)
//! ```
//!
//! Why it is fast: requirement sets are numbers and what two of them make together is worked out once (`symbols`); the types that satisfy a
//! set, that are large enough, that can be bought are words of bits (`columns`, `bits`); machines that cannot take a shape are ruled out in
//! one go (`roster`), and a candidate that can never take it is not asked again (`shapes::Memory`); planned claims are kept in the order they
//! are tried (`line`).
//!
//! # What-ifs
//!
//! [`what_if`] says what an answer is: a solve with some machines gone and their pods to place. A [`Base`] is a cluster prepared for many such
//! questions, a [`Probe`] asks them, and takes back after each what it changed.

mod amounts;
mod ask;
mod bits;
mod columns;
mod existing;
mod explain;
mod finish;
mod from_api;
pub mod instance_type;
pub mod labels;
mod line;
pub mod overlays;
mod pass;
pub mod pdb;
mod place;
mod planned;
pub mod pod;
pub mod ports;
mod preferences;
mod probe;
pub mod problem;
mod record;
pub mod requirements;
pub mod results;
mod roster;
pub mod selection;
mod settle;
mod shapes;
mod solve;
mod symbols;
pub mod taints;
mod templates;
mod topology;
pub mod validation;
pub mod volumes;
mod what_if;

pub use instance_type::{Availability, CapacityType, InstanceType, Offering, Overhead, adjusted_price};
pub use labels::WellKnownLabels;
pub use pod::{Constraints, Phase, Pod, Preferences, Selector, Standing};
pub use probe::{Base, Probe};
pub use problem::{Fate, Node, NodeObject, Ownership, Pool, Problem, Readiness};
pub use requirements::{Incompatibility, Operator, Requirement, Requirements, Spec, Undefined};
pub use results::{
    DeviceClaims, ExistingPlacement, MinValuesPolicy, NewClaim, Options, PodError, PoolVerdict, PreferencePolicy,
    Reason, Results, Ties, UnusablePool,
};
pub use solve::{Prepared, Promises, Rounds, solve, solve_promised};
pub use taints::{Taint, Toleration};
pub use volumes::{PersistentVolume, StorageClass, VolumeClaim, VolumeError, Volumes};
pub use what_if::{WhatIf, what_if};
