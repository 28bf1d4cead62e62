//! Create, read, change and delete pools (rackspace-spot 3.5, 3.6, 4 and §7 rows 3 to 8, 15, 21, 22).

use super::answer::{Answer, Call, Cause};
use super::bids;
use super::ledger::BidRecord;
use super::platform::Platform;
use super::pool::{Meta, Pool, PoolKey, PoolKind, PoolSpec};
use super::selector::Selector;
use super::server::Ending;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CLOUDSPACE_LABEL: &str = "ngpc.rxt.io/cloudspace";

/// Whether the market counts in a check of an update (row 8).
#[derive(Clone, Copy, PartialEq, Eq)]
enum MarketCheck {
    Applies,
    Skipped,
}

impl Platform {
    pub(super) fn get_pool(&self, kind: PoolKind, name: &str) -> Answer {
        self.pools
            .get(&PoolKey {
                kind,
                name: name.into(),
            })
            .map_or_else(
                || kind.subject(name).not_found(),
                |pool| Answer::json(200, &pool.json()),
            )
    }

    pub(super) fn list_pools(&self, kind: PoolKind, call: &Call) -> Answer {
        let selector = match Selector::read(call) {
            Ok(selector) => selector,
            Err(answer) => return answer,
        };
        let lag = super::chance::delta(self.options.quirks.list_lag);
        let live = self
            .pools
            .values()
            .filter(|pool| lag.is_zero() || self.now - pool.meta.created >= lag);
        let mut shown: Vec<&Pool> = live
            .chain(self.ghosts.iter().map(|(_, pool)| pool))
            .filter(|pool| pool.kind == kind && selector.matches(&pool.meta.labels))
            .filter(|pool| selector.after.as_ref().is_none_or(|after| pool.meta.name > *after))
            .collect();
        shown.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
        let total = shown.len();
        shown.truncate(selector.limit.unwrap_or(usize::MAX));
        let next = (shown.len() < total)
            .then(|| shown.last().map(|pool| pool.meta.name.clone()))
            .flatten();
        let mut meta =
            json!({"continue": next.clone().unwrap_or_default(), "resourceVersion": self.version.to_string()});
        if let (Some(_), Some(meta)) = (next, meta.as_object_mut()) {
            meta.insert("remainingItemCount".into(), json!(total - shown.len()));
        }
        let items: Vec<Value> = shown.into_iter().map(Pool::json).collect();
        Answer::json(
            200,
            &json!({"apiVersion": "ngpc.rxt.io/v1", "kind": format!("{}List", kind.kind()), "metadata": meta, "items": items}),
        )
    }

