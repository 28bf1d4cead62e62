//! Watches: a stream of lines that follows a kind's log.
//!
//! ```text
//! open → (initial objects) → events after the cursor → wait for the kind's change, a bookmark or the end → …
//! ```
//!
//! Takes the lock only to copy what is new; between that it sleeps on the tokio clock. Ends at its time-out, when a fault drops it, or with an
//! `ERROR` event of code 410 when the log has forgotten what it still had to tell.

use super::error::ApiError;
use super::kinds::Resource;
use super::object;
use super::read::{parse_revision, selection};
use super::render;
use super::route::{Call, Shape};
use super::selectors::Selection;
use super::server::Inner;
use super::store::{Event, EventKind, Stored};
use crate::ticks::Moved;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// An open watch.
pub(crate) struct Watcher {
    inner: Arc<Inner>,
    resource: Arc<Resource>,
    table: String,
    selection: Selection,
    shape: Shape,
    include: render::RowObject,
    cursor: u64,
    opening: Option<Bytes>,
    changed: Moved,
    ends: Instant,
    bookmark: Option<Instant>,
    bookmarks: Bookmarks,
    over: bool,
}

/// The last bookmark comes so long before the time-out.
const BEFORE_END: Duration = Duration::from_secs(2);

/// When bookmarks come: now and again, and one shortly before the time-out, so that a client that goes on from there goes on from near the present.
#[derive(Debug, Clone, Copy)]
struct Bookmarks {
    every: Duration,
    last: Option<Instant>,
}

impl Bookmarks {
    fn after(&self, now: Instant) -> Option<Instant> {
        let next = now.checked_add(self.every);
        let last = self.last.filter(|last| *last > now);
        next.into_iter().chain(last).min()
    }
}

