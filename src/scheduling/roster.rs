//! The machines that exist as columns: by how much is left on them, and by what they say to labels and tolerations (scheduling 15-2).
//!
//! Decides which machines need not be asked at all when a shape of pods comes. What is left on a machine only shrinks during a pass, so a
//! machine that has too little in the beginning never has enough. Built once per pass; relies on bits and symbols; asked by placing.

use super::bits;
use super::existing::Existing;
use super::pod::Constraints;
use super::problem::Node;
use super::symbols::{Key, Req, Symbols, Wish};
use super::taints::{self, Taint};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Steps by which machines are told apart for one resource; more would only save asking.
const STEPS: usize = 64;

/// What a machine says of the labels asked for, and its taints.
type Looks<'n> = (Vec<(Key, Req)>, &'n [Taint]);

/// Machines by what is left of one resource.
#[derive(Debug, Clone, Default)]
struct Room {
    /// Amounts, ascending.
    steps: Vec<i128>,
    /// For each step the machines that have at least so much.
    at_least: Vec<u64>,
}

/// Machines that no pod of the pass can tell apart by labels and taints.
#[derive(Debug, Clone)]
struct Alike {
    first: usize,
    all: Vec<usize>,
}

/// The machines as columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Roster {
    words: usize,
    /// Machines of which no amount is negative; nothing fits on others (scheduling 8-4).
    sound: Vec<u64>,
    rooms: Vec<Room>,
    alike: Vec<Alike>,
}

impl Roster {
    /// Columns over the machines; `asked` are the labels that pods of the pass ask for.
    pub(super) fn new(existing: &[Existing], nodes: &[Arc<Node>], asked: &BTreeSet<Key>, symbols: &Symbols) -> Self {
        let words = bits::words(existing.len());
        let mut sound = vec![0; words];
        let mut alike: BTreeMap<Looks<'_>, Vec<usize>> = BTreeMap::new();
        for (at, machine) in existing.iter().enumerate() {
            if machine.remaining.iter().all(|amount| *amount >= 0) {
                bits::insert(&mut sound, at);
            }
            let labels = symbols.entries(machine.labels).iter().copied();
            let labels = labels.filter(|(key, _)| asked.contains(key)).collect();
            let taints = nodes.get(machine.node).map_or(&[][..], |node| &node.taints);
            alike.entry((labels, taints)).or_default().push(at);
        }
        let alike = alike.into_values().filter_map(|all| {
            let first = *all.first()?;
            Some(Alike { first, all })
        });
        let alike = alike.collect();
        let places = existing.first().map_or(0, |machine| machine.remaining.len());
        Self {
            words,
            sound,
            rooms: (0..places).map(|place| room(existing, place, words)).collect(),
            alike,
        }
    }

    /// Fills `never` with the machines that can never take such a pod.
    pub(super) fn refusing(
        &self,
        never: &mut Vec<u64>,
        requests: &[i128],
        (constraints, wish): (&Constraints, &Wish),
        existing: &[Existing],
        nodes: &[Arc<Node>],
        symbols: &mut Symbols,
    ) {
        never.clear();
        never.extend_from_slice(&self.sound);
        for (room, wanted) in self.rooms.iter().zip(requests).filter(|(_, wanted)| **wanted > 0) {
            let steps = room.steps.partition_point(|step| step <= wanted);
            if let Some(step) = steps.checked_sub(1) {
                let enough = room.at_least.get(step * self.words..steps * self.words);
                if let Some(enough) = enough {
                    bits::keep(never, enough);
                }
            }
        }
        for kind in &self.alike {
            let Some(first) = existing.get(kind.first) else {
                continue;
            };
            let tolerated = nodes
                .get(first.node)
                .is_some_and(|node| taints::tolerates_all(&node.taints, &constraints.tolerations));
            if !tolerated || !symbols.compatible_strictly(first.labels, wish.set) {
                kind.all.iter().for_each(|at| bits::remove(never, *at));
            }
        }
        for word in never {
            *word = !*word;
        }
    }
}

fn room(existing: &[Existing], place: usize, words: usize) -> Room {
    let amount = |machine: &Existing| machine.remaining.get(place).copied().unwrap_or(0);
    let mut amounts: Vec<i128> = existing.iter().map(amount).collect();
    amounts.sort_unstable();
    amounts.dedup();
    let stride = amounts.len().div_ceil(STEPS).max(1);
    let steps: Vec<i128> = amounts.into_iter().step_by(stride).collect();
    let mut at_least = vec![0; steps.len() * words];
    for (step, of_step) in steps.iter().zip(at_least.chunks_mut(words.max(1))) {
        for (at, _) in existing
            .iter()
            .enumerate()
            .filter(|(_, machine)| amount(machine) >= *step)
        {
            bits::add(of_step, at);
        }
    }
    Room { steps, at_least }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::amounts;
    use crate::scheduling::symbols::{Set, Value};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn who_is_left_out_never_fits_and_few_who_do_not_fit_are_asked(
            left in proptest::collection::vec((-1_i128..300, -1_i128..300), 1..200), wanted in (0_i128..300, 0_i128..300),
        ) {
            let existing: Vec<Existing> = left.iter().map(|(cpu, memory)| Existing {
                node: 0,
                labels: Set::EMPTY,
                set: Set::EMPTY,
                host: Value::default(),
                remaining: [*cpu, *memory].into_iter().collect(),
                ports: Vec::new(),
                attached: BTreeMap::new(),
                pods: Vec::new(),
            }).collect();
            let mut symbols = Symbols::new(Arc::default());
            let nodes = [Arc::new(Node::default())];
            let roster = Roster::new(&existing, &nodes, &BTreeSet::new(), &symbols);
            let mut never = Vec::new();
            let requests = [wanted.0, wanted.1];
            let pod = Constraints::default();
            roster.refusing(&mut never, &requests, (&pod, &Wish::ANY), &existing, &nodes, &mut symbols);
            let fits = |at: usize| amounts::fit(&requests, &existing[at].remaining);
            for at in 0..existing.len() {
                prop_assert!(!bits::contains(&never, at) || !fits(at), "machine {at} would have fitted");
            }
            let in_vain = (0..existing.len()).filter(|at| !bits::contains(&never, *at) && !fits(*at)).count();
            let each = existing.len().div_ceil(STEPS);
            // Amounts repeat, so a step may hold more machines than its share of distinct amounts.
            let most_alike = |of: fn(&(i128, i128)) -> i128| {
                let mut counts = BTreeMap::new();
                for left in &left {
                    *counts.entry(of(left)).or_insert(0_usize) += 1;
                }
                counts.into_values().max().unwrap_or(0)
            };
            prop_assert!(in_vain <= each * (most_alike(|left| left.0) + most_alike(|left| left.1)));
        }
    }
}
