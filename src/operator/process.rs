//! Metrics of the process itself (surface §5.7), read from /proc at each scrape.
//!
//! The families that dashboards ask for: CPU, memory, file descriptors, start. Where /proc cannot be read a family is left out.

use crate::telemetry::{Family, Kind};
use chrono::{DateTime, Utc};
use std::fmt::Write as _;
use std::fs;

/// Clock ticks per second in /proc, the same on every Linux.
const TICKS: f64 = 100.0;

/// The process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessMetrics;

/// Name, type and meaning of each family, for the reference in the docs.
pub(super) const PROCESS: [(&str, Kind, &str); 6] = [
    ("process_cpu_seconds_total", Kind::Counter, "CPU time of the process."),
    (
        "process_max_fds",
        Kind::Gauge,
        "Largest number of open file descriptors.",
    ),
    ("process_open_fds", Kind::Gauge, "Open file descriptors."),
    ("process_resident_memory_bytes", Kind::Gauge, "Memory in use."),
    ("process_start_time_seconds", Kind::Gauge, "Start, since 1970."),
    ("process_virtual_memory_bytes", Kind::Gauge, "Memory reserved."),
];

impl Family for ProcessMetrics {
    fn write(&self, out: &mut String, _now: DateTime<Utc>) {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let system = fs::read_to_string("/proc/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        #[allow(clippy::cast_precision_loss)] // a number of files
        let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
        let values = [
            cpu_seconds(&stat),
            most_files(&limits),
            open,
            kilobytes(&status, "VmRSS:"),
            start_seconds(&stat, &system),
            kilobytes(&status, "VmSize:"),
        ];
        for ((name, kind, help), value) in PROCESS.iter().zip(values) {
            put(out, name, kind.as_str(), help, value);
        }
    }
}

fn put(out: &mut String, name: &str, kind: &str, help: &str, value: Option<f64>) {
    if let Some(value) = value {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
}

/// The fields behind the program's name, which may hold blanks and brackets itself; the first is number 3 of the manual.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit(") ").next().unwrap_or_default().split_whitespace()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut times = fields(stat).skip(11);
    let (user, system): (f64, f64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}

fn start_seconds(stat: &str, system: &str) -> Option<f64> {
    let started: f64 = fields(stat).nth(19)?.parse().ok()?;
    let booted: f64 = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Some(booted + started / TICKS)
}

fn kilobytes(status: &str, key: &str) -> Option<f64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(key))?;
    let number: f64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024.0)
}

fn most_files(limits: &str) -> Option<f64> {
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_a_program_name_with_brackets() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 9 0 12345 1000 10";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(start_seconds(stat, "cpu 1\nbtime 1700000000\n"), Some(1_700_000_123.45));
        assert_eq!((cpu_seconds(""), start_seconds("x", "y")), (None, None));
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let mut out = String::new();
        ProcessMetrics.write(&mut out, DateTime::UNIX_EPOCH);
        for family in [
            "process_resident_memory_bytes",
            "process_cpu_seconds_total",
            "process_open_fds",
            "process_start_time_seconds",
        ] {
            let line = out
                .lines()
                .find(|line| line.starts_with(family))
                .unwrap_or_else(|| panic!("{family} is not in {out}"));
            assert!(
                line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() >= 0.0,
                "{line}"
            );
        }
    }
}
