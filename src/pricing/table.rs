//! The published prices as one consistent value, and the judgement whether a feed can be true.
//!
//! A feed is public input: it may be broken, empty, huge or hostile, and prices that were good must outlive it. [`PriceTable::parse`] takes only
//! what can be a feed; [`PriceTable::contradicts`] compares it with the one before. Called by `cloud::spot::feed` and by the task that refreshes
//! the built-in copy.

use crate::pricing::percentile::Percentile;
use crate::pricing::price::Price;
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// The largest feed that is looked at. The real one has about 30 KiB.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// More regions than this is not our feed; the real one has 8.
const MOST_REGIONS: usize = 64;
/// More classes in one region than this is not our feed; the real one has about 13.
const MOST_CLASSES: usize = 1_000;
/// Names are short; a longer one is not ours.
const LONGEST_NAME: usize = 128;
/// A price that moved by more than this factor, in most classes at once, is an error of the source and not of the market. The widest real move
/// seen in a year of floors was a factor of twenty.
const WILD_FACTOR: i64 = 100;

/// What the feed says of one server class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassPrices {
    /// 20th percentile of 30 days.
    pub p20: Price,
    /// 50th percentile of 30 days.
    pub p50: Price,
    /// 80th percentile of 30 days.
    pub p80: Price,
    /// The market price when the feed was written, if it was given.
    pub market: Option<Price>,
}

impl ClassPrices {
    /// One percentile.
    pub fn percentile(&self, which: Percentile) -> Price {
        match which {
            Percentile::P20 => self.p20,
            Percentile::P50 => self.p50,
            Percentile::P80 => self.p80,
        }
    }
}

/// Why a feed is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FeedProblem {
    /// Beyond [`MOST_BYTES`].
    #[error("the feed is larger than {MOST_BYTES} bytes")]
    TooLarge,
    /// Not JSON, or not of the shape `regions → region → serverclasses → class`.
    #[error("the feed is not understood: {0}")]
    Malformed(String),
    /// It names no class at all.
    #[error("the feed names no server class")]
    Empty,
    /// It names more than there can be.
    #[error("the feed names more regions or classes than there can be")]
    TooMany,
    /// Most of its entries are unusable.
    #[error("{bad} of {all} entries of the feed are unusable, the first of them {first}")]
    MostlyBad {
        /// Unusable entries.
        bad: usize,
        /// All entries.
        all: usize,
        /// The first unusable entry and why.
        first: String,
    },
    /// It lost most classes that the one before had.
    #[error("the feed lost {lost} of {before} server classes at once")]
    Shrunk {
        /// Classes that are gone.
        lost: usize,
        /// Classes before.
        before: usize,
    },
    /// Most prices moved by more than can be.
    #[error("{wild} of {common} server classes changed their prices more than {WILD_FACTOR}-fold at once")]
    Wild {
        /// Classes whose prices moved that far.
        wild: usize,
        /// Classes that both feeds have.
        common: usize,
    },
}

/// Prices by region and server class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PriceTable {
    regions: BTreeMap<String, BTreeMap<String, ClassPrices>>,
    skipped: usize,
}

#[derive(Deserialize)]
struct WireFeed {
    regions: BTreeMap<String, WireRegion>,
}

#[derive(Deserialize)]
struct WireRegion {
    #[serde(default)]
    serverclasses: BTreeMap<String, serde_json::Value>,
}

