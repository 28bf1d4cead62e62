//! All scenarios, each with the setting it plays in.

/// Calls a macro with `SETTING module::scenario;` for every scenario.
macro_rules! each_scenario {
    ($play:ident) => {
        $play! {
            USUAL main_job::one_pod_on_spot;
            USUAL main_job::many_pods_on_spot;
            USUAL main_job::one_pod_on_demand;
            USUAL main_job::many_pods_on_demand;
            USUAL main_job::mixed_shapes;
            USUAL losses::a_pool_that_somebody_deletes_is_replaced;
            USUAL losses::a_server_taken_with_notice_is_replaced;
            USUAL losses::a_server_taken_without_notice_is_replaced;
            USUAL removal::a_claim_that_somebody_deletes_is_drained;
            USUAL removal::a_deleted_node_pool_takes_its_servers_along;
            USUAL removal::an_expired_server_is_replaced;
            USUAL volumes::a_database_gets_volumes;
            USUAL volumes::a_database_goes_back_to_its_volumes;
            USUAL constraints::replicas_spread_over_hosts;
            USUAL constraints::replicas_spread_over_capacity_types;
            USUAL constraints::replicas_that_avoid_each_other;
            USUAL constraints::pods_that_follow_others;
            USUAL constraints::preferences_are_met_or_dropped;
            USUAL pools::taints_keep_out_who_does_not_tolerate_them;
            USUAL pools::daemons_get_room;
            USUAL pools::the_heavier_pool_is_used;
            USUAL pools::limits_hold_until_they_are_raised;
            SLOW waiting::a_slow_server_is_asked_for_once;
            SLOW waiting::a_class_that_never_delivers_is_given_up;
            SLOW waiting::others_are_served_meanwhile;
            BIDS bids::bids_follow_their_percentiles;
        }
    };
}

/// The corner of a scenario: its name, as Kubernetes writes names.
pub fn corner(scenario: &str) -> String {
    scenario.replace('_', "-")
}
