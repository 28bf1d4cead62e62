//! SIGTERM and SIGINT as the wish to stop (architecture §7.18).
//!
//! Upstream has no handler and simply dies. Differs: a stop lets writes in flight end, so the next leader finds no half-done work.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `stop` at the first SIGTERM or SIGINT. Errors only where handlers cannot be installed.
pub fn stop_on_signals(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = stop.cancelled() => return,
        }
        tracing::info!("stopping");
        stop.cancel();
    });
    Ok(())
}
