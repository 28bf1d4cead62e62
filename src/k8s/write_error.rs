//! What can go wrong with a write, and what to do about it.

use crate::api::DecodeError;
use std::time::Duration;
use thiserror::Error;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What to do about a failed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Somebody else changed the object: look at it again and decide anew.
    ReadAgain,
    /// What was wanted is so already: the object is gone, or is there.
    AlreadyDone,
    /// It may have taken effect or not: read the object before anything else.
    LookUp,
    /// Try the same again, not sooner than this.
    TryAgain {
        /// The shortest pause, if the server named one.
        after: Option<Duration>,
    },
    /// Trying again does not help before somebody changes something: say it on the object.
    TellTheUser,
    /// This process does not lead (any more): stop writing.
    Stop,
}

/// Why a write failed.
#[derive(Debug, Error)]
pub enum Cause {
    /// Another version or another UID than the one that was looked at.
    #[error("it has changed meanwhile")]
    Conflict(#[source] Source),
    /// There is no such object.
    #[error("it does not exist")]
    NotFound(#[source] Source),
    /// There is an object of this name.
    #[error("it exists already")]
    AlreadyExists(#[source] Source),
    /// No answer, or one that does not say whether it took effect.
    #[error("whether it took effect is not known")]
    UnknownOutcome(#[source] Option<Source>),
    /// Not permitted.
    #[error("it is not permitted")]
    Forbidden(#[source] Source),
    /// The API server refuses the content.
    #[error("it was refused as invalid")]
    Invalid(#[source] Source),
    /// Too many requests, or a budget that allows nothing now.
    #[error("the API server asks to wait")]
    Throttled {
        /// How long, if it said so.
        after: Option<Duration>,
        /// What it said.
        #[source]
        source: Source,
    },
    /// The request was never sent.
    #[error("the API server could not be reached")]
    Transport(#[source] Source),
    /// It took effect, but the answer cannot be read.
    #[error("the answer cannot be read")]
    Unreadable(#[source] DecodeError),
    /// The request could not be made: a defect of ours or a name that no object can have.
    #[error("the request cannot be made")]
    Malformed(#[source] Source),
    /// Another process leads.
    #[error("this process does not lead")]
    NotLeading,
}

/// A write that failed.
#[derive(Debug, Error)]
#[error("{operation} {object}")]
pub struct WriteError {
    operation: &'static str,
    object: String,
    #[source]
    cause: Cause,
}

impl WriteError {
    /// A failure of an operation on an object, both in words.
    pub fn new(operation: &'static str, object: String, cause: Cause) -> Self {
        Self {
            operation,
            object,
            cause,
        }
    }

    /// Reads what the client says.
    pub(super) fn from_kube(operation: &'static str, object: String, error: kube::Error) -> Self {
        Self::new(operation, object, cause(error))
    }

    /// Why it failed.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.cause, Cause::NotFound(_))
    }

    /// Whether the object has changed since it was looked at.
    pub fn is_conflict(&self) -> bool {
        matches!(self.cause, Cause::Conflict(_))
    }

    /// Whether an object of this name exists already.
    pub fn is_already_there(&self) -> bool {
        matches!(self.cause, Cause::AlreadyExists(_))
    }

    /// The one place that says what to do about each failure.
    pub fn remedy(&self) -> Remedy {
        match &self.cause {
            Cause::Conflict(_) => Remedy::ReadAgain,
            Cause::NotFound(_) | Cause::AlreadyExists(_) => Remedy::AlreadyDone,
            Cause::UnknownOutcome(_) | Cause::Unreadable(_) => Remedy::LookUp,
            Cause::Forbidden(_) | Cause::Invalid(_) | Cause::Malformed(_) => Remedy::TellTheUser,
            Cause::Throttled { after, .. } => Remedy::TryAgain { after: *after },
            Cause::Transport(_) => Remedy::TryAgain { after: None },
            Cause::NotLeading => Remedy::Stop,
        }
    }
}

fn cause(error: kube::Error) -> Cause {
    let status = match error {
        kube::Error::Api(status) => status,
        // Built wrongly, so never sent.
        error @ (kube::Error::BuildRequest(_) | kube::Error::HttpError(_)) => return Cause::Malformed(Box::new(error)),
        // Authentication comes before sending.
        error @ kube::Error::Auth(_) => return Cause::Transport(Box::new(error)),
        // The connection failed, but nobody says at which moment.
        error => return Cause::UnknownOutcome(Some(Box::new(error))),
    };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    let (code, exists) = (status.code, status.is_already_exists());
    let source: Source = status;
    match code {
        409 if exists => Cause::AlreadyExists(source),
        409 | 412 => Cause::Conflict(source),
        404 | 410 => Cause::NotFound(source),
        401 | 403 => Cause::Forbidden(source),
        429 => Cause::Throttled { after, source },
        400..=499 => Cause::Invalid(source),
        _ => Cause::UnknownOutcome(Some(source)),
    }
}

/// Takes "it does not exist" for an answer: the object that was to be changed is gone, so there is nothing left to change.
pub fn write_as_expected<T>(written: Result<T, WriteError>) -> Result<Option<T>, WriteError> {
    match written {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn remedy(code: u16, reason: &str) -> Remedy {
        let status = Status::failure("words that nobody may look into", reason).with_code(code);
        WriteError::from_kube("patching", "Node n".to_owned(), kube::Error::Api(status.boxed())).remedy()
    }

    #[test]
    fn each_answer_has_its_remedy() {
        assert_eq!(remedy(409, "Conflict"), Remedy::ReadAgain);
        assert_eq!(remedy(409, "AlreadyExists"), Remedy::AlreadyDone);
        assert_eq!(remedy(404, "NotFound"), Remedy::AlreadyDone);
        assert_eq!(remedy(403, "Forbidden"), Remedy::TellTheUser);
        assert_eq!(remedy(422, "Invalid"), Remedy::TellTheUser);
        assert_eq!(remedy(429, "TooManyRequests"), Remedy::TryAgain { after: None });
        for code in [500, 502, 503, 504] {
            assert_eq!(
                remedy(code, "InternalError"),
                Remedy::LookUp,
                "{code} may come after the effect"
            );
        }
    }

    #[test]
    fn the_text_names_operation_and_object_and_leaves_the_cause_to_its_source() {
        let error = WriteError::new("creating", "NodeClaim a".to_owned(), Cause::NotLeading);
        assert_eq!(error.to_string(), "creating NodeClaim a");
        assert_eq!(
            std::error::Error::source(&error).unwrap().to_string(),
            "this process does not lead"
        );
    }
}
