//! The settings as a user meets them: surface §6.1, §6.2 and §6.4, one case per row.
//!
//! When a golden part differs: names, defaults and texts are the interface of existing installations; change the code, not the table, unless the change is
//! meant and in the changelog.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use karpenter::operator::settings::{Kind, SETTINGS, Setting};
use karpenter::operator::{
    Environment, FlagsError, LogLevel, MinValuesPolicy, Options, OptionsError, PreferencePolicy,
};
use secrecy::ExposeSecret;
use std::time::Duration;

/// What an installation sets at least.
fn minimal() -> Environment {
    Environment::from([
        ("SPOT_CLOUDSPACE_NAME", "my-cloudspace"),
        ("SPOT_REFRESH_TOKEN", "token"),
    ])
}

fn read(flags: &[&str], environment: &Environment) -> Result<Options, OptionsError> {
    Options::read(flags.iter().map(ToString::to_string), environment)
}

fn with_flags(flags: &[&str]) -> Options {
    read(flags, &minimal()).unwrap()
}

fn with_variable(name: &str, value: &str) -> Options {
    read(&[], &minimal().with(name, value)).unwrap()
}

fn refused(flags: &[&str], environment: &Environment) -> String {
    let error = read(flags, environment).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn without_any_setting_the_defaults_hold() {
    let options = with_flags(&[]);
    assert_eq!((options.metrics_port, options.health_probe_port), (8080, 8081));
    assert_eq!((options.kube_client_qps, options.kube_client_burst), (200, 300));
    assert!(!options.enable_profiling && options.disable_controller_warmup && !options.disable_leader_election);
    assert!(!options.disable_cluster_state_observability && options.ignore_dra_requests);
    assert_eq!(options.leader_election_name, "karpenter-leader-election");
    assert_eq!(options.leader_election_namespace, "");
    assert_eq!(options.leader_election_lease_duration, Duration::from_secs(15));
    assert_eq!((options.cpu_requests, options.log_level), (1000, LogLevel::Info));
    assert_eq!(
        (options.log_output_paths, options.log_error_output_paths),
        (vec!["stdout".into()], vec!["stderr".into()])
    );
    assert_eq!(options.batch_max_duration, Duration::from_secs(10));
    assert_eq!(options.batch_idle_duration, Duration::from_secs(1));
    assert_eq!(
        (options.preference_policy, options.min_values_policy),
        (PreferencePolicy::Respect, MinValuesPolicy::Strict)
    );
    assert_eq!(options.gates, karpenter::operator::Gates::default());
    let spot = options.spot;
    assert_eq!(spot.base_url, "https://spot.rackspace.com");
    assert_eq!(spot.auth_url, "https://login.spot.rackspace.com");
    assert_eq!(spot.client_id, None);
    assert_eq!(spot.http.request_timeout, Duration::from_secs(30));
    assert_eq!(spot.http.idle_conn_timeout, Duration::from_secs(90));
    assert_eq!((spot.http.max_idle_conns, spot.http.max_retries), (100, 10));
    assert_eq!(spot.http.retry_initial_interval, Duration::from_secs(1));
    assert_eq!(spot.http.retry_wait_max, Duration::from_mins(10));
    assert!((spot.http.retry_multiplier - 2.0).abs() < f64::EPSILON);
    assert!((spot.http.retry_randomization_factor - 0.5).abs() < f64::EPSILON);
    assert_eq!(spot.capacity.memory_overhead.to_string(), "0.03");
    assert_eq!(spot.capacity.kube_reserved_cpu.milli_value(), 500);
    assert_eq!(spot.capacity.kube_reserved_memory.value(), 1 << 30);
    assert_eq!(spot.launch_timeout, Duration::from_mins(30));
}

/// Whether a value shows in the options.
type Shows = fn(&Options) -> bool;

/// A value other than the default for each of Karpenter's settings, and how it shows in the options.
#[rustfmt::skip] // a table: one row per line
const VALUES: &[(&str, &str, Shows)] = &[
    ("karpenter-service", "anything", |_| true),
    ("metrics-port", "9090", |o| o.metrics_port == 9090),
    ("health-probe-port", "0", |o| o.health_probe_port == 0),
    ("kube-client-qps", "5", |o| o.kube_client_qps == 5),
    ("kube-client-burst", "6", |o| o.kube_client_burst == 6),
    ("enable-profiling", "true", |o| o.enable_profiling),
    ("disable-controller-warmup", "false", |o| !o.disable_controller_warmup),
    ("disable-leader-election", "true", |o| o.disable_leader_election),
    ("disable-cluster-state-observability", "true", |o| o.disable_cluster_state_observability),
    ("leader-election-name", "other", |o| o.leader_election_name == "other"),
    ("leader-election-namespace", "karpenter", |o| o.leader_election_namespace == "karpenter"),
    ("memory-limit", "1000000", |_| true),
    ("cpu-requests", "2000", |o| o.cpu_requests == 2000),
    ("log-level", "debug", |o| o.log_level == LogLevel::Debug),
    ("log-output-paths", "stdout,/tmp/x", |o| o.log_output_paths == ["stdout", "/tmp/x"]),
    ("log-error-output-paths", "/tmp/y", |o| o.log_error_output_paths == ["/tmp/y"]),
    ("batch-max-duration", "1m30s", |o| o.batch_max_duration == Duration::from_secs(90)),
    ("batch-idle-duration", "500ms", |o| o.batch_idle_duration == Duration::from_millis(500)),
    ("preference-policy", "Ignore", |o| o.preference_policy == PreferencePolicy::Ignore),
    ("min-values-policy", "BestEffort", |o| o.min_values_policy == MinValuesPolicy::BestEffort),
    ("ignore-dra-requests", "false", |o| !o.ignore_dra_requests),
    ("feature-gates", "NodeRepair=true", |o| o.gates.node_repair && o.gates.reserved_capacity),
];

#[test]
fn every_core_setting_is_in_the_table_of_this_test() {
    let flags: Vec<_> = SETTINGS
        .iter()
        .map(|s| s.flag)
        .filter(|flag| !flag.is_empty())
        .collect();
    assert_eq!(flags, VALUES.iter().map(|(flag, _, _)| *flag).collect::<Vec<_>>());
}

#[test]
fn every_core_setting_is_read_from_its_flag_in_each_of_gos_spellings() {
    for (flag, value, shows) in VALUES {
        assert!(shows(&with_flags(&[&format!("--{flag}={value}")])), "--{flag}={value}");
        assert!(shows(&with_flags(&[&format!("-{flag}={value}")])), "-{flag}={value}");
        if !["true", "false"].contains(value) {
            assert!(shows(&with_flags(&[&format!("--{flag}"), value])), "--{flag} {value}");
        }
    }
}

#[test]
fn every_core_setting_is_read_from_its_variable() {
    for (flag, value, shows) in VALUES {
        assert!(
            shows(&with_variable(&flag.to_uppercase().replace('-', "_"), value)),
            "{flag}"
        );
    }
}

#[test]
fn a_flag_wins_over_its_variable_and_the_last_flag_over_the_first() {
    for (flag, value, shows) in VALUES.iter().filter(|(flag, _, _)| !WITHOUT_EFFECT.contains(flag)) {
        let setting = SETTINGS.iter().find(|setting| setting.flag == *flag).unwrap();
        let (own, usual) = (format!("--{flag}={value}"), format!("--{flag}={}", setting.default));
        let variable = |text: &str| minimal().with(setting.variable, text);
        let options = |flags: &[&str], environment: &Environment| read(flags, environment).unwrap();
        assert!(shows(&options(&[&own], &variable(setting.default))), "{own}");
        assert!(!shows(&options(&[&usual], &variable(value))), "{usual}");
        assert!(shows(&options(&[&usual, &own], &minimal())), "{usual} {own}");
        assert!(!shows(&options(&[&own, &usual], &minimal())), "{own} {usual}");
    }
}

/// Accepted for compatibility.
const WITHOUT_EFFECT: [&str; 2] = ["karpenter-service", "memory-limit"];

#[test]
fn a_boolean_flag_alone_means_true() {
    assert!(with_flags(&["--enable-profiling"]).enable_profiling);
    assert!(with_flags(&["-enable-profiling", "--metrics-port", "1"]).enable_profiling);
}

#[test]
fn a_negative_value_may_follow_its_flag() {
    assert_eq!(with_flags(&["--cpu-requests", "-1"]).cpu_requests, 1000);
}

/// Texts that are none of what a setting of this kind takes: of a variable, and of a flag.
fn nonsense(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Integer => (&["many", "", " ", "0x10", "1.5"], &["many", "", "1.5"]),
        Kind::Boolean => (&["no", "", "yes", "2", "on"], &["1", "yes", "T", "TRUE", ""]),
        Kind::Duration => (&["10", "", "soon", "1x"], &["10", "", "soon"]),
        Kind::Text | Kind::Choice(_) => (&[], &[]),
        other => panic!("no core setting is a {other:?}"),
    }
}

