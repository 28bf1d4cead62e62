//! The process environment as a value.
//!
//! Settings are read from an [`Environment`] and never from the process itself, so that tests say what is set. `main` takes it once.

use std::collections::BTreeMap;
use std::fmt;

/// Variables by name. `Debug` shows names only: values may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// What the process was started with. Bytes that are not UTF-8 are replaced: no setting of ours accepts them anyway.
    pub fn of_process() -> Self {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        Self(
            std::env::vars_os()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        )
    }

    /// The variable's value; a variable that is set but empty has one (surface §6).
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The environment with one more variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        pairs.into_iter().fold(Self::default(), |environment, (name, value)| {
            environment.with(name, value)
        })
    }
}
