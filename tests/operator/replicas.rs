//! Several operators in one world: only the holder of the lease writes, and whoever takes over has looked before it acts.

use crate::scene::{MINUTE, Role, Scene};
use karpenter::operator::RunError;
use sandbox::api::{ApiFaults, AuditEntry, Fault, FaultRule, Verb};
use std::time::Duration;

const CLAIMS: &str = "nodeclaims.karpenter.sh";
const LEASES: &str = "leases.coordination.k8s.io";

impl Scene {
    fn asked_by(&self, user: &str) -> Vec<AuditEntry> {
        let all = self.world.api().audit();
        all.into_iter().filter(|entry| entry.user == user).collect()
    }

    fn writes_of(&self, user: &str) -> usize {
        self.asked_by(user).iter().filter(|entry| entry.verb.is_write()).count()
    }

    /// Who holds the lease by now.
    fn holder(&self) -> String {
        let leases = self.world.values(LEASES);
        let lease = leases
            .iter()
            .find(|lease| lease["metadata"]["name"] == "karpenter-leader-election");
        lease
            .map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
            .unwrap_or_default()
    }
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn of_two_replicas_only_the_holder_writes_and_when_it_dies_the_other_goes_on() {
    for role in [Role::Cold, Role::Warm] {
        let scene = Scene::start(7).await;
        let first = scene.operator("first", role);
        scene.until("the first leads", 1, |_| scene.holder() == "first_1").await;
        let _second = scene.operator("second", role);
        scene.pods_come(2).await;
        scene.world.pass(10 * MINUTE).await;
        assert!(scene.writes_of("first") > 10);
        assert_eq!(scene.writes_of("second"), 0, "{role:?}");
        let watched = scene
            .asked_by("second")
            .iter()
            .any(|entry| entry.verb == Verb::Watch || entry.verb == Verb::List);
        assert_eq!(watched, role == Role::Warm, "{role:?}");

        first.kill().await;
        let writes_of_first = scene.writes_of("first");
        let started = tokio::time::Instant::now();
        scene
            .until("the second leads", 1, |_| scene.holder() == "second_1")
            .await;
        let took = started.elapsed();
        assert!(took <= Duration::from_secs(16), "{role:?}: {took:?}");
        scene.pods_go().await;
        assert_eq!(scene.writes_of("first"), writes_of_first, "{role:?}");
    }
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_new_leader_lists_what_it_decides_by_after_it_won_and_before_it_writes() {
    for role in [Role::Cold, Role::Warm] {
        let scene = Scene::start(7).await;
        let first = scene.operator("first", role);
        scene.until("the first leads", 1, |_| scene.holder() == "first_1").await;
        let _second = scene.operator("second", role);
        scene.world.pass(MINUTE).await;
        scene.pods_come(1).await;
        first.kill().await;
        scene.pods_go().await;
        let asked = scene.asked_by("second");
        let won = asked
            .iter()
            .position(|entry| entry.verb.is_write() && entry.resource == LEASES)
            .unwrap();
        let after: Vec<&AuditEntry> = asked[won..].iter().collect();
        let acts =
            |entry: &&AuditEntry| entry.verb.is_write() && ![LEASES, "events"].contains(&entry.resource.as_str());
        let first_act = after.iter().position(acts).unwrap();
        for kind in [CLAIMS, "nodepools.karpenter.sh", "nodes", "pods"] {
            let listed = after[..first_act]
                .iter()
                .any(|entry| entry.verb == Verb::List && entry.resource == kind);
            assert!(listed, "{role:?}: {kind} was not listed before the first write");
        }
    }
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_replica_whose_warm_watches_lag_buys_nothing_twice() {
    let scene = Scene::start(7).await;
    let first = scene.operator("first", Role::Warm);
    scene.until("the first leads", 1, |_| scene.holder() == "first_1").await;
    let _second = scene.operator("second", Role::Warm);
    scene.world.pass(10 * Duration::from_secs(1)).await;
    // from here on every new watch of the second ends at once: it sees pods and claims only when it lists
    let deaf = FaultRule::new(Fault::DropWatch { within: Duration::ZERO }, 1.0).users(&["second"]);
    scene.world.api().set_faults(ApiFaults { rules: vec![deaf] });
    scene.world.pass(6 * MINUTE).await;
    scene.world.apply_value(&crate::scene::deployment(2)).await.unwrap();
    scene
        .until("claims are made", 5, |world| world.claims().len() == 2)
        .await;
    first.kill().await;
    scene.world.pass(5 * MINUTE).await;
    scene.world.api().set_faults(ApiFaults::default());
    scene.pods_come(2).await;
    assert_eq!(scene.seen().claims.len(), 2);
}

// architecture §7.18
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_asked_to_stop_gives_the_lease_back_after_its_last_write() {
    let scene = Scene::start(7).await;
    let first = scene.operator("first", Role::Cold);
    scene.pods_come(1).await;
    let _second = scene.operator("second", Role::Cold);
    first.stop.cancel();
    first.task.await.unwrap().unwrap();
    let asked = scene.asked_by("first");
    // the Event that says so may come later: nobody waits for it
    let writes = |entry: &&AuditEntry| entry.verb.is_write() && entry.resource != "events";
    let last = asked.iter().rev().find(writes).unwrap();
    assert_eq!((last.resource.as_str(), last.verb), (LEASES, Verb::Update));
    let started = tokio::time::Instant::now();
    scene
        .until("the second leads", 1, |_| scene.holder() == "second_1")
        .await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    scene.pods_go().await;
}

// architecture §7.18
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_created_at_the_stop_is_created_and_the_lease_given_back() {
    let scene = Scene::start(7).await;
    let first = scene.operator("first", Role::Cold);
    scene.until("the first leads", 1, |_| scene.holder() == "first_1").await;
    scene.world.pass(MINUTE).await;
    let three = Duration::from_secs(3);
    let slow = FaultRule::new(
        Fault::Slow {
            least: three,
            most: three,
        },
        1.0,
    );
    let slow = slow.users(&["first"]).resources(&[CLAIMS]).verbs(&[Verb::Create]);
    scene.world.api().set_faults(ApiFaults { rules: vec![slow] });
    scene.world.apply_value(&crate::scene::deployment(1)).await.unwrap();
    // the pods' window of 1 s is over, and the create under way
    scene.world.pass(Duration::from_millis(2_500)).await;
    first.stop.cancel();
    first.task.await.unwrap().unwrap();
    assert_eq!(scene.world.claims().len(), 1);
    assert_eq!(scene.holder(), "", "the lease was not given back");
}

// surface §6.4
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_writing_and_ends_with_an_error() {
    let scene = Scene::start(7).await;
    let first = scene.operator("first", Role::Cold);
    scene.until("the first leads", 1, |_| scene.holder() == "first_1").await;
    let cut_off = FaultRule::new(Fault::InternalError, 1.0).users(&["first"]);
    scene.world.api().set_faults(ApiFaults { rules: vec![cut_off] });
    let ended = tokio::time::timeout(Duration::from_secs(20), first.task)
        .await
        .unwrap()
        .unwrap();
    let error = ended.unwrap_err();
    assert!(matches!(error, RunError::LeaseLost), "{error:?}");
    assert_eq!(
        (error.exit_code(), error.to_string().as_str()),
        (2, "leader election lost")
    );
}

// surface §6.4
#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_before_the_start_ends_it() {
    let scene = Scene::start(7).await;
    scene
        .world
        .spot()
        .with(|platform| platform.control(sandbox::spot::Control::RevokeToken));
    let operator = scene.operator("first", Role::Alone);
    let error = operator.task.await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::Login(_)), "{error:?}");
    assert_eq!(error.exit_code(), 2);
    assert_eq!(scene.writes_of("first"), 0);
}
