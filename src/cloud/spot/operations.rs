//! What can be asked of the platform, typed (rackspace-spot §3).
//!
//! Each is one call of `client`, but for lists (all pages) and creates: a create without a clear answer is looked up by name, and only what is not
//! there is sent again, which the name makes harmless.

use crate::cloud::spot::client::{Call, SpotClient, bad_answer, percent_encoded};
use crate::cloud::spot::error::SpotError;
use crate::cloud::spot::reader::{FieldError, Reader};
use crate::cloud::spot::types::{Cloudspace, NewPool, Organization, Pool, PoolKind, ServerClass, namespace_of};
use http::Method;
use serde_json::Value;
use std::sync::PoisonError;

const GROUP: &str = "/apis/ngpc.rxt.io/v1";
const ORGANIZATIONS: &str = "/apis/auth.ngpc.rxt.io/v1/organizations";
/// Objects in one page of a list.
const PAGE: u32 = 500;
/// A list longer than this is not ours to read: 1,000 servers is the platform's own limit (rackspace-spot §1).
const MOST_PAGES: usize = 40;
/// Objects of a list of which it is told why they cannot be read.
const MOST_TOLD: usize = 20;
/// Sends of one create whose outcome stays unclear.
const MOST_CREATE_SENDS: u32 = 3;

/// A list, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    /// What could be read, in the platform's order.
    pub items: Vec<T>,
    /// What could not, by path; no more than a few, whatever comes.
    pub unreadable: Vec<FieldError>,
    /// How many could not.
    pub unread: usize,
}

impl<T> Listed<T> {
    fn leave_out(&mut self, field: FieldError) {
        self.unread += 1;
        if self.unreadable.len() < MOST_TOLD {
            self.unreadable.push(field);
        }
    }
}

/// What a create came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It was made by this call.
    New,
    /// The name was taken: by an earlier try of ours, or by somebody else. Whoever called compares.
    Existed(Box<Pool>),
}

impl SpotClient {
    /// The API namespace: from the token's own organization, else the only one listed; never the first of several (architecture §7.9).
    pub async fn namespace(&self) -> Result<String, SpotError> {
        if let Some(organization) = self.claimed_organization().await? {
            return checked(namespace_of(&organization), "org_id");
        }
        let known = self
            .0
            .listed_namespace
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(namespace) = known {
            return Ok(namespace);
        }
        let organizations = self.organizations().await?;
        let [only] = organizations.as_slice() else {
            let names: Vec<&str> = organizations.iter().map(|o| o.name.as_str()).collect();
            return Err(SpotError::WhichOrganization {
                count: organizations.len(),
                names: names.join(", "),
            });
        };
        let namespace = only.namespace.clone().unwrap_or_else(|| namespace_of(&only.id));
        let namespace = checked(namespace, "organizations[0].metadata.namespace")?;
        *self.0.listed_namespace.lock().unwrap_or_else(PoisonError::into_inner) = Some(namespace.clone());
        Ok(namespace)
    }

    /// The organizations of the account.
    pub async fn organizations(&self) -> Result<Vec<Organization>, SpotError> {
        let call = Call::new("listing", "organizations", Method::GET, ORGANIZATIONS.into());
        let answer = self.call(&call).await?;
        let items = Reader::new(&answer).at("organizations").items();
        items
            .and_then(|items| items.iter().map(Organization::read).collect())
            .map_err(|field| bad_field(&call, field))
    }

    /// All server classes of all regions; one that cannot be read does not hide the others.
    pub async fn server_classes(&self) -> Result<Listed<ServerClass>, SpotError> {
        self.list("server classes", format!("{GROUP}/serverclasses"), ServerClass::read)
            .await
    }

    /// One server class.
    pub async fn server_class(&self, name: &str) -> Result<ServerClass, SpotError> {
        let path = format!("{GROUP}/serverclasses/{}", percent_encoded(name));
        self.read_one(
            &Call::new("reading", format!("server class {name}"), Method::GET, path),
            ServerClass::read,
        )
        .await
    }

    /// One cloudspace.
    pub async fn cloudspace(&self, name: &str) -> Result<Cloudspace, SpotError> {
        let path = format!(
            "{GROUP}/namespaces/{}/cloudspaces/{}",
            self.namespace().await?,
            percent_encoded(name)
        );
        self.read_one(
            &Call::new("reading", format!("cloudspace {name}"), Method::GET, path),
            Cloudspace::read,
        )
        .await
    }

    /// All pools of a kind in the namespace. Not filtered by label on the way: labels are known to be wiped, `spec.cloudSpace` is not.
    pub async fn pools(&self, kind: PoolKind) -> Result<Listed<Pool>, SpotError> {
        let path = self.pools_path(kind).await?;
        self.list(kind.plural(), path, move |top| Pool::read(kind, top)).await
    }

    /// One pool.
    pub async fn pool(&self, kind: PoolKind, name: &str) -> Result<Pool, SpotError> {
        let path = self.pool_path(kind, name).await?;
        let call = Call::new("reading", pool_words(kind, name), Method::GET, path);
        self.read_one(&call, move |top| Pool::read(kind, top)).await
    }

