//! Settings: flags first, then environment variables, then defaults (surface §6).
//!
//! [`Options::read`] turns arguments and an [`Environment`] into typed values, or into an [`OptionsError`] that says what to print and how to exit.
//! Called by `main` and by tests; nothing later reads the environment.

use super::environment::Environment;
use super::flags::{Flags, FlagsError};
use super::gates::{Gates, GatesError};
use super::settings;
use super::source::{Source, setting};
use super::spot_options::SpotOptions;
use crate::api::duration::GoDuration;
use std::time::Duration;

/// What is done with the preferences of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreferencePolicy {
    /// Preferences count as requirements until the pod does not fit.
    #[default]
    Respect,
    /// Preferences are not looked at.
    Ignore,
}

/// What is done when `minValues` cannot be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinValuesPolicy {
    /// The pod does not fit.
    #[default]
    Strict,
    /// As many values as there are.
    BestEffort,
}

/// What is logged (surface T24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Decisions and errors.
    #[default]
    Info,
    /// Errors.
    Error,
}

/// All settings.
#[allow(clippy::struct_excessive_bools)] // independent switches of the public surface
#[derive(Debug, Clone)]
pub struct Options {
    /// Port of the metrics; 0 takes a free one.
    pub metrics_port: u16,
    /// Port of the health probes; 0 takes a free one.
    pub health_probe_port: u16,
    /// Requests per second to the Kubernetes API.
    pub kube_client_qps: u32,
    /// Requests to the Kubernetes API that may go at once.
    pub kube_client_burst: u32,
    /// Whether `/debug/pprof/` is served on the metrics port.
    pub enable_profiling: bool,
    /// Whether replicas that do not lead leave their caches empty.
    pub disable_controller_warmup: bool,
    /// Whether to run without the lease.
    pub disable_leader_election: bool,
    /// Whether to leave out metrics and events that describe single objects (surface T28).
    pub disable_cluster_state_observability: bool,
    /// Name of the lease.
    pub leader_election_name: String,
    /// Namespace of the lease; empty is the pod's own.
    pub leader_election_namespace: String,
    /// How long the lease lasts after its last renewal.
    pub leader_election_lease_duration: Duration,
    /// The container's CPU request in millicores, at least 1.
    pub cpu_requests: u32,
    /// What is logged.
    pub log_level: LogLevel,
    /// Where logs go.
    pub log_output_paths: Vec<String>,
    /// Where failures of the logger go.
    pub log_error_output_paths: Vec<String>,
    /// Longest wait for more pods before a round.
    pub batch_max_duration: Duration,
    /// A round begins when no new pod came for this long.
    pub batch_idle_duration: Duration,
    /// What is done with preferences of pods.
    pub preference_policy: PreferencePolicy,
    /// What is done when `minValues` cannot be met.
    pub min_values_policy: MinValuesPolicy,
    /// Whether pods with resource claims are left alone.
    pub ignore_dra_requests: bool,
    /// Feature gates.
    pub gates: Gates,
    /// The provider's settings.
    pub spot: SpotOptions,
}

