//! Which call goes where, and what every call has in common: faults, bearer, namespace, the log.

use super::answer::{Answer, Call, Subject};
use super::catalogue::{self, Class, FlavorType, Region};
use super::ledger::RequestRecord;
use super::options::namespace_of;
use super::platform::Platform;
use super::pool::PoolKind;
use super::token::Bearer;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::time::Duration;

impl Platform {
    /// Lets time pass to `now`, then answers a call.
    pub fn answer(&mut self, now: DateTime<Utc>, call: &Call) -> Answer {
        self.advance(now);
        let bearer = self
            .tokens
            .judge(&self.options, self.now, call.authorization.as_deref());
        let fault = self.draw_fault(call);
        let hold = Duration::from_secs(self.options.faults.hold_seconds);
        let answer = match fault.and_then(|fault| fault.instead(call, hold)) {
            Some(answer) => answer,
            None => self.route(call, bearer),
        };
        let answer = match fault {
            Some(fault) => fault.distort(answer, hold),
            None => answer,
        };
        let secret = call.path.starts_with("/oauth") || call.path.ends_with("generate-kubeconfig");
        let query = if call.query.is_empty() {
            String::new()
        } else {
            format!("?{}", call.query)
        };
        self.ledger.record_request(RequestRecord {
            at: self.now,
            method: call.method.clone(),
            path: format!("{}{query}", call.path),
            body: if secret {
                String::new()
            } else {
                String::from_utf8_lossy(&call.body).into_owned()
            },
            bearer,
            code: answer.code,
            fault: fault.map(super::faults::Fault::name),
        });
        answer
    }

    fn route(&mut self, call: &Call, bearer: Bearer) -> Answer {
        let decoded: Vec<String> = call
            .path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(super::answer::unescape)
            .collect();
        let path: Vec<&str> = decoded.iter().map(String::as_str).collect();
        match (call.method.as_str(), path.as_slice()) {
            ("POST", ["oauth", "token"]) => {
                let (options, now) = (self.options.clone(), self.now);
                self.tokens.exchange(&options, now, call)
            }
            ("GET", ["percentiles.json"]) => self.percentiles(call),
            ("GET", ["history", class]) => self.history(class),
            ("GET", ["comparable_prices.json"]) => self.comparable_prices(),
            ("GET", [".well-known", "openid-configuration"]) => Answer::json(
                200,
                &json!({"issuer": "https://login.spot.rackspace.com/", "token_endpoint": "https://login.spot.rackspace.com/oauth/token"}),
            ),
            ("POST", ["apis", "auth.ngpc.rxt.io", "v1", "generate-kubeconfig"]) => self.generate_kubeconfig(call),
            (_, ["apis", rest @ ..]) => bearer.refusal().unwrap_or_else(|| self.route_api(call, rest)),
            _ => Answer::failure(404, "NotFound", "the server could not find the requested resource"),
        }
    }

    fn route_api(&mut self, call: &Call, path: &[&str]) -> Answer {
        match (call.method.as_str(), path) {
            ("GET", ["auth.ngpc.rxt.io", "v1", "organizations"]) => self.organizations(),
            ("GET", ["ngpc.rxt.io", "v1", "regions"]) => list(
                "Region",
                self.version,
                &catalogue::REGIONS.iter().map(region_json).collect::<Vec<_>>(),
            ),
            ("GET", ["ngpc.rxt.io", "v1", "regions", name]) => catalogue::region(name).map_or_else(
                || {
                    Subject {
                        plural: "regions",
                        kind: "Region",
                        name,
                    }
                    .not_found()
                },
                |region| Answer::json(200, &region_json(region)),
            ),
            ("GET", ["ngpc.rxt.io", "v1", "serverclasses"]) => list(
                "ServerClass",
                self.version,
                &self
                    .classes
                    .values()
                    .map(|class| self.class_json(class))
                    .collect::<Vec<_>>(),
            ),
            ("GET", ["ngpc.rxt.io", "v1", "serverclasses", name]) => self.classes.get(*name).map_or_else(
                || {
                    Subject {
                        plural: "serverclasses",
                        kind: "ServerClass",
                        name,
                    }
                    .not_found()
                },
                |class| Answer::json(200, &self.class_json(class)),
            ),
            (_, ["ngpc.rxt.io", "v1", "namespaces", namespace, rest @ ..]) => {
                if *namespace == self.options.account.namespace() {
                    self.route_namespaced(call, rest)
                } else {
                    forbidden(call, namespace, rest.first().copied().unwrap_or_default())
                }
            }
            _ => Answer::failure(404, "NotFound", "the server could not find the requested resource"),
        }
    }

