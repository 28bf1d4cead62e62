//! The objects of a kind as last known: what the feed told and what we ourselves wrote since.
//!
//! Per object the newest resourceVersion wins, so a lagging event never undoes a write that was assumed. Pure.

use super::feed::{Kind, News};
use super::name::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object that changed.
#[derive(Debug)]
pub(crate) struct Moved<K> {
    /// Which.
    pub(crate) name: Name,
    /// How it was, if it was.
    pub(crate) before: Option<Arc<K>>,
    /// How it is, if it is.
    pub(crate) after: Option<Arc<K>>,
}

/// The objects of a kind.
#[derive(Debug)]
pub(crate) struct Mirror<K> {
    objects: BTreeMap<Name, Arc<K>>,
    /// UIDs that we know to be gone before the feed says so.
    gone: BTreeSet<String>,
    listed: bool,
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            gone: BTreeSet::new(),
            listed: false,
        }
    }
}

fn revision<K: Kind>(object: &K) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|v| v.parse().ok())
        .unwrap_or(0)
}

impl<K: Kind> Mirror<K> {
    /// Whether there was a list yet.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Arc<K>> {
        self.objects.get(name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Name, &Arc<K>)> {
        self.objects.iter()
    }

    /// Takes news in; returns what they moved.
    pub(crate) fn take(&mut self, news: News<K>) -> Vec<Moved<K>> {
        match news {
            News::Listed(objects, revision) => self.relist(objects, revision),
            News::Changed(object) => self.assume(*object).into_iter().collect(),
            News::Deleted(object) => {
                let uid = object.meta().uid.clone().unwrap_or_default();
                self.gone.remove(&uid);
                self.drop_older(&Name::of(&*object), revision(&*object))
                    .into_iter()
                    .collect()
            }
        }
    }

    fn relist(&mut self, objects: Vec<K>, at: u64) -> Vec<Moved<K>> {
        self.listed = true;
        self.gone.clear();
        let names: BTreeSet<Name> = objects.iter().map(Name::of).collect();
        let absent: Vec<Name> = self.objects.keys().filter(|n| !names.contains(n)).cloned().collect();
        let mut moved: Vec<Moved<K>> = absent.iter().filter_map(|name| self.drop_older(name, at)).collect();
        moved.extend(objects.into_iter().filter_map(|object| self.assume(object)));
        moved
    }

    /// Takes an object that the API answered with, if it is newer than what is known.
    pub(crate) fn assume(&mut self, object: K) -> Option<Moved<K>> {
        if object.meta().uid.as_ref().is_some_and(|uid| self.gone.contains(uid)) {
            return None;
        }
        let name = Name::of(&object);
        if self
            .objects
            .get(&name)
            .is_some_and(|known| revision(&**known) >= revision(&object))
        {
            return None;
        }
        let after = Arc::new(object);
        let before = self.objects.insert(name.clone(), Arc::clone(&after));
        Some(Moved {
            name,
            before,
            after: Some(after),
        })
    }

    /// Takes it that an object is gone, because the API said so to us.
    pub(crate) fn forget(&mut self, name: &Name, uid: &str) -> Option<Moved<K>> {
        let known = self.objects.get(name)?;
        if known.meta().uid.as_deref() != Some(uid) {
            return None;
        }
        self.gone.insert(uid.to_owned());
        let before = self.objects.remove(name);
        Some(Moved {
            name: name.clone(),
            before,
            after: None,
        })
    }

    fn drop_older(&mut self, name: &Name, at: u64) -> Option<Moved<K>> {
        if self.objects.get(name).is_none_or(|known| revision(&**known) > at) {
            return None;
        }
        let before = self.objects.remove(name);
        Some(Moved {
            name: name.clone(),
            before,
            after: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn map(version: u64, uid: &str) -> ConfigMap {
        let meta =
            serde_json::json!({"name": "m", "namespace": "n", "uid": uid, "resourceVersion": version.to_string()});
        serde_json::from_value(serde_json::json!({ "metadata": meta })).unwrap()
    }

    #[test]
    fn a_lagging_event_does_not_undo_what_was_assumed() {
        let mut mirror = Mirror::default();
        assert_eq!(mirror.take(News::Listed(vec![map(3, "a")], 3)).len(), 1);
        assert!(mirror.assume(map(7, "a")).is_some());
        assert!(mirror.take(News::Changed(Box::new(map(5, "a")))).is_empty());
        assert!(
            mirror.take(News::Deleted(Box::new(map(6, "old")))).is_empty(),
            "that was an earlier one of this name"
        );
        assert_eq!(mirror.take(News::Deleted(Box::new(map(8, "a")))).len(), 1);
    }

    #[test]
    fn what_was_deleted_does_not_come_back_by_an_old_event_but_by_a_new_object() {
        let mut mirror = Mirror::default();
        mirror.take(News::Listed(vec![map(3, "a")], 3));
        assert!(mirror.forget(&Name::new("n", "m"), "other").is_none());
        assert!(mirror.forget(&Name::new("n", "m"), "a").is_some());
        assert!(mirror.take(News::Changed(Box::new(map(4, "a")))).is_empty());
        mirror.take(News::Deleted(Box::new(map(5, "a"))));
        assert_eq!(mirror.take(News::Changed(Box::new(map(6, "b")))).len(), 1);
    }

    #[test]
    fn a_new_list_removes_what_it_lacks_unless_that_is_newer() {
        let mut mirror = Mirror::default();
        mirror.take(News::Listed(vec![map(3, "a")], 3));
        mirror.assume(map(9, "a"));
        assert!(mirror.take(News::Listed(Vec::new(), 8)).is_empty());
        assert_eq!(mirror.take(News::Listed(Vec::new(), 9)).len(), 1);
    }
}
