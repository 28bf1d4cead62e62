//! What happens to a world while a trial runs: things that happen to real clusters, each done at its instant.
//!
//! Which object is meant is drawn beforehand as a number and found when the instant comes, among those that are there then, by name.

use super::draw::Draw;
use super::foreign::Foreign;
use super::mortal::Trap;
use super::weather::Spell;
use crate::spot::{Control, Price};
use crate::world::World;
use serde_json::{Value, json};
use std::time::Duration;

/// One of several things, by a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pick(u64);

impl Pick {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        Self(draw.between(0, 1_000_000))
    }

    /// The one that is meant.
    pub(super) fn of<T>(self, mut things: Vec<T>) -> Option<T> {
        let index = usize::try_from(self.0).unwrap_or_default() % things.len().max(1);
        (index < things.len()).then(|| things.swap_remove(index))
    }
}

/// How long kubelets are sick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sick {
    /// So long.
    For(Duration),
    /// Until all trouble is over, or somebody gives the machine up.
    ForGood,
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Deed {
    /// Bad weather begins; it is told by its number.
    Begin(u32, Spell),
    /// The bad weather of this number is over.
    End(u32),
    /// The API server forgets the past.
    Compact,
    /// A pool of ours vanishes with its server.
    Vanish(Pick),
    /// A pool's server leaves `assignedServers` although it runs.
    RemoveKeys(Pick),
    /// A pool loses its labels.
    WipeLabels(Pick),
    /// All tokens given so far are worthless.
    EndTokens,
    /// The refresh token is revoked for a while.
    RevokeToken(Duration),
    /// A kubelet falls silent.
    Sicken(Pick, Sick),
    /// A server is taken, as the platform does.
    Preempt(Pick),
    /// A server dies without a word.
    Kill(Pick),
    /// The class of one of our pools costs a dollar for a while.
    Spike(Pick, Duration),
    /// Every class costs a dollar for a while.
    SpikeEverything(Duration),
    /// The class of one of our pools is sold out for a while.
    SellOut(Pick, Duration),
    /// An app gets so many replicas.
    Scale(String, u32),
    /// An app gets a new image.
    RollOut(String, u64),
    /// A pod is deleted.
    DeletePod(Pick),
    /// A pod is evicted.
    Evict(Pick),
    /// A claim is deleted.
    DeleteClaim(Pick),
    /// A node is deleted.
    DeleteNode(Pick),
    /// Somebody takes a claim's finalizers away and deletes it: nobody is left to give its machine back.
    StripClaim(Pick),
    /// A NodePool's template changes: its machines drift.
    Relabel(Pick),
    /// The operator is stopped as a rollout does and started anew after so long.
    Restart(Duration),
    /// The operator is killed now and started anew after so long.
    KillNow(Duration),
    /// The operator is killed at one of its next writes and started anew after so long.
    KillAt(Trap, Duration),
    /// For so long no request of the operator gets through, nor an answer to it.
    CutOff(Duration),
}

/// What follows from a deed later.
pub(super) type Later = Vec<(Duration, After)>;

/// The end of something that lasts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum After {
    /// The token is good again.
    RestoreToken,
    /// The kubelets of a pool are well.
    Heal(String),
    /// A class costs this again.
    Price(String, Price),
    /// So many machines of a class again.
    Stock(String, u32),
}

impl After {
    /// Does it.
    pub(super) fn carry_out(self, world: &World) {
        world.spot().with(|platform| {
            platform.control(match self {
                Self::RestoreToken => Control::RestoreToken,
                Self::Heal(pool) => Control::SetSick { pool, sick: false },
                Self::Price(class, price) => Control::SetMarket { class, price },
                Self::Stock(class, stock) => Control::SetStock { class, stock },
            });
        });
    }
}

/// What is dear during a spike.
const DEAR: Price = Price::micros(1_000_000);

/// Does a deed to the platform; weather, apps, people and kills are not its business. Says what follows from it.
pub(super) fn to_platform(deed: &Deed, world: &World, foreign: &Foreign) -> Later {
    let pools = || {
        let all = world.pools().into_iter();
        all.filter(|pool| !foreign.owns_pool(pool)).collect::<Vec<_>>()
    };
    let control = |control: Control| world.spot().with(|platform| platform.control(control));
    let to_one = |pick: &Pick, what: fn(String) -> Control| {
        if let Some(pool) = pick.of(pools()) {
            control(what(pool));
        }
    };
    match deed {
        Deed::Vanish(pick) => to_one(pick, |pool| Control::VanishPool { pool }),
        Deed::RemoveKeys(pick) => to_one(pick, |pool| Control::RemoveKeys { pool }),
        Deed::WipeLabels(pick) => to_one(pick, |pool| Control::WipeLabels { pool }),
        Deed::Preempt(pick) => to_one(pick, |pool| Control::Preempt { pool }),
        Deed::Kill(pick) => to_one(pick, |pool| Control::Kill { pool }),
        Deed::EndTokens => control(Control::EndTokens),
        Deed::RevokeToken(lasts) => {
            control(Control::RevokeToken);
            return vec![(*lasts, After::RestoreToken)];
        }
        Deed::Sicken(pick, sick) => {
            return pick
                .of(pools())
                .map_or_else(Later::new, |pool| sicken(world, pool, sick));
        }
        Deed::Spike(pick, lasts) => {
            let class = pick.of(pools()).and_then(|pool| class_of(world, &pool));
            return class.map_or_else(Later::new, |class| spike(world, &class, *lasts));
        }
        Deed::SpikeEverything(lasts) => {
            let classes = world
                .spot()
                .with(|platform| platform.classes().keys().cloned().collect::<Vec<_>>());
            return classes.iter().flat_map(|class| spike(world, class, *lasts)).collect();
        }
        Deed::SellOut(pick, lasts) => {
            let class = pick.of(pools()).and_then(|pool| class_of(world, &pool));
            return class.map_or_else(Later::new, |class| sell_out(world, class, *lasts));
        }
        _ => {}
    }
    Later::new()
}

