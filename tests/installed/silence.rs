//! Rights that only a silent watch brings about, through a door to the API server that can be made to say nothing of what happens: its watches stay open and
//! silent, everything else passes.

use super::installation::install;
use super::scene::{Scene, condition, name};
use crate::support::controlplane::Use;
use crate::support::written;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt as _, StreamExt as _, stream};
use http::{StatusCode, header};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Whose watches are silent: the plurals.
type Silence = Vec<&'static str>;

pub struct Door {
    silent: watch::Sender<Silence>,
    address: std::net::SocketAddr,
}

#[derive(Clone)]
struct Beyond {
    client: kube::Client,
    silent: watch::Receiver<Silence>,
}

impl Door {
    /// A door to where this kubeconfig leads, with its credentials.
    pub async fn open(kubeconfig: &Path) -> Self {
        let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
            .await
            .unwrap();
        // A proxy of the environment is not meant for the loopback address.
        config.proxy_url = None;
        // A watch may be silent for long.
        config.read_timeout = None;
        let (silent, told) = watch::channel(Silence::new());
        let beyond = Beyond {
            client: kube::Client::try_from(config).unwrap(),
            silent: told,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass).with_state(Arc::new(beyond));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { silent, address }
    }

    /// From now on the watches of these kinds, open or new, say nothing.
    pub fn silence(&self, plurals: Silence) {
        self.silent.send_replace(plurals);
    }

    /// A kubeconfig that leads through the door.
    pub fn kubeconfig(&self, path: &Path) -> PathBuf {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", self.address) } }], "users": [{ "name": "c", "user": {} }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c" } }],
        });
        std::fs::write(path, text.to_string()).unwrap();
        path.to_owned()
    }
}

async fn pass(State(beyond): State<Arc<Beyond>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    for name in [header::AUTHORIZATION, header::HOST, header::ACCEPT_ENCODING] {
        parts.headers.remove(name);
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    parts.uri = path.parse().unwrap();
    let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
    let plural = parts.uri.path().rsplit('/').next().unwrap().to_owned();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let request = Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    match beyond.client.send(request).await {
        Ok(answer) if is_watch => answer.map(|body| until_silent(Body::new(body), plural, beyond.silent.clone())),
        Ok(answer) => answer.map(Body::new),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// The stream until its kind is to be silent; then it neither says anything nor ends.
fn until_silent(body: Body, plural: String, mut silent: watch::Receiver<Silence>) -> Body {
    let told = async move {
        let of_it = |kinds: &Silence| kinds.iter().any(|kind| *kind == plural);
        // A door that is gone says nothing either.
        let _ = silent.wait_for(of_it).await;
    };
    let said = body.into_data_stream().take_until(told.boxed());
    Body::from_stream(said.chain(stream::pending()))
}

/// What only a silent watch brings about: each of [`super::RARE`].
#[tokio::test(flavor = "multi_thread")]
async fn what_no_watch_confirms_is_read_again_with_the_rights_of_the_chart() {
    let mut scene = Scene::start("silence").await;
    scene.plane.apply_crds().await;
    let installed = install(&scene, &[]).await;
    let door = Door::open(&installed.kubeconfig).await;
    let through = door.kubeconfig(&written::folder().join("silence.kubeconfig"));
    scene.start_operator(&through, &installed.environment);
    scene.apply(&super::class(), "").await.unwrap();
    scene.apply(&super::pool(), "").await.unwrap();
    scene
        .until("the NodePool is ready", async || {
            let pools = scene.objects("karpenter.sh/v1", "NodePool").await;
            condition(&pools[0], "Ready").is_some_and(|ready| ready["status"] == "True")
        })
        .await;
    // what it writes about the machines into the NodePool's status is confirmed by nobody
    door.silence(vec!["nodepools"]);
    // a protected pod is deleted by force when the grace period is over
    let protected = json!({ "karpenter.sh/do-not-disrupt": "true" });
    scene
        .apply(&super::deployment("kept", 1, &protected), "")
        .await
        .unwrap();
    super::all_run(&scene, 1).await;
    let claims = scene.claims().await;
    door.silence(vec!["nodepools", "nodes", "pods"]);
    scene.delete("karpenter.sh/v1", "NodeClaim", &name(&claims[0])).await;
    scene
        .until("the node is being given back", async || {
            let nodes = scene.nodes().await;
            nodes
                .iter()
                .any(|node| node["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
    door.silence(vec!["nodepools", "nodes", "pods", "nodeclaims"]);
    let wanted: BTreeSet<Use> = super::RARE
        .iter()
        .map(|(api_group, resource, verb, _)| Use {
            api_group: (*api_group).to_owned(),
            resource: (*resource).to_owned(),
            verb: (*verb).to_owned(),
        })
        .collect();
    let what = format!("it reads what it wrote: {}", super::listed(&wanted));
    scene
        .until(&what, async || {
            scene.plane.rights_used_by(&installed.user).is_superset(&wanted)
        })
        .await;
    installed.assert_nothing_was_forbidden(&scene);
}