fn core_settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| !setting.flag.is_empty())
}

// surface T12
#[test]
fn a_variable_that_does_not_parse_is_as_if_it_were_not_set() {
    let usual = format!("{:?}", with_flags(&[]));
    let mut tried = 0;
    for setting in core_settings() {
        for text in nonsense(setting.kind).0 {
            let options = with_variable(setting.variable, text);
            assert_eq!(format!("{options:?}"), usual, "{}={text}", setting.variable);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried} cases");
    assert!(!with_variable("DISABLE_CONTROLLER_WARMUP", "F").disable_controller_warmup);
    assert!(with_variable("ENABLE_PROFILING", "1").enable_profiling);
}

// surface T12, surface §6.4
#[test]
fn a_flag_that_does_not_parse_ends_the_start_with_the_usage() {
    for setting in core_settings() {
        for text in nonsense(setting.kind).1 {
            let (flag, name) = (format!("--{}={text}", setting.flag), setting.flag);
            let said = refused(&[&flag], &minimal().with(setting.variable, "true"));
            assert!(
                said.starts_with(&format!("invalid value {text:?} for flag -{name}: ")),
                "{said}"
            );
            assert!(
                said.contains("--metrics-port") && said.contains("is expected"),
                "no usage in {said}"
            );
        }
    }
}

#[test]
fn a_number_that_nothing_could_be_done_with_ends_the_start_wherever_it_comes_from() {
    for (variable, value) in [
        ("METRICS_PORT", "70000"),
        ("HEALTH_PROBE_PORT", "-1"),
        ("KUBE_CLIENT_QPS", "-1"),
        ("KUBE_CLIENT_BURST", "4294967296"),
    ] {
        let expected = format!("validating cli flags / env vars, invalid {variable} {value:?}");
        let flag = format!("--{}={value}", variable.to_lowercase().replace('_', "-"));
        assert_eq!(refused(&[&flag], &minimal()), expected);
        assert_eq!(refused(&[], &minimal().with(variable, value)), expected);
    }
}

// surface T24, surface §6.4
#[test]
fn words_outside_the_list_end_the_start_wherever_they_come_from() {
    for (variable, value) in [
        ("LOG_LEVEL", "warn"),
        ("PREFERENCE_POLICY", "respect"),
        ("PREFERENCE_POLICY", ""),
        ("MIN_VALUES_POLICY", "Loose"),
    ] {
        let expected = format!("validating cli flags / env vars, invalid {variable} {value:?}");
        assert_eq!(refused(&[], &minimal().with(variable, value)), expected);
        let flag = format!("--{}={value}", variable.to_lowercase().replace('_', "-"));
        assert_eq!(refused(&[&flag], &minimal()), expected);
    }
    assert_eq!(with_variable("LOG_LEVEL", "").log_level, LogLevel::Info);
}

#[test]
fn malformed_gates_end_the_start() {
    for gates in ["NodeRepair=yes", "NodeRepair"] {
        let flag = format!("--feature-gates={gates}");
        let by_flag = refused(&[&flag], &minimal());
        let by_variable = refused(&[], &minimal().with("FEATURE_GATES", gates));
        assert!(by_flag.starts_with("parsing feature gates, "), "{by_flag}");
        assert_eq!(by_variable, by_flag);
    }
}

// surface §6.4
#[test]
fn unknown_flags_and_stray_words_end_the_start_with_the_usage() {
    for arguments in [&["--kubeconfig=/x"][..], &["--nonsense"], &["stray"], &["-x"]] {
        let text = refused(arguments, &minimal());
        assert!(text.contains("--metrics-port"), "no usage in {text}");
    }
}

// surface §6.4
#[test]
fn help_names_every_setting_and_ends_with_zero_even_where_nothing_is_set() {
    for flag in ["-h", "--help", "-help"] {
        let error = read(&[flag], &Environment::default()).unwrap_err();
        assert_eq!(error.exit_code(), 0);
        let OptionsError::Flags(FlagsError::Help(text)) = error else {
            panic!("{error}")
        };
        for setting in SETTINGS {
            assert!(
                text.contains(setting.variable) && text.contains(setting.flag),
                "{} is not in\n{text}",
                setting.variable
            );
        }
    }
}

// surface §6.1
#[test]
fn cpu_requests_of_nothing_count_as_one_core() {
    for value in ["0", "-5"] {
        assert_eq!(with_variable("CPU_REQUESTS", value).cpu_requests, 1000);
    }
}

/// Values that the settings with a variable only do not take.
#[rustfmt::skip] // a table: one row per line
const REFUSED: &[(&str, &str)] = &[
    ("SPOT_BASE_URL", ""),
    ("SPOT_BASE_URL", "spot.rackspace.com"),
    ("SPOT_AUTH_URL", "ftp://login"),
    ("NGPC_PRICE_DETAILS_URL", "nowhere"),
    ("SPOT_REQUEST_TIMEOUT", "30"),
    ("SPOT_REQUEST_TIMEOUT", "0s"),
    ("SPOT_IDLE_CONN_TIMEOUT", "-1s"),
    ("SPOT_MAX_IDLE_CONNS", "-1"),
    ("SPOT_MAX_RETRIES", ""),
    ("SPOT_RETRY_MULTIPLIER", "NaN"),
    ("SPOT_RETRY_MULTIPLIER", "inf"),
    ("SPOT_RETRY_RANDOMIZATION_FACTOR", "1.5"),
    ("SPOT_RETRY_INITIAL_INTERVAL", "1"),
    ("SPOT_RETRY_WAIT_MAX", "forever"),
    ("VM_MEMORY_OVERHEAD_PERCENT", "3%"),
    ("VM_MEMORY_OVERHEAD_PERCENT", "1"),
    ("RACKSPACE_KUBE_RESERVED_CPU", "-1"),
    ("RACKSPACE_KUBE_RESERVED_MEMORY", "much"),
    ("RACKSPACE_LAUNCH_TIMEOUT", "0"),
    ("RACKSPACE_BID_RULES", "guess"),
    ("LEADER_ELECTION_LEASE_DURATION", ""),
    ("LEADER_ELECTION_LEASE_DURATION", "0s"),
    ("LEADER_ELECTION_LEASE_DURATION", "1500ms"),
    ("LEADER_ELECTION_LEASE_DURATION", "11m"),
];

// surface §6.2: the provider's variables are strict
#[test]
fn provider_variables_that_do_not_parse_end_the_start() {
    for setting in SETTINGS.iter().filter(|setting| setting.flag.is_empty()) {
        let may_be_anything = matches!(setting.kind, Kind::Secret) || setting.default.is_empty();
        let has_row = REFUSED.iter().any(|(variable, _)| *variable == setting.variable);
        assert!(may_be_anything || has_row, "{} has no row", setting.variable);
    }
    for (variable, value) in REFUSED {
        let expected = format!("validating cli flags / env vars, invalid {variable} {value:?}");
        assert_eq!(refused(&[], &minimal().with(variable, value)), expected);
    }
}

#[test]
fn what_has_no_default_is_named_when_it_is_missing() {
    let no_name = Environment::from([("SPOT_REFRESH_TOKEN", "token")]);
    assert!(refused(&[], &no_name).contains("SPOT_CLOUDSPACE_NAME is not set"));
    assert!(refused(&[], &no_name.with("SPOT_CLOUDSPACE_NAME", "")).contains("SPOT_CLOUDSPACE_NAME is not set"));
    let no_token = Environment::from([("SPOT_CLOUDSPACE_NAME", "x"), ("SPOT_REFRESH_TOKEN", " ")]);
    assert!(refused(&[], &no_token).contains("SPOT_REFRESH_TOKEN is not set"));
}

// surface T17
#[test]
fn the_refresh_token_comes_from_its_variable_the_secrets_key_or_a_file() {
    let file = std::env::temp_dir().join(format!("token-{}", std::process::id()));
    std::fs::write(&file, "from-file\n").unwrap();
    let base =
        Environment::from([("SPOT_CLOUDSPACE_NAME", "x")]).with("SPOT_REFRESH_TOKEN_FILE", file.to_str().unwrap());
    let token = |environment: &Environment| {
        let options = read(&[], environment).unwrap();
        options
            .spot
            .credentials
            .refresh_token
            .unwrap()
            .expose_secret()
            .to_owned()
    };
    assert_eq!(token(&base), "from-file");
    let base = base.with("refreshToken", "from-key");
    assert_eq!(token(&base), "from-key");
    assert_eq!(
        token(&base.with("SPOT_REFRESH_TOKEN", "from-variable")),
        "from-variable"
    );
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_token_file_that_cannot_be_read_or_is_empty_ends_the_start() {
    let base = Environment::from([("SPOT_CLOUDSPACE_NAME", "x")]);
    for path in ["/nowhere/token", "/dev/null"] {
        let text = refused(&[], &base.clone().with("SPOT_REFRESH_TOKEN_FILE", path));
        assert!(
            text.contains("SPOT_REFRESH_TOKEN_FILE") && text.contains(path),
            "{text}"
        );
    }
}

#[test]
fn secrets_are_never_shown() {
    let environment = minimal()
        .with("SPOT_REFRESH_TOKEN", "s3cret")
        .with("SPOT_ACCESS_TOKEN", "s3cret");
    let options = read(&[], &environment).unwrap();
    for shown in [format!("{options:?}"), format!("{environment:?}")] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    let bad = environment.with("RACKSPACE_BID_RULES", "x");
    assert!(!format!("{:?}", read(&[], &bad).unwrap_err()).contains("s3cret"));
}

#[test]
fn what_was_put_in_the_wrong_place_is_not_shown_either() {
    let token_as_path = Environment::from([("SPOT_CLOUDSPACE_NAME", "x"), ("SPOT_REFRESH_TOKEN_FILE", "v1.s3cret")]);
    let text = refused(&[], &token_as_path);
    assert!(
        text.contains("SPOT_REFRESH_TOKEN_FILE") && !text.contains("s3cret"),
        "{text}"
    );
    for variable in ["SPOT_BASE_URL", "SPOT_AUTH_URL", "NGPC_PRICE_DETAILS_URL"] {
        for address in [
            "ftp://me:s3cret@host",
            "https://me:s3cret@host/",
            "me:s3cret@host",
            "http://s3cret@",
        ] {
            let text = refused(&[], &minimal().with(variable, address));
            assert!(text.contains(variable) && !text.contains("s3cret"), "{text}");
        }
    }
}

#[test]
fn every_variable_that_the_chart_sets_is_a_setting() {
    let chart = include_str!("../charts/karpenter/templates/_helpers.tpl");
    let set: Vec<&str> = chart
        .split("(dict \"name\" \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(
        set.len() > 15,
        "the chart sets {set:?}: this test looks at the wrong place"
    );
    for variable in set {
        assert!(
            SETTINGS.iter().any(|setting| setting.variable == variable),
            "{variable}"
        );
    }
}

/// A value other than the default for each setting that has a variable only, and how it shows in the options.
#[rustfmt::skip] // a table: one row per line
const VARIABLES: &[(&str, &str, Shows)] = &[
    ("LEADER_ELECTION_LEASE_DURATION", "1m", |o| o.leader_election_lease_duration == Duration::from_mins(1)),
    ("SPOT_CLOUDSPACE_NAME", "other", |o| o.spot.cloudspace_name == "other"),
    ("SPOT_REFRESH_TOKEN", " other\n", |o| refresh_token(o) == "other"),
    ("refreshToken", "other", |o| refresh_token(o) == "token"),
    ("SPOT_REFRESH_TOKEN_FILE", "/dev/null", |o| refresh_token(o) == "token"),
    ("SPOT_ACCESS_TOKEN", "ready", |o| o.spot.credentials.access_token.as_ref().is_some_and(|token| token.expose_secret() == "ready")),
    ("SPOT_BASE_URL", "http://127.0.0.1:1/", |o| o.spot.base_url == "http://127.0.0.1:1"),
    ("SPOT_AUTH_URL", "https://login.test", |o| o.spot.auth_url == "https://login.test"),
    ("SPOT_REQUEST_TIMEOUT", "5s", |o| o.spot.http.request_timeout == Duration::from_secs(5)),
    ("SPOT_IDLE_CONN_TIMEOUT", "0s", |o| o.spot.http.idle_conn_timeout.is_zero()),
    ("SPOT_MAX_IDLE_CONNS", "7", |o| o.spot.http.max_idle_conns == 7),
    ("SPOT_MAX_RETRIES", "0", |o| o.spot.http.max_retries == 0),
    ("SPOT_RETRY_INITIAL_INTERVAL", "250ms", |o| o.spot.http.retry_initial_interval == Duration::from_millis(250)),
    ("SPOT_RETRY_MULTIPLIER", "1.5", |o| (o.spot.http.retry_multiplier - 1.5).abs() < f64::EPSILON),
    ("SPOT_RETRY_RANDOMIZATION_FACTOR", "0", |o| o.spot.http.retry_randomization_factor.abs() < f64::EPSILON),
    ("SPOT_RETRY_WAIT_MAX", "1m", |o| o.spot.http.retry_wait_max == Duration::from_mins(1)),
    ("RXTSPOT_CLIENT_ID", "me", |o| o.spot.client_id.as_deref() == Some("me")),
    ("NGPC_PRICE_DETAILS_URL", "http://127.0.0.1:2/p.json", |o| o.spot.price_feed_url == "http://127.0.0.1:2/p.json"),
    ("VM_MEMORY_OVERHEAD_PERCENT", "0", |o| o.spot.capacity.memory_overhead.is_zero()),
    ("RACKSPACE_KUBE_RESERVED_CPU", "1", |o| o.spot.capacity.kube_reserved_cpu.milli_value() == 1000),
    ("RACKSPACE_KUBE_RESERVED_MEMORY", "2Gi", |o| o.spot.capacity.kube_reserved_memory.value() == 2 << 30),
    ("RACKSPACE_LAUNCH_TIMEOUT", "30s", |o| o.spot.launch_timeout == Duration::from_secs(30)),
    ("RACKSPACE_BID_RULES", "ladder", |o| format!("{:?}", o.spot.bid_rules) == "Ladder"),
];

fn refresh_token(options: &Options) -> &str {
    let token = options.spot.credentials.refresh_token.as_ref();
    token.map_or("", ExposeSecret::expose_secret)
}

// surface §6.2
#[test]
fn every_setting_that_has_a_variable_only_is_in_the_table_and_is_read() {
    let rows = SETTINGS.iter().filter(|setting| setting.flag.is_empty());
    let named: Vec<_> = rows.map(|setting| setting.variable).collect();
    assert_eq!(named, VARIABLES.iter().map(|(name, _, _)| *name).collect::<Vec<_>>());
    for (name, value, shows) in VARIABLES {
        assert!(shows(&with_variable(name, value)), "{name}={value}");
    }
}

// surface §6.2: there are no flags for them
#[test]
fn settings_that_have_a_variable_only_are_no_flags() {
    for (name, value, _) in VARIABLES {
        let flag = format!("--{}={value}", name.to_lowercase().replace('_', "-"));
        assert!(refused(&[&flag], &minimal()).contains("--metrics-port"), "{flag}");
    }
}

// surface §6.2: strict, where Karpenter's own are lenient
#[test]
fn an_empty_variable_of_the_provider_replaces_its_default_and_ends_the_start_where_empty_is_no_value() {
    let may_be_empty = [
        "refreshToken",
        "SPOT_REFRESH_TOKEN_FILE",
        "SPOT_ACCESS_TOKEN",
        "RXTSPOT_CLIENT_ID",
    ];
    for (name, _, _) in VARIABLES {
        let outcome = read(&[], &minimal().with(name, ""));
        assert_eq!(outcome.is_ok(), may_be_empty.contains(name), "{name}");
    }
}
