//! An error with its causes in one line, for logs.
//!
//! A cause is never part of an error's own text (each border keeps it as the source), so whoever logs an error joins them here.

use std::error::Error;

/// The error's text, then those of its causes, separated by colons.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(present) = cause {
        text.push_str(": ");
        text.push_str(&present.to_string());
        cause = present.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("calling list")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_their_error() {
        assert_eq!(
            with_causes(&Outer(std::io::Error::other("connection reset"))),
            "calling list: connection reset"
        );
    }
}
