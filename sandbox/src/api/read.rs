//! Reads: one object, lists with selectors, pages and revisions.
//!
//! Relies on the store's log for lists of an older revision. Called by [`super::core`]; a stale-read fault calls [`Core::list_at`] directly.

use super::core::{Answer, Core};
use super::error::{ApiError, Cause};
use super::kinds::Resource;
use super::route::Call;
use super::selectors::{FieldSelector, LabelSelector, Selection};
use super::store::{Compacted, ObjectKey, Objects, Stored};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// A list as it will be answered.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) resource: Arc<Resource>,
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

/// The revision that a read was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Latest,
    AtLeast(u64),
    Exactly(u64),
}

impl Core {
    pub(crate) fn get(&mut self, call: &Call) -> Result<Answer, ApiError> {
        if let Wanted::AtLeast(revision) | Wanted::Exactly(revision) = wanted(call)? {
            self.not_ahead(revision)?;
        }
        Ok(Answer::Object {
            code: 200,
            object: self.named(call)?,
        })
    }

    pub(crate) fn list(&mut self, call: &Call) -> Result<Answer, ApiError> {
        let token = call.params.get("continue");
        if !token.is_empty() {
            let (revision, after) = read_token(token)?;
            return self.list_from(call, Wanted::Exactly(revision), Some(&after));
        }
        let wanted = wanted(call)?;
        self.list_from(call, wanted, None)
    }

    /// The list as it was at a revision.
    pub(crate) fn list_at(&self, call: &Call, revision: u64) -> Result<Answer, ApiError> {
        self.list_from(call, Wanted::Exactly(revision), None)
    }

    fn list_from(&self, call: &Call, wanted: Wanted, after: Option<&ObjectKey>) -> Result<Answer, ApiError> {
        let table = self.store.table(&call.table()).ok_or_else(ApiError::no_such_path)?;
        let selection = selection(call)?;
        let (objects, revision): (Cow<'_, Objects>, u64) = match wanted {
            Wanted::Exactly(revision) if revision != self.store.revision() => {
                self.not_ahead(revision)?;
                (Cow::Owned(table.at(revision).map_err(too_old)?), revision)
            }
            Wanted::AtLeast(revision) => {
                self.not_ahead(revision)?;
                (Cow::Borrowed(&table.objects), self.store.revision())
            }
            _ => (Cow::Borrowed(&table.objects), self.store.revision()),
        };
        let start = after.map_or(std::ops::Bound::Unbounded, |key| std::ops::Bound::Excluded(key.clone()));
        let matching = objects
            .range((start, std::ops::Bound::Unbounded))
            .filter(|(_, o)| selection.matches(o.value()));
        let limit = call
            .params
            .number("limit")
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| *n > 0);
        let mut matching = matching.peekable();
        let mut items: Vec<Arc<Stored>> = Vec::new();
        let mut last = None;
        while limit.is_none_or(|n| items.len() < n) {
            let Some((key, object)) = matching.next() else { break };
            items.push(Arc::clone(object));
            last = Some(key.clone());
        }
        let more = matching.peek().is_some();
        let selective = !call.params.get("labelSelector").is_empty() || !call.params.get("fieldSelector").is_empty();
        let next = last.filter(|_| more).map(|key| write_token(revision, &key));
        let remaining = (more && !selective).then(|| matching.count());
        Ok(Answer::List(Listing {
            resource: Arc::clone(&call.resource),
            revision,
            items,
            next,
            remaining,
        }))
    }

    fn not_ahead(&self, revision: u64) -> Result<(), ApiError> {
        let current = self.store.revision();
        if revision <= current {
            return Ok(());
        }
        let mut error = ApiError::timeout(format!("Too large resource version: {revision}, current: {current}"))
            .with_causes(&[Cause {
                field: String::new(),
                reason: Cow::Borrowed("ResourceVersionTooLarge"),
                message: "Too large resource version".into(),
            }]);
        error.details.insert("retryAfterSeconds".into(), 1.into());
        error.retry_after = Some(1);
        Err(error)
    }
}

/// What a list, watch or deletion of a collection selects.
pub(crate) fn selection(call: &Call) -> Result<Selection, ApiError> {
    Ok(Selection {
        namespace: Some(call.namespace.clone()).filter(|n| !n.is_empty()),
        name: Some(call.name.clone()).filter(|n| !n.is_empty()),
        labels: LabelSelector::parse(call.params.get("labelSelector"))?,
        fields: FieldSelector::parse(call.params.get("fieldSelector"), &call.resource)?,
    })
}

/// The number in a resourceVersion.
pub(crate) fn parse_revision(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        let words =
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        ApiError::bad_request(words)
    })
}

fn wanted(call: &Call) -> Result<Wanted, ApiError> {
    let text = call.params.get("resourceVersion");
    let how = call.params.get("resourceVersionMatch");
    if text.is_empty() {
        if !how.is_empty() {
            let words = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            return Err(ApiError::bad_request(words));
        }
        return Ok(Wanted::Latest);
    }
    let revision = parse_revision(text)?;
    let limited = call.params.number("limit").is_some_and(|n| n > 0);
    match (revision, how) {
        (0, "Exact") => Err(ApiError::bad_request(
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        )),
        (0, _) => Ok(Wanted::Latest),
        (_, "Exact") => Ok(Wanted::Exactly(revision)),
        // Upstream's legacy rule: with a limit and no match, the revision is meant exactly.
        (_, "") if limited => Ok(Wanted::Exactly(revision)),
        _ => Ok(Wanted::AtLeast(revision)),
    }
}

fn too_old(compacted: Compacted) -> ApiError {
    ApiError::expired(format!(
        "The resourceVersion for the provided list is too old: {} ({})",
        compacted.asked, compacted.oldest
    ))
}

fn write_token(revision: u64, key: &ObjectKey) -> String {
    URL_SAFE_NO_PAD.encode(json!([revision, key.namespace, key.name]).to_string())
}

fn read_token(token: &str) -> Result<(u64, ObjectKey), ApiError> {
    let read = || {
        let value: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let part = |n: usize| value.get(n);
        Some((
            part(0)?.as_u64()?,
            ObjectKey::new(part(1)?.as_str()?, part(2)?.as_str()?),
        ))
    };
    read().ok_or_else(|| ApiError::bad_request("continue key is not valid"))
}
