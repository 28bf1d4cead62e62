//! Brings the price snapshot that is built into the binary up to date.
//!
//! Reads the feed from an address or a file, refuses what cannot be a feed, and writes it sorted, so that a difference in git is a difference in prices.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use karpenter::cloud::spot::{ConnectionSettings, HttpTransport, Transport, feed};
use karpenter::pricing::PriceTable;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Where the snapshot belongs, from the root of the repository.
pub(crate) const SNAPSHOT: &str = "src/pricing/data/percentiles.json";

/// Brings the snapshot up to date from `from`, or from the public feed.
pub(crate) fn update(root: &Path, from: Option<&str>) -> Result<()> {
    let from = from.unwrap_or(feed::DEFAULT_URL);
    let body = if from.starts_with("http://") || from.starts_with("https://") {
        fetch(from)?
    } else {
        fs::read(from).with_context(|| format!("reading {from}"))?
    };
    let content = sorted(&body).with_context(|| format!("{from} is not a price feed"))?;
    let path = root.join(SNAPSHOT);
    if fs::read_to_string(&path).is_ok_and(|present| present == content) {
        eprintln!("{SNAPSHOT} is up to date");
        return Ok(());
    }
    fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    eprintln!("wrote {SNAPSHOT}");
    Ok(())
}

/// The feed as it is kept: complete, sorted, one field a line.
fn sorted(body: &[u8]) -> Result<String> {
    let table = PriceTable::parse(body)?;
    if table.skipped() > 0 {
        bail!("{} of its entries are unusable", table.skipped());
    }
    let mut value: serde_json::Value = serde_json::from_slice(body)?;
    without_noise(&mut value);
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))?;
    bytes.push(b'\n');
    Ok(String::from_utf8(bytes)?)
}

/// Takes the binary-float noise off all numbers: prices have six decimals (rackspace-spot §3.8).
fn without_noise(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) => {
            if let Some(amount) = number.as_f64() {
                *value = serde_json::json!((amount * 1e6).round() / 1e6);
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(without_noise),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(without_noise),
        _ => {}
    }
}

fn fetch(url: &str) -> Result<Vec<u8>> {
    let timeout = Duration::from_secs(30);
    let settings = ConnectionSettings {
        request_timeout: timeout,
        idle_timeout: timeout,
        most_idle: 1,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let transport = HttpTransport::new(settings)?;
        let request = http::Request::get(url)
            .body(Bytes::new())
            .context("the address is not a URL")?;
        let answer = transport.send(request).await.with_context(|| format!("asking {url}"))?;
        if !answer.status().is_success() {
            bail!("{url} answered with {}", answer.status());
        }
        Ok(answer.into_body().to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_in_the_repository_is_what_would_be_written_from_it() {
        let present = karpenter::pricing::snapshot::BODY;
        let written = sorted(present.as_bytes()).unwrap();
        assert!(written == present, "run `cargo xtask update-pricing --from {SNAPSHOT}`");
    }

    #[test]
    fn what_is_no_feed_or_partly_unusable_is_not_written() {
        for bad in ["", "{}", r#"{"regions":{}}"#] {
            assert!(sorted(bad.as_bytes()).is_err(), "{bad}");
        }
        let partly =
            karpenter::pricing::snapshot::BODY.replacen("\"20_percentile\": 0.011", "\"20_percentile\": -1", 1);
        assert!(sorted(partly.as_bytes()).unwrap_err().to_string().contains("unusable"));
    }
}
