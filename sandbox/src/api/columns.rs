//! The simplified JSON paths of printer columns: `.a.b\.c[?(@.type=="Ready")].status`, `[0]`, `[*]`.
//!
//! A path that is not understood finds nothing, as a column must never break a list. Called by [`super::table`].

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
    All,
    Where(String, String),
}

/// All values a path finds in an object.
pub(crate) fn evaluate<'a>(path: &str, object: &'a Value) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    let mut found = vec![object];
    for step in &steps {
        found = found.into_iter().flat_map(|value| step.take(value)).collect();
    }
    found.into_iter().filter(|v| !v.is_null()).collect()
}

impl Step {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(at) => value.get(at).into_iter().collect(),
            Self::All => value.as_array().into_iter().flatten().collect(),
            Self::Where(field, wanted) => {
                let fits = |item: &&Value| item.get(field).and_then(Value::as_str) == Some(wanted);
                value.as_array().into_iter().flatten().filter(fits).collect()
            }
        }
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '.' => {
                let mut name = String::new();
                while let Some(next) = chars.next_if(|n| *n != '.' && *n != '[') {
                    if next == '\\' {
                        name.extend(chars.next());
                    } else {
                        name.push(next);
                    }
                }
                if !name.is_empty() {
                    steps.push(Step::Field(name));
                }
            }
            '[' => {
                let mut inside = String::new();
                let mut quote = None;
                for next in chars.by_ref() {
                    match (quote, next) {
                        (None, ']') => break,
                        (None, '"' | '\'') => quote = Some(next),
                        (Some(open), close) if open == close => quote = None,
                        _ => {}
                    }
                    inside.push(next);
                }
                steps.push(bracket(&inside)?);
            }
            _ => return None,
        }
    }
    Some(steps)
}

fn bracket(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::All);
    }
    if let Ok(index) = inside.parse() {
        return Some(Step::Index(index));
    }
    if let Some(condition) = inside.strip_prefix("?(").and_then(|c| c.strip_suffix(')')) {
        let (field, wanted) = condition.split_once("==")?;
        let field = field.trim().strip_prefix("@.")?;
        return Some(Step::Where(field.to_owned(), unquoted(wanted.trim()).to_owned()));
    }
    Some(Step::Field(unquoted(inside).to_owned()))
}

fn unquoted(text: &str) -> &str {
    let inner = |q: char| text.strip_prefix(q).and_then(|t| t.strip_suffix(q));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_paths_of_our_columns_find_their_values() {
        let object = json!({"metadata": {"labels": {"karpenter.sh/nodepool": "p"}},
            "status": {"conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True"}], "n": [1, 2]}});
        let text = |path: &str| {
            evaluate(path, &object)
                .into_iter()
                .map(Value::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(text(r".metadata.labels.karpenter\.sh/nodepool"), "\"p\"");
        assert_eq!(text(r#".status.conditions[?(@.type=="Ready")].status"#), "\"True\"");
        assert_eq!(text(r".status.conditions[?(@.type=='Ready')].status"), "\"True\"");
        assert_eq!(text(".status.n[1]"), "2");
        assert_eq!(text(".status.n[*]"), "1,2");
        assert_eq!(text(".status.absent"), "");
        assert_eq!(text("nonsense"), "");
    }
}
