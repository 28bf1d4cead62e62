//! Objects on the simulated API server: create, read, update, patch, delete, as a client sees them.

use super::support::{self, code, message, object, pod, reason, world};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_created_object_has_identity_version_and_time() {
    let world = world();
    let nodes: Api<Node> = Api::all(world.client());
    let node: Node = object(json!({"metadata": {"name": "n1"}, "spec": {"providerID": "x://1"}}));
    let made = nodes.create(&PostParams::default(), &node).await.unwrap();
    assert!(made.metadata.uid.is_some() && made.metadata.resource_version.is_some());
    assert_eq!(
        made.metadata.creation_timestamp.unwrap().0.to_string(),
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(made.metadata.generation, None, "nodes have no generation");
    let again = nodes.create(&PostParams::default(), &node).await.unwrap_err();
    assert_eq!((code(&again), reason(&again).as_str()), (409, "AlreadyExists"));
    let missing = nodes.get("n2").await.unwrap_err();
    assert_eq!(
        (code(&missing), message(&missing).as_str()),
        (404, "nodes \"n2\" not found")
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_uids_and_another_seed_others() {
    let mut uids = Vec::new();
    for seed in [1, 1, 2] {
        let world = support::seeded(seed);
        let pods: Api<Pod> = Api::default_namespaced(world.client());
        let mut wish: Pod = object(pod("x"));
        wish.metadata.name = None;
        wish.metadata.generate_name = Some("web-".into());
        let made = pods.create(&PostParams::default(), &wish).await.unwrap();
        let name = made.metadata.name.unwrap();
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        uids.push((name, made.metadata.uid.unwrap()));
    }
    assert_eq!(uids[0], uids[1]);
    assert_ne!(uids[0], uids[2]);
}

#[tokio::test(start_paused = true)]
async fn a_stale_update_is_a_conflict_and_an_equal_one_changes_nothing() {
    let world = world();
    let maps: Api<ConfigMap> = Api::default_namespaced(world.client());
    let first: ConfigMap = object(json!({"metadata": {"name": "m"}, "data": {"a": "1"}}));
    let made = maps.create(&PostParams::default(), &first).await.unwrap();
    let mut changed = made.clone();
    changed.data = Some([("a".to_owned(), "2".to_owned())].into());
    let second = maps.replace("m", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(second.metadata.resource_version, made.metadata.resource_version);
    let stale = maps.replace("m", &PostParams::default(), &changed).await.unwrap_err();
    assert_eq!((code(&stale), reason(&stale).as_str()), (409, "Conflict"));
    let stale = json!({"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"a": "3"}});
    let stale = maps
        .patch("m", &PatchParams::default(), &Patch::Merge(&stale))
        .await
        .unwrap_err();
    assert_eq!(code(&stale), 409);
    let same = maps.replace("m", &PostParams::default(), &second).await.unwrap();
    assert_eq!(same.metadata.resource_version, second.metadata.resource_version);
    let other = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}});
    let other = maps
        .patch("m", &PatchParams::default(), &Patch::Merge(&other))
        .await
        .unwrap_err();
    assert_eq!(code(&other), 409);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_until_the_last_is_removed() {
    let world = world();
    let nodes: Api<Node> = Api::all(world.client());
    let node: Node = object(json!({"metadata": {"name": "n", "finalizers": ["karpenter.sh/termination"]}}));
    nodes.create(&PostParams::default(), &node).await.unwrap();
    nodes.delete("n", &DeleteParams::default()).await.unwrap();
    let going = nodes.get("n").await.unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(0));
    let added = json!({"metadata": {"finalizers": ["karpenter.sh/termination", "other.io/x"]}});
    let added = nodes
        .patch("n", &PatchParams::default(), &Patch::Merge(&added))
        .await
        .unwrap_err();
    assert_eq!((code(&added), reason(&added).as_str()), (422, "Invalid"));
    let removed = json!({"metadata": {"finalizers": null}});
    nodes
        .patch("n", &PatchParams::default(), &Patch::Merge(&removed))
        .await
        .unwrap();
    assert_eq!(code(&nodes.get("n").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn pods_on_nodes_go_gracefully_and_others_at_once() {
    let world = world();
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    pods.create(&PostParams::default(), &object(pod("pending")))
        .await
        .unwrap();
    pods.delete("pending", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(&pods.get("pending").await.unwrap_err()), 404);
    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = "n".into();
    pods.create(&PostParams::default(), &object(bound)).await.unwrap();
    pods.delete("bound", &DeleteParams::default()).await.unwrap();
    let going = pods.get("bound").await.unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(
        going.metadata.deletion_timestamp.unwrap().0.to_string(),
        "2026-01-01T00:00:30Z"
    );
    pods.delete("bound", &DeleteParams::default().grace_period(10))
        .await
        .unwrap();
    let shorter = pods.get("bound").await.unwrap();
    assert_eq!(
        shorter.metadata.deletion_timestamp.unwrap().0.to_string(),
        "2026-01-01T00:00:10Z"
    );
    pods.delete("bound", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert_eq!(code(&pods.get("bound").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn deletion_preconditions_hold() {
    let world = world();
    let maps: Api<ConfigMap> = Api::default_namespaced(world.client());
    let made = maps
        .create(&PostParams::default(), &object(json!({"metadata": {"name": "m"}})))
        .await
        .unwrap();
    let uid = |uid: &str| DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.into()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    assert_eq!(code(&maps.delete("m", &uid("other")).await.unwrap_err()), 409);
    let version = Preconditions {
        uid: None,
        resource_version: Some("1".into()),
    };
    let version = DeleteParams {
        preconditions: Some(version),
        ..DeleteParams::default()
    };
    assert_eq!(code(&maps.delete("m", &version).await.unwrap_err()), 409);
    maps.delete(
        "m",
        &DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        },
    )
    .await
    .unwrap();
    maps.delete("m", &uid(&made.metadata.uid.unwrap())).await.unwrap();
    assert_eq!(code(&maps.get("m").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_apart() {
    let world = world();
    let nodes: Api<Node> = Api::all(world.client());
    nodes
        .create(
            &PostParams::default(),
            &object(json!({"metadata": {"name": "n"}, "status": {"phase": "Pending"}})),
        )
        .await
        .unwrap();
    let both = json!({"spec": {"unschedulable": true}, "status": {"phase": "Running"}});
    let main = nodes
        .patch("n", &PatchParams::default(), &Patch::Merge(&both))
        .await
        .unwrap();
    assert_eq!(main.spec.unwrap().unschedulable, Some(true));
    assert_eq!(
        main.status.unwrap().phase.as_deref(),
        Some("Pending"),
        "the kubelet's first status is kept"
    );
    let both = json!({"spec": {"unschedulable": null}, "status": {"phase": "Running"}});
    let status = nodes
        .patch_status("n", &PatchParams::default(), &Patch::Merge(&both))
        .await
        .unwrap();
    assert_eq!(status.spec.unwrap().unschedulable, Some(true));
    assert_eq!(status.status.unwrap().phase.as_deref(), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn lists_page_consistently_and_select() {
    let world = world();
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    for n in 0..5 {
        let mut wish = pod(&format!("p{n}"));
        wish["metadata"]["labels"] = json!({"n": n.to_string(), "odd": (n % 2 == 1).to_string()});
        if n == 3 {
            wish["spec"]["nodeName"] = "node".into();
        }
        pods.create(&PostParams::default(), &object(wish)).await.unwrap();
    }
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    pods.delete("p4", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let rest = pods
        .list(&ListParams::default().limit(10).continue_token(&token))
        .await
        .unwrap();
    assert_eq!(rest.items.len(), 3, "the later pages show the first page's revision");
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
    world.compact();
    let gone = pods
        .list(&ListParams::default().continue_token(&token))
        .await
        .unwrap_err();
    assert_eq!((code(&gone), reason(&gone).as_str()), (410, "Expired"));
    let names = async |lp: ListParams| {
        let list = pods.list(&lp).await.unwrap();
        list.items
            .into_iter()
            .filter_map(|p| p.metadata.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(ListParams::default().labels("odd=true,n notin (1)")).await,
        ["p3"]
    );
    assert_eq!(names(ListParams::default().fields("spec.nodeName=node")).await, ["p3"]);
    assert_eq!(
        names(ListParams::default().fields("spec.nodeName=,status.phase!=Running")).await,
        ["p0", "p1", "p2"]
    );
    assert_eq!(names(ListParams::default().fields("metadata.name=p1")).await, ["p1"]);
    assert_eq!(
        code(
            &pods
                .list(&ListParams::default().fields("spec.foo=1"))
                .await
                .unwrap_err()
        ),
        400
    );
}

#[tokio::test(start_paused = true)]
async fn lists_at_a_revision_obey_its_meaning() {
    let world = world();
    let maps: Api<ConfigMap> = Api::default_namespaced(world.client());
    maps.create(&PostParams::default(), &object(json!({"metadata": {"name": "a"}})))
        .await
        .unwrap();
    let then = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    maps.create(&PostParams::default(), &object(json!({"metadata": {"name": "b"}})))
        .await
        .unwrap();
    let count = async |lp: ListParams| maps.list(&lp).await.map(|l| l.items.len());
    assert_eq!(
        count(ListParams::default().at(&then).matching(kube::api::VersionMatch::Exact))
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        count(
            ListParams::default()
                .at(&then)
                .matching(kube::api::VersionMatch::NotOlderThan)
        )
        .await
        .unwrap(),
        2
    );
    assert_eq!(
        count(
            ListParams::default()
                .at("0")
                .matching(kube::api::VersionMatch::NotOlderThan)
        )
        .await
        .unwrap(),
        2
    );
    let ahead = count(
        ListParams::default()
            .at("999999")
            .matching(kube::api::VersionMatch::NotOlderThan),
    )
    .await
    .unwrap_err();
    assert_eq!(code(&ahead), 504);
    world.compact();
    let gone = count(ListParams::default().at(&then).matching(kube::api::VersionMatch::Exact))
        .await
        .unwrap_err();
    assert_eq!((code(&gone), reason(&gone).as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn patches_of_every_format_do_what_they_say() {
    let world = world();
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    pods.create(&PostParams::default(), &object(pod("p"))).await.unwrap();
    let params = PatchParams::default();
    let json: json_patch::Patch = serde_json::from_value(json!([
        {"op": "test", "path": "/metadata/name", "value": "p"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]))
    .unwrap();
    let patched = pods.patch("p", &params, &Patch::<Pod>::Json(json)).await.unwrap();
    assert_eq!(patched.metadata.labels.unwrap()["a"], "b");
    let wrong: json_patch::Patch =
        serde_json::from_value(json!([{"op": "test", "path": "/metadata/name", "value": "q"}])).unwrap();
    assert_eq!(
        code(&pods.patch("p", &params, &Patch::<Pod>::Json(wrong)).await.unwrap_err()),
        422
    );
    let strategic = json!({"spec": {"containers": [{"name": "main", "image": "other:1"}]}});
    let patched = pods.patch("p", &params, &Patch::Strategic(&strategic)).await.unwrap();
    let container = &patched.spec.unwrap().containers[0];
    assert_eq!(container.image.as_deref(), Some("other:1"));
    assert!(container.resources.is_some(), "the rest of the container is kept");
    let apply = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"x": "1", "y": "1"}}});
    pods.patch("p", &PatchParams::apply("me"), &Patch::Apply(&apply))
        .await
        .unwrap();
    let apply = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"y": "2"}}});
    let patched = pods
        .patch("p", &PatchParams::apply("me"), &Patch::Apply(&apply))
        .await
        .unwrap();
    let labels = patched.metadata.labels.unwrap();
    assert_eq!(
        (labels.get("x"), labels["y"].as_str(), labels["a"].as_str()),
        (None, "2", "b")
    );
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    pods.patch("p", &dry, &Patch::Merge(&json!({"metadata": {"labels": {"y": "3"}}})))
        .await
        .unwrap();
    assert_eq!(pods.get("p").await.unwrap().metadata.labels.unwrap()["y"], "2");
}

#[tokio::test(start_paused = true)]
async fn namespaces_hold_their_objects() {
    let world = world();
    let elsewhere: Api<Pod> = Api::namespaced(world.client(), "team");
    let missing = elsewhere
        .create(&PostParams::default(), &object(pod("p")))
        .await
        .unwrap_err();
    assert_eq!(code(&missing), 404);
    let namespaces: Api<Namespace> = Api::all(world.client());
    namespaces
        .create(&PostParams::default(), &object(json!({"metadata": {"name": "team"}})))
        .await
        .unwrap();
    elsewhere
        .create(&PostParams::default(), &object(pod("p")))
        .await
        .unwrap();
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let closed = elsewhere
        .create(&PostParams::default(), &object(pod("q")))
        .await
        .unwrap_err();
    assert_eq!(code(&closed), 403);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(code(&namespaces.get("team").await.unwrap_err()), 404);
    assert_eq!(code(&elsewhere.get("p").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn identities_requests_and_codes_are_on_record() {
    let world = world();
    let nodes: Api<Node> = Api::all(world.client_as("operator", &[]));
    nodes.get("n").await.unwrap_err();
    nodes.list(&ListParams::default()).await.unwrap();
    let seen: Vec<String> = world
        .audit()
        .into_iter()
        .map(|e| format!("{} {} {} {}", e.user, e.verb.as_str(), e.resource, e.code))
        .collect();
    assert_eq!(seen, ["operator get nodes 404", "operator list nodes 200"]);
    assert_eq!(
        world
            .request_counts()
            .get(&(sandbox::api::Verb::List, "nodes".to_owned())),
        Some(&1)
    );
}

#[tokio::test(start_paused = true)]
async fn quantities_of_built_in_kinds_are_kept_in_canonical_form() {
    let handle = world().handle();
    let mut wish = pod("p");
    wish["apiVersion"] = "v1".into();
    wish["kind"] = "Pod".into();
    wish["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": 1, "memory": "1024Mi"});
    let made = handle.create(&wish).unwrap();
    let requests = &made["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(requests, &json!({"cpu": "1", "memory": "1Gi"}));
}
