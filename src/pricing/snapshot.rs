//! The copy of the price feed that is built into the binary: what prices are before the feed answered, and when it does not.
//!
//! `make update-pricing` writes `data/percentiles.json` from the live feed; a test keeps it readable.

use crate::pricing::table::PriceTable;
use std::sync::{Arc, LazyLock};

/// The feed's JSON as it was when this was built.
pub const BODY: &str = include_str!("data/percentiles.json");

static TABLE: LazyLock<Arc<PriceTable>> =
    LazyLock::new(|| Arc::new(PriceTable::parse(BODY.as_bytes()).unwrap_or_default()));

/// The built-in prices.
pub fn table() -> Arc<PriceTable> {
    Arc::clone(&TABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_prices_are_complete() {
        let table = PriceTable::parse(BODY.as_bytes()).unwrap();
        assert_eq!(table.skipped(), 0);
        assert!(table.len() >= 100, "{} classes", table.len());
        let volatile = table.prices("aus-syd-1", "ch.vs1.2xlarge-syd").unwrap();
        assert!(volatile.p20 < volatile.p50 && volatile.p50 < volatile.p80);
    }
}