impl PriceTable {
    /// Reads a feed. Single unusable entries are left out and counted; a feed that is mostly unusable is refused.
    pub fn parse(body: &[u8]) -> Result<Self, FeedProblem> {
        if body.len() > MOST_BYTES {
            return Err(FeedProblem::TooLarge);
        }
        let wire: WireFeed = serde_json::from_slice(body).map_err(|e| FeedProblem::Malformed(short(&e.to_string())))?;
        if wire.regions.len() > MOST_REGIONS || wire.regions.values().any(|r| r.serverclasses.len() > MOST_CLASSES) {
            return Err(FeedProblem::TooMany);
        }
        let mut table = Self::default();
        let mut all = 0_usize;
        let mut first = None;
        for (region, content) in wire.regions {
            let mut classes = BTreeMap::new();
            for (class, value) in content.serverclasses {
                all += 1;
                match read_entry(&region, &class, &value) {
                    Ok(prices) => {
                        classes.insert(class, prices);
                    }
                    Err(why) => {
                        table.skipped += 1;
                        first.get_or_insert_with(|| format!("{}: {why}", short(&class)));
                    }
                }
            }
            if !classes.is_empty() {
                table.regions.insert(region, classes);
            }
        }
        match first {
            _ if all == 0 => Err(FeedProblem::Empty),
            Some(first) if table.skipped * 2 > all => Err(FeedProblem::MostlyBad {
                bad: table.skipped,
                all,
                first,
            }),
            _ => Ok(table),
        }
    }

    /// Why this table cannot be what follows `before`, if it cannot.
    pub fn contradicts(&self, before: &Self) -> Option<FeedProblem> {
        let mut known = 0_usize;
        let mut common = 0_usize;
        let mut wild = 0_usize;
        for (region, class, old) in before.entries() {
            known += 1;
            let Some(new) = self.prices(region, class) else {
                continue;
            };
            common += 1;
            if moved_wildly(old, new) {
                wild += 1;
            }
        }
        if known > 0 && common * 2 < known {
            return Some(FeedProblem::Shrunk {
                lost: known - common,
                before: known,
            });
        }
        (wild * 2 > common).then_some(FeedProblem::Wild { wild, common })
    }

    /// The prices of one class.
    pub fn prices(&self, region: &str, class: &str) -> Option<&ClassPrices> {
        self.regions.get(region)?.get(class)
    }

