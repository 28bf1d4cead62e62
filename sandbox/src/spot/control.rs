//! What a test, the demonstration or `/_sandbox/` may do to the platform: things that happen to real users.

use super::answer::{Answer, Call};
use super::faults::Fault;
use super::money::Price;
use super::options::Options;
use super::platform::{OrderedFault, Platform};
use super::pool::{PoolKey, PoolKind};
use super::server::{Ending, Phase};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Something that is done to the platform from outside its API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Control {
    /// A class's market price moves; the next auction acts on it.
    SetMarket {
        /// Class.
        class: String,
        /// New price.
        price: Price,
    },
    /// The percentiles that the feed shows for a class.
    SetPercentiles {
        /// Class.
        class: String,
        /// 20th, 50th and 80th.
        percentiles: [f64; 3],
    },
    /// The number of machines of a class.
    SetStock {
        /// Class.
        class: String,
        /// Machines.
        stock: u32,
    },
    /// A pool's servers are taken, with or without notice as the quirk says.
    Preempt {
        /// Pool.
        pool: String,
    },
    /// A pool's VMs die at once, and nobody is told.
    Kill {
        /// Pool.
        pool: String,
    },
    /// A pool's object vanishes with its servers, as if somebody deleted it (external deletion).
    VanishPool {
        /// Pool.
        pool: String,
    },
    /// A pool's servers leave `assignedServers` although they run.
    RemoveKeys {
        /// Pool.
        pool: String,
    },
    /// The kubelets of a pool's servers stop to report, or report again.
    SetSick {
        /// Pool.
        pool: String,
        /// Whether they are sick.
        sick: bool,
    },
    /// A pool's custom labels are wiped (rackspace-spot 6).
    WipeLabels {
        /// Pool.
        pool: String,
    },
    /// The refresh token is revoked.
    RevokeToken,
    /// The refresh token is good again.
    RestoreToken,
    /// Every id_token given so far is worthless.
    EndTokens,
    /// The next requests that match meet a fault.
    Fault {
        /// Method, or any.
        #[serde(default)]
        method: Option<String>,
        /// Part of the path.
        #[serde(default)]
        path: String,
        /// How often.
        #[serde(default = "once")]
        times: u32,
        /// What happens.
        fault: Fault,
    },
}

fn once() -> u32 {
    1
}

impl Platform {
    /// Does something to the platform at its present instant.
    pub fn control(&mut self, control: Control) {
        self.revision += 1;
        match control {
            Control::SetMarket { class, price } => self.set_market(&class, price),
            Control::SetPercentiles { class, percentiles } => {
                if let Some(market) = self.markets.get_mut(&class) {
                    market.percentiles = Some(percentiles);
                }
            }
            Control::SetStock { class, stock } => {
                if let Some(market) = self.markets.get_mut(&class) {
                    market.stock = stock;
                }
            }
            Control::Preempt { pool } => self.end_servers(&pool, Ending::Preempted),
            Control::Kill { pool } => self.end_servers(&pool, Ending::Failed),
            Control::VanishPool { pool } => self.vanish(&pool),
            Control::RemoveKeys { pool } => self.each_server(&pool, |server| server.key_removed = true),
            Control::SetSick { pool, sick } => self.each_server(&pool, |server| server.sick = sick),
            Control::WipeLabels { pool } => self.wipe_labels(&pool),
            Control::RevokeToken => {
                let options = self.options.clone();
                self.tokens.revoke(&options);
            }
            Control::RestoreToken => self.tokens.restore(),
            Control::EndTokens => self.tokens.end_all(),
            Control::Fault {
                method,
                path,
                times,
                fault,
            } => {
                self.ordered_faults.push(OrderedFault {
                    method,
                    path,
                    times,
                    fault,
                });
            }
        }
    }

    fn each_server(&mut self, pool: &str, change: impl Fn(&mut super::server::Server)) {
        for server in self.servers.values_mut().filter(|server| server.pool.name == pool) {
            change(server);
        }
    }

    fn end_servers(&mut self, pool: &str, ending: Ending) {
        let servers: Vec<String> = self
            .servers_of(pool)
            .into_iter()
            .map(|server| server.uuid.clone())
            .collect();
        for server in servers {
            self.end_server(&server, ending);
        }
    }

    fn vanish(&mut self, name: &str) {
        self.end_servers(name, Ending::Failed);
        for kind in PoolKind::ALL {
            self.pools.remove(&PoolKey {
                kind,
                name: name.into(),
            });
        }
        self.next_version();
    }