impl Watcher {
    /// Opens a watch; `drop_after` is a fault that ends it early.
    pub(crate) fn open(inner: &Arc<Inner>, call: &Call, drop_after: Option<Duration>) -> Result<Self, ApiError> {
        let table = call.table();
        let selection = selection(call)?;
        let text = call.params.get("resourceVersion");
        let from = if text.is_empty() { 0 } else { parse_revision(text)? };
        let initial = call.params.flag("sendInitialEvents");
        if initial && call.params.get("resourceVersionMatch") != "NotOlderThan" {
            let words = "sendInitialEvents requires resourceVersionMatch to be set to NotOlderThan";
            return Err(ApiError::new(422, "Invalid", words));
        }
        let now = Instant::now();
        let wants_bookmarks = call.params.flag("allowWatchBookmarks");
        let mut core = inner.core();
        let seconds = call
            .params
            .number("timeoutSeconds")
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| *n > 0);
        let (least, most) = core.options.watch_seconds;
        let seconds = seconds.unwrap_or_else(|| core.ids.between(least, most));
        let lasts = drop_after.unwrap_or(Duration::MAX).min(Duration::from_secs(seconds));
        let bookmarks = Bookmarks {
            every: core.options.bookmark_every,
            last: now
                .checked_add(Duration::from_secs(seconds))
                .and_then(|end| end.checked_sub(BEFORE_END)),
        };
        let kind = core.store.table(&table).ok_or_else(ApiError::no_such_path)?;
        let changed = kind.subscribe();
        let mut watcher = Self {
            inner: Arc::clone(inner),
            resource: Arc::clone(&call.resource),
            table,
            selection,
            shape: call.shape,
            include: render::RowObject::parse(call.params.get("includeObject")),
            cursor: from,
            opening: None,
            changed,
            ends: now.checked_add(lasts).unwrap_or(now),
            bookmark: wants_bookmarks.then(|| bookmarks.after(now)).flatten(),
            bookmarks,
            over: false,
        };
        if initial || from == 0 {
            let mut lines = BytesMut::new();
            for object in kind.objects.values().filter(|o| watcher.selection.matches(o.value())) {
                watcher.line(&mut lines, "ADDED", object);
            }
            watcher.cursor = core.store.revision();
            if initial && wants_bookmarks {
                watcher.bookmark_line(&mut lines, watcher.cursor, InitialEnd::Marked);
            }
            watcher.opening = Some(lines.freeze()).filter(|l| !l.is_empty());
        }
        Ok(watcher)
    }

    /// The lines, as chunks of whole lines.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Bytes> + Send + 'static {
        futures::stream::unfold(self, |mut watcher| async move {
            let chunk = watcher.next_chunk().await?;
            Some((chunk, watcher))
        })
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        loop {
            if self.over {
                return None;
            }
            if Instant::now() >= self.ends {
                self.over = true;
                continue;
            }
            self.changed.note();
            if let Some(lines) = self.news() {
                return Some(lines);
            }
            if let Some(lines) = self.due_bookmark() {
                return Some(lines);
            }
            let wake = self.bookmark.map_or(self.ends, |b| b.min(self.ends));
            tokio::select! {
                biased;
                changed = self.changed.changed() => self.over |= changed.is_err(),
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// What happened since the cursor.
    fn news(&mut self) -> Option<Bytes> {
        let mut lines = BytesMut::new();
        let inner = Arc::clone(&self.inner);
        let core = inner.core();
        let Some(table) = core.store.table(&self.table) else {
            self.over = true;
            return None;
        };
        match table.since(self.cursor) {
            Ok(events) => {
                for event in events {
                    self.event_line(&mut lines, event);
                }
                self.cursor = self.cursor.max(core.store.revision());
            }
            Err(gone) => {
                self.over = true;
                let error = ApiError::expired(format!("too old resource version: {} ({})", gone.asked, gone.oldest));
                let line = json!({ "type": "ERROR", "object": error.to_status() }).to_string();
                lines.extend_from_slice(line.as_bytes());
                lines.extend_from_slice(b"\n");
            }
        }
        Some(lines.freeze()).filter(|l| !l.is_empty())
    }

    fn event_line(&self, lines: &mut BytesMut, event: &Event) {
        let before = event
            .previous
            .as_ref()
            .is_some_and(|o| self.selection.matches(o.value()));
        let after = event.kind != EventKind::Deleted && self.selection.matches(event.object.value());
        match (before, after) {
            (false, true) => self.line(lines, "ADDED", &event.object),
            (true, true) => self.line(lines, "MODIFIED", &event.object),
            (true, false) if event.kind == EventKind::Deleted => self.line(lines, "DELETED", &event.object),
            (true, false) => {
                // It left the selection: upstream reports the object as it was, under the new revision.
                if let Some(previous) = &event.previous {
                    let mut value = previous.value().clone();
                    object::set_meta(&mut value, "resourceVersion", event.revision.to_string());
                    self.line(lines, "DELETED", &Arc::new(Stored::new(value, event.revision)));
                }
            }
            (false, false) => {}
        }
    }

    fn line(&self, lines: &mut BytesMut, kind: &str, object: &Arc<Stored>) {
        lines.extend_from_slice(b"{\"type\":\"");
        lines.extend_from_slice(kind.as_bytes());
        lines.extend_from_slice(b"\",\"object\":");
        let now = self.inner.now();
        lines.extend_from_slice(&render::one(self.shape, self.include, &self.resource, object, now));
        lines.extend_from_slice(b"}\n");
    }

    fn due_bookmark(&mut self) -> Option<Bytes> {
        let due = self.bookmark.filter(|at| Instant::now() >= *at)?;
        self.bookmark = self.bookmarks.after(due);
        let mut lines = BytesMut::new();
        // All of this kind up to the cursor has been told.
        self.bookmark_line(&mut lines, self.cursor, InitialEnd::Unmarked);
        Some(lines.freeze())
    }

    fn bookmark_line(&self, lines: &mut BytesMut, revision: u64, mark: InitialEnd) {
        let mut metadata = json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if let (InitialEnd::Marked, Some(map)) = (mark, metadata.as_object_mut()) {
            map.insert("annotations".into(), json!({ "k8s.io/initial-events-end": "true" }));
        }
        let object = match self.shape {
            Shape::Objects => {
                json!({ "kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata })
            }
            Shape::Table => json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [],
                "metadata": { "resourceVersion": revision.to_string() }, "rows": [] }),
            Shape::MetadataOnly => {
                json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
            }
        };
        let line = json!({ "type": "BOOKMARK", "object": object }).to_string();
        lines.extend_from_slice(line.as_bytes());
        lines.extend_from_slice(b"\n");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InitialEnd {
    Marked,
    Unmarked,
}
