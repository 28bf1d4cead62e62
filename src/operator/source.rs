//! One setting's value out of flags, environment and default, under the rules of surface §6.
//!
//! A flag that does not parse is an error; a variable that does not parse as a number, boolean or duration is as if it were not set (surface T12). Used by
//! [`Options`](super::Options) for Karpenter's own settings; the provider's are strict and read by [`SpotOptions`](super::SpotOptions).

use super::environment::Environment;
use super::flags::{Flags, FlagsError};
use super::options::OptionsError;
use super::parse;
use super::settings::{self, Kind, Setting};
use crate::api::duration::GoDuration;
use std::time::Duration;

pub(super) struct Source<'a> {
    flags: &'a Flags,
    environment: &'a Environment,
}

impl<'a> Source<'a> {
    pub(super) fn new(flags: &'a Flags, environment: &'a Environment) -> Self {
        Self { flags, environment }
    }

    /// A text: an empty variable is an empty value.
    pub(super) fn text(&self, variable: &'static str) -> Result<String, OptionsError> {
        let setting = setting(variable)?;
        let given = self.flags.get(setting.flag).or_else(|| self.environment.get(variable));
        Ok(given.unwrap_or(setting.default).to_owned())
    }

    /// A word of the setting's list, wherever it comes from.
    pub(super) fn choice(&self, variable: &'static str) -> Result<String, OptionsError> {
        let text = self.text(variable)?;
        match setting(variable)?.kind {
            Kind::Choice(words) if words.contains(&text.as_str()) => Ok(text),
            _ => Err(OptionsError::invalid(variable, &text)),
        }
    }

    pub(super) fn integer(&self, variable: &'static str) -> Result<i64, OptionsError> {
        self.parsed(variable, parse::integer, parse::decimal)
    }

    /// A whole number that also fits `T`; one that does not is refused, since upstream would fail on it a moment later.
    pub(super) fn number_within<T: TryFrom<i64>>(&self, variable: &'static str) -> Result<T, OptionsError> {
        let number = self.integer(variable)?;
        T::try_from(number).map_err(|_| OptionsError::invalid(variable, &number.to_string()))
    }

    /// A flag takes `true` and `false` only, a variable all of Go's forms.
    pub(super) fn boolean(&self, variable: &'static str) -> Result<bool, OptionsError> {
        let strict = |text: &str| match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        self.parsed(variable, strict, parse::boolean)
    }

    pub(super) fn duration(&self, variable: &'static str) -> Result<Duration, OptionsError> {
        let duration = |text: &str| GoDuration::parse(text).ok().map(GoDuration::as_std);
        self.parsed(variable, duration, duration)
    }

    fn parsed<T>(
        &self,
        variable: &'static str,
        of_flag: impl Fn(&str) -> Option<T>,
        of_variable: impl Fn(&str) -> Option<T>,
    ) -> Result<T, OptionsError> {
        let setting = setting(variable)?;
        if let Some(text) = self.flags.get(setting.flag) {
            return of_flag(text).ok_or_else(|| OptionsError::Flags(FlagsError::value(setting, text)));
        }
        // surface T12
        if let Some(value) = self.environment.get(variable).and_then(&of_variable) {
            return Ok(value);
        }
        of_variable(setting.default).ok_or_else(|| OptionsError::invalid(variable, setting.default))
    }
}

/// The row of the table; a name that is not in it is a defect that the first start of the operator shows.
pub(super) fn setting(variable: &'static str) -> Result<&'static Setting, OptionsError> {
    settings::find(variable).ok_or(OptionsError::Missing {
        variable,
        meaning: "the operator asks for a setting that its own table lacks",
    })
}