    pub(super) fn wipe_labels(&mut self, name: &str) {
        let version = self.next_version();
        self.wiped.insert(name.to_owned());
        for pool in self.pools.values_mut().filter(|pool| pool.meta.name == name) {
            pool.spec.custom_labels.clear();
            pool.meta.version = version;
        }
    }

    /// A kubelet says it has registered its Node.
    pub fn registered(&mut self, uuid: &str) {
        let now = self.now;
        if let Some(server) = self
            .servers
            .get_mut(uuid)
            .filter(|server| server.registered_at.is_none())
        {
            server.registered_at = Some(now);
            self.revision += 1;
        }
    }

    /// The pool controller has put these labels and annotations on a server's Node.
    pub fn labels_applied(
        &mut self,
        uuid: &str,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
    ) {
        let Some(server) = self.servers.get_mut(uuid) else {
            return;
        };
        let keys = [labels.keys().cloned().collect(), annotations.keys().cloned().collect()];
        let had_labels = !labels.is_empty();
        server.applied = Some((labels, annotations));
        self.machine_moves += 1;
        let pool = server.pool.clone();
        self.show_applied(&pool, keys, None);
        if self.options.quirks.wipes_labels && had_labels {
            self.wipe_labels(&pool.name);
        }
    }

    /// The pool controller has put the pool's taints on a server's Node; it does so once (row 23).
    pub fn taints_applied(&mut self, uuid: &str) {
        let Some(server) = self.servers.get_mut(uuid) else {
            return;
        };
        server.tainted = true;
        self.machine_moves += 1;
        let pool = server.pool.clone();
        let Some(known) = self.pools.get(&pool) else { return };
        let taints = known.spec.custom_taints.iter().map(|taint| taint.key.clone()).collect();
        let [labels, annotations, _] = known.applied.clone().unwrap_or_default();
        self.show_applied(&pool, [labels, annotations], Some(taints));
    }

    fn show_applied(&mut self, key: &PoolKey, [labels, annotations]: [Vec<String>; 2], taints: Option<Vec<String>>) {
        let version = self.next_version();
        let Some(pool) = self.pools.get_mut(key) else { return };
        let kept = pool.applied.take().map(|[_, _, taints]| taints).unwrap_or_default();
        pool.applied = Some([labels, annotations, taints.unwrap_or(kept)]);
        pool.meta.version = version;
    }

    /// Answers `/_sandbox/...`, which is there over loopback only.
    pub fn admin(&mut self, call: &Call) -> Answer {
        let refused = |problem: String| Answer::json(400, &json!({"error": problem}));
        match (call.method.as_str(), call.path.trim_start_matches("/_sandbox/")) {
            ("GET", "options") => Answer::json(200, &serde_json::to_value(&self.options).unwrap_or_default()),
            ("PATCH", "options") => {
                let mut options = serde_json::to_value(&self.options).unwrap_or_default();
                let Ok(patch) = serde_json::from_slice::<Value>(&call.body) else {
                    return refused("no JSON".into());
                };
                json_patch::merge(&mut options, &patch);
                match serde_json::from_value::<Options>(options) {
                    Ok(options) => {
                        *self.options_mut() = options;
                        Answer::json(200, &json!({}))
                    }
                    Err(problem) => refused(problem.to_string()),
                }
            }
            ("POST", "control") => match serde_json::from_slice::<Control>(&call.body) {
                Ok(control) => {
                    self.control(control);
                    Answer::json(200, &json!({}))
                }
                Err(problem) => refused(problem.to_string()),
            },
            ("GET", "bids") => Answer::json(200, &json!(self.ledger.bids())),
            ("GET", "requests") => Answer::json(200, &json!(self.ledger.requests().collect::<Vec<_>>())),
            ("GET", "servers") => Answer::json(200, &json!(self.servers.values().collect::<Vec<_>>())),
            ("GET", "summary") => Answer::json(200, &self.summary()),
            _ => Answer::json(
                404,
                &json!({"error": "known: GET options, PATCH options, POST control, GET bids, GET requests, GET servers, GET summary"}),
            ),
        }
    }

    /// Pools, servers and money in a few numbers.
    pub fn summary(&self) -> Value {
        let costs: serde_json::Map<String, Value> = self
            .ledger
            .costs()
            .iter()
            .map(|(pool, cost)| (pool.name.clone(), json!(cost.dollars())))
            .collect();
        json!({
            "now": self.now, "auctions": self.auctions, "pools": self.pools.len(),
            "servers": self.servers.values().filter(|server| server.phase != Phase::Dead).count(),
            "cost_usd": self.ledger.total().dollars(), "cost_usd_by_pool": costs, "requests": self.ledger.asked(),
        })
    }
}
