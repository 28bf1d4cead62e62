//! The errors of the provider border, and the one place that says what to do about each.
//!
//! A provider maps whatever its cloud answers to one of these; nobody looks inside a text afterwards. The lifecycle controller turns
//! [`CloudError::remedy`] into the effects of lifecycle 3.3, the metrics take [`CloudError::label`].

use std::time::Duration;
use thiserror::Error;

/// A cause that is only shown, never matched on.
pub type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What the caller does about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// There is nothing of that identity: whoever wanted it gone is done.
    AlreadyDone,
    /// Nothing of this kind is to be had: the claim ends, the next one looks elsewhere (lifecycle 3.3, InsufficientCapacity).
    TryElsewhere,
    /// The NodeClass cannot be used now: the claim ends, its pool waits for the class (lifecycle 3.3, NodeClassNotReady).
    WaitForNodeClass,
    /// The cloud will not do this as asked; the words belong on the object, and a retry only with back-off.
    TellTheUser,
    /// Transient: the same call again, not before the given time if there is one.
    TryAgain {
        /// The cloud's own wish (`Retry-After`), if it said one.
        after: Option<Duration>,
    },
    /// Whether the call took effect is unknown: look the object up by its identity before anything is assumed or sent again.
    LookFirst,
    /// The credentials do not work: say so where the user looks, and try again slowly.
    FixCredentials,
}

/// What went wrong between us and a cloud.
#[derive(Debug, Error)]
pub enum CloudError {
    /// The cloud gave a complete answer without this object.
    #[error("{object} is not known to the cloud")]
    NotFound {
        /// What was looked for.
        object: String,
    },
    /// Nothing that satisfies the claim can be had now.
    #[error("no capacity for {wanted}: {detail}")]
    InsufficientCapacity {
        /// The kinds of machine that were tried.
        wanted: String,
        /// Why none could be had.
        detail: String,
    },
    /// The NodeClass of the claim is missing, being deleted or not ready.
    #[error("node class {node_class} is not ready: {detail}")]
    NodeClassNotReady {
        /// Name of the NodeClass.
        node_class: String,
        /// What it lacks.
        detail: String,
    },
    /// The create failed in a way that has its own condition reason (lifecycle 3.3, CreateError).
    #[error("{message}")]
    Create {
        /// Reason of the claim's Launched condition.
        reason: &'static str,
        /// Message of the claim's Launched condition.
        message: String,
        /// What the cloud said, if this came from there.
        #[source]
        source: Option<Cause>,
    },
    /// The cloud understood the request and will not do it.
    #[error("{operation} {object} was refused: {detail}")]
    Refused {
        /// The operation, as a verb.
        operation: &'static str,
        /// The object it was for.
        object: String,
        /// The cloud's words.
        detail: String,
    },
    /// The credentials were not accepted, or there are none.
    #[error("credentials were not accepted while {operation}: {detail}")]
    Credentials {
        /// The operation, as a participle.
        operation: &'static str,
        /// The cloud's words; never the credential.
        detail: String,
    },
    /// The cloud could not be reached or could not answer now; nothing took effect.
    #[error("{operation} failed for now: {detail}")]
    Unavailable {
        /// The operation, as a participle.
        operation: &'static str,
        /// In short.
        detail: String,
        /// The wait that the cloud asked for.
        retry_after: Option<Duration>,
        /// The last failure.
        #[source]
        source: Option<Cause>,
    },
    /// The request was sent and no usable answer came: it may have taken effect.
    #[error("{operation} {object} has an unknown outcome")]
    UnknownOutcome {
        /// The operation, as a participle.
        operation: &'static str,
        /// The object it was for.
        object: String,
        /// Why there is no answer.
        #[source]
        source: Option<Cause>,
    },
    /// The pool's overlays have not been looked at yet (scheduling 26-8).
    #[error("node overlays were not evaluated yet for nodepool {pool}")]
    NotEvaluated {
        /// The NodePool.
        pool: String,
    },
    /// The answer was not what the cloud's interface promises.
    #[error("the answer to {operation} is not understood at {path}: {detail}")]
    BadAnswer {
        /// The operation, as a participle.
        operation: &'static str,
        /// Path of the field that is missing or wrong.
        path: String,
        /// What is wrong with it.
        detail: String,
    },
}

impl CloudError {
    /// The one place that says what to do about each failure.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NotFound { .. } => Remedy::AlreadyDone,
            Self::InsufficientCapacity { .. } => Remedy::TryElsewhere,
            Self::NodeClassNotReady { .. } => Remedy::WaitForNodeClass,
            Self::Create { .. } | Self::Refused { .. } => Remedy::TellTheUser,
            Self::Credentials { .. } => Remedy::FixCredentials,
            Self::Unavailable { retry_after, .. } => Remedy::TryAgain { after: *retry_after },
            Self::BadAnswer { .. } | Self::NotEvaluated { .. } => Remedy::TryAgain { after: None },
            Self::UnknownOutcome { .. } => Remedy::LookFirst,
        }
    }

    /// Reason of the claim's Launched=Unknown condition after a create failed with this (lifecycle 3.3).
    pub fn condition_reason(&self) -> &'static str {
        match self {
            Self::Create { reason, .. } => reason,
            _ => "LaunchFailed",
        }
    }

    /// Value of the `error` label of `karpenter_cloudprovider_errors_total` (surface §5.5): empty for all but three.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "NodeClaimNotFoundError",
            Self::NodeClassNotReady { .. } => "NodeClassNotReadyError",
            Self::InsufficientCapacity { .. } => "InsufficientCapacityError",
            _ => "",
        }
    }

    /// The whole chain in one line, for a condition's message: the error and each of its causes.
    pub fn full_text(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(inner) = cause {
            let words = inner.to_string();
            if !text.ends_with(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            cause = inner.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_outcome_is_looked_up_and_never_sent_again_blindly() {
        let error = CloudError::UnknownOutcome {
            operation: "creating",
            object: "pool x".into(),
            source: None,
        };
        assert_eq!(error.remedy(), Remedy::LookFirst);
    }

    #[test]
    fn only_three_errors_have_a_metric_label() {
        // surface §5.5
        assert_eq!(
            CloudError::NotFound { object: String::new() }.label(),
            "NodeClaimNotFoundError"
        );
        assert_eq!(
            CloudError::Refused {
                operation: "creating",
                object: String::new(),
                detail: String::new()
            }
            .label(),
            ""
        );
    }

    #[test]
    fn the_full_text_names_every_cause_once() {
        let error = CloudError::Unavailable {
            operation: "listing pools",
            detail: "gave up".into(),
            retry_after: None,
            source: Some("connection reset".into()),
        };
        assert_eq!(
            error.full_text(),
            "listing pools failed for now: gave up: connection reset"
        );
    }
}
