//! Odd values: each renders something that works, or is refused with one sentence.

use super::chart::{objects, of_kind, template};
use serde_json::{Value, json};
use std::path::Path;

const USUAL: &str = "spot: {cloudspaceName: my-cloudspace, existingSecret: mine}\n";

fn file(name: &str, values: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("values");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.yaml"));
    std::fs::write(&path, values).unwrap();
    path.display().to_string()
}

/// What these values render to; the usual ones lie under them.
fn rendered(name: &str, values: &str) -> Result<Vec<Value>, String> {
    let (usual, odd) = (file(&format!("{name}-usual"), USUAL), file(name, values));
    let yaml = template(&["--values", &usual, "--values", &odd])?;
    Ok(objects(&yaml))
}

fn pod(rendered: &[Value]) -> Value {
    of_kind(rendered, "Deployment")[0]["spec"]["template"]["spec"].clone()
}

fn variable(rendered: &[Value], name: &str) -> Value {
    let env = pod(rendered)["containers"][0]["env"].clone();
    let found: Vec<Value> = env
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["name"] == name)
        .cloned()
        .collect();
    assert!(found.len() < 2, "{name} comes twice");
    found.first().map_or(Value::Null, |one| one["value"].clone())
}

/// All keys of `values.yaml`, those of maps with a dot.
fn keys() -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/karpenter/values.yaml"));
    let values: Value = serde_saphyr::from_str(&text.unwrap()).unwrap();
    let mut keys = Vec::new();
    for (name, value) in values.as_object().unwrap() {
        keys.push(name.clone());
        let parts = value.as_object().into_iter().flatten();
        keys.extend(parts.map(|(part, _)| format!("{name}.{part}")));
    }
    keys
}

/// An empty key in a values file is a null.
#[test]
fn a_key_without_a_value_is_as_good_as_none() {
    let usual = rendered("nothing", "").unwrap();
    // what a null takes away, as everywhere with helm
    let taken = ["resources", "podSecurityContext", "priorityClassName", "strategy"];
    let mut all = json!({});
    for key in keys() {
        let part = key.split('.').next().unwrap();
        if part == "spot" || taken.contains(&part) {
            continue;
        }
        match key.split_once('.') {
            None => all[part] = Value::Null,
            Some((part, _)) if all[part].is_null() => {}
            Some((part, name)) => all[part][name] = Value::Null,
        }
    }
    assert_eq!(
        rendered("nulls", &all.to_string()).unwrap(),
        usual,
        "each key alone without a value"
    );
    // and within the maps
    let mut deep = json!({});
    for key in keys() {
        if let Some((part, name)) = key.split_once('.')
            && part != "spot"
            && !taken.contains(&part)
        {
            deep[part][name] = Value::Null;
        }
    }
    assert_eq!(rendered("deep-nulls", &deep.to_string()).unwrap(), usual);
    for key in taken {
        let without = rendered(&format!("no-{key}"), &format!("{key}:\n")).unwrap();
        assert_ne!(without, usual, "{key}: null takes it away");
    }
}

#[test]
fn values_that_are_written_oddly_become_what_was_meant() {
    let numeric = rendered("numeric", "spot: {cloudspaceName: 12345678}\nimage: {tag: 20260101}\n").unwrap();
    assert_eq!(variable(&numeric, "SPOT_CLOUDSPACE_NAME"), "12345678");
    assert_eq!(
        pod(&numeric)["containers"][0]["image"],
        "karpenter-provider-rackspace-spot:20260101"
    );
    // an API server takes texts only
    let extra = "extraEnv: [{name: KUBE_CLIENT_QPS, value: 12000000}, {name: ENABLE_PROFILING, value: true}, {name: EMPTY, value: }, {name: RATIO, value: 0.5}]\n";
    let extra = rendered("extra", extra).unwrap();
    assert_eq!(variable(&extra, "KUBE_CLIENT_QPS"), "12000000");
    assert_eq!(variable(&extra, "ENABLE_PROFILING"), "true");
    assert_eq!(variable(&extra, "EMPTY"), "");
    assert_eq!(variable(&extra, "RATIO"), "0.5");
    // an API server refuses the one with the other
    let strategy = |name: &str, values: &str| {
        let made = rendered(name, values).unwrap();
        of_kind(&made, "Deployment")[0]["spec"]["strategy"].clone()
    };
    let recreate = json!({ "type": "Recreate" });
    assert_eq!(strategy("recreate", "strategy: {type: Recreate}\n"), recreate);
    // one that waits for no lease makes room before the next comes
    let alone = "operator: {disableLeaderElection: true}\n";
    let room = json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } });
    assert_eq!(strategy("alone", alone), room);
    assert_eq!(
        strategy("alone-recreate", &format!("{alone}strategy: {{type: Recreate}}\n")),
        recreate
    );
}

