//! What can go wrong on the client's side.

use punctual_platform::OsError;

use crate::description::DescriptionError;
use crate::descriptor::Crop;
use crate::handshake::{MessageError, Refusal, TermsError};
use crate::result::RecordError;
use crate::ring::PositionError;

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no listener, or this user may not connect.
    #[error(
        "cannot connect ({0}): check that punctuald runs and that this user may open its socket"
    )]
    Connect(OsError),
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// The daemon speaks something else.
    #[error("the daemon's answer: {0}")]
    Message(#[from] MessageError),
    /// The daemon offers what cannot be.
    #[error("the daemon's terms: {0}")]
    Terms(#[from] TermsError),
    /// The daemon describes what cannot be.
    #[error("the daemon's description: {0}")]
    Description(#[from] DescriptionError),
    /// The shared memory is not what the terms say.
    #[error("the daemon's shared memory: {0}")]
    Memory(&'static str),
    /// The daemon is older than what was asked of it.
    #[error(
        "this daemon does not support client layouts and client buffers: install a newer one, or do not use them"
    )]
    NotOffered,
    /// The daemon closed the connection, or sent nothing for five seconds.
    #[error("the daemon did not answer")]
    NoAnswer,
    #[error(transparent)]
    Os(#[from] OsError),
}

/// The daemon is gone, or thinks that this client is broken: connect anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disconnected {
    /// It closed the connection.
    #[error("the daemon closed the connection")]
    HungUp,
    /// Its result ring has an impossible position.
    #[error("the daemon's result ring: {0}")]
    Ring(#[from] PositionError),
    /// A result is invalid.
    #[error("the daemon's result: {0}")]
    Record(#[from] RecordError),
    /// A result of a submission that has one, or never was.
    #[error("the daemon sent a result for submission {0}, which has one already or does not exist")]
    Unasked(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The crop reaches beyond the frame.
    #[error("a crop at ({}, {}): at most ({}, {})", crop.x, crop.y, max.x, max.y)]
    Crop {
        crop: Crop,
        /// The furthest possible.
        max: Crop,
    },
    /// A vector that is to come with the frame was not written to its claim.
    #[error("vector {0} was not set: set each of the task's vectors before each submission")]
    VectorNotSet(u8),
    /// The slot is another channel's: of another stream, or from before the connection was renewed.
    #[error("a slot of another channel or of an earlier connection: take a new one")]
    ForeignSlot,
    /// This number of results must be read first.
    #[error("{0} submissions have unread results: read results first")]
    ResultsUnread(u32),
    #[error(transparent)]
    Disconnected(#[from] Disconnected),
}
