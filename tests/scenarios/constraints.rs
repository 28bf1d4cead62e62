//! Where pods want to be, and do not: spread, affinity, anti-affinity, preferences (issue 4 §4).

use super::manifests::{deployment, node_class, node_pool, of_app, pod, with};
use crate::support::picture::Picture;
use crate::support::stage::Stage;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const HOST: &str = "kubernetes.io/hostname";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

async fn open<S: Stage>(stage: &mut S) -> String {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage.apply(&node_pool(&corner, "", &["spot", "on-demand"])).await;
    corner
}

/// As many domains as replicas: without a least number of them kube-scheduler would be content with the first node that comes.
fn spread(key: &str, domains: u32) -> Value {
    json!([{
        "topologyKey": key, "maxSkew": 1, "minDomains": domains, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": of_app("web"),
    }])
}

fn distinct<'a>(values: impl IntoIterator<Item = &'a str>) -> usize {
    values.into_iter().collect::<BTreeSet<_>>().len()
}

// scheduling 17-3, 17-4
pub async fn replicas_spread_over_hosts<S: Stage>(stage: &mut S) {
    let corner = open(stage).await;
    let pod = with(
        pod(&corner, "250m", "128Mi"),
        "topologySpreadConstraints",
        spread(HOST, 3),
    );
    stage.apply(&deployment("web", 3, &pod)).await;
    let up = stage.running(3).await;
    assert_eq!(distinct(up.hosts("web")), 3, "{up}");
    assert_eq!(up.orders.len(), 3, "{up}");
}

pub async fn replicas_spread_over_capacity_types<S: Stage>(stage: &mut S) {
    let corner = open(stage).await;
    let spread = spread(CAPACITY_TYPE, 2);
    let pod = with(pod(&corner, "250m", "128Mi"), "topologySpreadConstraints", spread);
    stage.apply(&deployment("web", 4, &pod)).await;
    let up = stage.running(4).await;
    let mut places = up.places("web", CAPACITY_TYPE);
    places.sort_unstable();
    let (spot, on_demand) = (Some("spot"), Some("on-demand"));
    assert_eq!(places, [on_demand, on_demand, spot, spot], "{up}");
}

pub async fn replicas_that_avoid_each_other<S: Stage>(stage: &mut S) {
    let corner = open(stage).await;
    let rule = json!([{"topologyKey": HOST, "labelSelector": of_app("web")}]);
    let place = "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    stage
        .apply(&deployment("web", 3, &with(pod(&corner, "250m", "128Mi"), place, rule)))
        .await;
    let up = stage.running(3).await;
    assert_eq!(distinct(up.hosts("web")), 3, "{up}");
}

pub async fn pods_that_follow_others<S: Stage>(stage: &mut S) {
    let corner = open(stage).await;
    let rule = json!([{"topologyKey": HOST, "labelSelector": of_app("cache")}]);
    let place = "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    stage
        .apply(&deployment("web", 2, &with(pod(&corner, "100m", "64Mi"), place, rule)))
        .await;
    stage
        .apply(&deployment("cache", 1, &pod(&corner, "100m", "64Mi")))
        .await;
    let up = stage.running(3).await;
    let hosts = up.hosts("web").into_iter().chain(up.hosts("cache"));
    assert_eq!(distinct(hosts), 1, "{up}");
}

// scheduling 16: what can be met is met, what cannot is dropped
pub async fn preferences_are_met_or_dropped<S: Stage>(stage: &mut S) {
    let corner = open(stage).await;
    for (name, key, value) in [
        ("met", CAPACITY_TYPE, "on-demand"),
        ("dropped", "topology.kubernetes.io/zone", "moon"),
    ] {
        let term = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
        let place = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";
        let wish = json!([{"weight": 100, "preference": term}]);
        stage
            .apply(&deployment(name, 1, &with(pod(&corner, "1", "1Gi"), place, wish)))
            .await;
    }
    let up: Picture = stage.running(2).await;
    assert!(
        up.claim_labels(CAPACITY_TYPE).contains(&"on-demand"),
        "nobody asked for what one pod prefers\n{up}"
    );
}
