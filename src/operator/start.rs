//! From the command line to an exit code (surface §6.4): settings, logs, connections, signals, run.
//!
//! `main` is this call and an allocator; the sandbox starts its operator the same way.

use super::build;
use super::candidacy::{Candidacy, Whoami};
use super::environment::Environment;
use super::http::{Listen, Listeners};
use super::kubeconfig;
use super::logging::{self, Format, LogSetup, Outputs};
use super::options::Options;
use super::run::run;
use super::setup::{FirstLogin, Setup, Solving};
use super::signals::stop_on_signals;
use crate::clock::{SharedClock, SystemClock};
use crate::cloud::spot::transport::{ConnectionSettings, HttpTransport};
use crate::telemetry::with_causes;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What upstream's panics end with.
const ABORT: u8 = 2;
/// No usable cluster configuration at all.
const NO_CLUSTER: u8 = 1;

/// How long the API server may take to answer at the start.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// Runs the operator with these arguments (without the program's name) and this environment.
pub fn start(arguments: impl IntoIterator<Item = String>, environment: &Environment) -> ExitCode {
    let options = match Options::read(arguments, environment) {
        Ok(options) => options,
        Err(error) => return refuse(&error, error.exit_code()),
    };
    let clock: SharedClock = Arc::new(SystemClock);
    let setup = LogSetup {
        level: options.log_level,
        format: Format::Json,
        clock: Arc::clone(&clock),
        commit: build::commit(),
    };
    let outputs = match Outputs::open(&options.log_output_paths, &options.log_error_output_paths) {
        Ok(outputs) => outputs,
        Err(error) => return refuse(&error, ABORT),
    };
    if let Err(error) = logging::install(setup, outputs) {
        return refuse(&error, ABORT);
    }
    match runtime() {
        Ok(runtime) => runtime.block_on(serve(options, environment, clock)),
        Err(error) => refuse(&error, ABORT),
    }
}

async fn serve(options: Options, environment: &Environment, clock: SharedClock) -> ExitCode {
    tracing::debug!(version = build::VERSION, "discovered karpenter version");
    // Chance only spreads retries here: the moment of the start is as good as any other number.
    let seed = clock.now().timestamp_micros().unsigned_abs();
    let kube = match kubeconfig::client(environment).await {
        Ok(kube) => kube,
        Err(error) => {
            tracing::error!(error = with_causes(&error), "unable to get kubeconfig");
            return ExitCode::from(NO_CLUSTER);
        }
    };
    let candidacy = match Candidacy::of(&options, &Whoami::ask(seed)) {
        Ok(candidacy) => candidacy,
        Err(error) => return abort("unable to find leader election namespace", &error),
    };
    match tokio::time::timeout(FIRST_ANSWER, kube.apiserver_version()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return abort("the Kubernetes API does not answer", &error),
        Err(elapsed) => return abort("the Kubernetes API does not answer", &elapsed),
    }
    let http = &options.spot.http;
    let connections = ConnectionSettings {
        request_timeout: http.request_timeout,
        idle_timeout: http.idle_conn_timeout,
        most_idle: usize::try_from(http.max_idle_conns).unwrap_or(usize::MAX),
    };
    let transport = match HttpTransport::new(connections) {
        Ok(transport) => Arc::new(transport),
        Err(error) => return abort("setting up the client of the Spot API", &error),
    };
    let stop = CancellationToken::new();
    if let Err(error) = stop_on_signals(stop.clone()) {
        return abort("listening for signals", &error);
    }
    let listeners = Listeners {
        metrics: Listen::Port(options.metrics_port),
        health: Listen::Port(options.health_probe_port),
    };
    let setup = Setup {
        options,
        kube,
        transport,
        clock,
        seed,
        listeners,
        solving: Solving::Blocking,
        candidacy,
        first_login: FirstLogin::Required,
    };
    match run(setup, stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            tracing::error!(error = with_causes(&error), "the operator ended");
            ExitCode::from(code)
        }
    }
}

/// One line on stderr before there are logs.
#[allow(clippy::print_stderr)] // the logger does not exist yet
fn refuse(error: &dyn Error, code: u8) -> ExitCode {
    eprintln!("{}", with_causes(error));
    ExitCode::from(code)
}

fn abort(what: &'static str, error: &dyn Error) -> ExitCode {
    tracing::error!(error = with_causes(error), "{what}");
    ExitCode::from(ABORT)
}

/// The runtime of the process. One worker is enough, since everything but the solves waits for somebody else and solves have threads of their
/// own; each further worker keeps a heap of its own, which made 19 of 74 MiB with 15,000 pods (docs/benchmarks.md).
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
}
