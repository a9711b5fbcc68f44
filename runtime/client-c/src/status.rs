//! What functions return, and how they say why.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_client::{Lost, NoSuchTask, SubmitError, VectorError, Verdict};
use punctual_decode::DecodeError;

/// `punctual_status`: `PUNCTUAL_OK`, `PUNCTUAL_NOTHING` or one of [`Error`]'s.
pub type Status = i32;

pub const OK: Status = 0;
pub const NOTHING: Status = 1;

/// Why a function did not do what it was called for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is not what the header says.
    #[error("argument `{0}` is NULL or invalid")]
    Argument(&'static str),
    /// A structure of a later release, or one that was not initialised.
    #[error("a structure of {found} bytes, this library knows {known}: use {initial}")]
    Size {
        /// What to initialise it with.
        initial: &'static str,
        /// What the program says.
        found: u32,
        /// What the library has.
        known: u32,
    },
    /// The function is for the other kind of client.
    #[error("not for a client with a callback, which receives the verdicts")]
    HasCallback,
    /// The slot is not held.
    #[error("slot token {0}: submitted or released before, or of another client")]
    Slot(u64),
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Vector(#[from] VectorError),
    #[error(transparent)]
    Task(#[from] NoSuchTask),
    /// A name that does not fit.
    #[error("a name of {0} bytes and a zero, there is less room")]
    Room(usize),
    /// A tensor that a decoder does not take.
    #[error(
        "tensor `{0}` has no float32 values without gaps: compile the network with outputs of floats"
    )]
    NotFloats(&'static str),
    /// A tensor that has other dimensions than a decoder takes.
    #[error(
        "tensor `{what}` has {found} dimensions, {expected} were expected: give that of one frame"
    )]
    Rank {
        what: &'static str,
        found: u32,
        /// How many it must have, in words.
        expected: &'static str,
    },
    /// Tensors and sizes that do not go together.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An array that does not take everything.
    #[error("{needed} values, there is room for {room}")]
    Short { needed: usize, room: usize },
    /// A panic of the library's.
    #[error("a defect of libpunctual: {0}; report it")]
    Internal(Panic),
}

/// The words of a panic.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Panic(Box<str>);

impl Error {
    fn status(&self) -> Status {
        match self {
            Self::Argument(_)
            | Self::Size { .. }
            | Self::HasCallback
            | Self::Room(_)
            | Self::Short { .. } => -1,
            Self::Lost(Lost::NotInTime(_)) => -2,
            Self::Lost(Lost::Refused(_)) => -3,
            Self::Lost(Lost::Disconnected(_)) | Self::Submit(SubmitError::Disconnected(_)) => -4,
            Self::Lost(Lost::TermsChanged { .. }) => -5,
            Self::Submit(SubmitError::Crop { .. }) => -6,
            Self::Submit(SubmitError::ResultsUnread(_)) => -7,
            Self::Slot(_) | Self::Submit(SubmitError::ForeignSlot) => -8,
            Self::Lost(Lost::Thread(_) | Lost::Os(_)) => -9,
            Self::Internal(_) => -10,
            Self::Vector(_) | Self::Submit(SubmitError::VectorNotSet(_)) => -11,
            Self::NotFloats(_) | Self::Rank { .. } | Self::Decode(_) => -12,
            Self::Task(_) => -13,
        }
    }
}

/// What each status means, for `punctual_strerror`.
const MEANINGS: &[(Status, &CStr)] = &[
    (OK, c"success"),
    (NOTHING, c"nothing arrived within the time limit"),
    (
        -1,
        c"an argument is invalid, or does not apply to this kind of client",
    ),
    (-2, c"no daemon admitted the client in time"),
    (-3, c"the daemon refused the connection"),
    (-4, c"the daemon is gone, and the client does not reconnect"),
    (
        -5,
        c"the daemon expects a different frame format than before: accept its terms",
    ),
    (-6, c"the crop reaches beyond the frame"),
    (
        -7,
        c"too many unread verdicts: read verdicts before submitting",
    ),
    (
        -8,
        c"the slot was submitted or released before, or belongs to another client",
    ),
    (-9, c"the system has no descriptors, memory or threads left"),
    (-10, c"a defect of libpunctual"),
    (
        -11,
        c"a vector is missing, or of another name, length or value",
    ),
    (-12, c"a tensor or a size does not go with the head"),
    (-13, c"the connection has no task of this name"),
];

#[must_use]
pub fn meaning(status: Status) -> &'static CStr {
    let found = MEANINGS.iter().find(|(known, _)| *known == status);
    found.map_or(c"unknown status", |(_, text)| text)
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The text of this thread's last error, which stays as long as there is no other.
#[must_use]
pub fn last_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// Runs the body of a function; nothing that panics in there gets out.
pub fn guarded(body: impl FnOnce() -> Result<Status, Error>) -> Status {
    // The state behind a client is under locks that survive a panic, or is dropped with it.
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Error::Internal(words(panic.as_ref()))));
    outcome.unwrap_or_else(|error| {
        let text = error.to_string().replace('\0', " ");
        // It has no zeroes.
        LAST.set(CString::new(text).unwrap_or_default());
        error.status()
    })
}

fn words(panic: &(dyn Any + Send)) -> Panic {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Panic(text.unwrap_or("a panic without a message").into())
}

#[must_use]
pub fn verdict_text(verdict: u8, reason: u8) -> &'static CStr {
    Verdict::from_codes(verdict, reason).map_or(c"unknown verdict", Verdict::text)
}
