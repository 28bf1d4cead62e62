//! Pods with volumes, made near their first node (issue 3 §7.2, issue 4 §4).

use super::manifests::{node_class, node_pool, pod, stateful_set};
use crate::support::picture::{Picture, host, name, uid};
use crate::support::stage::Stage;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

const ZONE: &str = "topology.cinder.csi.openstack.org/zone";

/// Two pods with a volume each.
async fn a_database_runs<S: Stage>(stage: &mut S) -> Picture {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage.apply(&node_pool(&corner, "", &["spot"])).await;
    stage
        .apply(&stateful_set("db", 2, &pod(&corner, "500m", "512Mi")))
        .await;
    stage.running(2).await
}

pub async fn a_database_gets_volumes<S: Stage>(stage: &mut S) {
    a_database_runs(stage).await;
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

// scheduling 18-2: a bound claim goes where its volume can be used
pub async fn a_database_goes_back_to_its_volumes<S: Stage>(stage: &mut S) {
    let first = a_database_runs(stage).await;
    let made = names_of_volumes(stage).await;
    assert_eq!(made.len(), 2, "{made:?}");

    // away and back: on a server that did not exist when the volumes were made
    stage.scale("StatefulSet", "db", 0).await;
    stage.nothing_left().await;
    stage.scale("StatefulSet", "db", 2).await;
    let again = stage.running(2).await;
    assert!(again.orders.len() > first.orders.len(), "{again}");
    let hosts = |picture: &Picture| -> Vec<String> { picture.hosts("db").into_iter().map(str::to_owned).collect() };
    assert!(
        hosts(&again).iter().all(|host| !hosts(&first).contains(host)),
        "{again}"
    );
    is_at_home(stage, &again, &made).await;

    // the server goes while they run: volumes are detached from it, and attached where they go next
    let lost: Vec<String> = again.claims.iter().map(uid).collect();
    for claim in &again.claims {
        stage.delete("NodeClaim", name(claim)).await;
    }
    let moved = stage
        .until("both pods run on other servers", |picture| {
            let old = |claim: &Value| lost.contains(&uid(claim));
            !picture.claims.iter().any(old) && picture.pods.len() == 2 && picture.running().count() == 2
        })
        .await;
    is_at_home(stage, &moved, &made).await;
    stage.scale("StatefulSet", "db", 0).await;
    stage.nothing_left().await;
    assert_eq!(names_of_volumes(stage).await, made, "volumes stay when their pods go");
}

/// Each pod has the volume that it had before, which its node can use and nobody else holds.
async fn is_at_home<S: Stage>(stage: &S, picture: &Picture, made: &BTreeMap<String, String>) {
    assert_eq!(names_of_volumes(stage).await, *made, "{picture}");
    for host in picture.hosts("db") {
        let node = picture.nodes.iter().find(|node| name(node) == host);
        let node = node.unwrap_or_else(|| panic!("no node {host}\n{picture}"));
        assert_eq!(node["metadata"]["labels"][ZONE], "nova", "{host}");
    }
    let wanted: BTreeSet<(String, String)> = picture
        .app("db")
        .into_iter()
        .filter_map(|pod| {
            let claim = format!("data-{}", name(pod));
            Some((made.get(&claim)?.clone(), host(pod)?.to_owned()))
        })
        .collect();
    assert_eq!(wanted.len(), made.len(), "{picture}");
    let started = Instant::now();
    loop {
        let attached = attachments(stage, made).await;
        if attached == wanted {
            return;
        }
        assert!(
            started.elapsed() < stage.patience(),
            "attached: {attached:?}, wanted: {wanted:?}\n{picture}\n{}",
            stage.story()
        );
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Which of these volumes are attached, and to which nodes.
async fn attachments<S: Stage>(stage: &S, made: &BTreeMap<String, String>) -> BTreeSet<(String, String)> {
    let all = stage.objects("VolumeAttachment").await;
    let attached = all.iter().filter(|one| one["status"]["attached"] == true);
    let pairs = attached.filter_map(|one| {
        let volume = one["spec"]["source"]["persistentVolumeName"].as_str()?.to_owned();
        Some((volume, one["spec"]["nodeName"].as_str()?.to_owned()))
    });
    pairs
        .filter(|(volume, _)| made.values().any(|own| own == volume))
        .collect()
}

/// The volume of each claim of the corner.
async fn names_of_volumes<S: Stage>(stage: &S) -> BTreeMap<String, String> {
    let claims = stage.objects("PersistentVolumeClaim").await;
    let bound = claims.iter().map(|claim| {
        assert_eq!(claim["status"]["phase"], "Bound", "{claim}");
        (
            name(claim).to_owned(),
            claim["spec"]["volumeName"].as_str().unwrap_or_default().to_owned(),
        )
    });
    bound.collect()
}

/// The volumes of the corner's claims.
async fn volumes<S: Stage>(stage: &S) -> Vec<Value> {
    let all = stage.objects("PersistentVolume").await;
    let ours = all
        .into_iter()
        .filter(|volume| volume["spec"]["claimRef"]["namespace"] == stage.corner());
    ours.collect()
}
