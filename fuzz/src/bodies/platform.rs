//! What the platform says: the price feed, tokens, and answers of the Spot API.

use axum::Router;
use axum::body::Body as HttpBody;
use chrono::DateTime;
use karpenter::capacity::{Measured, OverheadSettings};
use karpenter::clock::{SharedClock, TokioClock};
use karpenter::cloud::spot::auth::Claims;
use karpenter::cloud::spot::catalogue::{Catalogue, Ingredients};
use karpenter::cloud::spot::cooldown::Cooldowns;
use karpenter::cloud::spot::reader::Reader;
use karpenter::cloud::spot::types::{Cloudspace, NewPool, Organization, Pool, PoolKind, ServerClass};
use karpenter::cloud::spot::{
    AuthSettings, ClientSettings, RetrySettings, ServiceTransport, SpotClient, SpotError, Tokens,
};
use karpenter::pricing::{BidRulesSetting, PriceTable, RefusalCause, snapshot};
use secrecy::SecretString;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A token that is good for a long time, of nobody.
const BEARER: &str = "e30.eyJleHAiOjQxMDAwMDAwMDAsIm9yZ19pZCI6Im9yZ19BIn0.c2ln";

/// A feed is refused with a reason, or every price in it is believable, and it does not contradict itself.
pub(super) fn feed(data: &[u8]) {
    match PriceTable::parse(data) {
        Ok(table) => {
            for (region, class, prices) in table.entries() {
                assert!(!region.is_empty() && !class.is_empty());
                assert!(!prices.p20.is_zero() && prices.p20 <= prices.p50 && prices.p50 <= prices.p80);
                assert!(prices.p80.as_f64() <= 100.0 && prices.market.is_none_or(|market| market.as_f64() > 0.0));
            }
            assert_eq!(table.contradicts(&table), None);
            if let Some(problem) = table.contradicts(&snapshot::table()) {
                assert!(!problem.to_string().is_empty());
            }
        }
        Err(problem) => {
            let words = problem.to_string();
            assert!(
                !words.is_empty() && words.len() < 2_000,
                "{} bytes of words",
                words.len()
            );
        }
    }
}

/// A token has claims or none.
pub(super) fn token(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(claims) = Claims::of(text) {
        assert_eq!(text.split('.').count(), 3);
        assert!(claims.organization.is_none_or(|organization| !organization.is_empty()));
    }
    let clock: SharedClock = Arc::new(TokioClock::starting_at(DateTime::UNIX_EPOCH));
    // The same as a ready-made bearer, and as the answer of the token endpoint.
    let answer = serde_json::json!({ "id_token": text, "expires_in": -1 }).to_string();
    exchange(clock, Some(text), answer.into_bytes());
}

fn exchange(clock: SharedClock, ready: Option<&str>, answer: Vec<u8>) {
    in_paused_time(async move {
        let router = Router::new().fallback(move || std::future::ready(answer.clone()));
        let transport = Arc::new(ServiceTransport::<_, HttpBody>::new(router));
        let tokens = Tokens::new(transport, clock, auth(ready), 1);
        if let Err(error) = tokens.bearer().await {
            let words = error.to_string();
            assert!(!words.is_empty() && !words.contains("very-secret"), "{words}");
        }
    });
}

fn auth(ready: Option<&str>) -> AuthSettings {
    AuthSettings {
        url: "http://spot.test".into(),
        client_id: "client".into(),
        refresh_token: Some(SecretString::from("very-secret")),
        access_token: ready.map(SecretString::from),
        timeout: Duration::from_secs(5),
        retry: retry(),
    }
}

fn retry() -> RetrySettings {
    RetrySettings {
        tries: 2,
        ..RetrySettings::default()
    }
}

/// Runs on a clock that does not wait.
fn in_paused_time(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    if let Ok(runtime) = runtime {
        runtime.block_on(work);
    }
}

