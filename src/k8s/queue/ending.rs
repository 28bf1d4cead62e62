//! How long work under way may go on after the stop (architecture §7.18).

use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A write takes 4 s at most, and its outcome is recorded. What takes longer waits for somebody else, such as a cloud that does not answer: the next
/// process asks again.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Comes when the stop was long enough ago.
pub(super) async fn last_moment(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(LAST_WORDS).await;
}
