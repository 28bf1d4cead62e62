//! What a control plane does a moment after a write: budgets, garbage, namespaces.
//!
//! Each function does all that is pending and returns; [`super::server`] runs them in tasks that sleep on the tokio clock, so a paused clock
//! decides when. Deletions carry the UID that was looked at, as upstream's.

use super::budgets;
use super::core::Core;
use super::deletion::{DeleteOptions, Propagation};
use super::object;
use super::options::Garbage;
use super::store::{ObjectKey, Stored};
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::sync::Arc;

type Place = (String, ObjectKey);

/// Brings all budgets up to date.
pub(crate) fn settle_budgets(core: &mut Core, now: DateTime<Utc>) {
    for namespace in std::mem::take(&mut core.store.pending.budgets) {
        budgets::refresh(core, &namespace, now);
    }
    // The budgets just written are no news to themselves.
    core.store.pending.budgets.clear();
}

/// Collects garbage until nothing changes any more.
pub(crate) fn settle_garbage(core: &mut Core, now: DateTime<Utc>) {
    loop {
        let before = core.store.revision();
        if core.options.garbage == Garbage::Collected {
            let gone = std::mem::take(&mut core.store.pending.gone);
            let mut places: Vec<Place> = gone.iter().flat_map(|uid| core.store.dependents(uid)).collect();
            places.extend(std::mem::take(&mut core.store.pending.owned));
            for place in places {
                follow_owners(core, &place, now);
            }
        } else {
            core.store.pending.gone.clear();
            core.store.pending.owned.clear();
        }
        for place in std::mem::take(&mut core.store.pending.waiting) {
            wait_for_dependents(core, &place, now);
        }
        for namespace in std::mem::take(&mut core.store.pending.namespaces) {
            empty_namespace(core, &namespace, now);
        }
        if core.store.revision() == before {
            return;
        }
    }
}

fn look(core: &Core, place: &Place) -> Option<Arc<Stored>> {
    core.store.get(&place.0, &place.1).cloned()
}

fn delete(core: &mut Core, place: &Place, propagation: Propagation, now: DateTime<Utc>) {
    let Some(object) = look(core, place) else { return };
    let Some(resource) = core.registry.get(&place.0).cloned() else {
        return;
    };
    let kept = object::finalizers(object.value())
        .iter()
        .any(|f| matches!(*f, "orphan" | "foregroundDeletion"));
    let options = DeleteOptions {
        propagation: Some(propagation).filter(|_| !kept),
        ..DeleteOptions::default()
    };
    // Without preconditions a deletion cannot be refused.
    let _done = core.delete_object(&resource, &object, &options, now);
}

/// Deletes an object none of whose owners is there, drops references to owners that are not.
fn follow_owners(core: &mut Core, place: &Place, now: DateTime<Utc>) {
    let Some(object) = look(core, place) else { return };
    let references = object::list(object.value(), "/metadata/ownerReferences");
    if references.is_empty() {
        return;
    }
    let (mut solid, mut waiting) = (Vec::new(), false);
    for reference in references {
        let owner = core
            .store
            .by_uid(object::text(reference, "/uid"))
            .cloned()
            .and_then(|p| look(core, &p));
        match owner {
            None => {}
            Some(owner) if in_foreground(owner.value()) && blocks(reference) => waiting = true,
            Some(_) => solid.push(reference.clone()),
        }
    }
    if solid.is_empty() {
        if !object::is_deleting(object.value()) {
            let propagation = if waiting {
                Propagation::Foreground
            } else {
                Propagation::Background
            };
            delete(core, place, propagation, now);
        }
    } else if solid.len() < references.len() {
        let mut new = object.value().clone();
        object::set_meta(&mut new, "ownerReferences", solid);
        core.store.put(&place.0, &place.1, new, now);
    }
}

fn in_foreground(owner: &Value) -> bool {
    object::is_deleting(owner) && object::finalizers(owner).contains(&"foregroundDeletion")
}

fn blocks(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
}

/// Lets an object go on that waits because of `foregroundDeletion` or `orphan`.
fn wait_for_dependents(core: &mut Core, place: &Place, now: DateTime<Utc>) {
    let Some(owner) = look(core, place) else { return };
    if !object::is_deleting(owner.value()) {
        return;
    }
    let uid = object::uid(owner.value()).to_owned();
    let finalizers: Vec<String> = object::finalizers(owner.value())
        .iter()
        .map(|f| (*f).to_owned())
        .collect();
    let has = |f: &str| finalizers.iter().any(|own| own == f);
    let dependents = core.store.dependents(&uid);
    let finished = if has("orphan") {
        for dependent in &dependents {
            disown(core, dependent, &uid, now);
        }
        "orphan"
    } else if has("foregroundDeletion") {
        for dependent in &dependents {
            if look(core, dependent).is_some_and(|d| !object::is_deleting(d.value())) {
                delete(core, dependent, Propagation::Foreground, now);
            }
        }
        let blocking = |d: &Place| {
            look(core, d).is_some_and(|o| {
                let refs = object::list(o.value(), "/metadata/ownerReferences");
                refs.iter().any(|r| object::text(r, "/uid") == uid && blocks(r))
            })
        };
        if core.store.dependents(&uid).iter().any(blocking) {
            core.store.pending.waiting.insert(place.clone());
            return;
        }
        "foregroundDeletion"
    } else {
        return;
    };
    let left: Vec<String> = finalizers.into_iter().filter(|f| f != finished).collect();
    let mut new = owner.value().clone();
    object::set_meta(&mut new, "finalizers", left.clone());
    let grace = object::number(&new, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    if left.is_empty() && grace == 0 {
        core.store.remove(&place.0, &place.1, Some(new), now);
    } else {
        core.store.put(&place.0, &place.1, new, now);
    }
}

fn disown(core: &mut Core, place: &Place, uid: &str, now: DateTime<Utc>) {
    let Some(object) = look(core, place) else { return };
    let references = object::list(object.value(), "/metadata/ownerReferences");
    let left: Vec<Value> = references
        .iter()
        .filter(|r| object::text(r, "/uid") != uid)
        .cloned()
        .collect();
    let mut new = object.value().clone();
    object::set_meta(&mut new, "ownerReferences", left);
    core.store.put(&place.0, &place.1, new, now);
}

/// Deletes what is in a namespace that goes, and the namespace when it is empty.
fn empty_namespace(core: &mut Core, namespace: &str, now: DateTime<Utc>) {
    let inside: Vec<Place> = core
        .store
        .tables()
        .flat_map(|(table, t)| {
            t.objects
                .keys()
                .filter(|k| k.namespace == namespace)
                .map(|k| (table.clone(), k.clone()))
        })
        .collect();
    for place in &inside {
        if look(core, place).is_some_and(|o| !object::is_deleting(o.value())) {
            delete(core, place, Propagation::Background, now);
        }
    }
    let left = inside.iter().any(|place| look(core, place).is_some());
    let key = ObjectKey::new("", namespace);
    let Some(object) = core.store.get("namespaces", &key).cloned() else {
        return;
    };
    if left {
        core.store.pending.namespaces.insert(namespace.to_owned());
    } else if object::is_deleting(object.value()) && object::finalizers(object.value()).is_empty() {
        core.store.remove("namespaces", &key, None, now);
    }
}
