//! What can go wrong with one call to the platform, and how that looks at the provider border.
//!
//! Classified by status code and `reason`, never by a text (rackspace-spot §3.0); only the words of an admission denial are kept, since the reason
//! for a refused bid is nowhere else. The client makes these, the provider reacts to some and hands the rest on as [`CloudError`].

use crate::cloud::error::CloudError;
use crate::cloud::spot::reader::FieldError;
use crate::cloud::spot::transport::TransportError;
use std::time::Duration;
use thiserror::Error;

/// A failed call.
#[derive(Debug, Error)]
pub enum SpotError {
    /// 404: there is no such object.
    #[error("{object} not found")]
    NotFound {
        /// Kind and name.
        object: String,
    },
    /// 409 on a create: the name is taken.
    #[error("{object} already exists")]
    AlreadyExists {
        /// Kind and name.
        object: String,
    },
    /// 400, 403, 409, 422 with the platform's words.
    #[error("{operation} {object} was refused with status {status}: {words}")]
    Refused {
        /// The operation.
        operation: &'static str,
        /// Kind and name.
        object: String,
        /// The HTTP status.
        status: u16,
        /// What the platform said.
        words: String,
    },
    /// The token was refused, twice, or there is none to be had.
    #[error("not authenticated: {words}")]
    Credentials {
        /// What the platform said; never a token.
        words: String,
    },
    /// All tries failed and none of them can have taken effect.
    #[error("{operation} {object} failed {tries} times, last: {last}")]
    Unavailable {
        /// The operation.
        operation: &'static str,
        /// Kind and name.
        object: String,
        /// How many tries.
        tries: u32,
        /// The last failure in short.
        last: String,
        /// The platform's wish for the next try.
        retry_after: Option<Duration>,
        /// The last failure, if there was no answer at all.
        #[source]
        source: Option<TransportError>,
    },
    /// A create was sent, and neither an answer nor a look-up says what became of it.
    #[error("{operation} {object}: the outcome is unknown")]
    UnknownOutcome {
        /// The operation.
        operation: &'static str,
        /// Kind and name.
        object: String,
        /// The last failure in short.
        last: String,
    },
    /// The answer is not what the interface promises.
    #[error("the answer to {operation} {object} is not understood: {field}")]
    BadAnswer {
        /// The operation.
        operation: &'static str,
        /// Kind and name.
        object: String,
        /// Where and what.
        field: FieldError,
    },
    /// Several organizations and no way to tell which one the token is for (architecture §7.9).
    #[error("the token names no organization and the account has {count}: {names}")]
    WhichOrganization {
        /// How many there are.
        count: usize,
        /// Their names.
        names: String,
    },
}

impl From<SpotError> for CloudError {
    fn from(error: SpotError) -> Self {
        match error {
            SpotError::NotFound { object } => Self::NotFound { object },
            SpotError::AlreadyExists { object } => Self::Refused {
                operation: "creating",
                object,
                detail: "the name is taken".into(),
            },
            SpotError::Refused {
                operation,
                object,
                words,
                ..
            } => Self::Refused {
                operation,
                object,
                detail: words,
            },
            SpotError::Credentials { words } => Self::Credentials {
                operation: "authenticating",
                detail: words,
            },
            SpotError::Unavailable {
                operation,
                object,
                tries,
                last,
                retry_after,
                source,
            } => Self::Unavailable {
                operation,
                detail: format!("{object}, {tries} tries, last: {last}"),
                retry_after,
                source: source.map(Into::into),
            },
            SpotError::UnknownOutcome {
                operation,
                object,
                last,
            } => Self::UnknownOutcome {
                operation,
                object,
                source: Some(last.into()),
            },
            SpotError::BadAnswer { operation, field, .. } => Self::BadAnswer {
                operation,
                path: field.path,
                detail: field.problem.to_owned(),
            },
            SpotError::WhichOrganization { .. } => Self::Credentials {
                operation: "choosing the organization",
                detail: error.to_string(),
            },
        }
    }
}
