//! From the command line to an exit code (surface §6.4): settings, logs, signals, connections, run, and the end.
//!
//! Whoever is asked to stop stops, however far the start has come. The end waits for nobody: what still computes by then is of no use to anybody.
//!
//! `main` is this call and an allocator; the sandbox starts its operator the same way.

use super::build;
use super::candidacy::{Candidacy, Whoami};
use super::environment::Environment;
use super::http::{Listen, Listeners};
use super::kubeconfig;
use super::logging::{self, Format, LogSetup, Outputs};
use super::options::Options;
use super::run::{RunError, run};
use super::setup::{FirstLogin, Setup, Solving};
use super::signals::stop_on_signals;
use crate::clock::{SharedClock, SystemClock};
use crate::cloud::spot::transport::{ConnectionSettings, HttpTransport};
use crate::telemetry::with_causes;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
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
        Ok(runtime) => finish(runtime, serve(options, environment, clock)),
        Err(error) => refuse(&error, ABORT),
    }
}

/// Runs the process's work, and then leaves whatever threads are still busy: dropping the runtime would wait for each of them without limit, so that
/// a computation which hangs would keep a process alive that has given up its lease.
fn finish<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}

/// Listens for signals before anything else: as the first process of its container it would not even die of one that nobody listens for.
async fn serve(options: Options, environment: &Environment, clock: SharedClock) -> ExitCode {
    let stop = CancellationToken::new();
    if let Err(error) = stop_on_signals(stop.clone()) {
        return abort("listening for signals", &error);
    }
    tracing::debug!(version = build::VERSION, "discovered karpenter version");
    let made = tokio::select! {
        biased;
        // nothing was written yet, so nothing has to end in order
        () = stop.cancelled() => return ExitCode::SUCCESS,
        made = connect(options, environment, clock) => made,
    };
    match made {
        Ok(setup) => conclude(run(setup, stop).await),
        Err(code) => code,
    }
}

/// What a run comes to.
fn conclude(ended: Result<(), RunError>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            tracing::error!(error = with_causes(&error), "the operator ended");
            ExitCode::from(code)
        }
    }
}

/// Everything that a run is given, once the API server has answered; else what the process ends with.
async fn connect(options: Options, environment: &Environment, clock: SharedClock) -> Result<Setup, ExitCode> {
    // Chance only spreads retries here: the moment of the start is as good as any other number.
    let seed = clock.now().timestamp_micros().unsigned_abs();
    let kube = match kubeconfig::client(environment).await {
        Ok(kube) => kube,
        Err(error) => {
            tracing::error!(error = with_causes(&error), "unable to get kubeconfig");
            return Err(ExitCode::from(NO_CLUSTER));
        }
    };
    let candidacy = match Candidacy::of(&options, &Whoami::ask(seed)) {
        Ok(candidacy) => candidacy,
        Err(error) => return Err(abort("unable to find leader election namespace", &error)),
    };
    match tokio::time::timeout(FIRST_ANSWER, kube.apiserver_version()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(abort("the Kubernetes API does not answer", &error)),
        Err(elapsed) => return Err(abort("the Kubernetes API does not answer", &elapsed)),
    }
    let http = &options.spot.http;
    let connections = ConnectionSettings {
        request_timeout: http.request_timeout,
        idle_timeout: http.idle_conn_timeout,
        most_idle: usize::try_from(http.max_idle_conns).unwrap_or(usize::MAX),
    };
    let transport = match HttpTransport::new(connections) {
        Ok(transport) => Arc::new(transport),
        Err(error) => return Err(abort("setting up the client of the Spot API", &error)),
    };
    let listeners = Listeners {
        metrics: Listen::Port(options.metrics_port),
        health: Listen::Port(options.health_probe_port),
    };
    Ok(Setup {
        options,
        kube,
        transport,
        clock,
        seed,
        listeners,
        solving: Solving::Blocking,
        candidacy,
        first_login: FirstLogin::Required,
    })
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
fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_computation_that_hangs_does_not_keep_the_process() {
        let (release, hanging) = mpsc::channel::<()>();
        let (ended, seen) = mpsc::channel();
        let ending = std::thread::spawn(move || {
            let outcome = finish(runtime().unwrap(), async {
                let (began, begun) = tokio::sync::oneshot::channel();
                tokio::task::spawn_blocking(move || {
                    let _ = began.send(());
                    let _ = hanging.recv();
                });
                begun.await
            });
            let _ = ended.send(outcome);
        });
        let outcome = seen.recv_timeout(Duration::from_secs(10));
        drop(release);
        ending.join().unwrap();
        assert_eq!(outcome, Ok(Ok(())), "the end waits for the computation");
    }
}
