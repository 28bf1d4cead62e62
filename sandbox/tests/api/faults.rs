//! Faults and hooks.

use super::support::{code, object, reason, seeded, world};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use sandbox::api::{ApiFaults, ApiServer, Fault, FaultRule, HookPoint, HookVerdict, Verb};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, timeout};

fn always(server: &ApiServer, rule: FaultRule) {
    server.set_faults(ApiFaults { rules: vec![rule] });
}

fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(server.client_as("operator", &[]))
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    maps.create(&PostParams::default(), &object(json!({"metadata": {"name": name}})))
        .await
}

#[tokio::test(start_paused = true)]
async fn refusals_are_what_a_real_server_sends_and_change_nothing() {
    let server = world();
    let maps = maps(&server);
    create(&maps, "m").await.unwrap();
    for (fault, wanted, why) in [
        (Fault::TooManyRequests { retry_after: 7 }, 429, "TooManyRequests"),
        (Fault::InternalError, 500, "InternalError"),
        (Fault::Conflict, 409, "Conflict"),
        (
            Fault::TimeoutBefore {
                after: Duration::from_secs(30),
            },
            504,
            "Timeout",
        ),
    ] {
        always(
            &server,
            FaultRule::new(fault, 1.0)
                .verbs(&[Verb::Patch])
                .resources(&["configmaps"])
                .users(&["operator"]),
        );
        let before = server.revision();
        let started = Instant::now();
        let patch = Patch::Merge(json!({"data": {"a": wanted.to_string()}}));
        let refused = maps.patch("m", &PatchParams::default(), &patch).await.unwrap_err();
        assert_eq!((code(&refused), reason(&refused).as_str()), (wanted, why));
        assert_eq!(server.revision(), before);
        assert_eq!(started.elapsed().as_secs(), if wanted == 504 { 30 } else { 0 });
        if let (429, kube::Error::Api(status)) = (wanted, &refused) {
            assert_eq!(status.details.as_ref().unwrap().retry_after_seconds, 7);
        }
        Api::<ConfigMap>::default_namespaced(server.client())
            .patch("m", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_write_done() {
    let server = world();
    let maps = maps(&server);
    always(
        &server,
        FaultRule::new(
            Fault::TimeoutAfter {
                after: Duration::from_mins(1),
            },
            1.0,
        )
        .verbs(&[Verb::Create]),
    );
    assert!(
        timeout(Duration::from_secs(4), create(&maps, "m")).await.is_err(),
        "the client gives up first"
    );
    server.set_faults(ApiFaults::default());
    assert!(maps.get("m").await.is_ok());
    assert_eq!(reason(&create(&maps, "m").await.unwrap_err()), "AlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn reads_may_be_slow_or_stale() {
    let server = world();
    let maps = maps(&server);
    create(&maps, "a").await.unwrap();
    create(&maps, "b").await.unwrap();
    always(&server, FaultRule::new(Fault::StaleRead { back: 1 }, 1.0));
    let stale = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(stale.items.len(), 1);
    assert_eq!(
        stale.metadata.resource_version.unwrap(),
        (server.revision() - 1).to_string()
    );
    assert_eq!(code(&maps.get("b").await.unwrap_err()), 404);
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(3));
    always(&server, FaultRule::new(Fault::Slow { least, most }, 1.0));
    let started = Instant::now();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 2);
    assert!((least..=most).contains(&started.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_meets_the_same_faults() {
    let mut runs = Vec::new();
    for seed in [3, 3, 4] {
        let server = seeded(seed);
        always(&server, FaultRule::new(Fault::InternalError, 0.3));
        let maps = maps(&server);
        let mut codes = Vec::new();
        for n in 0..40 {
            codes.push(create(&maps, &format!("m{n}")).await.is_ok());
        }
        runs.push(codes);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    assert!(runs[0].contains(&true) && runs[0].contains(&false));
}

#[tokio::test(start_paused = true)]
async fn hooks_stop_the_world_before_or_after_the_nth_write() {
    let server = world();
    let maps = maps(&server);
    for (point, exists) in [(HookPoint::Before, false), (HookPoint::After, true)] {
        let (tell, told) = tokio::sync::oneshot::channel();
        server.hook_write(point, 2, Some("operator"), move |seen| {
            tell.send(seen.clone()).unwrap();
            HookVerdict::Vanish
        });
        create(&maps, &format!("first-{exists}")).await.unwrap();
        maps.list(&ListParams::default()).await.unwrap();
        let second = format!("second-{exists}");
        assert!(
            timeout(Duration::from_hours(1), create(&maps, &second)).await.is_err(),
            "it is never answered"
        );
        let seen = told.await.unwrap();
        assert_eq!(
            (seen.number, seen.user.as_str(), seen.verb, seen.resource.as_str()),
            (2, "operator", Verb::Create, "configmaps")
        );
        assert_eq!(maps.get(&second).await.is_ok(), exists);
        create(&maps, &format!("third-{exists}")).await.unwrap();
    }
}