    fn route_namespaced(&mut self, call: &Call, path: &[&str]) -> Answer {
        let (plural, name) = match path {
            [plural] => (*plural, None),
            [plural, name] => (*plural, Some(*name)),
            _ => return Answer::failure(404, "NotFound", "the server could not find the requested resource"),
        };
        match (PoolKind::of_plural(plural), call.method.as_str(), name) {
            (Some(kind), "GET", None) => self.list_pools(kind, call),
            (Some(kind), "POST", None) => self.create_pool(kind, call),
            (Some(kind), "DELETE", None) => self.delete_pools(kind, call),
            (Some(kind), "GET", Some(name)) => self.get_pool(kind, name),
            (Some(kind), "PATCH", Some(name)) => self.patch_pool(kind, name, call),
            (Some(kind), "PUT", Some(name)) => self.put_pool(kind, name, call),
            (Some(kind), "DELETE", Some(name)) => self.delete_pool(kind, name),
            (None, _, _) if plural == "cloudspaces" => self.route_cloudspaces(call, name),
            (None, _, _) => Answer::failure(404, "NotFound", "the server could not find the requested resource"),
            _ => Answer::failure(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            ),
        }
    }

    /// rackspace-spot 3.1, §7 row 33.
    fn organizations(&self) -> Answer {
        let account = &self.options.account;
        let list: Vec<Value> = account
            .organizations
            .iter()
            .map(|organization| {
                json!({"id": organization.id, "name": organization.name, "display_name": organization.display_name,
                       "metadata": {"namespace": namespace_of(&organization.id)}})
            })
            .collect();
        let count = list.len();
        Answer::json(
            200,
            &json!({"start": 0, "limit": 50, "length": count, "total": count, "next": "", "organizations": list}),
        )
    }

    /// rackspace-spot 3.3.
    fn class_json(&self, class: &Class) -> Value {
        let mut resources = json!({});
        let mut spec = json!({
            "availability": if class.is_available() { "available" } else { "deprecated" },
            "category": class.category, "displayName": class.display_name,
            "flavorType": match class.flavor_type { FlavorType::Virtual => "VM", FlavorType::BareMetal => "BareMetal" },
            "onDemandPricing": {"cost": decimal(class.on_demand), "interval": "1h"},
            "provider": {"providerFlavorID": class.flavor, "providerType": "ospc"}, "region": class.region,
        });
        let market = self.markets.get(&class.name);
        let floor = market.and_then(|market| market.floor).map(decimal).unwrap_or_default();
        let reserved = self
            .servers
            .values()
            .filter(|s| s.class == class.name && s.holds_a_machine())
            .count();
        let stock = market.map_or(0, |market| market.stock);
        let available = u64::from(stock).saturating_sub(u64::try_from(reserved).unwrap_or_default());
        let mut status = json!({"available": available, "capacity": stock, "reserved": reserved, "lastAuction": self.last_auction.timestamp()});
        let price = market.and_then(|market| market.price);
        for (key, value) in [
            ("cpu", class.cpu.map(|cpu| json!(cpu.to_string()))),
            ("memory", class.memory.as_ref().map(|memory| json!(memory))),
            ("disk", class.disk.as_ref().map(|disk| json!(disk))),
            // Row 27: absent by default, a string count by option.
            (
                "gpu",
                (self.options.quirks.gpu_count && class.gpu.is_some()).then(|| json!("1")),
            ),
        ] {
            insert(&mut resources, key, value);
        }
        insert(&mut spec, "resources", Some(resources));
        insert(&mut spec, "minBidPricePerHour", Some(json!(floor)));
        insert(
            &mut status,
            "spotPricing",
            price.map(|price| {
                let hammer = market.map_or(price, super::platform::ClassMarket::billed);
                json!({"hammerPricePerHour": hammer.to_string(), "marketPricePerHour": price.to_string()})
            }),
        );
        json!({"apiVersion": "ngpc.rxt.io/v1", "kind": "ServerClass", "metadata": {"name": class.name}, "spec": spec, "status": status})
    }

