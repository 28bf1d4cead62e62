//! Every scenario in the in-process world, on the paused clock; `cp_main_job.rs` plays the same on the real control plane.

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
use support::simulated::Simulated;

macro_rules! play {
    ($($setting:ident $file:ident::$scenario:ident;)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $scenario() {
                let corner = corner(stringify!($scenario));
                let mut stage = Simulated::start(&corner, &scenarios::settings::$setting).await;
                scenarios::$file::$scenario(&mut stage).await;
            }
        )*

        const NAMES: &[&str] = &[$(stringify!($scenario)),*];
    };
}

each_scenario!(play);

#[test]
fn no_corner_is_taken_for_another() {
    for one in NAMES {
        assert!(one.len() <= 45, "{one}: NodePools, claims and nodes are called by it");
        let others = NAMES.iter().filter(|other| other.starts_with(&format!("{one}_")));
        assert_eq!(others.count(), 0, "{one} begins the name of another");
    }
}
