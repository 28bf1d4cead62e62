//! The table of all settings: what `--help` shows, what the docs list, what [`Options`](super::Options) reads.
//!
//! Names and defaults are those of surface §6.1 and §6.2, so that the values of an existing installation carry over. Settings of the provider have
//! a variable only.

/// What kind of text a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A duration such as `1h30m`.
    Duration,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A Kubernetes quantity.
    Quantity,
    /// A secret: never shown.
    Secret,
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The flag without dashes; empty if there is none.
    pub flag: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default as one would write it.
    pub default: &'static str,
    /// What it does, one sentence.
    pub help: &'static str,
}

const fn core(
    flag: &'static str,
    variable: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting {
        flag,
        variable,
        kind,
        default,
        help,
    }
}

const fn by_variable(variable: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Setting {
    Setting {
        flag: "",
        variable,
        kind,
        default,
        help,
    }
}

/// Gates at their compiled defaults, as text (surface §6.3).
pub const DEFAULT_GATES: &str =
    "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false";

/// Variable of the gates.
pub const FEATURE_GATES: &str = "FEATURE_GATES";

/// All settings, Karpenter's first.
#[rustfmt::skip] // a table: one row per line
pub const SETTINGS: &[Setting] = &[
    core("karpenter-service", "KARPENTER_SERVICE", Kind::Text, "", "Accepted for compatibility, without effect."),
    core("metrics-port", "METRICS_PORT", Kind::Integer, "8080", "Port of the metrics; 0 takes a free one."),
    core("health-probe-port", "HEALTH_PROBE_PORT", Kind::Integer, "8081", "Port of the health probes; 0 takes a free one."),
    core("kube-client-qps", "KUBE_CLIENT_QPS", Kind::Integer, "200", "Requests per second to the Kubernetes API."),
    core("kube-client-burst", "KUBE_CLIENT_BURST", Kind::Integer, "300", "Requests to the Kubernetes API that may go at once."),
    core("enable-profiling", "ENABLE_PROFILING", Kind::Boolean, "false", "Whether /debug/pprof/ is served on the metrics port: CPU time of threads, memory, tasks."),
    core("disable-controller-warmup", "DISABLE_CONTROLLER_WARMUP", Kind::Boolean, "true", "Whether replicas that do not lead leave their caches empty."),
    core("disable-leader-election", "DISABLE_LEADER_ELECTION", Kind::Boolean, "false", "Whether to run without the lease; only for a single replica."),
    core("disable-cluster-state-observability", "DISABLE_CLUSTER_STATE_OBSERVABILITY", Kind::Boolean, "false", "Whether to leave out metrics and events that describe single objects."),
    core("leader-election-name", "LEADER_ELECTION_NAME", Kind::Text, "karpenter-leader-election", "Name of the lease."),
    core("leader-election-namespace", "LEADER_ELECTION_NAMESPACE", Kind::Text, "", "Namespace of the lease; empty is the pod's own."),
    core("memory-limit", "MEMORY_LIMIT", Kind::Integer, "-1", "Accepted for compatibility, without effect."),
    core("cpu-requests", "CPU_REQUESTS", Kind::Integer, "1000", "The container's CPU request in millicores; sets how much runs at a time."),
    core("log-level", "LOG_LEVEL", Kind::Choice(&["", "debug", "info", "error"]), "info", "What is logged."),
    core("log-output-paths", "LOG_OUTPUT_PATHS", Kind::Text, "stdout", "Where logs go: stdout, stderr or files, separated by commas."),
    core("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", Kind::Text, "stderr", "Where failures of the logger itself go."),
    core("batch-max-duration", "BATCH_MAX_DURATION", Kind::Duration, "10s", "Longest wait for more pods before a round."),
    core("batch-idle-duration", "BATCH_IDLE_DURATION", Kind::Duration, "1s", "A round begins when no new pod came for this long."),
    core("preference-policy", "PREFERENCE_POLICY", Kind::Choice(&["Respect", "Ignore"]), "Respect", "What is done with preferences of pods."),
    core("min-values-policy", "MIN_VALUES_POLICY", Kind::Choice(&["Strict", "BestEffort"]), "Strict", "What is done when minValues cannot be met."),
    core("ignore-dra-requests", "IGNORE_DRA_REQUESTS", Kind::Boolean, "true", "Whether pods with resource claims are left alone."),
    core("feature-gates", "FEATURE_GATES", Kind::Text, DEFAULT_GATES, "Gates as Name=true, separated by commas; what is not named keeps its default."),
    by_variable("LEADER_ELECTION_LEASE_DURATION", Kind::Duration, "15s", "How long the lease lasts after its last renewal, in whole seconds; renewals and writes keep to their shares of it."),
    by_variable("SPOT_CLOUDSPACE_NAME", Kind::Text, "", "Name of the cloudspace; required."),
    by_variable("SPOT_REFRESH_TOKEN", Kind::Secret, "", "Refresh token; this, refreshToken, the file or the access token is required."),
    by_variable("refreshToken", Kind::Secret, "", "The refresh token under the key that existing secrets use."),
    by_variable("SPOT_REFRESH_TOKEN_FILE", Kind::Text, "", "File that holds the refresh token."),
    by_variable("SPOT_ACCESS_TOKEN", Kind::Secret, "", "A ready-made token, used until it expires."),
    by_variable("SPOT_BASE_URL", Kind::Text, "https://spot.rackspace.com", "Address of the Spot API."),
    by_variable("SPOT_AUTH_URL", Kind::Text, "https://login.spot.rackspace.com", "Address of the token service."),
    by_variable("SPOT_REQUEST_TIMEOUT", Kind::Duration, "30s", "Longest wait for one answer of the Spot API."),
    by_variable("SPOT_IDLE_CONN_TIMEOUT", Kind::Duration, "90s", "How long an unused connection is kept."),
    by_variable("SPOT_MAX_IDLE_CONNS", Kind::Integer, "100", "How many unused connections are kept."),
    by_variable("SPOT_MAX_RETRIES", Kind::Integer, "10", "Tries of one call to the Spot API."),
    by_variable("SPOT_RETRY_INITIAL_INTERVAL", Kind::Duration, "1s", "Wait before the second try."),
    by_variable("SPOT_RETRY_MULTIPLIER", Kind::Number, "2", "Growth of the wait from try to try."),
    by_variable("SPOT_RETRY_RANDOMIZATION_FACTOR", Kind::Number, "0.5", "Share of the wait that is left to chance."),
    by_variable("SPOT_RETRY_WAIT_MAX", Kind::Duration, "600s", "Longest wait between two tries."),
    by_variable("RXTSPOT_CLIENT_ID", Kind::Text, "", "OAuth client; empty is the platform's public one."),
    by_variable("NGPC_PRICE_DETAILS_URL", Kind::Text, "https://ngpc-prod-public-data.s3.us-east-2.amazonaws.com/percentiles.json", "Address of the price feed."),
    by_variable("VM_MEMORY_OVERHEAD_PERCENT", Kind::Number, "0.03", "Share of the memory sold that a machine does not show, until one was measured."),
    by_variable("RACKSPACE_KUBE_RESERVED_CPU", Kind::Quantity, "500m", "CPU that the kubelet keeps for the system."),
    by_variable("RACKSPACE_KUBE_RESERVED_MEMORY", Kind::Quantity, "1024Mi", "Memory that the kubelet keeps for the system."),
    by_variable("RACKSPACE_LAUNCH_TIMEOUT", Kind::Duration, "30m", "How long a claim waits for its server."),
    by_variable("RACKSPACE_BID_RULES", Kind::Choice(&["auto", "seed", "ladder"]), "auto", "Increments of legal bids; auto follows what the platform accepts."),
];

/// The setting behind a flag or a variable.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS
        .iter()
        .find(|setting| setting.variable == name || (!setting.flag.is_empty() && setting.flag == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_flag_and_no_variable_appears_twice() {
        let flags: Vec<_> = SETTINGS
            .iter()
            .map(|s| s.flag)
            .filter(|flag| !flag.is_empty())
            .collect();
        assert_eq!(flags.iter().collect::<BTreeSet<_>>().len(), flags.len());
        let variables: BTreeSet<_> = SETTINGS.iter().map(|s| s.variable).collect();
        assert_eq!(variables.len(), SETTINGS.len());
    }

    #[test]
    fn variables_of_core_settings_are_their_flags_in_capitals() {
        for setting in SETTINGS.iter().filter(|setting| !setting.flag.is_empty()) {
            assert_eq!(setting.variable, setting.flag.to_uppercase().replace('-', "_"));
        }
    }
}
