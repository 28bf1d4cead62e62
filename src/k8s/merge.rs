//! The merge patch that turns one JSON document into another.
//!
//! A controller changes a copy of an object and sends only what differs, so that two controllers that write different fields of one object do
//! not undo each other. PURE; called by the controllers.

use serde_json::{Map, Value};

/// The JSON merge patch (RFC 7386) from `before` to `after`; `None` when they are equal. Lists are replaced whole.
pub fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (key, value) in after {
        let change = before
            .get(key)
            .map_or_else(|| Some(value.clone()), |old| merge_patch(old, value));
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_sent() {
        let before = json!({ "a": 1, "b": { "c": 1, "d": [1, 2] }, "gone": true });
        let after = json!({ "a": 1, "b": { "c": 2, "d": [1, 2], "e": {} } });
        assert_eq!(
            merge_patch(&before, &after),
            Some(json!({ "b": { "c": 2, "e": {} }, "gone": null }))
        );
        assert_eq!(merge_patch(&after, &after), None);
        assert_eq!(
            merge_patch(&json!({ "l": [1, 2] }), &json!({ "l": [2] })),
            Some(json!({ "l": [2] }))
        );
    }
}
