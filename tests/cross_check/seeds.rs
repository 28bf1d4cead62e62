//! Which cases are wanted: `SEEDS=A..B`, or those given.

use std::ops::Range;

/// The seeds of the environment variable `SEEDS`, or the usual ones.
pub fn asked(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("SEEDS") else { return usual };
    if text.is_empty() {
        return usual;
    }
    let range = text
        .split_once("..")
        .and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    range.unwrap_or_else(|| panic!("SEEDS={text}: write it as A..B"))
}
