//! One kind as a stream: a list, then every change, for ever.
//!
//! Unlike kube's watcher it waits without jitter and asks for day-long watches without bookmarks, so that an idle simulated day costs a handful
//! of wake-ups. A lost watch goes on from the last revision, a forgotten revision (410) or any other trouble leads to a new list.

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::Request;
use kube::api::{ListParams, WatchEvent};
use kube::core::Resource;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

/// How long after trouble it is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a watch lasts.
const WATCH_SECONDS: u32 = 86_400;

/// What the mirrors and hands can work with.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

/// Something that a feed tells.
#[derive(Debug)]
pub(crate) enum News<K> {
    /// All there is, as of a revision.
    Listed(Vec<K>, u64),
    /// This object is now so.
    Changed(Box<K>),
    /// This object is gone; it was last so.
    Deleted(Box<K>),
}

enum Position<K> {
    Start,
    Trouble,
    From(String),
    Watching(BoxStream<'static, kube::Result<WatchEvent<K>>>, String),
}

/// All objects of a kind, in all namespaces.
pub(crate) fn follow<K: Kind>(client: Client) -> impl Stream<Item = News<K>> + Send {
    futures::stream::unfold((client, Position::Start), |(client, position)| async move {
        let (news, position) = next(&client, position).await;
        Some((news, (client, position)))
    })
}

async fn next<K: Kind>(client: &Client, mut position: Position<K>) -> (News<K>, Position<K>) {
    loop {
        position = match position {
            Position::Trouble => {
                tokio::time::sleep(PAUSE).await;
                Position::Start
            }
            Position::Start => match Api::<K>::all(client.clone()).list(&ListParams::default()).await {
                Ok(list) => {
                    let version = list.metadata.resource_version.unwrap_or_default();
                    let revision = version.parse().unwrap_or(0);
                    return (News::Listed(list.items, revision), Position::From(version));
                }
                Err(problem) => {
                    tracing::debug!(kind = %K::kind(&()), error = %problem, "list failed");
                    Position::Trouble
                }
            },
            Position::From(version) => match open(client, &version).await {
                Ok(stream) => Position::Watching(stream, version),
                Err(problem) => {
                    tracing::debug!(kind = %K::kind(&()), error = %problem, "watch failed");
                    Position::Trouble
                }
            },
            Position::Watching(mut stream, version) => match stream.next().await {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    let version = version_of(&object, version);
                    return (News::Changed(Box::new(object)), Position::Watching(stream, version));
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    let version = version_of(&object, version);
                    return (News::Deleted(Box::new(object)), Position::Watching(stream, version));
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => Position::Watching(stream, mark.metadata.resource_version),
                Some(Ok(WatchEvent::Error(_)) | Err(_)) => Position::Trouble,
                None => Position::From(version),
            },
        };
    }
}

fn version_of<K: Kind>(object: &K, before: String) -> String {
    object.meta().resource_version.clone().unwrap_or(before)
}

/// Opens a watch; kube's own request builder refuses more than five minutes.
async fn open<K: Kind>(
    client: &Client,
    version: &str,
) -> kube::Result<BoxStream<'static, kube::Result<WatchEvent<K>>>> {
    let path = K::url_path(&(), None);
    let uri = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}");
    let request = Request::get(uri).body(Vec::new()).map_err(kube::Error::HttpError)?;
    Ok(client.request_events::<K>(request).await?.boxed())
}
