//! The command line, under the rules of Go's flag package (surface §6).
//!
//! One dash or two, `--x=v` or `--x v`; a boolean alone means true; the last mention wins. Values are texts here; [`Source`](super::source) parses them.

use super::settings::{Kind, SETTINGS, Setting};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use std::collections::BTreeMap;

/// Flags that were given, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags(BTreeMap<&'static str, String>);

/// Why the command line was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagsError {
    /// The user asked for help; the text goes to stderr.
    #[error("{0}")]
    Help(String),
    /// Something is not ours or not a value; what is wrong, then the usage.
    #[error("{0}")]
    Usage(String),
}

impl FlagsError {
    /// A flag has a value that it does not take (surface §6.4).
    pub(super) fn value(setting: &Setting, text: &str) -> Self {
        let shown: String = text.chars().take(80).collect();
        let wanted = match setting.kind {
            Kind::Boolean => "true or false",
            Kind::Duration => "a duration such as 1m30s",
            _ => "a whole number",
        };
        let flag = setting.flag;
        Self::Usage(format!(
            "invalid value {shown:?} for flag -{flag}: {wanted} is expected\n\n{}",
            command().render_help()
        ))
    }
}

impl Flags {
    /// Reads the arguments that follow the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, FlagsError> {
        let matches = command()
            .try_get_matches_from(arguments.into_iter().map(with_two_dashes))
            .map_err(|error| match error.kind() {
                ErrorKind::DisplayHelp => FlagsError::Help(error.render().to_string()),
                _ => FlagsError::Usage(format!("{}\n{}", error.render(), command().render_help())),
            })?;
        let given = SETTINGS.iter().filter(|setting| !setting.flag.is_empty());
        let values = given.filter_map(|setting| Some((setting.flag, matches.get_one::<String>(setting.flag)?.clone())));
        Ok(Self(values.collect()))
    }

    /// The flag's value as text.
    pub fn get(&self, flag: &str) -> Option<&str> {
        self.0.get(flag).map(String::as_str)
    }
}

/// `-x` and `-x=v` of a known flag become `--x` and `--x=v`; values such as `-1` stay.
fn with_two_dashes(argument: String) -> String {
    let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
    let known = name == "help" || SETTINGS.iter().any(|setting| !name.is_empty() && setting.flag == name);
    if known && argument.starts_with('-') && !argument.starts_with("--") {
        format!("-{argument}")
    } else {
        argument
    }
}

fn command() -> Command {
    let usage = "Karpenter for Rackspace Spot. Every flag can be given as the variable in brackets; a flag wins over its variable.";
    let flags = SETTINGS
        .iter()
        .filter(|setting| !setting.flag.is_empty())
        .map(|setting| {
            let help = format!("{} [{}] [default: {}]", setting.help, setting.variable, setting.default);
            let arg = Arg::new(setting.flag).long(setting.flag).help(help);
            match setting.kind {
                Kind::Boolean => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
                    .value_name("true|false"),
                _ => arg.num_args(1).allow_hyphen_values(true).value_name("value"),
            }
        });
    Command::new("karpenter-provider-rackspace-spot")
        .about(usage)
        .after_help(variables())
        .no_binary_name(true)
        .args_override_self(true)
        .args(flags)
}

/// The settings that have a variable only.
fn variables() -> String {
    let rows = SETTINGS.iter().filter(|setting| setting.flag.is_empty());
    rows.fold("Settings that have a variable only:\n".to_owned(), |text, setting| {
        let default = if setting.default.is_empty() {
            String::new()
        } else {
            format!(" [default: {}]", setting.default)
        };
        format!("{text}  {}: {}{default}\n", setting.variable, setting.help)
    })
}
