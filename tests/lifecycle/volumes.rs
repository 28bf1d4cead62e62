//! Pods whose volume exists already find a machine that can attach it (scheduling 18-2).

use crate::world::{CLAIMS, Inside, MINUTE, node_class, node_pool, of_classes};
use serde_json::{Value, json};
use std::time::Duration;

const LARGE: &str = "gp.vs1.large-iad";
const ZONE: &str = "topology.cinder.csi.openstack.org/zone";
const LIMIT: Duration = Duration::from_mins(15);

fn stateful_set(replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db", "namespace": "default" },
        "spec": { "replicas": replicas, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
            "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "terminationGracePeriodSeconds": 0, "containers": [
                { "name": "main", "image": "db:1", "resources": { "requests": { "cpu": "2" } }, "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "10Gi" } } } }] } })
}

// scheduling 6-1, 18-5
#[tokio::test(start_paused = true)]
async fn a_stateful_set_that_slept_comes_back_with_its_volume_on_a_new_node() {
    let inside = Inside::short(1).await;
    let gives_back = json!({ "disruption": { "consolidateAfter": "0s" } });
    let pool = node_pool("default", &of_classes("on-demand", &[LARGE]), &gives_back);
    inside.apply(&[node_class(), pool, stateful_set(1)]).await;
    inside.until("it runs", LIMIT, |world| world.ready() == 1).await;
    let first = inside.world.values("nodes").remove(0);
    assert_eq!(first["metadata"]["labels"][ZONE], "nova", "the volume plugin says so");
    inside.world.scale("statefulset/db", 0).await.unwrap();
    inside
        .until("the node is given back", LIMIT, |world| {
            world.nodes().is_empty() && world.pools().is_empty()
        })
        .await;
    let volumes = inside.world.values("persistentvolumes");
    assert!(
        volumes[0]["spec"]["nodeAffinity"].to_string().contains(ZONE),
        "{volumes:?}"
    );
    inside.world.scale("statefulset/db", 1).await.unwrap();
    inside.until("it runs again", LIMIT, |world| world.ready() == 1).await;
    let second = inside.world.values("nodes").remove(0);
    assert_ne!(second["metadata"]["name"], first["metadata"]["name"]);
    assert_eq!(second["metadata"]["labels"][ZONE], "nova");
    assert_eq!(inside.lives().len(), 2, "{:#?}", inside.lives());
    let claim = inside.world.values(CLAIMS).remove(0);
    assert_eq!(
        claim["metadata"]["labels"][ZONE], "nova",
        "what the claim is asked for, it says"
    );
    inside.world.pass(2 * MINUTE).await;
    assert_eq!(inside.lives().len(), 2);
    inside.end().await;
}
