//! What a seed runs: deployments, stateful sets, daemon sets, with what users ask of the scheduler.

use super::draw::Draw;
use serde_json::{Value, json};

/// Whether an app's pods must have a node when all trouble is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hope {
    /// They must.
    Certain,
    /// They must, or somebody says why not.
    Explained,
    /// They follow nodes and ask for none.
    Follower,
}

/// One app.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct App {
    /// Its name and the value of its pods' label `app`.
    pub(super) name: String,
    /// What [`crate::world::World::scale`] takes; none for daemon sets.
    pub(super) target: Option<String>,
    /// Replicas at first.
    pub(super) replicas: u32,
    /// Whether it must run in the end.
    pub(super) hope: Hope,
    /// What is applied.
    pub(super) objects: Vec<Value>,
}

/// The apps.
pub(super) fn apps(seed: u64) -> Vec<App> {
    let mut draw = Draw::of(seed, "apps");
    let number = draw.between(1, 3);
    let mut apps: Vec<App> = (0..number)
        .map(|n| deployment(&mut draw, &format!("web-{n}")))
        .collect();
    if draw.chance(0.4) {
        apps.push(stateful_set(&mut draw, "db"));
    }
    if draw.chance(0.3) {
        apps.push(daemon_set("agent"));
    }
    if draw.chance(0.2) {
        apps.push(impossible("odd"));
    }
    apps
}

fn deployment(draw: &mut Draw, name: &str) -> App {
    let replicas = draw.count(1, 5);
    let mut spec = pod_spec(draw);
    let mut hope = Hope::Certain;
    match draw.between(0, 6) {
        0 => spec["topologySpreadConstraints"] = spread(name, "DoNotSchedule"),
        1 => spec["topologySpreadConstraints"] = spread(name, "ScheduleAnyway"),
        2 => {
            spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}]);
        }
        3 => {
            spec["nodeSelector"] = json!({"pool": "limited"});
            hope = Hope::Explained;
        }
        4 => {
            spec["nodeSelector"] = json!({"pool": "reserved"});
            spec["tolerations"] = json!([{"key": "reserved", "operator": "Exists"}]);
            hope = Hope::Explained;
        }
        _ => {}
    }
    let mut annotations = json!({});
    if draw.chance(0.1) {
        annotations = json!({"karpenter.sh/do-not-disrupt": "true"});
    }
    let mut objects = vec![json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}},
    })];
    if draw.chance(0.4) {
        objects.push(budget(draw, name));
    }
    App {
        name: name.into(),
        target: Some(format!("deployment/{name}")),
        replicas,
        hope,
        objects,
    }
}

fn pod_spec(draw: &mut Draw) -> Value {
    let cpu = draw.one_of(["250m", "500m", "1", "1500m", "2500m"]);
    let memory = draw.one_of(["256Mi", "512Mi", "1Gi", "3Gi"]);
    json!({
        "terminationGracePeriodSeconds": draw.one_of([0, 5, 30]),
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
    })
}

fn spread(app: &str, otherwise: &str) -> Value {
    json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": otherwise,
        "labelSelector": {"matchLabels": {"app": app}}}])
}

fn budget(draw: &mut Draw, app: &str) -> Value {
    let spec = match draw.between(0, 2) {
        0 => json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}}),
        1 => json!({"minAvailable": "50%", "selector": {"matchLabels": {"app": app}}}),
        _ => json!({"maxUnavailable": "100%", "selector": {"matchLabels": {"app": app}}}),
    };
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": spec})
}

fn stateful_set(draw: &mut Draw, name: &str) -> App {
    let replicas = draw.count(1, 2);
    let mut spec = json!({"replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": {
        "metadata": {"labels": {"app": name}}, "spec": pod_spec(draw)}});
    if draw.chance(0.6) {
        spec["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}}}}]);
    }
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec});
    App {
        name: name.into(),
        target: Some(format!("statefulset/{name}")),
        replicas,
        hope: Hope::Certain,
        objects: vec![set],
    }
}

fn daemon_set(name: &str) -> App {
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
            "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "agent:1",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}}}});
    App {
        name: name.into(),
        target: None,
        replicas: 0,
        hope: Hope::Follower,
        objects: vec![set],
    }
}

/// Nobody sells a machine for this.
fn impossible(name: &str) -> App {
    let spec = json!({"nodeSelector": {"node.kubernetes.io/instance-type": "no.such.class"},
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}]});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": spec}}});
    App {
        name: name.into(),
        target: Some(format!("deployment/{name}")),
        replicas: 1,
        hope: Hope::Explained,
        objects: vec![deployment],
    }
}