/// Why the process does not start, and what it prints.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The flags are not ours, or the user asked for help.
    #[error(transparent)]
    Flags(#[from] FlagsError),
    /// A setting has a value that it does not take (surface §6.4).
    #[error("validating cli flags / env vars, invalid {variable} {value:?}")]
    Invalid {
        /// The variable of the setting.
        variable: &'static str,
        /// The value, shortened.
        value: String,
    },
    /// The gates are malformed.
    #[error(transparent)]
    Gates(#[from] GatesError),
    /// A setting that has no default is missing.
    #[error("validating cli flags / env vars, {variable} is not set: {meaning}")]
    Missing {
        /// The variable of the setting.
        variable: &'static str,
        /// What it is for.
        meaning: &'static str,
    },
    /// A file that a setting names cannot be read.
    #[error("validating cli flags / env vars, {variable} names {path:?}, which cannot be read")]
    Unreadable {
        /// The variable of the setting.
        variable: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl OptionsError {
    /// The exit code: 0 for help, else 2 (surface §6.4).
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Flags(FlagsError::Help(_)) => 0,
            _ => 2,
        }
    }

    pub(super) fn invalid(variable: &'static str, value: &str) -> Self {
        Self::Invalid {
            variable,
            value: value.chars().take(80).collect(),
        }
    }
}

impl Options {
    /// Reads the settings. `arguments` come without the program's name.
    pub fn read(arguments: impl IntoIterator<Item = String>, environment: &Environment) -> Result<Self, OptionsError> {
        let flags = Flags::parse(arguments)?;
        let source = Source::new(&flags, environment);
        let gates = Gates::parse(&source.text(settings::FEATURE_GATES)?)?;
        // without effect, but a flag that does not parse is a mistake all the same
        source.integer("MEMORY_LIMIT")?;
        Ok(Self {
            metrics_port: source.number_within("METRICS_PORT")?,
            health_probe_port: source.number_within("HEALTH_PROBE_PORT")?,
            kube_client_qps: source.number_within("KUBE_CLIENT_QPS")?,
            kube_client_burst: source.number_within("KUBE_CLIENT_BURST")?,
            enable_profiling: source.boolean("ENABLE_PROFILING")?,
            disable_controller_warmup: source.boolean("DISABLE_CONTROLLER_WARMUP")?,
            disable_leader_election: source.boolean("DISABLE_LEADER_ELECTION")?,
            disable_cluster_state_observability: source.boolean("DISABLE_CLUSTER_STATE_OBSERVABILITY")?,
            leader_election_name: source.text("LEADER_ELECTION_NAME")?,
            leader_election_namespace: source.text("LEADER_ELECTION_NAMESPACE")?,
            leader_election_lease_duration: lease_duration(environment)?,
            cpu_requests: cpu_requests(source.integer("CPU_REQUESTS")?),
            log_level: log_level(&source)?,
            log_output_paths: list(&source.text("LOG_OUTPUT_PATHS")?),
            log_error_output_paths: list(&source.text("LOG_ERROR_OUTPUT_PATHS")?),
            batch_max_duration: source.duration("BATCH_MAX_DURATION")?,
            batch_idle_duration: source.duration("BATCH_IDLE_DURATION")?,
            preference_policy: match source.choice("PREFERENCE_POLICY")?.as_str() {
                "Ignore" => PreferencePolicy::Ignore,
                _ => PreferencePolicy::Respect,
            },
            min_values_policy: match source.choice("MIN_VALUES_POLICY")?.as_str() {
                "BestEffort" => MinValuesPolicy::BestEffort,
                _ => MinValuesPolicy::Strict,
            },
            ignore_dra_requests: source.boolean("IGNORE_DRA_REQUESTS")?,
            gates,
            spot: SpotOptions::read(environment)?,
        })
    }
}

/// What is zero or less counts as one core (surface §6.1).
fn cpu_requests(millicores: i64) -> u32 {
    u32::try_from(millicores)
        .ok()
        .filter(|millicores| *millicores > 0)
        .unwrap_or(1000)
}

/// Whole seconds, which is what a Lease can say; strict, since it has no counterpart upstream that was lenient.
fn lease_duration(environment: &Environment) -> Result<Duration, OptionsError> {
    const VARIABLE: &str = "LEADER_ELECTION_LEASE_DURATION";
    let text = environment.get(VARIABLE).unwrap_or(setting(VARIABLE)?.default);
    let (shortest, longest) = (Duration::from_secs(1), Duration::from_mins(10));
    GoDuration::parse(text)
        .ok()
        .map(GoDuration::as_std)
        .filter(|lease| (shortest..=longest).contains(lease) && lease.subsec_nanos() == 0)
        .ok_or_else(|| OptionsError::invalid(VARIABLE, text))
}

fn log_level(source: &Source<'_>) -> Result<LogLevel, OptionsError> {
    Ok(match source.choice("LOG_LEVEL")?.as_str() {
        "debug" => LogLevel::Debug,
        "error" => LogLevel::Error,
        _ => LogLevel::Info,
    })
}

fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}