    pub(super) fn create_pool(&mut self, kind: PoolKind, call: &Call) -> Answer {
        let body = match parse(&call.body) {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        let name = text_at(&body, "/metadata/name");
        if name.is_empty() {
            return Answer::failure(
                422,
                "Invalid",
                &format!(
                    "{}.ngpc.rxt.io \"\" is invalid: metadata.name: Required value: name or generateName is required",
                    kind.kind()
                ),
            );
        }
        if self.pools.contains_key(&PoolKey {
            kind,
            name: name.clone(),
        }) {
            return kind.subject(&name).already_exists();
        }
        let spec = match self.admit(kind, &name, &body, MarketCheck::Applies) {
            Ok(spec) => spec,
            Err(answer) => return answer,
        };
        let mut labels = strings_at(&body, "/metadata/labels");
        if self.options.quirks.adds_cloudspace_label {
            labels
                .entry(CLOUDSPACE_LABEL.into())
                .or_insert_with(|| spec.cloud_space.clone());
        }
        let uid = self.uid_of_pool(&name);
        let version = self.next_version();
        let pool = Pool {
            kind,
            meta: Meta {
                name,
                namespace: self.options.account.namespace(),
                uid,
                version,
                generation: 1,
                created: self.now,
                deleting: None,
                labels,
                annotations: strings_at(&body, "/metadata/annotations"),
            },
            spec,
            status: None,
            won: None,
            has_won: false,
            noticed: self.in_(self.options.delays.pending),
            applied: None,
            built: 0,
        };
        let answer = Answer::json(201, &pool.json());
        self.pools.insert(pool.key(), pool);
        answer
    }

    /// A seed and a history give the same UIDs.
    fn uid_of_pool(&self, name: &str) -> String {
        super::chance::uuid(&mut super::chance::dice(
            self.options.seed,
            "pool",
            &format!("{name}/{}", self.version),
        ))
    }

    /// Row 7: schema, name, cloudspace, class, then the bid. Every bid that reaches a check is written down.
    fn admit(&mut self, kind: PoolKind, name: &str, body: &Value, market: MarketCheck) -> Result<PoolSpec, Answer> {
        let verdict = PoolSpec::read(kind, body.get("spec"))
            .map_err(|causes| (causes_text(&causes), kind.subject(name).invalid(&causes)));
        let verdict = verdict.and_then(|spec| {
            self.judge(kind, name, &spec, market).map(|()| spec).map_err(|text| {
                let answer = kind
                    .subject(name)
                    .denied(self.options.quirks.denial_code, kind.webhook(), &text);
                (text, answer)
            })
        });
        if kind == PoolKind::Spot {
            let class = text_at(body, "/spec/serverClass");
            let known = self.markets.get(&class);
            self.ledger.record_bid(BidRecord {
                at: self.now,
                pool: name.into(),
                bid: text_at(body, "/spec/bidPrice"),
                market: known.and_then(|market| market.price),
                floor: known.and_then(|market| market.floor),
                percentiles: known.and_then(|market| market.percentiles),
                refused: verdict.as_ref().err().map(|(text, _)| text.clone()),
                class,
            });
        }
        verdict.map_err(|(_, answer)| answer)
    }

    fn judge(&self, kind: PoolKind, name: &str, spec: &PoolSpec, check: MarketCheck) -> Result<(), String> {
        if !is_lower_uuid(name) {
            return Err(format!("metadata.name \"{name}\" must be a lowercase UUID"));
        }
        let Some(cloudspace) = self
            .cloudspaces
            .get(&spec.cloud_space)
            .filter(|space| space.deleting.is_none())
        else {
            return Err(format!("cloudspaces.ngpc.rxt.io \"{}\" not found", spec.cloud_space));
        };
        let class = self.classes.get(&spec.server_class);
        let Some(class) = class else {
            return Err(format!("serverclasses.ngpc.rxt.io \"{}\" not found", spec.server_class));
        };
        if !class.is_available() {
            return Err(format!("serverclass {} is not available", class.name));
        }
        if class.region != cloudspace.seed.region {
            return Err(format!(
                "serverclass {} is not available in region {}",
                class.name, cloudspace.seed.region
            ));
        }
        if spec.desired < 0 {
            return Err("desired must not be negative".into());
        }
        let autoscaled = |spec: &PoolSpec| spec.autoscaling.as_ref().is_some_and(|autoscaling| autoscaling.enabled);
        let another = self
            .pools
            .values()
            .any(|pool| pool.meta.name != name && pool.spec.cloud_space == spec.cloud_space && autoscaled(&pool.spec));
        if autoscaled(spec) && another {
            return Err("only one autoscaling enabled spotnodepool is allowed per cloudspace".into());
        }
        if kind == PoolKind::OnDemand {
            return Ok(());
        }
        let market = self.markets.get(&spec.server_class);
        let price = match check {
            MarketCheck::Applies => market.and_then(|market| market.price).unwrap_or_default(),
            MarketCheck::Skipped => super::money::Price::ZERO,
        };
        bids::check(
            self.options.bid_rules,
            spec.bid().unwrap_or_default(),
            market.and_then(|market| market.floor),
            price,
        )
    }

    pub(super) fn patch_pool(&mut self, kind: PoolKind, name: &str, call: &Call) -> Answer {
        let Some(pool) = self.pools.get(&PoolKey {
            kind,
            name: name.into(),
        }) else {
            return kind.subject(name).not_found();
        };
        match patched(&pool.json(), call) {
            Ok(body) => self.update_pool(kind, name, &body),
            Err(answer) => answer,
        }
    }

    pub(super) fn put_pool(&mut self, kind: PoolKind, name: &str, call: &Call) -> Answer {
        if !self.pools.contains_key(&PoolKey {
            kind,
            name: name.into(),
        }) {
            return kind.subject(name).not_found();
        }
        match parse(&call.body) {
            Ok(body) if text_at(&body, "/metadata/resourceVersion").is_empty() => {
                kind.subject(name).invalid(&[Cause {
                    field: "metadata.resourceVersion".into(),
                    reason: "FieldValueInvalid",
                    message: "Invalid value: 0: must be specified for an update".into(),
                }])
            }
            Ok(body) => self.update_pool(kind, name, &body),
            Err(answer) => answer,
        }
    }

    fn update_pool(&mut self, kind: PoolKind, name: &str, body: &Value) -> Answer {
        let key = PoolKey {
            kind,
            name: name.into(),
        };
        let Some(old) = self.pools.get(&key).cloned() else {
            return kind.subject(name).not_found();
        };
        if text_at(body, "/metadata/resourceVersion") != old.meta.version.to_string() {
            return kind.subject(name).conflict();
        }
        let bid_moved = body.pointer("/spec/bidPrice") != old.spec.bid_price.as_ref().map(|bid| json!(bid)).as_ref();
        let check = if bid_moved || self.options.quirks.revalidate_bid_on_update {
            MarketCheck::Applies
        } else {
            MarketCheck::Skipped
        };
        let spec = match self.admit(kind, name, body, check) {
            Ok(spec) => spec,
            Err(answer) => return answer,
        };
        if spec.server_class != old.spec.server_class || spec.cloud_space != old.spec.cloud_space {
            let text = "update to serverClass or cloudSpace not allowed";
            return kind
                .subject(name)
                .denied(self.options.quirks.denial_code, kind.webhook(), text);
        }
        let version = self.next_version();
        let Some(pool) = self.pools.get_mut(&key) else {
            return kind.subject(name).not_found();
        };
        let (labels, annotations) = (
            strings_at(body, "/metadata/labels"),
            strings_at(body, "/metadata/annotations"),
        );
        if spec != old.spec {
            pool.meta.generation += 1;
            // Row 10: Pending until the next auction, wonCount kept.
            if pool.status.is_some() {
                pool.status = Some("Pending");
            }
        }
        if spec != old.spec || labels != old.meta.labels || annotations != old.meta.annotations {
            pool.meta.version = version;
        }
        pool.spec = spec;
        pool.meta.labels = labels;
        pool.meta.annotations = annotations;
        Answer::json(200, &pool.json())
    }

    pub(super) fn delete_pool(&mut self, kind: PoolKind, name: &str) -> Answer {
        let key = PoolKey {
            kind,
            name: name.into(),
        };
        let version = self.version + 1;
        let now = self.now;
        let Some(pool) = self.pools.get_mut(&key) else {
            return kind.subject(name).not_found();
        };
        let uid = pool.meta.uid.clone();
        if pool.meta.deleting.is_none() {
            pool.meta.deleting = Some(now);
            pool.meta.version = version;
            self.version = version;
            self.revision += 1;
        }
        let object = pool.json();
        let servers: Vec<String> = self
            .servers
            .values()
            .filter(|server| server.pool == key && server.counts())
            .map(|server| server.uuid.clone())
            .collect();
        for server in servers {
            self.end_server(&server, Ending::Released);
        }
        self.finish_deletions();
        if self.options.quirks.delete_returns_object {
            Answer::json(200, &object)
        } else {
            kind.subject(name).deleted(&uid)
        }
    }

    pub(super) fn delete_pools(&mut self, kind: PoolKind, call: &Call) -> Answer {
        let selector = match Selector::read(call) {
            Ok(selector) => selector,
            Err(answer) => return answer,
        };
        let names: Vec<String> = self
            .pools
            .values()
            .filter(|pool| pool.kind == kind && selector.matches(&pool.meta.labels))
            .map(|pool| pool.meta.name.clone())
            .collect();
        for name in names {
            self.delete_pool(kind, &name);
        }
        Answer::json(
            200,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
        )
    }
}

fn causes_text(causes: &[Cause]) -> String {
    causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect::<Vec<_>>()
        .join(", ")
}

fn is_lower_uuid(name: &str) -> bool {
    name.len() == 36
        && name.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
}

/// Reads a JSON object.
fn parse(body: &[u8]) -> Result<Value, Answer> {
    let refuse = |detail: String| {
        Answer::failure(
            400,
            "BadRequest",
            &format!("the object provided is unrecognized: {detail}"),
        )
    };
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(refuse("not an object".into())),
        Err(problem) => Err(refuse(problem.to_string())),
    }
}

