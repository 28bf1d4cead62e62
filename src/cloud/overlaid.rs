//! A provider whose instance types are shown as the users' NodeOverlays correct them (scheduling §26).
//!
//! A decorator that exists only while the gate NodeOverlay is on. Types of a pool that the overlay controller has not looked at yet are not handed
//! out (scheduling 26-8). The cloud itself hears nothing of overlays: what they add is taken off what it is asked for and put on what it promises.

use crate::api::{NodeClaim, NodePool};
use crate::cloud::error::CloudError;
use crate::cloud::provider::{
    Accepted, Deletion, InstanceTypes, Machine, MachineIdentity, MachineList, MachineState, Provider,
    passed_on_to_inner,
};
use crate::resources::ResourceList;
use crate::scheduling::overlays::Overlays;
use crate::scheduling::{Pool, WellKnownLabels};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was made of a pool's types, and from what.
#[derive(Debug, Clone)]
struct Made {
    from: InstanceTypes,
    labels: BTreeMap<String, String>,
    types: InstanceTypes,
}

#[derive(Debug, Default)]
struct State {
    overlays: Arc<Overlays>,
    made: BTreeMap<String, Made>,
}

/// The overlays that hold now; written by the overlay controller as a whole (scheduling 26-7).
#[derive(Debug, Default)]
pub struct OverlayStore(Mutex<State>);

impl OverlayStore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what holds.
    pub fn replace(&self, overlays: Overlays) {
        *self.lock() = State {
            overlays: Arc::new(overlays),
            made: BTreeMap::new(),
        };
    }

    /// What holds.
    pub fn current(&self) -> Arc<Overlays> {
        Arc::clone(&self.lock().overlays)
    }

    fn known(&self, pool: &str, labels: &BTreeMap<String, String>, from: &InstanceTypes) -> Option<InstanceTypes> {
        let state = self.lock();
        let made = state.made.get(pool)?;
        (Arc::ptr_eq(&made.from, from) && made.labels == *labels).then(|| Arc::clone(&made.types))
    }
}

/// The decorator.
pub struct Overlaid {
    inner: Arc<dyn Provider>,
    store: Arc<OverlayStore>,
    well_known: WellKnownLabels,
}

impl Overlaid {
    /// Shows the types of `inner` as the store's overlays make them.
    pub fn new(inner: Arc<dyn Provider>, store: Arc<OverlayStore>) -> Self {
        let well_known = WellKnownLabels::with(inner.well_known_labels().iter().copied());
        Self {
            inner,
            store,
            well_known,
        }
    }

    /// What overlays add to a machine of this claim, by the labels given.
    fn added(&self, claim: &NodeClaim, more: &BTreeMap<String, String>) -> ResourceList {
        let mut labels = claim.metadata.labels.clone().unwrap_or_default();
        labels.extend(more.clone());
        self.store.current().added_capacity(&labels, &self.well_known)
    }
}

impl Overlaid {
    /// With the resources that overlays add to the chosen type.
    fn with_added(&self, claim: &NodeClaim, mut accepted: Accepted) -> Accepted {
        let added = self.added(claim, &accepted.labels);
        for (name, quantity) in added.iter() {
            accepted.capacity.set(name, quantity);
            accepted.allocatable.set(name, quantity);
        }
        accepted
    }
}

