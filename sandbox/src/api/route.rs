//! From an HTTP request to a call: which verb on which kind, object and subresource, with which parameters.
//!
//! Relies on [`super::kinds`] for what is served; [`super::server`] calls it first for every request.

use super::error::ApiError;
use super::kinds::{Registry, Resource, Scope};
use axum::extract::Query;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri, header};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a request does, in RBAC's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one.
    Get,
    /// Read many.
    List,
    /// Follow many.
    Watch,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

impl Verb {
    /// Whether it may change the store.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    /// RBAC's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// How the body of the answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Objects,
    Table,
    MetadataOnly,
}

/// How a patch body is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Query parameters by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params {
    values: BTreeMap<String, String>,
}

impl Params {
    fn of(uri: &Uri) -> Self {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map(|q| q.0)
            .unwrap_or_default();
        Self {
            values: pairs.into_iter().collect(),
        }
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.values.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1" | "True")
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.get(name).parse().ok()
    }

    pub(crate) fn dry_run(&self) -> bool {
        self.get("dryRun") == "All"
    }
}

/// A request about objects.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) resource: Arc<Resource>,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) params: Params,
    pub(crate) shape: Shape,
    pub(crate) patch: Option<PatchKind>,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn table(&self) -> String {
        self.resource.qualified()
    }
}

/// A path under `/api` or `/apis`, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    group: String,
    version: String,
    namespace: String,
    plural: String,
    name: String,
    subresource: String,
}

impl ObjectPath {
    /// `None` when the path names no kind (discovery and the like).
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> = path.split('/').filter(|p| !p.is_empty()).map(percent_decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, plural, name, subresource) = match rest {
            // A namespace's own subresources look like kinds inside it.
            ["namespaces", name, sub @ ("status" | "finalize")] => ("", "namespaces", *name, *sub),
            ["namespaces", namespace, plural] => (*namespace, *plural, "", ""),
            ["namespaces", namespace, plural, name] => (*namespace, *plural, *name, ""),
            ["namespaces", namespace, plural, name, sub] => (*namespace, *plural, *name, *sub),
            [plural] => ("", *plural, "", ""),
            [plural, name] => ("", *plural, *name, ""),
            [plural, name, sub] => ("", *plural, *name, *sub),
            _ => return None,
        };
        let own = str::to_owned;
        Some(Self {
            group: own(group),
            version: own(version),
            namespace: own(namespace),
            plural: own(plural),
            name: own(name),
            subresource: own(subresource),
        })
    }

    /// Makes the call, when the kind is served and the method fits.
    pub(crate) fn call(
        self,
        registry: &Registry,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Call, ApiError> {
        let found = registry.find(&self.group, &self.version, &self.plural);
        let resource = Arc::clone(found.ok_or_else(ApiError::no_such_path)?);
        let params = Params::of(uri);
        let named = !self.name.is_empty();
        let verb = match (method, named) {
            (&Method::GET, _) if params.flag("watch") => Verb::Watch,
            (&Method::GET, true) => Verb::Get,
            (&Method::GET, false) => Verb::List,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, true) => Verb::Update,
            (&Method::PATCH, true) => Verb::Patch,
            (&Method::DELETE, true) => Verb::Delete,
            (&Method::DELETE, false) => Verb::DeleteCollection,
            _ => {
                let words = "the server does not allow this method on the requested resource";
                return Err(ApiError::new(405, "MethodNotAllowed", words));
            }
        };
        if resource.scope == Scope::Cluster && !self.namespace.is_empty() {
            return Err(ApiError::no_such_path());
        }
        if resource.scope == Scope::Namespaced && self.namespace.is_empty() && (named || verb == Verb::Create) {
            return Err(ApiError::bad_request(
                "an empty namespace may not be set during creation",
            ));
        }
        Ok(Call {
            verb,
            resource,
            subresource: self.subresource,
            namespace: self.namespace,
            name: self.name,
            params,
            shape: shape_of(headers)?,
            patch: patch_kind(headers),
            body,
        })
    }
}

fn shape_of(headers: &HeaderMap) -> Result<Shape, ApiError> {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("*/*");
    // The first alternative that we can write wins, as in upstream's negotiation.
    for option in accept.split(',') {
        let mut parts = option.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "*/*" | "application/*") {
            continue;
        }
        match parts.find_map(|p| p.strip_prefix("as=")) {
            None => return Ok(Shape::Objects),
            Some("Table") => return Ok(Shape::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Shape::MetadataOnly),
            Some(_) => {}
        }
    }
    let words = "only the following media types are accepted: application/json";
    Err(ApiError::new(406, "NotAcceptable", words))
}

fn patch_kind(headers: &HeaderMap) -> Option<PatchKind> {
    let content = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    match content.split(';').next().unwrap_or_default().trim() {
        "application/json-patch+json" => Some(PatchKind::Json),
        "application/merge-patch+json" => Some(PatchKind::Merge),
        "application/strategic-merge-patch+json" => Some(PatchKind::Strategic),
        "application/apply-patch+yaml" => Some(PatchKind::Apply),
        _ => None,
    }
}

fn percent_decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0_usize);
    while let Some(byte) = bytes.get(at) {
        let hex = text
            .get(at.saturating_add(1)..at.saturating_add(3))
            .filter(|_| *byte == b'%');
        let decoded = hex.and_then(|h| u8::from_str_radix(h, 16).ok());
        out.push(decoded.unwrap_or(*byte));
        at = at.saturating_add(if decoded.is_some() { 3 } else { 1 });
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_group_version_namespace_kind_object_and_subresource() {
        let parse = |p: &str| {
            let o = ObjectPath::parse(p).unwrap();
            [o.group, o.version, o.namespace, o.plural, o.name, o.subresource].join("|")
        };
        assert_eq!(parse("/api/v1/pods"), "|v1||pods||");
        assert_eq!(parse("/api/v1/namespaces"), "|v1||namespaces||");
        assert_eq!(parse("/api/v1/namespaces/a"), "|v1||namespaces|a|");
        assert_eq!(parse("/api/v1/namespaces/a/status"), "|v1||namespaces|a|status");
        assert_eq!(parse("/api/v1/namespaces/a/pods/b/eviction"), "|v1|a|pods|b|eviction");
        assert_eq!(
            parse("/apis/karpenter.sh/v1/nodepools/x/scale"),
            "karpenter.sh|v1||nodepools|x|scale"
        );
        assert_eq!(parse("/api/v1/nodes/a%3Ab"), "|v1||nodes|a:b|");
        assert_eq!(ObjectPath::parse("/apis/apps/v1"), None);
        assert_eq!(ObjectPath::parse("/version"), None);
    }

    #[test]
    fn kubectls_accept_header_asks_for_a_table() {
        let mut headers = HeaderMap::new();
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert_eq!(shape_of(&headers).unwrap(), Shape::Table);
        headers.insert(
            header::ACCEPT,
            "application/vnd.kubernetes.protobuf, application/json".parse().unwrap(),
        );
        assert_eq!(shape_of(&headers).unwrap(), Shape::Objects);
        headers.insert(header::ACCEPT, "application/vnd.kubernetes.protobuf".parse().unwrap());
        assert_eq!(shape_of(&headers).unwrap_err().code, 406);
    }
}
