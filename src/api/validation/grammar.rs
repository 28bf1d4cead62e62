//! Kubernetes' grammar of qualified names and label values.
//!
//! Decides whether a text is one. Relies on nothing; called by the validation and by whoever takes a key or value from outside.

const MAX_PREFIX: usize = 253;
const MAX_NAME: usize = 63;

/// Why a text is not a qualified name or a label value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The name is empty.
    #[error("the name must not be empty")]
    EmptyName,
    /// The name or value is too long.
    #[error("it must be no more than 63 characters")]
    NameTooLong,
    /// The name or value has characters that it must not have, or begins or ends with one it must not.
    #[error("it must consist of letters, digits, '-', '_' or '.', and begin and end with a letter or digit")]
    NameCharacters,
    /// There is a slash and nothing before it.
    #[error("the prefix must not be empty")]
    EmptyPrefix,
    /// The prefix is too long.
    #[error("the prefix must be no more than 253 characters")]
    PrefixTooLong,
    /// The prefix is not a DNS subdomain.
    #[error("the prefix must be a DNS subdomain: lower-case letters, digits, '-' and '.', as in example.com")]
    PrefixCharacters,
    /// There is more than one slash.
    #[error("it must be a name with at most one prefix before a '/'")]
    TooManySlashes,
}

/// Checks a qualified name: `name`, or `dns.prefix/name`.
pub fn check_qualified_name(text: &str) -> Result<(), GrammarError> {
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => return Err(GrammarError::TooManySlashes),
        Some((prefix, name)) => {
            check_prefix(prefix)?;
            name
        }
    };
    if name.is_empty() {
        return Err(GrammarError::EmptyName);
    }
    check_label_value(name)
}

/// Checks a label value: empty, or like the name of a qualified name.
pub fn check_label_value(text: &str) -> Result<(), GrammarError> {
    if text.len() > MAX_NAME {
        return Err(GrammarError::NameTooLong);
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()]
        .into_iter()
        .flatten()
        .all(u8::is_ascii_alphanumeric);
    if ends && bytes.iter().copied().all(inner) {
        Ok(())
    } else {
        Err(GrammarError::NameCharacters)
    }
}

fn check_prefix(prefix: &str) -> Result<(), GrammarError> {
    if prefix.is_empty() {
        return Err(GrammarError::EmptyPrefix);
    }
    if prefix.len() > MAX_PREFIX {
        return Err(GrammarError::PrefixTooLong);
    }
    let letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(letter)
            && bytes.last().is_some_and(letter)
            && bytes.iter().all(|byte| letter(byte) || *byte == b'-')
    };
    if prefix.split('.').all(is_label) {
        Ok(())
    } else {
        Err(GrammarError::PrefixCharacters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_are_told_from_others_with_the_reason() {
        for name in [
            "a",
            "Test",
            "test.com/Test",
            "a-b_c.d",
            "1",
            &"n".repeat(63),
            &format!("{}/n", "p".repeat(253)),
        ] {
            assert_eq!(check_qualified_name(name), Ok(()), "{name}");
        }
        for (name, error) in [
            ("", GrammarError::EmptyName),
            ("test/", GrammarError::EmptyName),
            ("/test", GrammarError::EmptyPrefix),
            ("a/b/c", GrammarError::TooManySlashes),
            ("Test.com/test", GrammarError::PrefixCharacters),
            ("a..b/test", GrammarError::PrefixCharacters),
            ("a-/test", GrammarError::PrefixCharacters),
            ("test.com}", GrammarError::NameCharacters),
            ("-a", GrammarError::NameCharacters),
            ("ä", GrammarError::NameCharacters),
            (&"n".repeat(64), GrammarError::NameTooLong),
            (&format!("{}/n", "p".repeat(254)), GrammarError::PrefixTooLong),
        ] {
            assert_eq!(check_qualified_name(name), Err(error), "{name}");
        }
    }

    #[test]
    fn a_label_value_may_be_empty_and_must_not_hold_a_space() {
        assert_eq!(check_label_value(""), Ok(()));
        assert_eq!(check_label_value("a b"), Err(GrammarError::NameCharacters));
        assert_eq!(check_label_value(&"v".repeat(64)), Err(GrammarError::NameTooLong));
    }
}