/// Any answer to any question is understood or refused with words; `STATUS` and headers may stand before it, each on a line that begins with `:`.
pub(super) fn spot(data: &[u8]) {
    let (status, headers, body) = answer(data);
    if let Ok(value) = serde_json::from_slice::<Value>(&body) {
        readers(&value);
    }
    let refusal = RefusalCause::of(&String::from_utf8_lossy(&body));
    let _ = BidRulesSetting::Auto.after_refusal(BidRulesSetting::Auto.initial(), refusal);
    in_paused_time(async move {
        let reply = move || {
            let mut response = http::Response::new(HttpBody::from(body.clone()));
            *response.status_mut() = status;
            response.headers_mut().extend(headers.clone());
            std::future::ready(response)
        };
        let transport = Arc::new(ServiceTransport::<_, HttpBody>::new(Router::new().fallback(reply)));
        let clock: SharedClock = Arc::new(TokioClock::starting_at(DateTime::UNIX_EPOCH));
        for ready in [Some(BEARER), None] {
            let tokens = Tokens::new(transport.clone(), Arc::clone(&clock), auth(ready), 1);
            let settings = ClientSettings {
                base_url: "http://spot.test".into(),
                request_timeout: Duration::from_secs(5),
                retry: retry(),
                at_once: 4,
                per_second: 1000,
                burst: 1000,
            };
            questions(&SpotClient::new(
                transport.clone(),
                tokens,
                Arc::clone(&clock),
                settings,
                1,
            ))
            .await;
        }
    });
}

async fn questions(client: &SpotClient) {
    told(client.organizations().await.err());
    told(client.namespace().await.err());
    told(client.server_classes().await.err());
    told(client.cloudspace("space").await.err());
    for kind in PoolKind::ALL {
        told(client.pools(kind).await.err());
        told(client.pool(kind, "../x").await.err());
        let pool = NewPool {
            kind,
            name: "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11".into(),
            cloudspace: "space".into(),
            server_class: "class".into(),
            bid: None,
            labels: [].into(),
            custom_labels: [].into(),
            custom_annotations: [].into(),
            custom_taints: Vec::new(),
        };
        told(client.create_pool(&pool).await.err());
        told(client.delete_pool(kind, "x").await.err());
    }
}

fn told(error: Option<SpotError>) {
    let Some(error) = error else { return };
    let error = karpenter::cloud::CloudError::from(error);
    let words = error.full_text();
    assert!(
        !words.is_empty() && words.len() < 8_000,
        "{} bytes of words",
        words.len()
    );
    assert!(!words.contains("very-secret") && !words.contains(BEARER), "{words}");
    let _ = error.remedy();
}

fn answer(data: &[u8]) -> (http::StatusCode, http::HeaderMap, Vec<u8>) {
    let (mut status, mut headers, mut rest) = (http::StatusCode::OK, http::HeaderMap::new(), data);
    while let Some(line) = rest.strip_prefix(b":") {
        let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
        let (line, after) = line.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        if let Ok(code) = http::StatusCode::from_bytes(line) {
            // 1xx is no answer.
            status = if code.is_informational() { status } else { code };
        } else if let Ok(value) = http::HeaderValue::from_bytes(line) {
            headers.append(http::header::RETRY_AFTER, value);
        }
    }
    (status, headers, rest.to_vec())
}

fn readers(value: &Value) {
    let top = Reader::new(value);
    let items = top.at("items").items().unwrap_or_default();
    let mut classes = Vec::new();
    for place in items.iter().chain(std::iter::once(&top)) {
        let faults = [
            ServerClass::read(place).map(|class| classes.push(class)).err(),
            Cloudspace::read(place)
                .map(|space| assert!(space.servers_of("x").count() <= 1_000_000))
                .err(),
            Pool::read(PoolKind::Spot, place).err(),
            Pool::read(PoolKind::OnDemand, place).err(),
            Organization::read(place).err(),
        ];
        for fault in faults.into_iter().flatten() {
            assert!(!fault.path.is_empty(), "{fault}");
        }
    }
    let Some(region) = classes.first().map(|class| class.region.clone()) else {
        return;
    };
    let catalogue = Catalogue::build(Ingredients {
        region: &region,
        classes: &classes,
        prices: &snapshot::table(),
        before: None,
        measured: &Measured::default(),
        cooldowns: &Cooldowns::default(),
        overhead: &OverheadSettings::default(),
        now: DateTime::UNIX_EPOCH,
    });
    for kind in catalogue.types.iter() {
        assert!(
            kind.offerings
                .iter()
                .all(|offering| offering.price > 0.0 && offering.price <= 100.0),
            "{}",
            kind.name
        );
        assert!(catalogue.get(&kind.name).is_some());
    }
}