    /// rackspace-spot 3.7.
    fn generate_kubeconfig(&mut self, call: &Call) -> Answer {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let field = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let refused = |code: u16, error: &str, text: &str| {
            Answer::json(code, &json!({"error": error, "error_description": text}))
        };
        if field("refresh_token").is_empty() {
            return refused(400, "bad_request", "Missing or invalid refresh_token.");
        }
        if field("refresh_token") != self.options.account.refresh_token {
            return refused(401, "access_denied", "Invalid or expired refresh token.");
        }
        if !self.cloudspaces.contains_key(field("cloudspace_name")) {
            return refused(400, "bad_request", "Missing or invalid cloudspace_name.");
        }
        let (options, now) = (self.options.clone(), self.now);
        let token = self.tokens.give(&options, now);
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {name}\nclusters:\n- name: {name}\n  cluster:\n    insecure-skip-tls-verify: true\n    server: https://hcp-{name}.spot.invalid\ncontexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: ngpc-user\nusers:\n- name: ngpc-user\n  user:\n    token: {token}\n",
            name = field("cloudspace_name"),
        );
        Answer::json(
            200,
            &json!({"data": {"kubeconfig": kubeconfig}, "message": "kubeconfig generated successfully", "status_code": 200}),
        )
    }
}

fn insert(object: &mut Value, key: &str, value: Option<Value>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(key.into(), value);
    }
}

/// A price without trailing zeros, at least two decimals, as floors and on-demand prices are written.
fn decimal(price: super::money::Price) -> String {
    let text = price.to_string();
    let kept = text
        .trim_end_matches('0')
        .len()
        .max(text.find('.').map_or(0, |dot| dot + 3));
    text.get(..kept).unwrap_or(&text).to_owned()
}

fn region_json(region: &Region) -> Value {
    json!({
        "apiVersion": "ngpc.rxt.io/v1", "kind": "Region", "metadata": {"name": region.name},
        "spec": {"country": region.country, "description": region.description, "generation": region.generation,
                 "provider": {"providerRegionName": region.code, "providerType": "ospc"}},
    })
}

/// A list without pages.
pub(super) fn list(kind: &str, version: u64, items: &[Value]) -> Answer {
    Answer::json(
        200,
        &json!({"apiVersion": "ngpc.rxt.io/v1", "kind": format!("{kind}List"),
                "metadata": {"continue": "", "resourceVersion": version.to_string()}, "items": items}),
    )
}

fn forbidden(call: &Call, namespace: &str, plural: &str) -> Answer {
    let verb = match call.method.as_str() {
        "GET" => "list",
        "POST" => "create",
        "DELETE" => "delete",
        "PATCH" => "patch",
        _ => "update",
    };
    Answer::failure(
        403,
        "Forbidden",
        &format!(
            "{plural}.ngpc.rxt.io is forbidden: User \"auth0|sandbox\" cannot {verb} resource \"{plural}\" in API group \"ngpc.rxt.io\" in the namespace \"{namespace}\""
        ),
    )
}
