use super::*;
use crate::clock::TokioClock;
use crate::cluster::entries::{NamespaceEntry, Reader};
use crate::cluster::{Kind, Object, Source, Version, What};
use std::collections::BTreeSet;
use std::sync::Mutex;

fn namespace(name: &str, version: u64) -> Object {
    let json = serde_json::json!({ "metadata": { "name": name, "uid": name, "resourceVersion": version.to_string() } });
    Object::Namespace(Arc::new(NamespaceEntry::read(
        serde_json::from_value(json).unwrap(),
        &mut Reader::new(),
    )))
}

fn started() -> NewClusterTask {
    let clock = Arc::new(TokioClock::starting_at(DateTime::UNIX_EPOCH));
    let cluster = Cluster::new([Source::of(Kind::Namespace)], Arc::new(|_| None), DateTime::UNIX_EPOCH);
    ClusterTask::new(cluster, clock, BorderMetrics::detached().unwrap())
}

fn listed(objects: Vec<Object>) -> Delta {
    let (source, version) = (Source::of(Kind::Namespace), Version::of(10));
    Delta::Listed {
        source,
        version,
        began: DateTime::UNIX_EPOCH,
        objects,
        unread: BTreeSet::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_holds_all_that_was_told_before_and_is_shared_while_nothing_moves() {
    let NewClusterTask { task, handle, .. } = started();
    let stop = CancellationToken::new();
    let running = tokio::spawn(task.run(stop.clone()));
    assert!(!handle.is_complete());
    handle.observe(listed(vec![namespace("a", 5)])).await.unwrap();
    handle.assume(Assumption::Written(namespace("b", 11))).await.unwrap();
    let first = handle.snapshot().await.unwrap();
    assert_eq!(first.objects.namespaces.len(), 2);
    assert!(first.complete && handle.is_complete());
    handle.completed().await.unwrap();
    let second = handle.snapshot().await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    handle.observe(Delta::Applied(namespace("a", 12))).await.unwrap();
    let third = handle.snapshot().await.unwrap();
    assert_eq!(third.revision, first.revision, "only the version moved");
    stop.cancel();
    running.await.unwrap();
    assert!(handle.snapshot().await.is_err(), "closed");
}

#[tokio::test(start_paused = true)]
async fn triggers_hear_of_each_change_and_revisions_move() {
    let NewClusterTask { mut task, handle, .. } = started();
    let heard: Arc<Mutex<Vec<(String, What)>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    task.on_change(move |change, _| hearing.lock().unwrap().push((change.key.to_string(), change.what)));
    let stop = CancellationToken::new();
    let running = tokio::spawn(task.run(stop.clone()));
    let mut revisions = handle.revisions();
    revisions.mark_unchanged();
    handle.observe(listed(vec![namespace("a", 5)])).await.unwrap();
    handle.observe(Delta::Applied(namespace("b", 6))).await.unwrap();
    let (kind, uid, version) = (Kind::Namespace, "a".into(), Version::of(7));
    let key = crate::cluster::Key::cluster("a");
    handle
        .observe(Delta::Deleted {
            kind,
            key,
            uid,
            version,
        })
        .await
        .unwrap();
    revisions.changed().await.unwrap();
    handle.snapshot().await.unwrap();
    let told: Vec<(String, What)> = heard.lock().unwrap().clone();
    assert_eq!(
        told,
        [
            ("a".into(), What::Appeared),
            ("b".into(), What::Appeared),
            ("a".into(), What::Gone)
        ]
    );
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_no_watch_confirms_is_handed_out_to_be_read() {
    let NewClusterTask {
        task,
        handle,
        mut doubts,
    } = started();
    let stop = CancellationToken::new();
    let running = tokio::spawn(task.run(stop.clone()));
    handle.observe(listed(Vec::new())).await.unwrap();
    handle.assume(Assumption::Written(namespace("b", 11))).await.unwrap();
    let asked = tokio::time::Instant::now();
    let doubt = doubts.recv().await.unwrap();
    assert_eq!((doubt.kind, doubt.key.to_string()), (Kind::Namespace, "b".to_owned()));
    let waited = asked.elapsed();
    assert!(
        waited >= Duration::from_secs(30) && waited <= Duration::from_secs(35),
        "{waited:?}"
    );
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_quiet_task_keeps_the_state_and_tells_everything_once_it_begins() {
    let NewClusterTask { task, handle, .. } = started();
    let mut task = task.quiet();
    let heard: Arc<Mutex<Vec<(String, What)>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    task.on_change(move |change, _| hearing.lock().unwrap().push((change.key.to_string(), change.what)));
    let stop = CancellationToken::new();
    let running = tokio::spawn(task.run(stop.clone()));
    handle
        .observe(listed(vec![namespace("b", 5), namespace("a", 5), namespace("c", 5)]))
        .await
        .unwrap();
    handle
        .observe(listed(vec![namespace("b", 5), namespace("a", 5)]))
        .await
        .unwrap();
    assert_eq!(handle.snapshot().await.unwrap().objects.namespaces.len(), 2);
    assert!(heard.lock().unwrap().is_empty(), "{heard:?}");
    handle.begin().await.unwrap();
    // a second begin repeats nothing
    handle.begin().await.unwrap();
    handle.assume(Assumption::Written(namespace("d", 11))).await.unwrap();
    handle.snapshot().await.unwrap();
    let expected = ["a", "b", "d"].map(|name| (name.to_owned(), What::Appeared));
    assert_eq!(*heard.lock().unwrap(), expected);
    stop.cancel();
    running.await.unwrap();
}
