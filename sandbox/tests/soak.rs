//! A long life in one run: memory, metric series and queues level off. A test binary of its own, since it counts what its process allocates.
//!
//! `make soak` lives thirty days (`SOAK_DAYS` days), the tests two.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "this is test code, and its table is what make soak is for"
)]

use sandbox::chaos::{HEADING, soak};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Those of `make test`.
const DAYS: u32 = 2;

fn bytes_in_use() -> u64 {
    let stats = ALLOCATOR.stats();
    u64::try_from(stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)).unwrap()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn tell(count: u64, machines: u64, what: &str) {
    println!(
        "{count:>8} {:>6}.{}  {what}",
        count / machines,
        count * 10 / machines % 10
    );
}

#[test]
fn memory_series_and_queues_level_off() {
    let days = std::env::var("SOAK_DAYS").map_or(DAYS, |days| days.parse().unwrap());
    println!("{HEADING}");
    let life = std::thread::Builder::new().stack_size(16 << 20);
    let life = life.spawn(move || soak(1, days, &bytes_in_use, &mut |sample| println!("{sample}")).unwrap());
    let life = life.unwrap().join().unwrap();
    println!(
        "the operator gave {} KiB back when it stopped; {} KiB resident in all",
        life.operator_bytes / 1024,
        resident_kib()
    );
    if let Some(fresh) = life.fresh_bytes {
        println!("a fresh operator gave {} KiB back after one more day", fresh / 1024);
    }
    let bought = life.samples.last().unwrap().bought;
    let claims = life.traffic.kubernetes["POST nodeclaims"];
    println!("{claims} claims, {bought} servers; requests, and for each claim from its beginning to its end:");
    for (whose, requests) in [
        ("Kubernetes", &life.traffic.kubernetes),
        ("platform", &life.traffic.spot),
    ] {
        let is_write = |what: &str| {
            !what.ends_with(" token") && ["POST", "PATCH", "DELETE"].iter().any(|verb| what.starts_with(verb))
        };
        let writes: u64 = requests
            .iter()
            .filter(|(what, _)| is_write(what))
            .map(|(_, count)| count)
            .sum();
        let all: u64 = requests.values().sum();
        tell(writes, claims, &format!("{whose}, writes"));
        tell(all - writes, claims, &format!("{whose}, reads, watches and logins"));
        for (what, count) in requests {
            tell(*count, claims, &format!("  {what}"));
        }
    }
    assert_eq!(life.problems, Vec::<String>::new());
    assert_eq!(life.samples.len(), usize::try_from(days).unwrap());
}
