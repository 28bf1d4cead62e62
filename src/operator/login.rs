//! The first login: without it and the cloudspace there is nothing to operate on (surface §6.4).
//!
//! What may pass by itself is tried again by the client, under the `SPOT_RETRY_*` settings; what does not ends the start with words for the person
//! who installed us. Called by [`run`](super::run()).

use crate::cloud::spot::{SpotError, SpotProvider};

/// Why the platform does not let us in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The token is not accepted.
    #[error(
        "authenticating to Rackspace Spot: {words}; a refresh token of the account is needed, from the Rackspace Spot console"
    )]
    Credentials {
        /// What the platform said; never a token.
        words: String,
    },
    /// There is no such cloudspace.
    #[error("cloudspace {name:?} does not exist in the token's organization; SPOT_CLOUDSPACE_NAME names it")]
    NoCloudspace {
        /// The name that was looked for.
        name: String,
    },
    /// Several organizations, or none.
    #[error("choosing the organization")]
    Organization(#[source] Box<SpotError>),
    /// The cloudspace has no region, or the answer is not understood.
    #[error("reading cloudspace {name:?}")]
    Unusable {
        /// Its name.
        name: String,
        /// What is wrong with the answer.
        #[source]
        source: Box<SpotError>,
    },
    /// The platform cannot be asked.
    #[error("Rackspace Spot cannot be asked for cloudspace {name:?}")]
    Unavailable {
        /// Its name.
        name: String,
        /// What the last try came to.
        #[source]
        source: Box<SpotError>,
    },
}

impl LoginError {
    fn of(name: &str, error: SpotError) -> Self {
        let name = name.to_owned();
        match error {
            SpotError::Credentials { words } => Self::Credentials { words },
            SpotError::NotFound { .. } => Self::NoCloudspace { name },
            error @ SpotError::WhichOrganization { .. } => Self::Organization(Box::new(error)),
            error @ (SpotError::BadAnswer { .. } | SpotError::Refused { .. }) => Self::Unusable {
                name,
                source: Box::new(error),
            },
            error => Self::Unavailable {
                name,
                source: Box::new(error),
            },
        }
    }
}

/// Logs in and finds the cloudspace.
pub(super) async fn first_login(provider: &SpotProvider, cloudspace: &str) -> Result<(), LoginError> {
    match provider.log_in().await {
        Ok(_) => Ok(()),
        Err(error) => Err(LoginError::of(cloudspace, error)),
    }
}
