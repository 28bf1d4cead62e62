//! `kube::Client`s that talk to the server in the process: no socket, no real time.
//!
//! Called by whoever needs a client: the operator's wiring in tests, the simulated controllers, the tests themselves.

use super::audit::Identity;
use super::server::ApiServer;
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use tower::BoxError;

impl ApiServer {
    /// A client that acts as the administrator.
    pub fn client(&self) -> kube::Client {
        self.client_with(Identity::admin())
    }

    /// A client that acts as somebody.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> kube::Client {
        self.client_with(Identity::new(user, groups))
    }

    /// The bare service, for clients with layers of their own. Must be called inside a tokio runtime when made into a client.
    pub fn service(
        &self,
        identity: Identity,
    ) -> impl tower::Service<
        Request<Body>,
        Response = http::Response<super::server::AnswerBody>,
        Error = BoxError,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static {
        let server = self.clone();
        tower::service_fn(move |request: Request<Body>| {
            let (server, identity) = (server.clone(), identity.clone());
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                Ok::<_, BoxError>(server.answer(&identity, Request::from_parts(parts, bytes)).await)
            }
        })
    }

    fn client_with(&self, identity: Identity) -> kube::Client {
        kube::Client::new(self.service(identity), "default")
    }
}
