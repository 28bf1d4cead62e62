//! What is bid, as it goes over the wire (architecture §7.7).

use super::manifests::{deployment, node_class, node_pool, of_classes, pod};
use crate::support::picture::Order;
use crate::support::stage::Stage;
use sandbox::spot::BidRules;
use std::collections::BTreeMap;

/// Its three percentiles differ: 0.011, 0.021, 0.081.
const CLASS: &str = "ch.vs1.large-iad";

pub async fn bids_follow_their_percentiles<S: Stage>(stage: &mut S) {
    for percentile in ["P20", "P50", "P80"] {
        let name = pool_of(stage, percentile);
        stage.apply(&node_class(&name, percentile)).await;
        let mut pool = of_classes(
            node_pool(stage.corner(), &percentile.to_lowercase(), &["spot"]),
            &[CLASS],
        );
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name.clone().into();
        stage.apply(&pool).await;
        let mut pod = pod(stage.corner(), "500m", "512Mi");
        pod["nodeSelector"]["karpenter.sh/nodepool"] = name.into();
        stage.apply(&deployment(&percentile.to_lowercase(), 0, &pod)).await;
    }
    let seed = bids_of_one_round(stage, 0).await;
    assert_eq!(seed, expected(stage, ["0.012", "0.023", "0.09"]), "rules of the seed");

    stage.set_platform(|options| options.bid_rules = BidRules::Ladder);
    stage.restart_operator(&[("RACKSPACE_BID_RULES", "ladder")]).await;
    let ladder = bids_of_one_round(stage, 3).await;
    assert_eq!(ladder, expected(stage, ["0.02", "0.03", "0.1"]), "the ladder");
}

fn pool_of<S: Stage>(stage: &S, percentile: &str) -> String {
    format!("{}-{}", stage.corner(), percentile.to_lowercase())
}

fn expected<S: Stage>(stage: &S, bids: [&str; 3]) -> BTreeMap<String, String> {
    let pools = ["P20", "P50", "P80"].map(|percentile| pool_of(stage, percentile));
    pools.into_iter().zip(bids.map(str::to_owned)).collect()
}

/// One pod for each percentile comes and goes; the bids by NodePool that came after so many others.
async fn bids_of_one_round<S: Stage>(stage: &mut S, before: usize) -> BTreeMap<String, String> {
    for name in ["p20", "p50", "p80"] {
        stage.scale("Deployment", name, 1).await;
    }
    let up = stage.running(3).await;
    let fresh = &up.orders[before..];
    assert_eq!(fresh.len(), 3, "{up}");
    assert!(fresh.iter().all(|order| order.class == CLASS), "{up}");
    assert!(up.refused.is_empty(), "{up}");
    for name in ["p20", "p50", "p80"] {
        stage.scale("Deployment", name, 0).await;
    }
    stage.nothing_left().await;
    let bid = |order: &Order| (order.node_pool.clone(), order.bid.clone().unwrap());
    fresh.iter().map(bid).collect()
}