/// Applies a patch to an object as the API shows it (rackspace-spot 3.0).
pub(super) fn patched(object: &Value, call: &Call) -> Result<Value, Answer> {
    let refuse = |problem: String| Answer::failure(400, "BadRequest", &problem);
    let content_type = call.content_type.as_deref().unwrap_or_default();
    let mut target = object.clone();
    match content_type.split(';').next().unwrap_or_default().trim() {
        // An applied object is JSON as well; fields that others own are not tracked.
        "application/merge-patch+json" | "application/apply-patch+yaml" => {
            json_patch::merge(&mut target, &parse(&call.body)?);
        }
        "application/json-patch+json" => {
            let patch: json_patch::Patch =
                serde_json::from_slice(&call.body).map_err(|problem| refuse(problem.to_string()))?;
            json_patch::patch(&mut target, &patch).map_err(|problem| {
                Answer::failure(
                    422,
                    "Invalid",
                    &format!("the server rejected our request due to an error in our request: {problem}"),
                )
            })?;
        }
        other => {
            return Err(Answer::failure(
                415,
                "UnsupportedMediaType",
                &format!(
                    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml (got {other:?})"
                ),
            ));
        }
    }
    Ok(target)
}

pub(super) fn text_at(body: &Value, pointer: &str) -> String {
    body.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn strings_at(body: &Value, pointer: &str) -> BTreeMap<String, String> {
    let entries = body.pointer(pointer).and_then(Value::as_object);
    entries
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_are_taken_as_bodies() {
        assert_eq!(parse(b"[]").unwrap_err().code, 400);
        assert_eq!(parse(b"{").unwrap_err().code, 400);
        assert_eq!(parse(b"{}").unwrap(), json!({}));
    }
}
