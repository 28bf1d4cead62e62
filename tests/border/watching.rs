//! What is watched arrives.

use crate::world::{KARPENTER, MINUTE, World, claim, seconds};
use karpenter::cluster::{Kind, Source};
use serde_json::json;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn every_kind_arrives_and_goes() {
    let world = World::start().await;
    world
        .create(
            "v1",
            "Namespace",
            json!({ "metadata": { "name": "ns", "labels": { "a": "b" } } }),
        )
        .await;
    world.create("v1", "Node", json!({ "metadata": { "name": "n" } })).await;
    let spec = json!({ "containers": [{ "name": "c", "image": "i" }], "nodeName": "n" });
    world
        .create(
            "v1",
            "Pod",
            json!({ "metadata": { "name": "p", "namespace": "ns" }, "spec": spec }),
        )
        .await;
    world.create(KARPENTER, "NodeClaim", claim("c")).await;
    let class = json!({ "metadata": { "name": "default" }, "spec": {} });
    world
        .create("karpenter.rackspace.com/v1", "RackspaceSpotNodeClass", class)
        .await;
    world
        .create(
            "storage.k8s.io/v1",
            "StorageClass",
            json!({ "metadata": { "name": "s" }, "provisioner": "p" }),
        )
        .await;
    world
        .until("all are there", MINUTE, |now| {
            now.objects
                .namespaces
                .contains_key(&karpenter::cluster::Key::cluster("ns"))
                && now.claim("c").is_some()
                && now.machine_of_node("n").is_some_and(|machine| machine.pods.len() == 1)
                && now.objects.classes.len() == 1
                && now.objects.storage_classes.len() == 1
        })
        .await;
    world.delete(KARPENTER, "NodeClaim", "c").await;
    world
        .until("the claim is gone", MINUTE, |now| now.claim("c").is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_optional_kind_that_is_not_served_holds_nobody_up_and_is_found_when_it_comes() {
    // architecture §3.4
    let world = World::start().await;
    let overlays = Source::of(Kind::NodeOverlay);
    assert!(world.snapshot().await.unserved.contains(&overlays));
    assert_eq!(world.metric("karpenter_watch_unserved", "NodeOverlay"), 1);
    assert!(world.hub.pulses()[&overlays].unserved);
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crds/karpenter.sh_nodeoverlays.yaml");
    let crd = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    world
        .create("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd)
        .await;
    seconds(70).await;
    assert_eq!(world.metric("karpenter_watch_unserved", "NodeOverlay"), 0);
    assert!(!world.hub.pulses()[&overlays].unserved);
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_read_is_told_once_and_the_others_go_on() {
    let world = World::start().await;
    // The schema's pattern accepts it, but no duration is that long.
    world
        .create(KARPENTER, "NodePool", pool("broken", "99999999999999999999h"))
        .await;
    world.create(KARPENTER, "NodePool", pool("fine", "720h")).await;
    world
        .until("the readable one is there", MINUTE, |now| now.pool("fine").is_some())
        .await;
    // Lists meet it again; nobody is told again.
    world.hub.refresh(&[Source::of(Kind::NodePool)]).await;
    assert_eq!(world.snapshot().await.objects.pools.len(), 1);
    let unread = world.unread.lock().unwrap().clone();
    assert_eq!(unread.len(), 1);
    assert_eq!(
        (unread[0].kind.as_str(), unread[0].key.to_string()),
        ("NodePool", "broken".to_owned())
    );
    assert!(unread[0].message.contains("expireAfter"), "{}", unread[0].message);
    assert_eq!(world.metric("karpenter_watch_undecodable_objects_total", "NodePool"), 1);
    // Its author corrects it.
    world.delete(KARPENTER, "NodePool", "broken").await;
    world.create(KARPENTER, "NodePool", pool("broken", "24h")).await;
    world
        .until("it is there", MINUTE, |now| now.pool("broken").is_some())
        .await;
}

fn pool(name: &str, expire_after: &str) -> serde_json::Value {
    let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
    json!({
        "metadata": { "name": name },
        "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": [], "expireAfter": expire_after } } },
    })
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_can_wait_for_lists_that_began_after_it_asked() {
    // architecture §3.5
    let world = World::start().await;
    let before = world.metric("karpenter_watch_relists_total", "NodeClaim");
    world.create(KARPENTER, "NodeClaim", claim("c")).await;
    world
        .hub
        .refresh(&[Source::of(Kind::NodeClaim), Source::of(Kind::NodePool)])
        .await;
    assert!(world.snapshot().await.claim("c").is_some());
    assert_eq!(world.metric("karpenter_watch_relists_total", "NodeClaim"), before + 1);
}

#[tokio::test(start_paused = true)]
async fn every_watch_is_heard_of_each_half_minute() {
    let world = World::start().await;
    tokio::time::sleep(Duration::from_hours(2)).await;
    let epoch = chrono::DateTime::from_timestamp(1_767_225_600, 0).unwrap();
    let now = epoch + chrono::TimeDelta::hours(2);
    for (source, pulse) in world.hub.pulses() {
        assert_eq!(pulse.trouble, None, "{source:?}");
        if pulse.unserved {
            continue;
        }
        let last = pulse.last_event.unwrap_or(epoch);
        assert!(now - last <= chrono::TimeDelta::seconds(30), "{source:?}");
    }
}
