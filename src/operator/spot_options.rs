//! The provider's settings (surface §6.2). They are strict: a value that does not parse ends the start, and an empty one replaces the default.
//!
//! Tokens are held as secrets from here on: they appear in no log, no error and no `Debug`.

use super::environment::Environment;
use super::options::OptionsError;
use super::settings::Kind;
use super::source::setting;
use crate::api::duration::GoDuration;
use crate::pricing::BidRulesSetting;
use crate::resources::Quantity;
use rust_decimal::Decimal;
use secrecy::SecretString;
use std::time::Duration;

/// The provider's settings.
#[derive(Debug, Clone)]
pub struct SpotOptions {
    /// Name of the cloudspace.
    pub cloudspace_name: String,
    /// How to prove who we are.
    pub credentials: Credentials,
    /// Address of the Spot API.
    pub base_url: String,
    /// Address of the token service.
    pub auth_url: String,
    /// Address of the price feed.
    pub price_feed_url: String,
    /// OAuth client, where it is not the platform's public one.
    pub client_id: Option<String>,
    /// Connections and tries.
    pub http: SpotHttpOptions,
    /// What machines really offer.
    pub capacity: CapacityOptions,
    /// How long a claim waits for its server (architecture §7.3).
    pub launch_timeout: Duration,
    /// Increments of legal bids (architecture §7.7).
    pub bid_rules: BidRulesSetting,
}

/// How to prove who we are; at least one is there.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The refresh token.
    pub refresh_token: Option<SecretString>,
    /// A ready-made token.
    pub access_token: Option<SecretString>,
}

/// Connections to the Spot API and tries of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct SpotHttpOptions {
    /// Longest wait for one answer.
    pub request_timeout: Duration,
    /// How long an unused connection is kept.
    pub idle_conn_timeout: Duration,
    /// How many unused connections are kept.
    pub max_idle_conns: u32,
    /// Tries of one call.
    pub max_retries: u32,
    /// Wait before the second try.
    pub retry_initial_interval: Duration,
    /// Growth of the wait from try to try.
    pub retry_multiplier: f64,
    /// Share of the wait that is left to chance, 0 to 1.
    pub retry_randomization_factor: f64,
    /// Longest wait between two tries.
    pub retry_wait_max: Duration,
}

/// What machines offer less than what is sold, until one was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityOptions {
    /// Share of the memory, 0 to 1.
    pub memory_overhead: Decimal,
    /// CPU that the kubelet keeps.
    pub kube_reserved_cpu: Quantity,
    /// Memory that the kubelet keeps.
    pub kube_reserved_memory: Quantity,
}

impl SpotOptions {
    pub(super) fn read(environment: &Environment) -> Result<Self, OptionsError> {
        let strict = Strict(environment);
        let client_id = strict.text("RXTSPOT_CLIENT_ID")?;
        Ok(Self {
            cloudspace_name: strict.required("SPOT_CLOUDSPACE_NAME", "the name of the cloudspace to work for")?,
            credentials: Credentials::read(environment)?,
            base_url: strict.url("SPOT_BASE_URL")?,
            auth_url: strict.url("SPOT_AUTH_URL")?,
            price_feed_url: strict.url("NGPC_PRICE_DETAILS_URL")?,
            client_id: Some(client_id).filter(|id| !id.is_empty()),
            http: SpotHttpOptions::read(&strict)?,
            capacity: CapacityOptions {
                memory_overhead: strict.parsed("VM_MEMORY_OVERHEAD_PERCENT", share)?,
                kube_reserved_cpu: strict.parsed("RACKSPACE_KUBE_RESERVED_CPU", amount)?,
                kube_reserved_memory: strict.parsed("RACKSPACE_KUBE_RESERVED_MEMORY", amount)?,
            },
            launch_timeout: strict.parsed("RACKSPACE_LAUNCH_TIMEOUT", positive_duration)?,
            bid_rules: strict.parsed("RACKSPACE_BID_RULES", |text| text.parse().ok())?,
        })
    }
}

impl SpotHttpOptions {
    fn read(strict: &Strict<'_>) -> Result<Self, OptionsError> {
        Ok(Self {
            request_timeout: strict.parsed("SPOT_REQUEST_TIMEOUT", positive_duration)?,
            idle_conn_timeout: strict.parsed("SPOT_IDLE_CONN_TIMEOUT", duration)?,
            max_idle_conns: strict.parsed("SPOT_MAX_IDLE_CONNS", |text| text.parse().ok())?,
            max_retries: strict.parsed("SPOT_MAX_RETRIES", |text| text.parse().ok())?,
            retry_initial_interval: strict.parsed("SPOT_RETRY_INITIAL_INTERVAL", duration)?,
            retry_multiplier: strict.parsed("SPOT_RETRY_MULTIPLIER", |text| number(text, 1.0..=1e6))?,
            retry_randomization_factor: strict
                .parsed("SPOT_RETRY_RANDOMIZATION_FACTOR", |text| number(text, 0.0..=1.0))?,
            retry_wait_max: strict.parsed("SPOT_RETRY_WAIT_MAX", duration)?,
        })
    }
}

