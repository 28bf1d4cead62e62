//! What is written is known at once, and only what was meant is written.

use crate::world::{KARPENTER, MINUTE, OPERATOR, World, claim, seconds, typed_claim};
use karpenter::api::NodeClaim;
use karpenter::k8s::client::{ApiClient, Limits};
use karpenter::k8s::leadership::Leadership;
use karpenter::k8s::write::{DeleteHow, Deleted, Lock, Remedy, Target};
use karpenter::k8s::{Cause, WriteError};
use sandbox::api::{Fault, FaultRule, HookPoint, HookVerdict, Verb};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const FINALIZER: &str = "karpenter.sh/termination";

fn writes(world: &World) -> usize {
    world
        .api
        .audit()
        .iter()
        .filter(|entry| entry.user == OPERATOR && entry.verb.is_write())
        .count()
}

async fn seen(world: &World, name: &str) -> Target {
    world
        .until("the claim is seen", MINUTE, |now| now.claim(name).is_some())
        .await;
    Target::of(&world.snapshot().await.claim(name).unwrap().meta)
}

#[tokio::test(start_paused = true)]
async fn our_own_writes_are_in_the_next_snapshot_even_when_every_watch_is_dead() {
    let world = World::start().await;
    world.faults([FaultRule::new(Fault::InternalError, 1.0).verbs(&[Verb::Watch, Verb::List])]);
    for source in world.hub.pulses().keys() {
        world.hub.relist(source);
    }
    seconds(1).await;
    let made = world.writer.create(&typed_claim("c")).await.unwrap();
    let snapshot = world.snapshot().await;
    assert_eq!(
        snapshot.claim("c").unwrap().uid(),
        made.metadata.uid.as_deref().unwrap()
    );
    let target = Target::object(&made);
    let labelled = world
        .writer
        .patch::<NodeClaim>(
            &target,
            json!({ "metadata": { "labels": { "a": "b" } } }),
            Lock::Version,
        )
        .await
        .unwrap();
    assert_eq!(world.snapshot().await.claim("c").unwrap().label("a"), Some("b"));
    let target = Target::object(&labelled);
    let status = json!({ "status": { "providerID": "x:///1" } });
    world
        .writer
        .patch_status::<NodeClaim>(&target, status, Lock::Version)
        .await
        .unwrap();
    assert_eq!(world.snapshot().await.claim("c").unwrap().provider_id(), Some("x:///1"));
    assert_eq!(
        world
            .writer
            .delete::<NodeClaim>(&target, DeleteHow::default())
            .await
            .unwrap(),
        Deleted::Gone
    );
    assert!(world.snapshot().await.claim("c").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_conflict_asks_to_read_again_and_changes_nothing() {
    let world = World::start().await;
    world.create(KARPENTER, "NodeClaim", claim("c")).await;
    let old = seen(&world, "c").await;
    let patch = json!({ "metadata": { "labels": { "first": "1" } } });
    world
        .writer
        .patch::<NodeClaim>(&old, patch, Lock::Version)
        .await
        .unwrap();
    let patch = json!({ "metadata": { "labels": { "second": "2" } } });
    let error = world
        .writer
        .patch::<NodeClaim>(&old, patch.clone(), Lock::Version)
        .await
        .unwrap_err();
    assert!(error.is_conflict());
    assert_eq!(error.remedy(), Remedy::ReadAgain);
    assert_eq!(world.snapshot().await.claim("c").unwrap().label("second"), None);
    world.writer.patch::<NodeClaim>(&old, patch, Lock::None).await.unwrap();
    let snapshot = world.snapshot().await;
    let labels = (
        snapshot.claim("c").unwrap().label("first"),
        snapshot.claim("c").unwrap().label("second"),
    );
    assert_eq!(labels, (Some("1"), Some("2")));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_answer_is_given_up_after_four_seconds_and_looked_up() {
    // architecture §3.5
    let world = World::start().await;
    world.faults([FaultRule::new(Fault::InternalError, 1.0).verbs(&[Verb::Watch])]);
    seconds(300).await;
    world
        .api
        .hook_write(HookPoint::After, 1, Some(OPERATOR), |_| HookVerdict::Vanish);
    let started = Instant::now();
    let error = world.writer.create(&typed_claim("c")).await.unwrap_err();
    assert_eq!(started.elapsed(), Duration::from_secs(4));
    assert_eq!(error.remedy(), Remedy::LookUp);
    assert!(world.snapshot().await.claim("c").is_none(), "neither assumed");
    let found = world.writer.look_up::<NodeClaim>(&Target::named("c")).await.unwrap();
    assert!(found.is_some(), "nor denied");
    assert!(world.snapshot().await.claim("c").is_some());
    // The same again finds it there.
    let error = world.writer.create(&typed_claim("c")).await.unwrap_err();
    assert!(error.is_already_there());
    assert_eq!(error.remedy(), Remedy::AlreadyDone);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_that_the_server_tells_may_have_taken_effect_too() {
    let world = World::start().await;
    for (fault, there) in [
        (
            Fault::TimeoutAfter {
                after: Duration::from_secs(1),
            },
            true,
        ),
        (
            Fault::TimeoutBefore {
                after: Duration::from_secs(1),
            },
            false,
        ),
    ] {
        let name = if there { "after" } else { "before" };
        world.faults([FaultRule::new(fault, 1.0).verbs(&[Verb::Create])]);
        let error = world.writer.create(&typed_claim(name)).await.unwrap_err();
        assert_eq!(error.remedy(), Remedy::LookUp, "{name}");
        world.faults([]);
        let found = world.writer.look_up::<NodeClaim>(&Target::named(name)).await.unwrap();
        assert_eq!(found.is_some(), there, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_the_lease() {
    // architecture §3.5
    let world = World::start().await;
    let before = writes(&world);
    world.keeper.end();
    assert!(!world.writer.may_write());
    let error: WriteError = world.writer.create(&typed_claim("c")).await.unwrap_err();
    assert!(matches!(error.cause(), Cause::NotLeading));
    assert_eq!(error.remedy(), Remedy::Stop);
    assert!(world.writer.evict(&Target::named("p")).await.is_err());
    assert_eq!(writes(&world), before);
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_the_same_name_is_never_deleted() {
    let world = World::start().await;
    world.create(KARPENTER, "NodeClaim", claim("c")).await;
    let first = seen(&world, "c").await;
    world.delete(KARPENTER, "NodeClaim", "c").await;
    world.create(KARPENTER, "NodeClaim", claim("c")).await;
    let error = world
        .writer
        .delete::<NodeClaim>(&first, DeleteHow::default())
        .await
        .unwrap_err();
    assert!(error.is_conflict());
    world
        .until("the successor is seen", MINUTE, |now| {
            now.claim("c").is_some_and(|c| *c.uid() != *first.uid)
        })
        .await;
    world.delete(KARPENTER, "NodeClaim", "c").await;
    let gone = world
        .writer
        .delete::<NodeClaim>(&first, DeleteHow::default())
        .await
        .unwrap();
    assert_eq!(gone, Deleted::Gone, "an object that is gone is a success");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_an_object_until_it_is_taken_away() {
    let world = World::start().await;
    world.create(KARPENTER, "NodeClaim", claim("c")).await;
    let target = seen(&world, "c").await;
    let held = world
        .writer
        .add_finalizer::<NodeClaim>(&target, &[], FINALIZER)
        .await
        .unwrap()
        .unwrap();
    let finalizers = held.metadata.finalizers.clone().unwrap();
    assert_eq!(finalizers, [FINALIZER]);
    let target = Target::object(&held);
    assert!(
        world
            .writer
            .add_finalizer::<NodeClaim>(&target, &finalizers, FINALIZER)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        world
            .writer
            .delete::<NodeClaim>(&target, DeleteHow::default())
            .await
            .unwrap(),
        Deleted::InProgress
    );
    let deleting = world.snapshot().await.claim("c").unwrap().clone();
    assert!(deleting.meta.deleting.is_some());
    let target = Target::of(&deleting.meta);
    let gone = world
        .writer
        .remove_finalizer::<NodeClaim>(&target, &finalizers, FINALIZER)
        .await
        .unwrap();
    assert_eq!(gone, Deleted::Gone);
    assert!(world.snapshot().await.claim("c").is_none(), "at once");
    let again = world
        .writer
        .remove_finalizer::<NodeClaim>(&target, &finalizers, FINALIZER)
        .await
        .unwrap();
    assert_eq!(again, Deleted::Gone);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_for_the_user_to_hear() {
    let world = World::start().await;
    world.create(KARPENTER, "NodeClaim", claim("c")).await;
    let target = seen(&world, "c").await;
    let status = json!({ "status": { "providerID": 7 } });
    let error = world
        .writer
        .patch_status::<NodeClaim>(&target, status, Lock::None)
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::TellTheUser);
    world.faults([FaultRule::new(Fault::TooManyRequests { retry_after: 3 }, 1.0).verbs(&[Verb::Patch])]);
    let started = Instant::now();
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let error = world
        .writer
        .patch::<NodeClaim>(&target, patch, Lock::None)
        .await
        .unwrap_err();
    assert!(matches!(error.remedy(), Remedy::TryAgain { .. }));
    assert_eq!(
        started.elapsed(),
        Duration::ZERO,
        "a write is never repeated by the client"
    );
}

// architecture §3.5: as for a process that was frozen while it connected
#[tokio::test(start_paused = true)]
async fn a_write_whose_time_is_over_before_it_leaves_stays_here() {
    let world = World::start().await;
    let before = writes(&world);
    let connecting = Leadership::always().write_timeout();
    let inner = world.api.client_as(OPERATOR, &["system:masters"]);
    let slow = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        async move {
            tokio::time::sleep(connecting).await;
            inner.send(request).await
        }
    });
    let client = ApiClient::over(
        kube::Client::new(slow, "default"),
        Limits::default(),
        world.border_metrics.clone(),
    );
    let error = world.writer_over(client).create(&typed_claim("c")).await.unwrap_err();
    assert!(matches!(error.cause(), Cause::UnknownOutcome(_)), "{error}");
    seconds(10).await;
    assert_eq!(writes(&world), before);
}
