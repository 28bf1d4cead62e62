//! The token desk: refresh tokens in, short-lived id_tokens out (rackspace-spot 2, §7 rows 1, 2, 33).
//!
//! The tokens have the form of signed JWTs; the signature only serves to tell ours from others and protects nothing.

use super::answer::{Answer, Call, form};
use super::chance::fnv;
use super::options::Options;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use serde_json::{Value, json};

/// What a bearer is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Bearer {
    /// There is none.
    Missing,
    /// Not of the form of a JWT, e.g. an access token.
    Malformed,
    /// Not given by this desk.
    Foreign,
    /// Past its `exp`.
    Expired,
    /// Good.
    Valid,
}

impl Bearer {
    /// What the gateway answers to it, if not good (row 2: plain text).
    pub fn refusal(self) -> Option<Answer> {
        let text = match self {
            Self::Valid => return None,
            Self::Missing => "Jwt is missing",
            Self::Malformed => "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections",
            Self::Foreign => "Jwt verification fails",
            Self::Expired => "Jwt is expired",
        };
        Some(Answer::text(401, text))
    }
}

/// Gives tokens and knows which are good.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenDesk {
    given: u64,
    revoked: bool,
    /// Tokens with a lower number are no longer good.
    valid_from: u64,
}

impl TokenDesk {
    /// Answers `POST /oauth/token`.
    pub fn exchange(&mut self, options: &Options, now: DateTime<Utc>, call: &Call) -> Answer {
        let fields = form(&String::from_utf8_lossy(&call.body));
        let field = |name: &str| {
            fields
                .iter()
                .find(|(key, _)| key == name)
                .map_or("", |(_, value)| value.as_str())
        };
        let is_form = call
            .content_type
            .as_deref()
            .is_some_and(|t| t.starts_with("application/x-www-form-urlencoded"));
        if !is_form || field("grant_type") != "refresh_token" {
            return oauth_error(403, "unsupported_grant_type", "Unsupported grant type");
        }
        if field("client_id") != options.account.client_id {
            return oauth_error(401, "access_denied", "Unauthorized");
        }
        if self.revoked || field("refresh_token") != options.account.refresh_token {
            return oauth_error(403, "invalid_grant", "Unknown or invalid refresh token.");
        }
        let id_token = self.give(options, now);
        Answer::json(
            200,
            &json!({
                "access_token": format!("opaque-{}", self.given), "id_token": id_token,
                "scope": "openid profile email offline_access", "expires_in": options.quirks.expires_in, "token_type": "Bearer",
            }),
        )
    }

    /// A fresh id_token.
    pub fn give(&mut self, options: &Options, now: DateTime<Utc>) -> String {
        self.given += 1;
        let life = TimeDelta::try_seconds(options.quirks.id_token_seconds).unwrap_or_else(TimeDelta::zero);
        let payload = json!({
            "iss": "https://login.spot.rackspace.com/", "aud": options.account.client_id, "sub": "auth0|sandbox",
            "org_id": options.account.organization, "group": "cloudspace-admin", "email_verified": true,
            "iat": now.timestamp(), "exp": now.checked_add_signed(life).unwrap_or(now).timestamp(), "jti": self.given,
        });
        let header = json!({"alg": "RS256", "kid": "sandbox", "typ": "JWT"});
        let signed = format!("{}.{}", encode(&header), encode(&payload));
        let signature = sign(options.seed, &signed);
        format!("{signed}.{signature}")
    }

    /// What an `Authorization` header is worth now.
    pub fn judge(&self, options: &Options, now: DateTime<Utc>, header: Option<&str>) -> Bearer {
        let Some(token) = header
            .and_then(|header| header.strip_prefix("Bearer "))
            .filter(|token| !token.is_empty())
        else {
            return Bearer::Missing;
        };
        let sections: Vec<&str> = token.split('.').collect();
        let [header, payload, signature] = sections.as_slice() else {
            return Bearer::Malformed;
        };
        if *signature != sign(options.seed, &format!("{header}.{payload}")) {
            return Bearer::Foreign;
        }
        let claims = URL_SAFE_NO_PAD
            .decode(payload)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let number = |name: &str| {
            claims
                .as_ref()
                .and_then(|claims| claims.get(name))
                .and_then(Value::as_i64)
                .unwrap_or(0)
        };
        if u64::try_from(number("jti")).unwrap_or(0) <= self.valid_from && self.valid_from > 0 {
            return Bearer::Foreign;
        }
        if now.timestamp() >= number("exp") {
            Bearer::Expired
        } else {
            Bearer::Valid
        }
    }

    /// The user revokes the refresh token; whether id_tokens live on is a quirk.
    pub fn revoke(&mut self, options: &Options) {
        self.revoked = true;
        if options.quirks.revocation_is_immediate {
            self.end_all();
        }
    }

    /// The refresh token is good again.
    pub fn restore(&mut self) {
        self.revoked = false;
    }

    /// Makes every id_token given so far worthless, as when signing keys are rotated.
    pub fn end_all(&mut self) {
        self.valid_from = self.given;
    }

    /// How many id_tokens were given.
    pub fn given(&self) -> u64 {
        self.given
    }
}

fn oauth_error(code: u16, error: &str, description: &str) -> Answer {
    Answer::json(code, &json!({"error": error, "error_description": description}))
}

fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn sign(seed: u64, text: &str) -> String {
    let bytes: Vec<u8> = (0..4_u64)
        .flat_map(|round| fnv(seed.wrapping_add(round), text.as_bytes()).to_be_bytes())
        .collect();
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    #[test]
    fn an_id_token_is_good_until_its_exp_and_not_a_second_longer() {
        // row 1
        let (options, mut desk) = (Options::default(), TokenDesk::default());
        let header = format!("Bearer {}", desk.give(&options, at(0)));
        assert_eq!(desk.judge(&options, at(3599), Some(&header)), Bearer::Valid);
        assert_eq!(desk.judge(&options, at(3600), Some(&header)), Bearer::Expired);
    }

    #[test]
    fn tokens_that_are_no_tokens_of_ours_are_told_apart() {
        // row 2
        let (options, mut desk) = (Options::default(), TokenDesk::default());
        let token = desk.give(&options, at(0));
        assert_eq!(desk.judge(&options, at(0), None), Bearer::Missing);
        assert_eq!(desk.judge(&options, at(0), Some("Bearer opaque-1")), Bearer::Malformed);
        assert_eq!(
            desk.judge(&options, at(0), Some(&format!("Bearer {token}x"))),
            Bearer::Foreign
        );
        desk.end_all();
        assert_eq!(
            desk.judge(&options, at(0), Some(&format!("Bearer {token}"))),
            Bearer::Foreign
        );
    }
}
