//! A scenario's stage in the in-process world: no socket, no process, and the clock stands still while anybody works.

use super::stage::{Setting, Stage, environment, quick, quick_machines};
use axum::body::Body;
use karpenter::cloud::spot::ServiceTransport;
use karpenter::operator::{Candidacy, Environment, FirstLogin, Listeners, Options, RunError, Setup, Solving, run};
use kube::Client;
use sandbox::spot::Spot;
use sandbox::world::World;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where all chance comes from.
const SEED: u64 = 7;

/// The operator as a task.
struct Operator {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

/// A world of its own for one scenario.
pub struct Simulated {
    world: World,
    operator: Operator,
    settings: &'static [(&'static str, &'static str)],
    corner: String,
}

impl Simulated {
    /// Starts everything. The clock must be paused.
    pub async fn start(corner: &str, setting: &Setting) -> Self {
        let mut spot = quick();
        (setting.platform)(&mut spot);
        let world = World::builder(SEED).with(|options| {
            options.spot = spot;
            options.machines = quick_machines();
        });
        let world = world.start().await.unwrap();
        let operator = operate(&world, setting.operator);
        let stage = Self {
            world,
            operator,
            settings: setting.operator,
            corner: corner.to_owned(),
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": corner}});
        stage.apply(&namespace).await;
        stage
    }
}

/// Starts an operator in the world.
fn operate(world: &World, settings: &[(&str, &str)]) -> Operator {
    let variables = environment(settings).into_iter();
    let environment = variables.fold(Environment::default(), |all, (name, value)| all.with(&name, &value));
    let setup = Setup {
        options: Options::read([], &environment).unwrap(),
        kube: world.client(),
        transport: Arc::new(ServiceTransport::<_, Body>::new(world.spot_router())),
        clock: Arc::clone(world.clock()),
        seed: SEED,
        listeners: Listeners::off(),
        solving: Solving::Inline,
        candidacy: Candidacy::Alone,
        first_login: FirstLogin::Required,
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(run(setup, stop.clone()));
    Operator { stop, task }
}

impl Stage for Simulated {
    fn client(&self) -> Client {
        self.world.client()
    }

    fn spot(&self) -> &Spot {
        self.world.spot()
    }

    fn corner(&self) -> &str {
        &self.corner
    }

    fn patience(&self) -> Duration {
        Duration::from_mins(10)
    }

    async fn restart_operator(&mut self, settings: &[(&str, &str)]) {
        self.operator.stop.cancel();
        (&mut self.operator.task).await.unwrap().unwrap();
        let settings: Vec<(&str, &str)> = self.settings.iter().chain(settings).copied().collect();
        self.operator = operate(&self.world, &settings);
    }

    fn story(&self) -> String {
        let state = if self.operator.task.is_finished() {
            "the operator has stopped"
        } else {
            "the operator runs"
        };
        format!("{state}\n{}", self.world.picture())
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.operator.stop.cancel();
    }
}
