//! Durations that keep the spelling that the user chose.
//!
//! Decides nothing beyond the grammar of durations and the word `Never`. Relies on [`GoDuration`]; called by the types of this module.

use super::{DurationError, GoDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A duration that is written back exactly as it was spelled (surface T21).
///
/// Differs: Karpenter rewrites `terminationGracePeriod` and a budget's `duration` in Go's form (`1h` becomes `1h0m0s`), which GitOps tools then see as
/// a difference. The value is the same, so we keep the user's spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpelledDuration {
    text: String,
    value: GoDuration,
}

impl SpelledDuration {
    /// Reads a duration and remembers its spelling.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        GoDuration::parse(text).map(|value| Self {
            text: text.to_owned(),
            value,
        })
    }

    /// The duration.
    pub fn value(&self) -> GoDuration {
        self.value
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<GoDuration> for SpelledDuration {
    fn from(value: GoDuration) -> Self {
        Self {
            text: value.to_string(),
            value,
        }
    }
}

/// The word that stands for "not at all".
pub const NEVER: &str = "Never";

/// A duration or `Never`, written back exactly as it was spelled (surface T21).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NillableDuration {
    text: String,
    value: Option<GoDuration>,
}

impl NillableDuration {
    /// `Never`.
    pub fn never() -> Self {
        Self {
            text: NEVER.to_owned(),
            value: None,
        }
    }

    /// Reads a duration or `Never`, and remembers its spelling.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let value = if text == NEVER {
            None
        } else {
            Some(GoDuration::parse(text)?)
        };
        Ok(Self {
            text: text.to_owned(),
            value,
        })
    }

    /// The duration; `None` is `Never`.
    pub fn value(&self) -> Option<GoDuration> {
        self.value
    }

    /// Whether it is `Never`.
    pub fn is_never(&self) -> bool {
        self.value.is_none()
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Default for NillableDuration {
    fn default() -> Self {
        Self::never()
    }
}

impl From<GoDuration> for NillableDuration {
    fn from(value: GoDuration) -> Self {
        Self {
            text: value.to_string(),
            value: Some(value),
        }
    }
}

/// The forms that both spelled types have: text, serde and schema.
macro_rules! spelled {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = DurationError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    };
}

spelled!(SpelledDuration);
spelled!(NillableDuration);