    /// Makes a pool, once: an unclear outcome is looked up by name before anything is sent again.
    pub async fn create_pool(&self, pool: &NewPool) -> Result<Created, SpotError> {
        let mut call = Call::new(
            "creating",
            pool_words(pool.kind, &pool.name),
            Method::POST,
            self.pools_path(pool.kind).await?,
        );
        call.body = Some(pool.body(&self.namespace().await?));
        let unknown = |last: String| SpotError::UnknownOutcome {
            operation: call.operation,
            object: call.object.clone(),
            last,
        };
        let mut sends = 0;
        loop {
            sends += 1;
            let last = match self.call_raw(&call).await {
                // The body of a success is not needed: everything in it was ours.
                Ok(_) => return Ok(Created::New),
                Err(SpotError::AlreadyExists { .. }) => {
                    return match self.pool(pool.kind, &pool.name).await {
                        Ok(existing) => Ok(Created::Existed(Box::new(existing))),
                        // It was there a moment ago, and perhaps it is still: whoever called looks again.
                        Err(error) => Err(unknown(error.to_string())),
                    };
                }
                Err(SpotError::UnknownOutcome { last, .. }) => last,
                // What is answered to a second send says nothing about the first.
                Err(error) if sends > 1 => return Err(unknown(error.to_string())),
                Err(error) => return Err(error),
            };
            tracing::info!(
                pool = pool.name,
                reason = last,
                "the outcome of a create is unknown, looking it up"
            );
            match self.pool(pool.kind, &pool.name).await {
                Ok(existing) => return Ok(Created::Existed(Box::new(existing))),
                // Not there (yet): the name makes another send harmless.
                Err(SpotError::NotFound { .. }) if sends < MOST_CREATE_SENDS => {}
                Err(_) => return Err(unknown(last)),
            }
        }
    }

    /// Asks for the end of a pool. Not found is an answer like any other here.
    pub async fn delete_pool(&self, kind: PoolKind, name: &str) -> Result<(), SpotError> {
        let path = self.pool_path(kind, name).await?;
        self.call_raw(&Call::new("deleting", pool_words(kind, name), Method::DELETE, path))
            .await
            .map(|_| ())
    }

    /// Merges a change into a pool.
    pub async fn patch_pool(&self, kind: PoolKind, name: &str, patch: Value) -> Result<(), SpotError> {
        let path = self.pool_path(kind, name).await?;
        let mut call = Call::new("patching", pool_words(kind, name), Method::PATCH, path);
        call.body = Some(patch);
        self.call_raw(&call).await.map(|_| ())
    }

    async fn pools_path(&self, kind: PoolKind) -> Result<String, SpotError> {
        Ok(format!(
            "{GROUP}/namespaces/{}/{}",
            percent_encoded(&self.namespace().await?),
            kind.plural()
        ))
    }

    async fn pool_path(&self, kind: PoolKind, name: &str) -> Result<String, SpotError> {
        Ok(format!("{}/{}", self.pools_path(kind).await?, percent_encoded(name)))
    }

    async fn read_one<T>(
        &self,
        call: &Call,
        read: impl Fn(&Reader<'_>) -> Result<T, FieldError>,
    ) -> Result<T, SpotError> {
        let answer = self.call(call).await?;
        read(&Reader::new(&answer)).map_err(|field| bad_field(call, field))
    }

    async fn list<T>(
        &self,
        words: &'static str,
        path: String,
        read: impl Fn(&Reader<'_>) -> Result<T, FieldError>,
    ) -> Result<Listed<T>, SpotError> {
        let mut listed = Listed {
            items: Vec::new(),
            unreadable: Vec::new(),
            unread: 0,
        };
        let mut next = String::new();
        for _ in 0..MOST_PAGES {
            let query = if next.is_empty() {
                String::new()
            } else {
                format!("&continue={}", percent_encoded(&next))
            };
            let call = Call::new("listing", words, Method::GET, format!("{path}?limit={PAGE}{query}"));
            let answer = self.call(&call).await?;
            let top = Reader::new(&answer);
            for item in top.at("items").items().map_err(|field| bad_field(&call, field))? {
                match read(&item) {
                    Ok(value) => listed.items.push(value),
                    Err(field) => listed.leave_out(field),
                }
            }
            let more = top.at("metadata").at("continue").optional_text();
            next = more.map(str::to_owned).unwrap_or_default();
            if next.is_empty() {
                return Ok(listed);
            }
        }
        let call = Call::new("listing", words, Method::GET, path);
        Err(bad_answer(&call, "metadata.continue", "never ends"))
    }
}

fn pool_words(kind: PoolKind, name: &str) -> String {
    format!("{} pool {name}", kind.word())
}

fn bad_field(call: &Call, field: FieldError) -> SpotError {
    SpotError::BadAnswer {
        operation: call.operation,
        object: call.object.clone(),
        field,
    }
}
/// A namespace that can stand in a path: what a token or an answer says is not put there unseen.
fn checked(namespace: String, path: &str) -> Result<String, SpotError> {
    let is_label = (1..=63).contains(&namespace.len())
        && namespace
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if is_label {
        return Ok(namespace);
    }
    Err(SpotError::BadAnswer {
        operation: "finding",
        object: "the account's namespace".into(),
        field: FieldError {
            path: path.to_owned(),
            problem: "is no name of a namespace",
        },
    })
}
