//! The bodies by name.

use super::{objects, placing, platform, structured, text};

/// Takes any bytes.
type Body = fn(&[u8]);

/// All bodies. The name is also that of the target, and of the corpus below `tests/data/hostile`.
pub const ALL: &[(&str, Body)] = &[
    ("cron", text::cron),
    ("duration", text::duration),
    ("feed", platform::feed),
    ("objects", objects::objects),
    ("placing", placing::placing),
    ("quantity", text::quantity),
    ("selector", objects::selector),
    ("settings", text::settings),
    ("spot", platform::spot),
    ("structured", structured::structured),
    ("token", platform::token),
];

/// Runs the body of this name; one that does not exist is a mistake in the target.
pub fn run(name: &str, data: &[u8]) {
    let body = ALL.iter().find(|(known, _)| *known == name);
    assert!(body.is_some(), "there is no body {name}");
    if let Some((_, body)) = body {
        body(data);
    }
}
