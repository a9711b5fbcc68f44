//! When a client has no daemon, and whether that may change.

use std::sync::Arc;

use punctual_ipc::{ConnectError, Disconnected, Refusal, StreamTerms};
use punctual_platform::OsError;
use punctual_platform::thread::ThreadError;

/// Why a client gives no slots. Frames that were submitted have their verdicts all the same.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Lost {
    /// The daemon is gone, and the client is not to reconnect.
    #[error("{0}, and this client does not reconnect")]
    Disconnected(Disconnected),
    /// The daemon refuses this client for a reason that does not pass: asking again would not help.
    #[error(transparent)]
    Refused(Arc<ConnectError>),
    /// The present daemon expects another frame format than the last one. Prepare for it,
    /// then [accept the terms](crate::Client::accept_terms).
    #[error(
        "the daemon wants frames of {} x {} pixels ({:?}) now, no longer {} x {} ({:?}): \
         accept the new terms, or change the manifest back",
        is.frame.width, is.frame.height, is.frame.format,
        was.frame.width, was.frame.height, was.frame.format
    )]
    TermsChanged {
        /// What slots looked like.
        was: Box<StreamTerms>,
        /// What they are going to look like.
        is: Box<StreamTerms>,
    },
    /// No daemon admitted the client before the time limit; this is the last attempt's error.
    #[error("no daemon in time: {0}")]
    NotInTime(Arc<ConnectError>),
    /// The client's own thread or descriptors are unavailable.
    #[error(transparent)]
    Thread(Arc<ThreadError>),
    /// The system refused what the client needs to wait.
    #[error(transparent)]
    Os(Arc<OsError>),
}

impl From<OsError> for Lost {
    fn from(error: OsError) -> Self {
        Self::Os(Arc::new(error))
    }
}

impl From<ThreadError> for Lost {
    fn from(error: ThreadError) -> Self {
        Self::Thread(Arc::new(error))
    }
}

/// Whether the same attempt may succeed a moment later: a daemon that is not there (yet), that
/// starts or stops, or has no room at the moment. Everything else is for a person to mend.
pub(crate) fn may_pass(error: &ConnectError) -> bool {
    match error {
        ConnectError::Connect(_) | ConnectError::NoAnswer | ConnectError::Os(_) => true,
        ConnectError::Refused(refusal) => matches!(
            refusal,
            Refusal::Full { .. }
                | Refusal::StreamsOfProcess { .. }
                | Refusal::Draining
                | Refusal::Resources
                | Refusal::Unfinished { .. }
        ),
        _ => false,
    }
}
