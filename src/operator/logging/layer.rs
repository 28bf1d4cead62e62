//! The `tracing` layer.

use super::LogSetup;
use super::fields::Fields;
use super::line::{Line, Shown};
use super::outputs::Outputs;
use super::sampling::Sampler;
use crate::operator::options::LogLevel;
use std::sync::{Mutex, PoisonError};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Our own targets begin with the library's or the binary's name.
const OURS: [&str; 3] = ["karpenter", "sandbox", "xtask"];

/// Writes events as lines.
#[derive(Debug)]
pub struct LogLayer {
    setup: LogSetup,
    outputs: Outputs,
    sampler: Mutex<Sampler>,
}

impl LogLayer {
    /// A layer that writes to `outputs`.
    pub fn new(setup: LogSetup, outputs: Outputs) -> Self {
        Self {
            setup,
            outputs,
            sampler: Mutex::default(),
        }
    }

    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        if !is_ours(metadata.target()) {
            return *metadata.level() == Level::ERROR;
        }
        match shown(*metadata.level()) {
            None => false,
            Some(Shown::Debug) => self.setup.level == LogLevel::Debug,
            Some(Shown::Info) => self.setup.level != LogLevel::Error,
            Some(Shown::Error) => true,
        }
    }
}

fn is_ours(target: &str) -> bool {
    let root = target.split("::").next().unwrap_or_default();
    OURS.iter().any(|name| root == *name || root.starts_with("karpenter_"))
}

fn shown(level: Level) -> Option<Shown> {
    match level {
        Level::ERROR => Some(Shown::Error),
        Level::WARN | Level::INFO => Some(Shown::Info),
        Level::DEBUG => Some(Shown::Debug),
        _ => None,
    }
}

/// `controller` for our own lines; libraries are named behind it, as upstream names its framework's parts.
fn logger(target: &str) -> String {
    if is_ours(target) {
        return "controller".to_owned();
    }
    format!("controller.{}", target.split("::").next().unwrap_or(target))
}

