//! How a line looks.

use super::fields::Fields;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;
use std::fmt::Write as _;

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object, keys in upstream's order (surface §8.1).
    Json,
    /// For people: time, level, message, fields.
    Console,
}

/// The level as shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Shown {
    Debug,
    Info,
    Error,
}

impl Shown {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Error => "ERROR",
        }
    }
}

/// Everything a line is made of.
pub(super) struct Line<'a> {
    pub(super) level: Shown,
    pub(super) time: DateTime<Utc>,
    pub(super) logger: &'a str,
    pub(super) caller: Option<String>,
    pub(super) commit: Option<&'a str>,
    pub(super) fields: &'a Fields,
}

impl Line<'_> {
    /// The line with its newline.
    pub(super) fn render(&self, format: Format) -> String {
        let mut line = match format {
            Format::Json => self.json(),
            Format::Console => self.console(),
        };
        line.push('\n');
        line
    }

    // serde_json's map sorts its keys, so the object is written by hand.
    fn json(&self) -> String {
        let time = self.time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut out = String::with_capacity(256);
        out.push('{');
        let mut put = |key: &str, value: &Value| {
            if out.len() > 1 {
                out.push(',');
            }
            // Writing to a String cannot fail.
            let _ = write!(out, "{}:{value}", Value::from(key));
        };
        put("level", &self.level.as_str().into());
        put("time", &time.into());
        put("logger", &self.logger.into());
        if let Some(caller) = &self.caller {
            put("caller", &caller.as_str().into());
        }
        put("message", &self.fields.message.as_str().into());
        if let Some(commit) = self.commit {
            put("commit", &commit.into());
        }
        for (key, value) in &self.fields.entries {
            put(key, value);
        }
        out.push('}');
        out
    }

    fn console(&self) -> String {
        let mut out = format!(
            "{} {:<5} {}",
            self.time.format("%H:%M:%S%.3f"),
            self.level.as_str(),
            self.fields.message
        );
        for (key, value) in &self.fields.entries {
            let shown = match value {
                Value::String(text) if !text.contains(char::is_whitespace) && !text.is_empty() => text.clone(),
                Value::Object(object) => match object.get("name") {
                    Some(Value::String(name)) => name.clone(),
                    _ => value.to_string(),
                },
                other => other.to_string(),
            };
            let _ = write!(out, " {key}={shown}");
        }
        out
    }
}