impl Credentials {
    /// The refresh token comes from its variable, from the key that existing secrets use (surface T17), or from a file, in this order.
    fn read(environment: &Environment) -> Result<Self, OptionsError> {
        let secret = |name: &str| environment.get(name).map(str::trim).filter(|value| !value.is_empty());
        let direct = secret("SPOT_REFRESH_TOKEN")
            .or_else(|| secret("refreshToken"))
            .map(SecretString::from);
        let refresh_token = match (direct, secret(TOKEN_FILE)) {
            (None, Some(path)) => Some(read_token(path)?),
            (direct, _) => direct,
        };
        let access_token = secret("SPOT_ACCESS_TOKEN").map(SecretString::from);
        if refresh_token.is_none() && access_token.is_none() {
            let meaning = "a refresh token of the account, from the Rackspace Spot console";
            return Err(OptionsError::Missing {
                variable: "SPOT_REFRESH_TOKEN",
                meaning,
            });
        }
        Ok(Self {
            refresh_token,
            access_token,
        })
    }
}

const TOKEN_FILE: &str = "SPOT_REFRESH_TOKEN_FILE";

fn read_token(path: &str) -> Result<SecretString, OptionsError> {
    let unreadable = |source| OptionsError::Unreadable {
        variable: TOKEN_FILE,
        path: shown_path(path),
        source,
    };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let token = text.trim();
    if token.is_empty() {
        return Err(unreadable(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "the file is empty",
        )));
    }
    Ok(SecretString::from(token))
}

/// The path as it may be shown: a token that was given in its place is none.
fn shown_path(path: &str) -> String {
    if path.starts_with(['/', '.']) {
        path.to_owned()
    } else {
        "what does not look like a path".to_owned()
    }
}

/// An address as it may be shown: without what stands before an `@`, which may be a password.
fn shown_address(text: &str) -> String {
    match text.rsplit_once('@') {
        None => text.to_owned(),
        Some((before, host)) => {
            let scheme = before.split_once("//").map_or("", |(scheme, _)| scheme);
            format!("{scheme}//...@{host}")
        }
    }
}

/// Reads variables strictly.
struct Strict<'a>(&'a Environment);

impl Strict<'_> {
    fn text(&self, variable: &'static str) -> Result<String, OptionsError> {
        let setting = setting(variable)?;
        debug_assert_ne!(setting.kind, Kind::Secret, "secrets are read by Credentials");
        Ok(self.0.get(variable).unwrap_or(setting.default).to_owned())
    }

    fn parsed<T>(&self, variable: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, OptionsError> {
        let text = self.text(variable)?;
        parse(&text).ok_or_else(|| OptionsError::invalid(variable, &text))
    }

    fn required(&self, variable: &'static str, meaning: &'static str) -> Result<String, OptionsError> {
        let text = self.text(variable)?;
        if text.is_empty() {
            Err(OptionsError::Missing { variable, meaning })
        } else {
            Ok(text)
        }
    }

    /// An address without a user: who calls proves it by a token, and addresses are shown in logs.
    fn url(&self, variable: &'static str) -> Result<String, OptionsError> {
        let text = self.text(variable)?;
        let uri = text.parse::<http::Uri>().ok();
        let usable = uri.is_some_and(|uri| {
            let plain = uri
                .authority()
                .is_some_and(|authority| !authority.as_str().contains('@'));
            let host = uri.host().is_some_and(|host| !host.is_empty());
            matches!(uri.scheme_str(), Some("http" | "https")) && plain && host
        });
        if usable {
            Ok(text.trim_end_matches('/').to_owned())
        } else {
            Err(OptionsError::invalid(variable, &shown_address(&text)))
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let parsed = GoDuration::parse(text).ok()?;
    (parsed.as_secs_f64() >= 0.0).then(|| parsed.as_std())
}

fn positive_duration(text: &str) -> Option<Duration> {
    duration(text).filter(|duration| !duration.is_zero())
}

fn number(text: &str, range: std::ops::RangeInclusive<f64>) -> Option<f64> {
    text.parse().ok().filter(|number| range.contains(number))
}

/// A share: 0 up to, but not, 1.
fn share(text: &str) -> Option<Decimal> {
    text.parse()
        .ok()
        .filter(|share: &Decimal| *share >= Decimal::ZERO && *share < Decimal::ONE)
}

/// A quantity that is not negative.
fn amount(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok().filter(|quantity| quantity.value() >= 0)
}