#[async_trait]
impl Provider for Overlaid {
    passed_on_to_inner!();

    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, CloudError> {
        let types = self.inner.instance_types(pool).await?;
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let overlays = self.store.current();
        if !overlays.knows(name) {
            return Err(CloudError::NotEvaluated { pool: name.to_owned() });
        }
        let labels = Pool::from_api(pool, Arc::new([])).claim_labels();
        if let Some(known) = self.store.known(name, &labels, &types) {
            return Ok(known);
        }
        let made = overlays.applied(&labels, &types, &self.well_known);
        let mut state = self.store.lock();
        // Made from overlays that no longer hold is good for this answer and not worth keeping.
        if Arc::ptr_eq(&state.overlays, &overlays) {
            let entry = Made {
                from: types,
                labels,
                types: Arc::clone(&made),
            };
            state.made.insert(name.to_owned(), entry);
        }
        Ok(made)
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Accepted, CloudError> {
        // Any overlay may hold for the type that will be launched, which is not known yet.
        let mut asked = claim.clone();
        let names = self.store.current().added_names();
        asked.spec.resources.requests.retain(|name, _| !names.contains(name));
        let accepted = self.inner.create(&asked).await?;
        Ok(self.with_added(claim, accepted))
    }

    async fn recover(&self, claim: &NodeClaim) -> Result<Option<Accepted>, CloudError> {
        let found = self.inner.recover(claim).await?;
        Ok(found.map(|accepted| self.with_added(claim, accepted)))
    }

    async fn get(&self, machine: &MachineIdentity) -> Result<MachineState, CloudError> {
        self.inner.get(machine).await
    }

    async fn delete(&self, machine: &MachineIdentity) -> Result<Deletion, CloudError> {
        self.inner.delete(machine).await
    }

    async fn end(&self, machine: &Machine) -> Result<Deletion, CloudError> {
        self.inner.end(machine).await
    }

    async fn list(&self) -> Result<MachineList, CloudError> {
        self.inner.list().await
    }

    async fn drifted(&self, claim: &NodeClaim) -> Result<Option<String>, CloudError> {
        self.inner.drifted(claim).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NodeOverlay;
    use crate::cloud::fake::FakeProvider;
    use crate::resources::{Quantity, names};
    use crate::scheduling::overlays::evaluate;
    use crate::scheduling::{CapacityType, InstanceType, Offering, Overhead, Requirement, labels};
    use serde_json::json;

    fn kind() -> InstanceType {
        let requirements = [
            Requirement::is(labels::INSTANCE_TYPE, "small"),
            Requirement::is(labels::ZONE, "z"),
            Requirement::is(labels::CAPACITY_TYPE, "spot"),
        ];
        let offering = Offering::new("z", CapacityType::Spot, 1.0);
        let capacity = ResourceList::new()
            .with(names::CPU, Quantity::units(4))
            .with(names::PODS, Quantity::units(10));
        InstanceType::new(
            "small",
            requirements.into_iter().collect(),
            vec![offering],
            capacity,
            Overhead::default(),
        )
    }

    fn pool(name: &str) -> NodePool {
        let class = json!({"group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "c"});
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        }))
        .unwrap()
    }

    fn overlay() -> NodeOverlay {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"},
            "spec": {"requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["p"]}],
                     "priceAdjustment": "+1", "capacity": {"example.com/fuse": "3"}},
        }))
        .unwrap()
    }

    async fn overlaid() -> (Overlaid, Arc<OverlayStore>) {
        let fake = Arc::new(FakeProvider::new(vec![kind()]));
        let types = fake.instance_types(&pool("p")).await.unwrap();
        let pools = ["p", "q"].map(|name| Pool::from_api(&pool(name), Arc::clone(&types)));
        let store = Arc::new(OverlayStore::default());
        store.replace(evaluate(&[overlay()], &pools, &WellKnownLabels::default()).overlays);
        (Overlaid::new(fake, Arc::clone(&store)), store)
    }

    #[tokio::test]
    async fn each_pool_sees_its_own_types_and_one_that_was_not_looked_at_sees_none() {
        // scheduling 26-8
        let (provider, _) = overlaid().await;
        let price = async |name: &str| {
            let types = provider.instance_types(&pool(name)).await?;
            Ok::<_, CloudError>(types[0].offerings[0].price)
        };
        assert_eq!(price("p").await.unwrap().to_bits(), 2.0_f64.to_bits());
        assert_eq!(price("q").await.unwrap().to_bits(), 1.0_f64.to_bits());
        assert!(matches!(price("new").await, Err(CloudError::NotEvaluated { pool }) if pool == "new"));
    }

    // scheduling 6-1: without them a pod whose volume exists gets no machine while the gate is on
    #[tokio::test]
    async fn labels_that_only_this_cloud_knows_stay_known() {
        let (overlaid, _) = overlaid().await;
        assert_eq!(
            overlaid.well_known_labels(),
            FakeProvider::new(Vec::new()).well_known_labels()
        );
        assert!(!overlaid.well_known_labels().is_empty());
    }

    #[tokio::test]
    async fn an_error_of_the_provider_is_passed_on() {
        // OV-63
        let (inner, store) = overlaid().await;
        let never = evaluate(
            &[] as &[NodeOverlay],
            &[Pool::from_api(&pool("new"), Arc::new([]))],
            &WellKnownLabels::default(),
        );
        store.replace(never.overlays);
        let unlooked = Arc::new(Overlaid::new(Arc::new(inner), Arc::default()));
        let outer = Overlaid::new(unlooked, store);
        assert!(matches!(
            outer.instance_types(&pool("new")).await,
            Err(CloudError::NotEvaluated { .. })
        ));
    }

    #[tokio::test]
    async fn what_was_made_is_kept_until_types_or_overlays_move() {
        let (provider, store) = overlaid().await;
        let first = provider.instance_types(&pool("p")).await.unwrap();
        assert!(Arc::ptr_eq(&first, &provider.instance_types(&pool("p")).await.unwrap()));
        store.replace((*store.current()).clone());
        assert!(!Arc::ptr_eq(
            &first,
            &provider.instance_types(&pool("p")).await.unwrap()
        ));
    }

    #[tokio::test]
    async fn the_cloud_is_not_asked_for_what_an_overlay_adds_and_the_claim_is_promised_it() {
        let (provider, _) = overlaid().await;
        let claim = |pool: &str| -> NodeClaim {
            serde_json::from_value(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": pool, "uid": pool, "labels": {"karpenter.sh/nodepool": pool}},
                "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "c"}, "requirements": [],
                         "resources": {"requests": {"cpu": "1", "example.com/fuse": "2"}}},
            }))
            .unwrap()
        };
        let fuses = |accepted: &Accepted| accepted.allocatable.amount("example.com/fuse");
        let accepted = provider.create(&claim("p")).await.unwrap();
        assert_eq!(fuses(&accepted), Quantity::units(3));
        assert_eq!(fuses(&provider.create(&claim("q")).await.unwrap()), Quantity::ZERO);
    }
}
