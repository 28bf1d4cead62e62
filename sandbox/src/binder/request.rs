//! What a pod asks of a node: the largest of what its phases need, plus overhead.

use super::amount::units;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Amounts by resource: cpu in thousandths, all others whole.
pub(crate) type Amounts = BTreeMap<String, i64>;

/// What a container that names no request counts as when nodes are compared.
const SMALL_CPU: i64 = 100;
const SMALL_MEMORY: i64 = 200 * 1024 * 1024;

/// Reads a list of quantities.
pub(crate) fn amounts(list: &BTreeMap<String, Quantity>) -> Amounts {
    list.iter()
        .map(|(name, quantity)| (name.clone(), units(name, &quantity.0)))
        .collect()
}

fn requests(container: &Container) -> Amounts {
    let Some(resources) = &container.resources else {
        return Amounts::new();
    };
    // A limit without a request is the request; the API server writes that down, objects made by hand may lack it.
    let mut all = resources.limits.as_ref().map(amounts).unwrap_or_default();
    all.extend(resources.requests.as_ref().map(amounts).unwrap_or_default());
    all
}

pub(crate) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let slot = total.entry(name.clone()).or_default();
        *slot = slot.saturating_add(*amount);
    }
}

pub(crate) fn subtract(total: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        let slot = total.entry(name.clone()).or_default();
        *slot = slot.saturating_sub(*amount);
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let slot = total.entry(name.clone()).or_default();
        *slot = (*slot).max(*amount);
    }
}

fn sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn of_phases(spec: &PodSpec, requests: impl Fn(&Container) -> Amounts) -> Amounts {
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &requests(container));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        if sidecar(container) {
            add(&mut sidecars, &requests(container));
            raise(&mut starting, &sidecars);
        } else {
            // An init container runs beside the sidecars that were started before it.
            let mut now = sidecars.clone();
            add(&mut now, &requests(container));
            raise(&mut starting, &now);
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &starting);
    running
}

/// What must be free on a node.
pub(crate) fn pod_requests(spec: &PodSpec) -> Amounts {
    let mut total = of_phases(spec, requests);
    if let Some(whole) = &spec.resources {
        // Set for the pod as a whole, these replace the sum of the containers.
        let mut own = whole.limits.as_ref().map(amounts).unwrap_or_default();
        own.extend(whole.requests.as_ref().map(amounts).unwrap_or_default());
        total.extend(own.into_iter().filter(|(name, _)| pod_level(name)));
    }
    if let Some(overhead) = &spec.overhead {
        add(&mut total, &amounts(overhead));
    }
    total
}

fn pod_level(resource: &str) -> bool {
    resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-")
}

/// The same for comparing nodes, where a container without requests counts as small and not as nothing.
pub(crate) fn scored_requests(spec: &PodSpec) -> (i64, i64) {
    let at_least = |container: &Container| {
        let mut own = requests(container);
        own.entry("cpu".into()).or_insert(SMALL_CPU);
        own.entry("memory".into()).or_insert(SMALL_MEMORY);
        own
    };
    let total = of_phases(spec, at_least);
    let exact = pod_requests(spec);
    let pick = |name: &str| {
        let whole = spec
            .resources
            .as_ref()
            .and_then(|r| r.requests.as_ref())
            .is_some_and(|r| r.contains_key(name));
        let from = if whole { &exact } else { &total };
        from.get(name).copied().unwrap_or(0)
    };
    (pick("cpu"), pick("memory"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(value: Value) -> PodSpec {
        serde_json::from_value(value).unwrap()
    }

    fn cpu(name: &str, amount: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": amount}}})
    }

    fn with(mut container: Value, key: &str, value: Value) -> Value {
        container[key] = value;
        container
    }

    #[test]
    fn containers_add_up_and_a_limit_stands_for_a_request() {
        let spec = spec(
            json!({"containers": [cpu("a", "100m"), {"name": "b", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}),
        );
        let total = pod_requests(&spec);
        assert_eq!((total["cpu"], total["memory"]), (1100, 1 << 30));
    }

    #[test]
    fn init_containers_count_by_the_largest_with_the_sidecars_before_them() {
        let sidecar = |amount| with(cpu("s", amount), "restartPolicy", json!("Always"));
        let spec = spec(json!({"containers": [cpu("a", "100m")],
            "initContainers": [cpu("i1", "300m"), sidecar("200m"), cpu("i2", "250m"), sidecar("50m")]}));
        // i2 with the first sidecar needs 450m; afterwards a and both sidecars need 350m.
        assert_eq!(pod_requests(&spec)["cpu"], 450);
    }

    #[test]
    fn pod_level_requests_replace_the_sum_and_overhead_comes_on_top() {
        let spec = spec(
            json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}],
            "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "250m"}}),
        );
        let total = pod_requests(&spec);
        assert_eq!((total["cpu"], total["nvidia.com/gpu"]), (3250, 1));
    }

    #[test]
    fn a_container_without_requests_counts_as_small_in_scores_only() {
        let spec = spec(json!({"containers": [{"name": "a"}]}));
        assert!(pod_requests(&spec).is_empty());
        assert_eq!(scored_requests(&spec), (SMALL_CPU, SMALL_MEMORY));
    }
}
