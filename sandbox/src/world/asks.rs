//! What tests and the demonstration ask of a world. Reads the stores directly: nothing moves by asking.

use super::running::World;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter::operator::Environment;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

impl World {
    /// What an operator of this world is told at least: the cloudspace and the token of its account.
    pub fn settings(&self) -> Environment {
        let account = self.spot().with(|platform| platform.options().account.clone());
        let space = account.cloudspaces.first();
        let space = space.map(|space| space.name.as_str()).unwrap_or_default();
        Environment::from([
            ("SPOT_CLOUDSPACE_NAME", space),
            ("SPOT_REFRESH_TOKEN", account.refresh_token.as_str()),
        ])
    }

    /// All objects of a kind by its qualified plural, such as `pods` or `nodeclaims.karpenter.sh`, as JSON.
    pub fn values(&self, qualified: &str) -> Vec<Value> {
        let core = self.api().inner.core();
        core.store
            .objects(qualified)
            .map(|(_, stored)| stored.value().clone())
            .collect()
    }

    /// The same, typed; what does not fit the type is left out.
    pub fn objects<K: DeserializeOwned>(&self, qualified: &str) -> Vec<K> {
        self.values(qualified)
            .into_iter()
            .filter_map(|v| serde_json::from_value(v).ok())
            .collect()
    }

    /// All pods.
    pub fn pods(&self) -> Vec<Pod> {
        self.objects("pods")
    }

    /// All nodes.
    pub fn nodes(&self) -> Vec<Node> {
        self.objects("nodes")
    }

    /// How many pods have a node.
    pub fn bound(&self) -> usize {
        self.count("pods", |pod| !text(pod, "/spec/nodeName").is_empty())
    }

    /// How many pods have none and want one.
    pub fn pending(&self) -> usize {
        self.count("pods", |pod| {
            text(pod, "/spec/nodeName").is_empty() && !is_finished(pod)
        })
    }

    /// How many pods are ready.
    pub fn ready(&self) -> usize {
        self.count("pods", |pod| is_true(pod, "Ready"))
    }

    /// How many nodes are ready.
    pub fn ready_nodes(&self) -> usize {
        self.count("nodes", |node| is_true(node, "Ready"))
    }

    /// The names of all NodeClaims.
    pub fn claims(&self) -> Vec<String> {
        self.values("nodeclaims.karpenter.sh")
            .iter()
            .map(|c| text(c, "/metadata/name").to_owned())
            .collect()
    }

    /// The names of all pools on the platform, spot and on-demand.
    pub fn pools(&self) -> Vec<String> {
        self.spot()
            .with(|platform| platform.pools().map(|pool| pool.meta.name.clone()).collect())
    }

    /// What the platform charges so far, in dollars.
    pub fn cost_usd(&self) -> f64 {
        self.spot()
            .with(|platform| platform.summary()["cost_usd"].as_f64().unwrap_or(0.0))
    }

    /// Everything that was asked of both APIs, one line each: two runs of a seed give equal logs.
    pub fn log(&self) -> Vec<String> {
        let kubernetes = self.api().audit().into_iter().map(|e| {
            let object = format!("{} {}/{}/{}", e.resource, e.namespace, e.name, e.subresource);
            format!("{} {} {:?} {object} {}", e.at.to_rfc3339(), e.user, e.verb, e.code)
        });
        let mut lines: Vec<String> = kubernetes.collect();
        self.spot().with(|platform| {
            let requests = platform.ledger().requests();
            lines.extend(requests.map(|r| format!("{} {} {} {}", r.at.to_rfc3339(), r.method, r.path, r.code)));
        });
        lines
    }

    /// Every object of every kind, and the platform's sums, as one JSON text: two runs of a seed end in equal states.
    pub fn state(&self) -> String {
        let objects: serde_json::Map<String, Value> = {
            let core = self.api().inner.core();
            let all = core.store.tables().map(|(name, table)| {
                let objects: Vec<&Value> = table.objects.values().map(|o| o.value()).collect();
                (name.clone(), json!(objects))
            });
            all.collect()
        };
        json!({"kubernetes": objects, "spot": self.spot().with(|platform| platform.summary())}).to_string()
    }

    /// A few lines for people: what is there and what is not well.
    pub fn picture(&self) -> String {
        let mut lines = vec![format!(
            "{}: {} pods bound, {} pending; {} of {} nodes ready; {} claims; {} pools; ${:.4}",
            self.now().to_rfc3339(),
            self.bound(),
            self.pending(),
            self.ready_nodes(),
            self.values("nodes").len(),
            self.claims().len(),
            self.pools().len(),
            self.cost_usd(),
        )];
        for pod in self
            .values("pods")
            .iter()
            .filter(|p| text(p, "/spec/nodeName").is_empty() && !is_finished(p))
        {
            let conditions = pod
                .pointer("/status/conditions")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let why = conditions
                .filter(|c| c["type"] == "PodScheduled")
                .map(|c| text(c, "/message"))
                .next();
            lines.push(format!(
                "  pending {}: {}",
                text(pod, "/metadata/name"),
                why.unwrap_or("not looked at")
            ));
        }
        lines.join("\n")
    }

    fn count(&self, qualified: &str, which: impl Fn(&Value) -> bool) -> usize {
        let core = self.api().inner.core();
        core.store.objects(qualified).filter(|(_, o)| which(o.value())).count()
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == kind && c["status"] == "True")
}
