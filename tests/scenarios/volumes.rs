//! Pods with volumes, made near their first node (issue 3 §7.2, issue 4 §4).

use super::manifests::{node_class, node_pool, pod, stateful_set};
use crate::support::picture::name;
use crate::support::stage::Stage;
use serde_json::{Value, json};

const ZONE: &str = "topology.cinder.csi.openstack.org/zone";

pub async fn a_database_gets_volumes<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage.apply(&node_pool(&corner, "", &["spot"])).await;
    stage
        .apply(&stateful_set("db", 2, &pod(&corner, "500m", "512Mi")))
        .await;
    stage.running(2).await;
    let volumes = volumes(stage).await;
    assert_eq!(volumes.len(), 2);
    for volume in &volumes {
        let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
        let near = json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["nova"]}]}]);
        assert_eq!(terms, &near, "{}", name(volume));
    }

    stage.scale("StatefulSet", "db", 0).await;
    stage.nothing_left().await;
}

/// The volumes of the corner's claims.
async fn volumes<S: Stage>(stage: &S) -> Vec<Value> {
    let all = stage.objects("PersistentVolume").await;
    let ours = all
        .into_iter()
        .filter(|volume| volume["spec"]["claimRef"]["namespace"] == stage.corner());
    ours.collect()
}
