//! Machines that exist or were asked for, as candidates (scheduling 13-5, 13-6, 15-2).

use super::amounts::{Amounts, Places};
use super::pod::Pod;
use super::ports::HostPort;
use super::problem::{Fate, Node, Problem};
use super::results::Options;
use super::symbols::{Set, Symbols, Value};
use super::templates::{counted_daemons, daemon_suits};
use crate::resources::{Quantity, ResourceList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A machine as a candidate.
#[derive(Debug, Clone)]
pub(super) struct Existing {
    /// Place in the problem's nodes.
    pub(super) node: usize,
    /// Its labels.
    pub(super) labels: Set,
    /// Its labels and what pods placed in this pass added.
    pub(super) set: Set,
    pub(super) host: Value,
    pub(super) remaining: Amounts,
    pub(super) ports: Vec<HostPort>,
    /// Claims attached, by driver; only of drivers that are limited.
    pub(super) attached: BTreeMap<String, BTreeSet<String>>,
    /// Pods placed here in this pass.
    pub(super) pods: Vec<usize>,
}

/// The machines that stay, in the order they are tried: initialised ones first, then by name (scheduling 13-6).
pub(super) fn candidates(
    problem: &Problem,
    options: &Options,
    places: &Places,
    symbols: &mut Symbols,
) -> Vec<Existing> {
    let staying = problem
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.fate == Fate::Stays);
    let mut order: Vec<(usize, &Arc<Node>)> = staying.collect();
    order.sort_by(|(_, a), (_, b)| (a.readiness, &a.name).cmp(&(b.readiness, &b.name)));
    let daemons: Vec<&Arc<Pod>> = counted_daemons(problem, options).collect();
    order
        .into_iter()
        .map(|(at, node)| {
            let set = symbols.wish(&node.requirements()).set;
            let hostname = symbols.hostname();
            let host = symbols.value(hostname, node.hostname());
            let remaining = remaining(node, &daemons, set, host, symbols);
            Existing {
                node: at,
                labels: set,
                set,
                host,
                remaining: places.known_amounts(&remaining),
                ports: node
                    .pods
                    .iter()
                    .flat_map(|pod| pod.constraints.ports.iter().cloned())
                    .collect(),
                attached: attached(node, problem),
                pods: Vec::new(),
            }
        })
        .collect()
}

/// What is left: allocatable less what pods ask for, less what daemons will still ask for. More daemons than expected make no room
/// (scheduling 12-4).
fn remaining(node: &Node, daemons: &[&Arc<Pod>], set: Set, host: Value, symbols: &mut Symbols) -> ResourceList {
    let used = super::amounts::sum(node.pods.iter().map(|pod| &*pod.requests));
    let by_daemons = super::amounts::sum(
        node.pods
            .iter()
            .filter(|pod| pod.standing.daemon)
            .map(|pod| &*pod.requests),
    );
    let mut expected = ResourceList::new();
    for daemon in daemons {
        let suits = daemon_suits(&daemon.constraints, &node.taints, symbols, |wish, symbols| {
            wish.host.is_none_or(|req| symbols.has(req, host)) && symbols.compatible_strictly(set, wish.set)
        });
        if suits {
            expected.add(&daemon.requests);
        }
    }
    expected.take(&by_daemons);
    let expected: ResourceList = expected
        .iter()
        .map(|(name, left)| (name, if left.is_negative() { Quantity::ZERO } else { left }))
        .collect();
    node.allocatable.minus(&used).minus(&expected)
}

fn attached(node: &Node, problem: &Problem) -> BTreeMap<String, BTreeSet<String>> {
    let mut result: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if node.volume_limits.is_empty() {
        return result;
    }
    for pod in &node.pods {
        for (driver, claims) in problem.volumes.attachments(pod).unwrap_or_default() {
            if node.volume_limits.contains_key(&driver) {
                result.entry(driver).or_default().extend(claims);
            }
        }
    }
    result
}

impl Existing {
    /// Whether a driver would have to attach more volumes than it can (scheduling 18-8): the driver, and how many there would be.
    pub(super) fn overloaded(
        &self,
        limits: &BTreeMap<String, u64>,
        wanted: &BTreeMap<String, BTreeSet<String>>,
    ) -> Option<(String, u64)> {
        wanted.iter().find_map(|(driver, claims)| {
            let limit = limits.get(driver)?;
            let there = self.attached.get(driver);
            let new = claims
                .iter()
                .filter(|claim| there.is_none_or(|there| !there.contains(*claim)))
                .count();
            let total = (there.map_or(0, BTreeSet::len) + new) as u64;
            (total > *limit).then(|| (driver.clone(), total))
        })
    }
}
