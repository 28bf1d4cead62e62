//! What a pod asks for (scheduling §8), as the Kubernetes scheduler counts it.

use crate::resources::{Quantity, ResourceList, names};
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

/// Which side of a container's resources is summed.
#[derive(Clone, Copy)]
enum Side {
    Requests,
    Limits,
}

impl Side {
    fn of(self, resources: Option<&ResourceRequirements>) -> ResourceList {
        let map = match self {
            Self::Requests => resources.and_then(|r| r.requests.as_ref()),
            Self::Limits => resources.and_then(|r| r.limits.as_ref()),
        };
        ResourceList::from_api(map.into_iter().flatten())
    }
}

/// What the pod asks for, without the implicit `pods: 1` (scheduling 8-1).
pub fn pod_requests(spec: &PodSpec) -> ResourceList {
    effective(spec, Side::Requests)
}

/// What limits the pod; overhead only counts for resources that have a limit (scheduling 8-2).
pub fn pod_limits(spec: &PodSpec) -> ResourceList {
    effective(spec, Side::Limits)
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn effective(spec: &PodSpec, side: Side) -> ResourceList {
    let mut running = ResourceList::new();
    for container in &spec.containers {
        running.add(&side.of(container.resources.as_ref()));
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in spec.init_containers.iter().flatten() {
        let own = side.of(container.resources.as_ref());
        let needed = if is_sidecar(container) {
            running.add(&own);
            sidecars.add(&own);
            sidecars.clone()
        } else {
            own.sum(&sidecars)
        };
        starting = starting.maximum(&needed);
    }
    let mut result = running.maximum(&starting);
    for (name, quantity) in side
        .of(spec.resources.as_ref())
        .iter()
        .filter(|(name, _)| pod_level(name))
    {
        result.set(name, quantity);
    }
    for (name, quantity) in ResourceList::from_api(spec.overhead.iter().flatten()).iter() {
        match (side, result.get(name)) {
            (Side::Limits, own) if own.is_none_or(Quantity::is_zero) => {}
            (_, own) => result.set(name, own.unwrap_or_default() + quantity),
        }
    }
    result
}

/// The resources that may be asked for by the pod as a whole.
fn pod_level(name: &str) -> bool {
    name == names::CPU || name == names::MEMORY || name.starts_with(names::HUGE_PAGES_PREFIX)
}

/// A pod spec in which every container asks for what limits it where it asks for nothing: what the API server does to pods, done for the
/// template of a DaemonSet (scheduling 8-3, 12-1).
pub fn with_limits_as_requests(spec: &PodSpec) -> PodSpec {
    let mut spec = spec.clone();
    for container in spec
        .containers
        .iter_mut()
        .chain(spec.init_containers.iter_mut().flatten())
    {
        if let Some(resources) = &mut container.resources
            && let Some(limits) = &resources.limits
        {
            let requests = resources.requests.get_or_insert_default();
            for (name, limit) in limits {
                requests.entry(name.clone()).or_insert_with(|| limit.clone());
            }
        }
    }
    spec
}
