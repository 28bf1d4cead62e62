//! Namespaces, DaemonSets, and pods: those that are bound and those to place.

use crate::case::{Case, Themes, object};
use crate::constraints::{self, Labelled};
use crate::dice::Dice;
use crate::machines::GPU;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde_json::{Map, Value, json};

/// The RuntimeClass whose pods have an overhead.
pub const SANDBOXED: &str = "cross-check-sandboxed";

/// Two namespaces, told apart by a label.
pub fn namespaces(seed: u64) -> Vec<Namespace> {
    let namespace = |name: &str, env: &str| {
        object(json!({
            "metadata": {"name": format!("s{seed}-{name}"), "labels": {"env": env}},
        }))
    };
    vec![namespace("a", "prod"), namespace("b", "dev")]
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

/// DaemonSets that run everywhere, or where tolerated and selected.
pub fn daemon_sets(dice: &mut Dice, seed: u64) -> Vec<DaemonSet> {
    let mut sets = Vec::new();
    for at in 0..dice.between(1, 2) {
        let mut spec = json!({"containers": [{"name": "main", "image": "daemon", "resources": requests(dice.pick::<&str>(&["100m", "300m"]), "128Mi")}]});
        if dice.chance(50) {
            spec["tolerations"] = json!([{"operator": "Exists"}]);
        }
        if dice.chance(40) {
            spec["nodeSelector"] = json!({"kubernetes.io/arch": "amd64"});
        }
        if dice.chance(20) {
            spec["containers"][0]["ports"] = json!([{"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"}]);
        }
        let name = format!("d{at}");
        sets.push(object(json!({
            "metadata": {"name": name, "namespace": format!("s{seed}-a")},
            "spec": {"selector": {"matchLabels": {"daemon": name}}, "template": {"metadata": {"labels": {"daemon": name}}, "spec": spec}},
        })));
    }
    sets
}

/// The pod of a DaemonSet on a machine.
pub fn daemon_pod(set: &DaemonSet, node: &str) -> Pod {
    let template = &set.spec.as_ref().unwrap().template;
    let set_name = set.metadata.name.as_deref().unwrap();
    let mut pod = Pod {
        metadata: template.metadata.clone().unwrap_or_default(),
        spec: template.spec.clone(),
        ..Pod::default()
    };
    let name = format!("{set_name}-{node}");
    pod.metadata.uid = Some(name.clone());
    pod.metadata.name = Some(name);
    pod.metadata.namespace.clone_from(&set.metadata.namespace);
    pod.metadata.owner_references = Some(vec![object(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": set_name, "uid": set_name, "controller": true,
    }))]);
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    pod
}

/// What a container asks for: mostly requests alone, sometimes limits with them, sometimes a rare resource.
fn resources(dice: &mut Dice, themes: Themes) -> Value {
    let cpu = *dice.pick(&["100m", "250m", "500m", "1", "1500m", "2"]);
    let memory = *dice.pick(&["128Mi", "512Mi", "1Gi", "1500M", "3Gi"]);
    let mut own = requests(cpu, memory);
    if themes.odd_requests && dice.chance(15) {
        own["requests"]["ephemeral-storage"] = json!("5Gi");
    }
    if themes.odd_requests && dice.chance(15) {
        own["requests"][GPU] = json!("1");
        own["limits"] = json!({GPU: "1"});
    }
    own
}

fn containers(dice: &mut Dice, themes: Themes, spec: &mut Value) {
    spec["containers"] = json!([{"name": "main", "image": "main", "resources": resources(dice, themes)}]);
    if !themes.odd_requests {
        return;
    }
    if dice.chance(20) {
        let mut starting = vec![
            json!({"name": "first", "image": "i", "resources": requests(dice.pick::<&str>(&["1", "3"]), "256Mi")}),
        ];
        let side =
            json!({"name": "side", "image": "i", "restartPolicy": "Always", "resources": requests("300m", "200Mi")});
        starting.insert(dice.below(2), side);
        spec["initContainers"] = json!(starting);
    }
    if dice.chance(15) {
        spec["runtimeClassName"] = json!(SANDBOXED);
        spec["overhead"] = json!({"cpu": "250m", "memory": "64Mi"});
    }
    if dice.chance(10) {
        spec["resources"] = requests("3500m", "4Gi");
    }
}

fn host_ports(dice: &mut Dice, spec: &mut Value) {
    let port = *dice.pick(&[8080, 9100]);
    let mut one = json!({"containerPort": port, "hostPort": port, "protocol": *dice.pick(&["TCP", "UDP"])});
    if dice.chance(30) {
        one["hostIP"] = json!(*dice.pick(&["127.0.0.1", "10.0.0.1"]));
    }
    spec["containers"][0]["ports"] = json!([one]);
}

/// What the pods of a workload have in common.
struct Workload {
    namespace: String,
    name: String,
    labels: Map<String, Value>,
    spec: Value,
    mounts: Mounts,
}

/// Where the data of a workload's pods is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mounts {
    Nothing,
    /// A claim for each pod.
    Own,
    /// A generic ephemeral volume: the claim comes and goes with its pod.
    Ephemeral,
    /// One claim for all, which waits for the first of them.
    Shared,
}

