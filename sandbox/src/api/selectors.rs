//! Label and field selectors, as query text and as the `LabelSelector` object.
//!
//! Relies on nothing; called by reads, watches, deletions of collections and the disruption budgets.

use super::error::ApiError;
use super::kinds::Resource;
use super::object;
use serde_json::Value;

/// One requirement on labels.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
    Greater(String, i64),
    Less(String, i64),
}

impl Requirement {
    fn matches(&self, label: impl Fn(&str) -> Option<String>) -> bool {
        let number = |key: &str| label(key).and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(key, values) => label(key).is_some_and(|v| values.contains(&v)),
            // An absent label is not one of the values.
            Self::NotIn(key, values) => label(key).is_none_or(|v| !values.contains(&v)),
            Self::Exists(key) => label(key).is_some(),
            Self::DoesNotExist(key) => label(key).is_none(),
            Self::Greater(key, than) => number(key).is_some_and(|v| v > *than),
            Self::Less(key, than) => number(key).is_some_and(|v| v < *than),
        }
    }
}

/// A label selector; without requirements it matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Reads the query form: `a=b,c!=d,e in (f,g),!h,i>3`.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if !part.is_empty() {
                requirements.push(parse_requirement(part)?);
            }
        }
        Ok(Self { requirements })
    }

    /// Reads the object form, `matchLabels` and `matchExpressions`.
    pub fn from_object(selector: &Value) -> Self {
        let mut requirements: Vec<Requirement> = object::labels_at(selector, "/matchLabels")
            .into_iter()
            .map(|(k, v)| Requirement::In(k.to_owned(), vec![v.to_owned()]))
            .collect();
        for expression in object::list(selector, "/matchExpressions") {
            let key = object::text(expression, "/key").to_owned();
            let values: Vec<String> = object::list(expression, "/values")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            match object::text(expression, "/operator") {
                "In" => requirements.push(Requirement::In(key, values)),
                "NotIn" => requirements.push(Requirement::NotIn(key, values)),
                "Exists" => requirements.push(Requirement::Exists(key)),
                "DoesNotExist" => requirements.push(Requirement::DoesNotExist(key)),
                // Unknown operators match nothing rather than everything.
                _ => requirements.push(Requirement::In(key, Vec::new())),
            }
        }
        Self { requirements }
    }

    /// Whether an object's labels fulfil every requirement.
    pub fn matches(&self, object: &Value) -> bool {
        self.requirements
            .iter()
            .all(|r| r.matches(|key| object::label(object, key).map(str::to_owned)))
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The query form of a `LabelSelector` object, as `scale` reports it.
    pub fn text_of(selector: &Value) -> String {
        let mut parts: Vec<String> = object::labels_at(selector, "/matchLabels")
            .into_iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        for expression in object::list(selector, "/matchExpressions") {
            let key = object::text(expression, "/key");
            let values: Vec<&str> = object::list(expression, "/values")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            let values = values.join(",");
            parts.push(match object::text(expression, "/operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            });
        }
        parts.join(",")
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text.get(from..at).unwrap_or_default());
                from = at.saturating_add(1);
            }
            _ => {}
        }
    }
    parts.push(text.get(from..).unwrap_or_default());
    parts
}

fn parse_requirement(part: &str) -> Result<Requirement, ApiError> {
    let bad = || ApiError::bad_request(format!("unable to parse requirement: {part:?}"));
    if let Some(key) = part.strip_prefix('!') {
        return key_of(key).map(Requirement::DoesNotExist).ok_or_else(bad);
    }
    for (operator, make) in [
        ("!=", Equality::Unequal),
        ("==", Equality::Equal),
        ("=", Equality::Equal),
    ] {
        if let Some((key, value)) = part.split_once(operator) {
            let key = key_of(key).ok_or_else(bad)?;
            let values = vec![value.trim().to_owned()];
            return Ok(match make {
                Equality::Equal => Requirement::In(key, values),
                Equality::Unequal => Requirement::NotIn(key, values),
            });
        }
    }
    for (operator, greater) in [('>', true), ('<', false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let key = key_of(key).ok_or_else(bad)?;
            let than = value.trim().parse().map_err(|_| bad())?;
            return Ok(if greater {
                Requirement::Greater(key, than)
            } else {
                Requirement::Less(key, than)
            });
        }
    }
    if let Some((head, rest)) = part.split_once('(') {
        let values = rest.strip_suffix(')').ok_or_else(bad)?;
        let values = values.split(',').map(|v| v.trim().to_owned()).collect();
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace).ok_or_else(bad)?;
        let key = key_of(key).ok_or_else(bad)?;
        return match operator {
            "in" => Ok(Requirement::In(key, values)),
            "notin" => Ok(Requirement::NotIn(key, values)),
            _ => Err(bad()),
        };
    }
    key_of(part).map(Requirement::Exists).ok_or_else(bad)
}

#[derive(Clone, Copy)]
enum Equality {
    Equal,
    Unequal,
}

fn key_of(text: &str) -> Option<String> {
    let key = text.trim();
    let fine = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    fine.then(|| key.to_owned())
}

/// A field selector: dotted paths that must, or must not, have a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<(String, String, bool)>,
}

impl FieldSelector {
    /// Reads `a.b=c,d!=e`; a path that the kind does not offer is refused.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (path, value, wanted) = if let Some((path, value)) = part.split_once("!=") {
                (path, value, false)
            } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (path, value, true)
            } else {
                return Err(ApiError::bad_request(format!("invalid field selector: {part:?}")));
            };
            let path = path.trim().trim_start_matches('.');
            let offered =
                matches!(path, "metadata.name" | "metadata.namespace") || resource.selectable.iter().any(|s| s == path);
            if !offered {
                return Err(ApiError::bad_request(format!("field label not supported: {path}")));
            }
            terms.push((path.to_owned(), value.trim().to_owned(), wanted));
        }
        Ok(Self { terms })
    }

    /// Whether an object fulfils every term.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms
            .iter()
            .all(|(path, value, wanted)| (field_text(object, path) == *value) == *wanted)
    }
}

fn field_text(object: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(object, |value, key| value.get(key));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        // Typed selectors upstream see the zero value of what is absent.
        _ if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
        _ if path == "status.replicas" => "0".into(),
        Some(source) if path == "source" => object::text(source, "/component").to_owned(),
        _ => String::new(),
    }
}

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.namespace.as_ref().is_none_or(|n| object::namespace(object) == n)
            && self.name.as_ref().is_none_or(|n| object::name(object) == n)
            && self.labels.matches(object)
            && self.fields.matches(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_label_operator_selects_what_it_says() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "3"}}});
        for (text, wanted) in [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("other notin (db)", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("tier>2", true),
            ("tier<3", false),
            ("app=web,tier in (3),!x", true),
            ("app=web,x", false),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&object), wanted, "{text}");
        }
        for bad in ["a in b", "a in (b", "=b", "a>x", "a b", "a foo (b)"] {
            assert_eq!(LabelSelector::parse(bad).unwrap_err().code, 400, "{bad}");
        }
    }

    #[test]
    fn the_object_form_means_the_same_as_the_query_form() {
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]}, {"key": "f", "operator": "DoesNotExist"}]});
        let read = LabelSelector::from_object(&selector);
        assert_eq!(LabelSelector::parse(&LabelSelector::text_of(&selector)).unwrap(), read);
        assert!(read.matches(&json!({"metadata": {"labels": {"a": "b", "c": "e"}}})));
        assert!(!read.matches(&json!({"metadata": {"labels": {"a": "b", "c": "e", "f": ""}}})));
    }
}
