//! Pure: percentiles, prices and bids.
//!
//! [`bid`] decides what is bid for a server class and what it will be billed; [`rules`] knows which prices the platform accepts; [`table`] reads the
//! published price feed and refuses what cannot be true; [`snapshot`] is the copy of the feed that is built in. The provider calls the first two
//! when it places a bid, `cloud::spot::feed` the other two. Nothing here fetches anything.

pub mod bid;
pub mod percentile;
pub mod price;
pub mod rules;
pub mod snapshot;
pub mod table;

pub use bid::{Bid, BidInputs, billed_price, place_bid};
pub use percentile::Percentile;
pub use price::Price;
pub use rules::{BidRules, BidRulesSetting, RefusalCause};
pub use table::{ClassPrices, FeedProblem, PriceTable};