impl Mounts {
    fn roll(dice: &mut Dice, themes: Themes) -> Self {
        if !themes.volumes {
            return Self::Nothing;
        }
        match dice.below(20) {
            0..=9 => Self::Nothing,
            10..=14 => Self::Own,
            15..=18 => Self::Ephemeral,
            _ => Self::Shared,
        }
    }
}

impl Workload {
    fn roll(dice: &mut Dice, themes: Themes, seed: u64, at: usize) -> Self {
        let namespace = format!("s{seed}-{}", dice.pick(&["a", "a", "b"]));
        let name = format!("w{at}");
        let mut own = Map::new();
        own.insert("app".to_owned(), json!(name));
        own.insert("group".to_owned(), json!(*dice.pick(&["g0", "g1"])));
        if dice.chance(30) {
            own.insert("rev".to_owned(), json!(*dice.pick(&["1", "2"])));
        }
        let mut spec = json!({"terminationGracePeriodSeconds": 3600});
        containers(dice, themes, &mut spec);
        if themes.ports && dice.chance(40) {
            host_ports(dice, &mut spec);
        }
        let labelled = Labelled {
            app: &name,
            group: own["group"].as_str().unwrap(),
            seed,
        };
        constraints::add(dice, themes, &labelled, &mut spec);
        Self {
            namespace,
            name,
            labels: own,
            spec,
            mounts: Mounts::roll(dice, themes),
        }
    }

    fn pod(&self, name: &str) -> Value {
        json!({
            "metadata": {
                "namespace": self.namespace, "name": name, "uid": format!("{}/{name}", self.namespace), "labels": self.labels,
            },
            "spec": self.spec,
            "status": {"phase": "Pending"},
        })
    }
}

/// Fills a case with workloads: some of their pods are bound already, the others are to be placed.
pub fn fill(dice: &mut Dice, themes: Themes, case: &mut Case) {
    bind_daemons(dice, case);
    for at in 0..dice.between(2, 5) {
        let workload = Workload::roll(dice, themes, case.seed, at);
        if !case.machines.is_empty() && dice.chance(60) {
            for number in 0..dice.between(1, 2) {
                bind(dice, themes, &workload, number, case);
            }
        }
        for number in 0..dice.between(1, 5) {
            let pod = to_place(dice, &workload, number, case);
            case.pods.push(object(pod));
        }
    }
}

fn to_place(dice: &mut Dice, workload: &Workload, number: usize, case: &mut Case) -> Value {
    let name = format!("{}-{number}", workload.name);
    let mut pod = workload.pod(&name);
    match workload.mounts {
        Mounts::Nothing => {}
        Mounts::Own => {
            let claim = format!("{name}-data");
            case.add_claim(dice, &workload.namespace, &claim, false);
            mount(&mut pod, &claim);
        }
        Mounts::Ephemeral => case.add_ephemeral(dice, &mut pod),
        Mounts::Shared => {
            let claim = format!("{}-shared", workload.name);
            if number == 0 {
                case.add_waiting(dice, &workload.namespace, &claim);
            }
            mount(&mut pod, &claim);
        }
    }
    pod
}

fn mount(pod: &mut Value, claim: &str) {
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
}

/// Binds a pod of a workload to a machine that has a Node, whatever its own rules say: rules are for the time of placing only.
fn bind(dice: &mut Dice, themes: Themes, workload: &Workload, number: usize, case: &mut Case) {
    let joined: Vec<String> = case
        .machines
        .iter()
        .filter(|machine| machine.joined)
        .map(|machine| machine.node.metadata.name.clone().unwrap())
        .collect();
    if joined.is_empty() {
        return;
    }
    let name = format!("{}-old-{number}", workload.name);
    let mut pod = workload.pod(&name);
    pod["spec"]["nodeName"] = json!(dice.pick(&joined));
    // Small, so that a machine has room for more.
    pod["spec"]["containers"][0]["resources"] = requests("100m", "64Mi");
    for heavy in ["initContainers", "overhead", "runtimeClassName", "resources"] {
        pod["spec"].as_object_mut().unwrap().remove(heavy);
    }
    pod["status"]["phase"] = json!(*dice.pick(&["Running", "Running", "Running", "Succeeded"]));
    if workload.mounts != Mounts::Nothing && dice.chance(60) {
        if workload.mounts == Mounts::Ephemeral {
            case.add_ephemeral(dice, &mut pod);
        } else {
            let claim = format!("{name}-data");
            case.add_claim(dice, &workload.namespace, &claim, true);
            mount(&mut pod, &claim);
        }
    }
    if themes.leaving && pod["status"]["phase"] == "Running" && dice.chance(40) {
        pod["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = pod["spec"]["terminationGracePeriodSeconds"].clone();
    }
    case.bound.push(object(pod));
}

/// On some machines the daemons run already.
fn bind_daemons(dice: &mut Dice, case: &mut Case) {
    for set in &case.daemon_sets {
        for machine in case.machines.iter().filter(|machine| machine.joined) {
            let name = machine.node.metadata.name.as_deref().unwrap();
            if dice.chance(50) && crate::binder::suits(&daemon_pod(set, name), &machine.node) {
                let mut pod = daemon_pod(set, name);
                pod.status.get_or_insert_default().phase = Some("Running".to_owned());
                case.bound.push(pod);
            }
        }
    }
}