// surface T16, §6.2
#[test]
fn a_token_counts_wherever_the_process_would_find_it_and_nowhere_else() {
    const NONE: &str = "spot: {existingSecret: }\n";
    let token = |name: &str, more: &str| rendered(name, &format!("{NONE}{more}"));
    for (number, more) in [
        "extraEnv: [{name: SPOT_REFRESH_TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}]",
        "extraEnv: [{name: refreshToken, valueFrom: {secretKeyRef: {name: a, key: b}}}]",
        "extraEnv: [{name: SPOT_REFRESH_TOKEN_FILE, value: /token}]",
        "extraEnv: [{name: SPOT_ACCESS_TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}]",
        "extraEnvFrom: [{secretRef: {name: a}}]",
    ]
    .iter()
    .enumerate()
    {
        token(&format!("token-{number}"), more).unwrap_or_else(|error| panic!("{more}: {error}"));
    }
    for (number, more) in [
        "",
        "extraEnvFrom: [{configMapRef: {name: a}}]",
        "extraEnv: [{name: SPOT_REFRESH_TOKEN, value: \"\"}]",
        "extraEnv: [{name: SOMETHING_ELSE, value: x}]",
    ]
    .iter()
    .enumerate()
    {
        let error = token(&format!("no-token-{number}"), more).unwrap_err();
        assert!(
            error.contains("Set spot.refreshToken, or spot.existingSecret"),
            "{more}: {error}"
        );
    }
}

/// surface §7.3: the Role follows the lease that the process asks for.
#[test]
fn the_role_allows_the_lease_that_the_process_asks_for() {
    let own = "LEADER_ELECTION_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}";
    for (number, (values, name, namespace)) in [
        ("", "karpenter-leader-election", "karpenter"),
        ("operator: {leaderElectionName: ours}", "ours", "karpenter"),
        ("extraEnv: [{name: LEADER_ELECTION_NAME, value: mine}]", "mine", "karpenter"),
        (
            "operator: {leaderElectionName: ours}\nextraEnv: [{name: LEADER_ELECTION_NAME, value: mine}, {name: LEADER_ELECTION_NAMESPACE, value: leases}]",
            "mine",
            "leases",
        ),
        ("extraEnv: [{name: LEADER_ELECTION_NAMESPACE, value: \"\"}]", "karpenter-leader-election", "karpenter"),
        (&format!("extraEnv: [{{name: {own}}}]"), "karpenter-leader-election", "karpenter"),
    ]
    .into_iter()
    .enumerate()
    {
        let made = rendered(&format!("lease-{number}"), values).unwrap();
        let role = of_kind(&made, "Role")[0];
        assert_eq!(role["rules"][0]["resourceNames"], json!([name]), "{values}");
        assert_eq!(variable(&made, "LEADER_ELECTION_NAME"), name, "{values}");
        for object in [role, of_kind(&made, "RoleBinding")[0]] {
            assert_eq!(object["metadata"]["namespace"], namespace, "{values}");
        }
        assert_eq!(of_kind(&made, "RoleBinding")[0]["subjects"][0]["namespace"], "karpenter");
    }
}

#[test]
fn what_cannot_go_well_is_refused_with_one_sentence() {
    const TWO_WRITERS: &str = "Without leader election every replica buys servers on its own: set replicaCount to 1, or operator.disableLeaderElection to false.";
    for (number, (values, sentence)) in [
        ("replicaCount: 2\noperator: {disableLeaderElection: true}", TWO_WRITERS),
        ("replicaCount: 2\nextraEnv: [{name: DISABLE_LEADER_ELECTION, value: \"true\"}]", TWO_WRITERS),
        (
            "extraEnv: [{name: LEADER_ELECTION_NAME, valueFrom: {configMapKeyRef: {name: a, key: b}}}]",
            "Give LEADER_ELECTION_NAME in extraEnv as a plain value, or set operator.leaderElectionName: the Role has to name the lease.",
        ),
        (
            "extraEnv: [{name: LEADER_ELECTION_NAMESPACE, valueFrom: {configMapKeyRef: {name: a, key: b}}}]",
            "Give LEADER_ELECTION_NAMESPACE in extraEnv as a plain value: the Role for the lease has to be in that namespace.",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let error = rendered(&format!("refused-{number}"), values).unwrap_err();
        assert!(error.contains(sentence), "{values}: {error}");
    }
    // a variable wins over the value, also when it says the harmless thing
    let both = "replicaCount: 2\noperator: {disableLeaderElection: true}\nextraEnv: [{name: DISABLE_LEADER_ELECTION, value: \"false\"}]";
    rendered("harmless", both).unwrap();
}
