//! The rules of `metadata`, the same for all kinds: names, labels, annotations, finalizers, owners.
//!
//! Called by [`super::rules`].

use super::super::error::Cause;
use super::super::kinds::Resource;
use super::super::object::{self, list, text};
use serde_json::Value;

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// All that is wrong with an object's metadata.
pub(crate) fn judge(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old.is_none() {
        let name = object::name(new);
        let fits = if resource.is("", "Namespace") {
            is_label(name)
        } else {
            is_subdomain(name)
        };
        if !fits {
            causes.push(Cause::invalid("metadata.name", &quoted(name), SUBDOMAIN));
        }
    }
    labels(new, old, &mut causes);
    finalizers(new, old, &mut causes);
    owners(new, &mut causes);
    causes
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn unchanged(new: &Value, old: Option<&Value>, field: &str) -> bool {
    let of = |o: &Value| o.get("metadata").and_then(|m| m.get(field)).cloned();
    old.is_some_and(|old| of(old) == of(new))
}

fn labels(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    for field in ["labels", "annotations"] {
        if unchanged(new, old, field) {
            continue;
        }
        let path = format!("metadata.{field}");
        for (key, value) in object::labels_at(new, &format!("/metadata/{field}")) {
            if !is_qualified(key) {
                causes.push(Cause::invalid(path.clone(), &quoted(key), QUALIFIED));
            }
            if field == "labels" && !is_label_value(value) {
                causes.push(Cause::invalid(path.clone(), &quoted(value), LABEL_VALUE));
            }
        }
    }
}

fn finalizers(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if unchanged(new, old, "finalizers") {
        return;
    }
    for finalizer in object::finalizers(new) {
        if !is_qualified(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &quoted(finalizer), QUALIFIED));
        }
    }
    let Some(old) = old.filter(|o| object::is_deleting(o)) else {
        return;
    };
    let before = object::finalizers(old);
    let added: Vec<String> = object::finalizers(new)
        .into_iter()
        .filter(|f| !before.contains(f))
        .map(quoted)
        .collect();
    if !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", why));
    }
}

fn owners(new: &Value, causes: &mut Vec<Cause>) {
    let references = list(new, "/metadata/ownerReferences");
    for (at, reference) in references.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(reference, &format!("/{field}")).is_empty() {
                let path = format!("metadata.ownerReferences[{at}].{field}");
                causes.push(Cause::invalid(path, "\"\"", format!("{field} must not be empty")));
            }
        }
    }
    let controllers = references
        .iter()
        .filter(|r| r.get("controller").and_then(Value::as_bool) == Some(true));
    if controllers.count() > 1 {
        let why = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid("metadata.ownerReferences", "null", why));
    }
}

fn edges_alphanumeric(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_name_part(text: &str) -> bool {
    text.len() <= 63
        && edges_alphanumeric(text)
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// A key of a label or annotation: `[prefix/]name`.
pub(crate) fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name_part(key),
        Some((prefix, name)) => is_subdomain(prefix) && is_name_part(name),
    }
}

pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name_part(value)
}

fn is_label(text: &str) -> bool {
    text.len() <= 63
        && edges_alphanumeric(text)
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || c.is_ascii_lowercase() || c == '-')
}

fn is_subdomain(text: &str) -> bool {
    let part = |p: &str| {
        edges_alphanumeric(p)
            && p.chars()
                .all(|c| c.is_ascii_digit() || c.is_ascii_lowercase() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(part)
}