fn sicken(world: &World, pool: String, sick: &Sick) -> Later {
    let control = Control::SetSick {
        pool: pool.clone(),
        sick: true,
    };
    world.spot().with(|platform| platform.control(control));
    match sick {
        Sick::For(lasts) => vec![(*lasts, After::Heal(pool))],
        Sick::ForGood => Later::new(),
    }
}

fn sell_out(world: &World, class: String, lasts: Duration) -> Later {
    let stock = world.spot().with(|platform| {
        let stock = platform.market_of(&class).map_or(0, |market| market.stock);
        platform.control(Control::SetStock {
            class: class.clone(),
            stock: 0,
        });
        stock
    });
    vec![(lasts, After::Stock(class, stock))]
}

fn class_of(world: &World, pool: &str) -> Option<String> {
    world
        .spot()
        .with(|platform| platform.pool(pool).map(|pool| pool.spec.server_class.clone()))
}

fn spike(world: &World, class: &str, lasts: Duration) -> Later {
    let before = world
        .spot()
        .with(|platform| platform.market_of(class).and_then(|market| market.price));
    // one that is dear already has its end set
    let Some(before) = before.filter(|price| *price < DEAR) else {
        return Later::new();
    };
    world.spot().with(|platform| {
        platform.control(Control::SetMarket {
            class: class.into(),
            price: DEAR,
        });
    });
    vec![(lasts, After::Price(class.into(), before))]
}

/// Does a deed of people to the cluster; what is not there any more is left alone.
pub(super) async fn by_people(deed: &Deed, world: &World, foreign: &Foreign) {
    // Whoever comes too late is told so by the API server; that is no matter.
    let _ = match deed {
        Deed::Scale(target, replicas) => world.scale(target, *replicas).await,
        Deed::RollOut(target, version) => roll_out(world, target, *version).await,
        Deed::DeletePod(pick) => delete(world, "pod", pick.of(names(world, "pods", |_| true))).await,
        Deed::Evict(pick) => {
            let pods = names(world, "pods", |pod| pod["spec"]["nodeName"].is_string());
            evict(world, pick.of(pods)).await;
            Ok(())
        }
        Deed::DeleteClaim(pick) => delete(world, "nodeclaim", pick.of(our_claims(world))).await,
        Deed::DeleteNode(pick) => {
            let theirs = foreign.nodes(world);
            let nodes = names(world, "nodes", |node| {
                !theirs.contains(node["metadata"]["name"].as_str().unwrap_or_default())
            });
            delete(world, "node", pick.of(nodes)).await
        }
        Deed::StripClaim(pick) => match pick.of(our_claims(world)) {
            Some(name) => {
                let _ = delete(world, "nodeclaim", Some(name.clone())).await;
                let bare = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                    "metadata": {"name": name, "finalizers": null}});
                patch(world, &bare).await
            }
            None => Ok(()),
        },
        Deed::Relabel(pick) => {
            let pools = names(world, "nodepools.karpenter.sh", |pool| {
                !Foreign::owns_object(
                    "nodepools.karpenter.sh",
                    pool["metadata"]["name"].as_str().unwrap_or_default(),
                )
            });
            let Some(name) = pick.of(pools) else { return };
            let object = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
                "spec": {"template": {"metadata": {"labels": {"revision": world.now().timestamp().to_string()}}}}});
            patch(world, &object).await
        }
        _ => Ok(()),
    };
}

async fn patch(world: &World, object: &Value) -> Result<(), crate::world::WorldError> {
    world.apply_value(object).await.map(drop)
}

async fn delete(world: &World, kind: &str, name: Option<String>) -> Result<(), crate::world::WorldError> {
    match name {
        Some(name) => world.delete(&format!("{kind}/{name}")).await,
        None => Ok(()),
    }
}

async fn evict(world: &World, pod: Option<String>) {
    use kube::api::{Api, EvictParams};
    let Some(pod) = pod else { return };
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(world.client(), "default");
    let _ = pods.evict(&pod, &EvictParams::default()).await;
}

async fn roll_out(world: &World, target: &str, version: u64) -> Result<(), crate::world::WorldError> {
    let (kind, name) = target.split_once('/').unwrap_or((target, ""));
    let plural = if kind == "deployment" {
        "deployments.apps"
    } else {
        "statefulsets.apps"
    };
    let found = world
        .values(plural)
        .into_iter()
        .find(|object| object["metadata"]["name"] == name);
    let Some(mut object) = found else { return Ok(()) };
    object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("app:{version}"));
    let meta = json!({"name": name, "namespace": object["metadata"]["namespace"]});
    let wish = json!({"apiVersion": "apps/v1", "kind": object["kind"], "metadata": meta, "spec": {"template": object["spec"]["template"]}});
    patch(world, &wish).await
}

fn our_claims(world: &World) -> Vec<String> {
    world
        .claims()
        .into_iter()
        .filter(|name| !Foreign::owns_object("nodeclaims.karpenter.sh", name))
        .collect()
}

fn names(world: &World, resource: &str, which: impl Fn(&Value) -> bool) -> Vec<String> {
    let found = world.values(resource).into_iter().filter(which);
    found
        .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
        .collect()
}
