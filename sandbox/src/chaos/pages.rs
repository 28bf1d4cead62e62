//! What was asked of both APIs since the last look.
//!
//! Both keep their requests in bounded lists with a running number; a reader that looks often enough misses none.

use crate::api::AuditEntry;
use crate::spot::RequestRecord;
use crate::world::World;

/// How far has been read.
#[derive(Debug, Default)]
pub(super) struct Pages {
    kubernetes: u64,
    spot: u64,
}

/// What is new.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) kubernetes: Vec<AuditEntry>,
    pub(super) spot: Vec<RequestRecord>,
}

impl Pages {
    /// Reads on: writes only.
    pub(super) fn turn(&mut self, world: &World) -> News {
        let mut news = News::default();
        self.kubernetes = world.api().audit_from(self.kubernetes, |entry| {
            if entry.verb.is_write() {
                news.kubernetes.push(entry.clone());
            }
        });
        world.spot().with(|platform| {
            let ledger = platform.ledger();
            let fresh = usize::try_from(ledger.asked().saturating_sub(self.spot)).unwrap_or(usize::MAX);
            self.spot = ledger.asked();
            let writes = ledger
                .requests()
                .rev()
                .take(fresh)
                .filter(|request| request.method != "GET");
            news.spot = writes.cloned().collect();
            news.spot.reverse();
        });
        news
    }
}
