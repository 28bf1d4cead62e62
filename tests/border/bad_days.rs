//! Dropped watches, stale lists, compaction, faults: nothing is lost, nothing is undone.

use crate::world::{KARPENTER, MINUTE, World, claim, seconds, typed_claim};
use karpenter::cluster::{Kind, Source};
use karpenter::k8s::write::Target;
use sandbox::api::{Fault, FaultRule, Verb};
use std::time::Duration;

const CLAIMS: &str = "nodeclaims.karpenter.sh";

fn names(world: &karpenter::cluster::Snapshot) -> Vec<String> {
    world
        .objects
        .claims
        .values()
        .map(|claim| claim.name().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_dropped_again_and_again_lose_nothing() {
    let world = World::start().await;
    let dropped = Fault::DropWatch {
        within: Duration::from_secs(3),
    };
    world.faults([FaultRule::new(dropped, 1.0)]);
    for number in 0..40 {
        world
            .create(KARPENTER, "NodeClaim", claim(&format!("c{number:02}")))
            .await;
        if number % 2 == 1 {
            world
                .delete(KARPENTER, "NodeClaim", &format!("c{:02}", number - 1))
                .await;
        }
        seconds(2).await;
    }
    world
        .until("the odd ones are left", MINUTE, |now| now.objects.claims.len() == 20)
        .await;
    let expected: Vec<String> = (0..20).map(|number| format!("c{:02}", 2 * number + 1)).collect();
    assert_eq!(names(&*world.snapshot().await), expected);
    assert!(world.api.faults_met()["drop_watch"] > 20);
    assert_eq!(
        world.metric("karpenter_watch_relists_total", "NodeClaim"),
        1,
        "a dropped watch goes on, it does not list"
    );
}

#[tokio::test(start_paused = true)]
async fn a_compacted_past_is_answered_by_a_list_that_notices_what_went_meanwhile() {
    let world = World::start().await;
    world.create(KARPENTER, "NodeClaim", claim("goes")).await;
    world.create(KARPENTER, "NodeClaim", claim("stays")).await;
    world
        .until("both are there", MINUTE, |now| now.objects.claims.len() == 2)
        .await;
    // The watches end; before they begin again the past is gone.
    world.faults([
        FaultRule::new(Fault::DropWatch { within: Duration::ZERO }, 1.0),
        FaultRule::new(
            Fault::Slow {
                least: Duration::from_secs(20),
                most: Duration::from_secs(20),
            },
            1.0,
        )
        .verbs(&[Verb::Watch]),
    ]);
    tokio::time::sleep(Duration::from_mins(6)).await;
    world.delete(KARPENTER, "NodeClaim", "goes").await;
    world.create(KARPENTER, "NodeClaim", claim("comes")).await;
    world.api.compact();
    world.faults([]);
    world
        .until("the list is in", 2 * MINUTE, |now| names(now) == ["comes", "stays"])
        .await;
    assert!(world.metric("karpenter_watch_relists_total", "NodeClaim") >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_does_not_undo_what_we_wrote_and_the_truth_comes_out_afterwards() {
    // architecture §3.2
    let world = World::start().await;
    world.create(KARPENTER, "NodeClaim", claim("theirs")).await;
    world
        .until("theirs is there", MINUTE, |now| now.claim("theirs").is_some())
        .await;
    // From now on no event comes, and lists show the past.
    world.faults([
        FaultRule::new(Fault::StaleRead { back: 20 }, 1.0)
            .verbs(&[Verb::List])
            .resources(&[CLAIMS]),
        FaultRule::new(Fault::InternalError, 1.0)
            .verbs(&[Verb::Watch])
            .resources(&[CLAIMS]),
    ]);
    world.writer.create(&typed_claim("ours")).await.unwrap();
    assert_eq!(names(&*world.snapshot().await), ["ours", "theirs"]);
    world.hub.refresh(&[Source::of(Kind::NodeClaim)]).await;
    assert!(world.api.faults_met()["stale_read"] >= 1);
    assert_eq!(
        names(&*world.snapshot().await),
        ["ours", "theirs"],
        "a list of the past ends nothing"
    );
    // Reads of one object are true; the doubts that the list left are looked into.
    world.delete(KARPENTER, "NodeClaim", "theirs").await;
    world
        .until("the read tells that theirs is gone", 2 * MINUTE, |now| {
            names(now) == ["ours"]
        })
        .await;
    world.faults([]);
    world.create(KARPENTER, "NodeClaim", claim("later")).await;
    world
        .until("the watch goes on", 2 * MINUTE, |now| names(now) == ["later", "ours"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_no_watch_confirms_is_read_after_half_a_minute() {
    // architecture §3.2
    let world = World::start().await;
    world.faults([FaultRule::new(Fault::InternalError, 1.0)
        .verbs(&[Verb::Watch, Verb::List])
        .resources(&[CLAIMS])]);
    world.hub.relist(&Source::of(Kind::NodeClaim));
    seconds(1).await;
    let ours = world.writer.create(&typed_claim("ours")).await.unwrap();
    assert_eq!(Target::object(&ours).name, "ours");
    // Somebody deletes it, and nobody tells us.
    world.delete(KARPENTER, "NodeClaim", "ours").await;
    seconds(25).await;
    assert!(
        world.snapshot().await.claim("ours").is_some(),
        "nothing says otherwise yet"
    );
    seconds(15).await;
    assert!(world.snapshot().await.claim("ours").is_none(), "the read said so");
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_bad_weather_ends_with_the_state_equal_to_the_servers() {
    let world = World::start().await;
    world.faults([
        FaultRule::new(
            Fault::DropWatch {
                within: Duration::from_secs(20),
            },
            0.5,
        ),
        FaultRule::new(Fault::InternalError, 0.2),
        FaultRule::new(Fault::TooManyRequests { retry_after: 1 }, 0.1),
        FaultRule::new(
            Fault::Slow {
                least: Duration::ZERO,
                most: Duration::from_secs(2),
            },
            0.2,
        ),
        FaultRule::new(Fault::StaleRead { back: 5 }, 0.1),
    ]);
    for number in 0..120_u64 {
        world
            .create(KARPENTER, "NodeClaim", claim(&format!("c{number:03}")))
            .await;
        if number % 3 == 2 {
            world
                .delete(KARPENTER, "NodeClaim", &format!("c{:03}", number - 1))
                .await;
        }
        if number % 10 == 9 {
            world.api.compact();
        }
        seconds(30).await;
    }
    world.faults([]);
    let expected: Vec<String> = (0..120)
        .filter(|number| number % 3 != 1)
        .map(|number| format!("c{number:03}"))
        .collect();
    world
        .until("the state is the server's", 3 * MINUTE, |now| names(now) == expected)
        .await;
}
