//! Every scenario on the real control plane, with the real kube-scheduler and the operator's own binary; `scenarios.rs` plays the same in the in-process world.
//! The operator has the rights of the chart's ServiceAccount and no others: after each scenario nothing was forbidden.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[macro_use]
#[path = "scenarios/mod.rs"]
mod scenarios;
mod support;

use scenarios::list::corner;
use support::real::Real;

macro_rules! play {
    ($($setting:ident $file:ident::$scenario:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                let corner = corner(stringify!($scenario));
                let mut stage = Real::start(&corner, &scenarios::settings::$setting).await;
                scenarios::$file::$scenario(&mut stage).await;
                stage.assert_nothing_was_forbidden().await;
            }
        )*
    };
}

each_scenario!(play);
