//! The kinds of worlds that scenarios play in.

use crate::support::stage::Setting;
pub use crate::support::stage::USUAL;
use sandbox::spot::{BidRules, Distribution};

/// Classes that never deliver in [`SLOW`]; one that did not is left alone for a while, so each scenario has its own.
pub const NEVER: [&str; 2] = ["mh.vs1.large-iad", "ch.vs1.xlarge-iad"];

/// Servers come 17 seconds after they were asked for, those of some classes never; a launch may take 30 seconds.
pub const SLOW: Setting = Setting {
    name: "slow",
    operator: &[("RACKSPACE_LAUNCH_TIMEOUT", "30s")],
    platform: |options| {
        options.delays.auction = 1.0;
        options.delays.build = Distribution::Fixed(17.0);
        options.quirks.never_built_classes.extend(NEVER.map(str::to_owned));
    },
};

/// Bids are taken by the rule that the operator is told to keep.
pub const BIDS: Setting = Setting {
    name: "bids",
    operator: &[("RACKSPACE_BID_RULES", "seed")],
    platform: |options| options.bid_rules = BidRules::Seed,
};
