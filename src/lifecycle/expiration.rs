//! Decides when a claim has lived long enough (lifecycle 10.1): no budget, no replacement first, draining alone keeps it polite.
//!
//! Called by the expiration controller.

use chrono::{DateTime, TimeDelta, Utc};

/// Whether a claim has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiration {
    /// `expireAfter` is Never.
    Never,
    /// Not yet; look again then.
    At(DateTime<Utc>),
    /// Now.
    Expired,
}

/// Decides whether a claim created at `created` has expired; `expire_after` is `None` for Never.
pub fn verdict(created: DateTime<Utc>, expire_after: Option<TimeDelta>, now: DateTime<Utc>) -> Expiration {
    let Some(expire_after) = expire_after else {
        return Expiration::Never;
    };
    match created.checked_add_signed(expire_after) {
        // later than any date we can name
        None => Expiration::Never,
        Some(expiry) if now < expiry => Expiration::At(expiry),
        Some(_) => Expiration::Expired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_expires_at_its_hour_and_not_before() {
        let created = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let life = Some(TimeDelta::hours(720));
        let end = created + TimeDelta::hours(720);
        assert_eq!(verdict(created, life, end - TimeDelta::seconds(1)), Expiration::At(end));
        assert_eq!(verdict(created, life, end), Expiration::Expired);
        assert_eq!(verdict(created, None, end), Expiration::Never);
        assert_eq!(verdict(created, Some(TimeDelta::MAX), end), Expiration::Never);
    }
}
