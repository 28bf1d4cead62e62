//! Values of log fields that are objects or lists.
//!
//! `tracing` knows texts, numbers and booleans. Some of the lines that users grep for hold lists of objects (surface §8.2): whoever logs one wraps it in
//! [`Structured`] and gives it as `?value`; the logger takes it apart again. Other subscribers show the JSON text.

use serde_json::Value;
use std::fmt;

/// No text of ours begins with this: it tells the logger that JSON follows.
const MARK: &str = "\u{1}json:";

/// A JSON value as a log field, given as `field = ?Structured(value)`.
#[derive(Clone, PartialEq)]
pub struct Structured(pub Value);

impl Structured {
    /// The value behind a text that [`Structured`] wrote.
    pub fn decode(text: &str) -> Option<Value> {
        serde_json::from_str(text.strip_prefix(MARK)?).ok()
    }
}

impl fmt::Debug for Structured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{MARK}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_the_way_through_a_log_field() {
        let value = serde_json::json!([{ "Node": { "name": "a" }, "capacity-type": "spot" }]);
        assert_eq!(
            Structured::decode(&format!("{:?}", Structured(value.clone()))),
            Some(value)
        );
        assert_eq!(Structured::decode("[1]"), None);
    }
}
