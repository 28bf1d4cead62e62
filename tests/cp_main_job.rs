//! The main job on the real control plane, with the real kube-scheduler: pending pods become servers, and go away again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

mod support;

use support::stage::Stage;

const NODEPOOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.rackspace.com, kind: RackspaceSpotNodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1s, budgets: [{nodes: '100%'}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn pods_become_spot_servers_and_scaling_to_zero_gives_them_back() {
    let stage = Stage::start(&[]).await;
    stage.apply(NODEPOOL).await;
    stage.apply(include_str!("../config/samples/inflate.yaml")).await;
    stage.scale("Deployment", "inflate", 3).await;
    stage.bound(3).await;
    let claims = stage.claims().await;
    assert!(!claims.is_empty());
    for claim in &claims {
        assert_eq!(claim["metadata"]["labels"]["karpenter.sh/capacity-type"], "spot");
    }
    stage.scale("Deployment", "inflate", 0).await;
    stage.nothing_left().await;
}
