//! What differs between two snapshots of one kind.

use crate::cluster::{Entries, Entry, Key, Snapshot};
use chrono::{DateTime, Utc};
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// How long changes are gathered before they are looked at: a burst costs one look. Upstream looks every 5 to 30 seconds.
pub const SETTLE: Duration = Duration::from_secs(1);

/// Something that shows what differs from what it has shown last.
pub trait Follower: Send + Sync + 'static {
    /// Brings what is shown to this snapshot.
    fn follow(&self, snapshot: &Snapshot, now: DateTime<Utc>);
}

/// One object that is not what it was.
#[derive(Debug)]
pub(super) enum Difference<'a, T> {
    /// It was not there.
    Appeared(&'a Arc<Entry<T>>),
    /// It is another version.
    Changed {
        /// What it was.
        old: &'a Arc<Entry<T>>,
        /// What it is.
        new: &'a Arc<Entry<T>>,
    },
    /// It is not there any more.
    Gone(&'a Arc<Entry<T>>),
}

/// What differs, in order of the keys. An object that was made anew under its old name is gone and has appeared.
pub(super) fn differences<'a, T>(old: &'a Entries<T>, new: &'a Entries<T>) -> Vec<Difference<'a, T>> {
    let mut all = Vec::new();
    if Arc::ptr_eq(old, new) {
        return all;
    }
    let (mut before, mut after) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (before.peek(), after.peek()) {
            (None, None) => return all,
            (Some((was, _)), Some((is, _))) => match Key::cmp(was, is) {
                Ordering::Less => all.extend(before.next().map(|(_, entry)| Difference::Gone(entry))),
                Ordering::Greater => all.extend(after.next().map(|(_, entry)| Difference::Appeared(entry))),
                Ordering::Equal => {
                    if let (Some((_, old)), Some((_, new))) = (before.next(), after.next()) {
                        compare(old, new, &mut all);
                    }
                }
            },
            (Some(_), None) => all.extend(before.next().map(|(_, entry)| Difference::Gone(entry))),
            (None, Some(_)) => all.extend(after.next().map(|(_, entry)| Difference::Appeared(entry))),
        }
    }
}

fn compare<'a, T>(old: &'a Arc<Entry<T>>, new: &'a Arc<Entry<T>>, all: &mut Vec<Difference<'a, T>>) {
    if Arc::ptr_eq(old, new) {
        return;
    }
    if old.meta.uid == new.meta.uid {
        all.push(Difference::Changed { old, new });
    } else {
        all.push(Difference::Gone(old));
        all.push(Difference::Appeared(new));
    }
}

/// Seconds from one instant to another, never negative.
#[allow(clippy::cast_precision_loss)] // milliseconds of an object's life
pub(super) fn seconds(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    to.signed_duration_since(from).num_milliseconds().max(0) as f64 / 1e3
}

/// A resource's name as the label `resource_type` has it (surface §5).
pub(super) fn resource_type(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// A resource's amount as metrics show it: cores with three decimals, everything else whole (surface §5).
#[allow(clippy::cast_precision_loss)] // what Prometheus can hold
pub(super) fn amount(name: &str, quantity: crate::resources::Quantity) -> f64 {
    if name == crate::resources::names::CPU {
        quantity.milli_value() as f64 / 1e3
    } else {
        quantity.value() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Meta;

    fn entries(objects: &[(&str, &str, u8)]) -> Entries<u8> {
        let entry = |(name, uid, facts): &(&str, &str, u8)| {
            let mut meta = Meta::read(&kube::core::ObjectMeta::default());
            meta.key = Key::cluster(name);
            meta.uid = (*uid).into();
            Arc::new(Entry { meta, facts: *facts })
        };
        Arc::new(objects.iter().map(entry).collect())
    }

    fn told(old: &Entries<u8>, new: &Entries<u8>) -> Vec<String> {
        let word = |difference: &Difference<'_, u8>| match difference {
            Difference::Appeared(entry) => format!("+{}", entry.meta.key),
            Difference::Changed { old, new } => format!("{}:{}>{}", old.meta.key, old.facts, new.facts),
            Difference::Gone(entry) => format!("-{}", entry.meta.key),
        };
        differences(old, new).iter().map(word).collect()
    }

    #[test]
    fn only_what_differs_is_told_in_order_of_the_keys() {
        let old = entries(&[("a", "1", 0), ("b", "2", 0), ("d", "4", 0)]);
        let mut new = entries(&[("b", "2", 7), ("c", "3", 0), ("e", "5", 0)]);
        assert_eq!(told(&old, &new), ["-a", "b:0>7", "+c", "-d", "+e"]);
        assert!(told(&old, &old).is_empty());
        // another map with the same entries says nothing either
        Arc::make_mut(&mut new);
        let same: Entries<u8> = Arc::new(new.as_ref().clone());
        assert!(told(&new, &same).is_empty());
    }

    #[test]
    fn what_was_made_anew_is_gone_and_has_appeared() {
        let (old, new) = (entries(&[("a", "1", 0)]), entries(&[("a", "2", 0)]));
        assert_eq!(told(&old, &new), ["-a", "+a"]);
    }

    #[test]
    fn resources_are_named_and_counted_as_upstream_shows_them() {
        let quantity = |text: &str| text.parse::<crate::resources::Quantity>().unwrap();
        assert_eq!(resource_type("ephemeral-storage"), "ephemeral_storage");
        assert_eq!(resource_type("nvidia.com/GPU"), "nvidia.com/gpu");
        assert!((amount("cpu", quantity("1500m")) - 1.5).abs() < f64::EPSILON);
        assert!((amount("memory", quantity("1Gi")) - 1_073_741_824.0).abs() < f64::EPSILON);
    }
}