/// The last folder, the file, the line (surface §8.1).
fn caller(metadata: &Metadata<'_>) -> Option<String> {
    let mut parts = metadata.file()?.rsplit('/');
    let file = parts.next()?;
    let place = parts
        .next()
        .map_or_else(|| file.to_owned(), |folder| format!("{folder}/{file}"));
    Some(
        metadata
            .line()
            .map_or_else(|| place.clone(), |line| format!("{place}:{line}")),
    )
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        // Spans carry the fields of the lines inside them, whatever their own level.
        if metadata.is_span() {
            is_ours(metadata.target())
        } else {
            self.shows(metadata)
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let Some(level) = shown(*metadata.level()) else { return };
        let mut own = Fields::default();
        event.record(&mut own);
        let time = self.setup.clock.now();
        let admitted = self
            .sampler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .admits(level, &own.message, time);
        if !admitted {
            return;
        }
        let mut fields = Fields {
            message: own.message,
            entries: Vec::new(),
        };
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(present) = span.extensions().get::<Fields>() {
                present
                    .entries
                    .iter()
                    .for_each(|(key, value)| fields.put(key, value.clone()));
            }
        }
        own.entries.into_iter().for_each(|(key, value)| fields.put(key, value));
        let line = Line {
            level,
            time,
            logger: &logger(metadata.target()),
            caller: if self.setup.level == LogLevel::Debug {
                caller(metadata)
            } else {
                None
            },
            commit: self.setup.commit,
            fields: &fields,
        };
        self.outputs.write(&line.render(self.setup.format));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;
    use crate::clock::{Clock, SharedClock};
    use crate::telemetry::Structured;
    use chrono::{DateTime, Utc};
    use serde_json::json;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt as _;

    struct Fixed;

    impl Clock for Fixed {
        fn now(&self) -> DateTime<Utc> {
            "2024-06-22T02:24:16.114Z".parse().unwrap()
        }
    }

    fn logged(level: LogLevel, format: Format, work: impl FnOnce()) -> String {
        let (outputs, memory) = Outputs::in_memory();
        let clock: SharedClock = Arc::new(Fixed);
        let setup = LogSetup {
            level,
            format,
            clock,
            commit: Some("abc1234"),
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(LogLayer::new(setup, outputs)), work);
        let bytes = memory.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    // surface §8.1
    #[test]
    fn keys_come_in_upstreams_order() {
        let text = logged(LogLevel::Info, Format::Json, || {
            let span = tracing::info_span!(
                "reconcile",
                controller = "nodeclaim.lifecycle",
                NodeClaim = "default-x",
                namespace = "",
                name = "default-x"
            );
            let _entered = span.enter();
            tracing::info!("provider-id" = "openstack:///1", Pod = "ns/p", "launched nodeclaim");
        });
        assert_eq!(
            text,
            concat!(
                r#"{"level":"INFO","time":"2024-06-22T02:24:16.114Z","logger":"controller","message":"launched nodeclaim","commit":"abc1234","#,
                r#""controller":"nodeclaim.lifecycle","NodeClaim":{"name":"default-x"},"namespace":"","name":"default-x","#,
                r#""provider-id":"openstack:///1","Pod":{"name":"p","namespace":"ns"}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn hostile_texts_stay_one_line_of_json() {
        let text = logged(LogLevel::Info, Format::Json, || {
            tracing::error!(error = "a\"\n{\u{7}", "bad");
        });
        assert_eq!(text.lines().count(), 1);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["error"], &line["level"]),
            (&json!("a\"\n{\u{7}"), &json!("ERROR"))
        );
    }

    #[test]
    fn structured_values_are_objects_and_numbers_stay_numbers() {
        let text = logged(LogLevel::Info, Format::Json, || {
            tracing::info!(pods = 3_u64, nodes = ?Structured(json!([{ "Node": { "name": "a" } }])), "m");
        });
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["pods"], &line["nodes"][0]["Node"]["name"]),
            (&json!(3), &json!("a"))
        );
    }

    #[test]
    fn levels_are_shown_as_the_setting_says_and_warn_is_info() {
        let lines = |level| {
            let text = logged(level, Format::Json, || {
                tracing::debug!("d");
                tracing::info!("i");
                tracing::warn!("w");
                tracing::error!("e");
            });
            text.lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
                .collect::<Vec<_>>()
        };
        let messages = |level| {
            lines(level)
                .iter()
                .map(|l| l["message"].as_str().unwrap().to_owned())
                .collect::<String>()
        };
        assert_eq!(
            (
                messages(LogLevel::Error),
                messages(LogLevel::Info),
                messages(LogLevel::Debug)
            ),
            ("e".into(), "iwe".into(), "diwe".into())
        );
        let all = lines(LogLevel::Debug);
        assert_eq!(all[2]["level"], "INFO");
        assert!(
            all[0]["caller"].as_str().unwrap().starts_with("logging/layer.rs:"),
            "{}",
            all[0]
        );
        assert_eq!(lines(LogLevel::Info)[0].get("caller"), None);
    }

    #[test]
    fn libraries_are_heard_from_errors_on() {
        let text = logged(LogLevel::Debug, Format::Json, || {
            tracing::info!(target: "kube_client::client", "chatter");
            tracing::error!(target: "kube_client::client", "trouble");
        });
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#""logger":"controller.kube_client""#), "{text}");
    }

    #[test]
    fn an_error_is_shown_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("calling list")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("connection reset"));
        let text = logged(LogLevel::Info, Format::Json, || {
            tracing::error!(error = &error as &dyn std::error::Error, "Reconciler error");
        });
        assert!(text.contains(r#""error":"calling list: connection reset""#), "{text}");
    }

    #[test]
    fn the_console_form_is_short() {
        let text = logged(LogLevel::Info, Format::Console, || {
            tracing::info!(NodeClaim = "default-x", pods = 3, note = "two words", "created");
        });
        assert_eq!(
            text,
            "02:24:16.114 INFO  created NodeClaim=default-x pods=3 note=\"two words\"\n"
        );
    }
}
