//! The public price feed (rackspace-spot 3.8, §7 row 30), well-behaved or not.

use super::answer::{Answer, Call};
use super::catalogue;
use super::chance::fnv;
use super::options::FeedMode;
use super::platform::Platform;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

/// Classes in a feed that is too large to be true.
const HUGE: usize = 200_000;

impl Platform {
    pub(super) fn percentiles(&self, call: &Call) -> Answer {
        let body = match self.options.feed {
            FeedMode::Normal => self.percentiles_json().to_string(),
            FeedMode::Outage => return Answer::text(503, "Service Unavailable"),
            FeedMode::Missing => return missing(),
            FeedMode::Broken => {
                let mut text = self.percentiles_json().to_string();
                text.truncate(text.len() / 2);
                text
            }
            FeedMode::Empty => "{}".into(),
            FeedMode::NoClasses => {
                json!({"regions": {"us-east-iad-1": {"generation": "v1", "serverclasses": {}}}}).to_string()
            }
            FeedMode::Huge => huge(),
            FeedMode::Hostile => hostile(),
        };
        let etag = format!("\"{:016x}{:016x}\"", fnv(1, body.as_bytes()), fnv(2, body.as_bytes()));
        // Row 30: the file is written again at every auction.
        let modified = http_date(self.last_auction);
        let unchanged = match (&call.if_none_match, &call.if_modified_since) {
            (Some(known), _) => known
                .split(',')
                .any(|known| known.trim().trim_start_matches("W/") == etag),
            (None, Some(since)) => DateTime::parse_from_rfc2822(since)
                .is_ok_and(|since| self.last_auction.timestamp() <= since.timestamp()),
            (None, None) => false,
        };
        let headers = vec![
            ("etag", etag),
            ("last-modified", modified),
            ("server", "AmazonS3".to_owned()),
        ];
        let mut answer = Answer::text(304, "");
        if !unchanged {
            answer.code = 200;
            answer.body = body.into_bytes();
        }
        answer.content_type = "application/json";
        answer.headers = headers;
        answer
    }

    fn percentiles_json(&self) -> Value {
        let mut regions = Map::new();
        for region in &catalogue::REGIONS {
            let mut classes = Map::new();
            for class in self.classes.values().filter(|class| class.region == region.name) {
                let Some(market) = self.markets.get(&class.name) else {
                    continue;
                };
                let (Some([p20, p50, p80]), Some(price)) = (market.percentiles, market.price) else {
                    continue;
                };
                classes.insert(
                    class.name.clone(),
                    json!({
                        "20_percentile": p20, "50_percentile": p50, "80_percentile": p80, "market_price": price.to_string(),
                        "cpu": class.cpu.map(|cpu| cpu.to_string()).unwrap_or_default(),
                        "memory": class.memory.clone().unwrap_or_default(), "display_name": class.display_name,
                        "category": class.category, "description": region.description,
                    }),
                );
            }
            regions.insert(
                region.name.into(),
                json!({"generation": region.generation, "serverclasses": classes}),
            );
        }
        json!({"regions": regions})
    }

    pub(super) fn history(&self, class: &str) -> Answer {
        let Some(market) = self.markets.get(class).filter(|market| market.price.is_some()) else {
            return Answer::text(400, "Invalid server class");
        };
        let number = |price: super::money::Price| price.to_string().parse::<f64>().unwrap_or_default();
        let start = self.started.timestamp();
        let first = self
            .classes
            .get(class)
            .and_then(|class| class.market)
            .map(|price| (start, price));
        let history: Vec<Value> = first
            .iter()
            .chain(&market.history)
            .map(|(at, price)| {
                json!({"run_at": at, "hammer_price": number((*price).max(market.floor.unwrap_or_default()))})
            })
            .collect();
        Answer::json(200, &json!({"auction": class, "history": history}))
    }

    pub(super) fn comparable_prices(&self) -> Answer {
        let mut regions: Map<String, Value> = Map::new();
        for class in self.classes.values() {
            let price = format!("${}", class.on_demand.as_bid());
            let entry = json!({"hyperscaler_average_price": price, "comparables": [{"cloud": "aws", "class": "m7i.large", "price": price}]});
            let region = regions.entry(class.region.clone()).or_insert_with(|| json!({}));
            if let Some(region) = region.as_object_mut() {
                region.insert(class.name.clone(), entry);
            }
        }
        Answer::json(200, &json!({"regions": regions}))
    }
}

fn missing() -> Answer {
    let mut answer = Answer::text(
        403,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    );
    answer.content_type = "application/xml";
    answer
}

fn huge() -> String {
    let mut text = String::from("{\"regions\":{\"us-east-iad-1\":{\"generation\":\"v1\",\"serverclasses\":{");
    for number in 0..HUGE {
        if number > 0 {
            text.push(',');
        }
        text.push_str("\"gp.vs1.huge");
        text.push_str(&number.to_string());
        text.push_str(
            "-iad\":{\"20_percentile\":0.001,\"50_percentile\":0.001,\"80_percentile\":0.001,\"market_price\":\"0.001000\",\"cpu\":\"2\",\"memory\":\"4GB\"}",
        );
    }
    text.push_str("}}}}");
    text
}

/// Well-formed JSON, and nothing in it can be used as it is.
fn hostile() -> String {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    format!(
        "{{\"regions\":{{\"us-east-iad-1\":{{\"generation\":7,\"serverclasses\":{{\
         \"gp.vs1.medium-iad\":{{\"20_percentile\":-1,\"50_percentile\":1e308,\"80_percentile\":\"NaN\",\"market_price\":\"-0.010000\"}},\
         \"ch.vs1.large-iad\":{{\"20_percentile\":0,\"50_percentile\":0,\"80_percentile\":0,\"market_price\":\"0.000000\"}},\
         \"mh.vs1.large-iad\":{{\"20_percentile\":null,\"market_price\":99999999999999999999}},\
         \"ch.vs1.medium-iad\":{{\"20_percentile\":1e-300,\"50_percentile\":true,\"market_price\":\"\\u0000\"}},\
         \"\":{deep}}}}},\"aus-syd-1\":[],\"__proto__\":{{}}}}}}"
    )
}

fn http_date(at: DateTime<Utc>) -> String {
    at.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