    /// All entries, by region and class name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, &ClassPrices)> {
        self.regions.iter().flat_map(|(region, classes)| {
            classes
                .iter()
                .map(move |(class, prices)| (region.as_str(), class.as_str(), prices))
        })
    }

    /// How many classes it holds.
    pub fn len(&self) -> usize {
        self.regions.values().map(BTreeMap::len).sum()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// How many unusable entries were left out.
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

fn read_entry(region: &str, class: &str, value: &serde_json::Value) -> Result<ClassPrices, String> {
    if region.is_empty() || region.len() > LONGEST_NAME || class.is_empty() || class.len() > LONGEST_NAME {
        return Err("its name is too long or empty".into());
    }
    let percentile = |field: &str| {
        let given = value.get(field).ok_or_else(|| format!("{field} is missing"))?;
        let price = Price::from_json(given).map_err(|why| format!("{field}: {why}"))?;
        if price.is_zero() {
            Err(format!("{field} is zero"))
        } else {
            Ok(price)
        }
    };
    let prices = ClassPrices {
        p20: percentile("20_percentile")?,
        p50: percentile("50_percentile")?,
        p80: percentile("80_percentile")?,
        // A missing or zero market price is "unknown", the percentiles are still good (architecture §7.8).
        market: value
            .get("market_price")
            .and_then(|v| Price::from_json(v).ok())
            .filter(|price| !price.is_zero()),
    };
    if prices.p20 > prices.p50 || prices.p50 > prices.p80 {
        return Err("its percentiles do not ascend".into());
    }
    Ok(prices)
}

fn moved_wildly(old: &ClassPrices, new: &ClassPrices) -> bool {
    let factor = rust_decimal::Decimal::from(WILD_FACTOR);
    let pair_is_wild = |a: Price, b: Price| {
        let (low, high) = (a.min(b).amount(), a.max(b).amount());
        low.checked_mul(factor).is_some_and(|limit| high > limit)
    };
    pair_is_wild(old.p20, new.p20) || pair_is_wild(old.p50, new.p50) || pair_is_wild(old.p80, new.p80)
}

fn short(text: &str) -> String {
    text.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(entries: &[(&str, f64)]) -> Vec<u8> {
        let classes: serde_json::Map<String, serde_json::Value> = entries
            .iter()
            .map(|(class, p)| {
                let entry = serde_json::json!({
                    "20_percentile": p, "50_percentile": p, "80_percentile": p, "market_price": "0.010000", "cpu": "2",
                });
                ((*class).to_owned(), entry)
            })
            .collect();
        serde_json::to_vec(&serde_json::json!({"regions": {"r": {"generation": "v1", "serverclasses": classes}}}))
            .unwrap()
    }

    #[test]
    fn the_feed_is_read_as_published() {
        // rackspace-spot 3.8
        let body = br#"{"regions":{"us-east-iad-1":{"generation":"v1","serverclasses":{"gp.vs1.2xlarge-iad":{
            "20_percentile":0.041,"50_percentile":0.041,"80_percentile":0.061000000000000004,"market_price":"0.010000",
            "cpu":"16","memory":"60GB","display_name":"General","category":"General Purpose","description":"US East"}}}}}"#;
        let table = PriceTable::parse(body).unwrap();
        let prices = table.prices("us-east-iad-1", "gp.vs1.2xlarge-iad").unwrap();
        assert_eq!(prices.percentile(Percentile::P80).to_string(), "0.061");
        assert_eq!(prices.market.unwrap().to_string(), "0.01");
        assert!(table.prices("us-east-iad-1", "h100").is_none());
    }

    #[test]
    fn what_is_no_feed_is_refused_with_a_reason() {
        let parse = |text: &str| PriceTable::parse(text.as_bytes()).unwrap_err();
        for bad in [
            "",
            "null",
            "[]",
            "<Error>AccessDenied</Error>",
            r#"{"region":{}}"#,
            r#"{"regions":[]}"#,
            "{\"regions\":",
        ] {
            assert!(matches!(parse(bad), FeedProblem::Malformed(_)), "{bad}");
        }
        assert_eq!(parse(r#"{"regions":{}}"#), FeedProblem::Empty);
        // the shape of 2024, without the serverclasses level
        assert_eq!(
            parse(r#"{"regions":{"r":{"c":{"20_percentile":1}}}}"#),
            FeedProblem::Empty
        );
        assert_eq!(
            PriceTable::parse(&vec![b' '; MOST_BYTES + 1]).unwrap_err(),
            FeedProblem::TooLarge
        );
    }

    #[test]
    fn a_deeply_nested_feed_is_refused_without_exhausting_the_stack() {
        let bomb = format!("{{\"regions\":{}", "{\"a\":".repeat(100_000));
        assert!(matches!(
            PriceTable::parse(bomb.as_bytes()),
            Err(FeedProblem::Malformed(_))
        ));
    }

    #[test]
    fn one_bad_entry_is_left_out_and_a_feed_of_bad_ones_refused() {
        let table = PriceTable::parse(&feed(&[("a", 0.01), ("b", 0.02), ("c", -5.0)])).unwrap();
        assert_eq!((table.len(), table.skipped()), (2, 1));
        let refused = PriceTable::parse(&feed(&[("a", 0.01), ("b", 0.0), ("c", 1e9)])).unwrap_err();
        assert!(matches!(refused, FeedProblem::MostlyBad { bad: 2, all: 3, .. }));
    }

    #[test]
    fn a_feed_that_lost_most_classes_or_went_wild_contradicts_the_one_before() {
        let before = PriceTable::parse(&feed(&[("a", 0.01), ("b", 0.02), ("c", 0.03)])).unwrap();
        let moved = PriceTable::parse(&feed(&[("a", 0.09), ("b", 0.02), ("c", 3.1)])).unwrap();
        assert_eq!(moved.contradicts(&before), None);
        let shrunk = PriceTable::parse(&feed(&[("a", 0.01)])).unwrap();
        assert_eq!(
            shrunk.contradicts(&before),
            Some(FeedProblem::Shrunk { lost: 2, before: 3 })
        );
        let wild = PriceTable::parse(&feed(&[("a", 50.0), ("b", 60.0), ("c", 0.03)])).unwrap();
        assert_eq!(
            wild.contradicts(&before),
            Some(FeedProblem::Wild { wild: 2, common: 3 })
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = PriceTable::parse(&bytes);
        }
    }
}
