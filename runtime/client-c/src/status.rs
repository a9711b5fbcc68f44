//! What functions return, and how they say why.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_client::{Lost, SubmitError};

/// `punctual_status`: `PUNCTUAL_OK`, `PUNCTUAL_NOTHING` or one of [`Error`]'s.
pub type Status = i32;

/// `PUNCTUAL_OK`
pub const OK: Status = 0;
/// `PUNCTUAL_NOTHING`
pub const NOTHING: Status = 1;

/// Why a function did not do what it was called for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is not what the header says.
    #[error("argument `{0}` is NULL or not one of its values")]
    Argument(&'static str),
    /// The options are of a later release, or were not initialised.
    #[error("options of {found} bytes, this library knows {known}: use PUNCTUAL_OPTIONS_INIT")]
    Size {
        /// What the program says.
        found: u32,
        /// What the library has.
        known: u32,
    },
    /// The function is for the other kind of client.
    #[error("a client with a callback is told its verdicts and has no descriptor")]
    HasCallback,
    /// The slot is not held.
    #[error("slot token {0}: submitted or given back before, or another client's")]
    Slot(u64),
    /// No connection.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Not submitted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// A panic of the library's.
    #[error("a fault of libpunctual's: {0}")]
    Internal(Panic),
}

/// The words of a panic.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Panic(Box<str>);

impl Error {
    fn status(&self) -> Status {
        match self {
            Self::Argument(_) | Self::Size { .. } | Self::HasCallback => -1,
            Self::Lost(Lost::NotInTime(_)) => -2,
            Self::Lost(Lost::Refused(_)) => -3,
            Self::Lost(Lost::Disconnected(_)) | Self::Submit(SubmitError::Disconnected(_)) => -4,
            Self::Lost(Lost::TermsChanged { .. }) => -5,
            Self::Submit(SubmitError::Crop { .. }) => -6,
            Self::Submit(SubmitError::ResultsUnread(_)) => -7,
            Self::Slot(_) | Self::Submit(SubmitError::ForeignSlot) => -8,
            Self::Lost(Lost::Thread(_) | Lost::Os(_)) => -9,
            Self::Internal(_) => -10,
        }
    }
}

/// What each status means, for `punctual_strerror`.
const MEANINGS: &[(Status, &CStr)] = &[
    (OK, c"success"),
    (NOTHING, c"nothing was there until the limit"),
    (
        -1,
        c"an argument is not one of its values, or not for this kind of client",
    ),
    (-2, c"no daemon let the client in in time"),
    (-3, c"the daemon refuses"),
    (-4, c"the daemon is gone, and the client does not reconnect"),
    (
        -5,
        c"the daemon wants other frames than before: accept its terms",
    ),
    (-6, c"the crop leaves the frame"),
    (
        -7,
        c"verdicts are to be read before more frames can be submitted",
    ),
    (
        -8,
        c"the slot was submitted or given back before, or is another client's",
    ),
    (-9, c"the system refused descriptors, memory or a thread"),
    (-10, c"a fault of libpunctual's"),
];

/// What a status means.
#[must_use]
pub fn meaning(status: Status) -> &'static CStr {
    let found = MEANINGS.iter().find(|(known, _)| *known == status);
    found.map_or(c"not a status of libpunctual's", |(_, text)| text)
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
    Panic(text.unwrap_or("a panic without words").into())
}

/// A verdict in words.
#[must_use]
pub fn verdict_text(verdict: u8, reason: u8) -> &'static CStr {
    match (verdict, reason) {
        (1, 0) => c"on time",
        (2, 0) => c"late",
        (3, 1) => c"rejected: its deadline had passed, or could not be met, when it arrived",
        (3, 2) => c"rejected: it would have endangered what was promised",
        (3, 3) => c"rejected: its task's queue is full",
        (3, 4) => c"rejected: the daemon is shutting down",
        (3, 5) => c"rejected: it claims to have been captured in the future",
        (3, 6) => c"rejected: submitted faster than the manifest allows",
        (3, 7) => c"rejected: a newer frame took its place",
        (3, 8) => c"rejected: the daemon does without best-effort work for now",
        (4, 1) => c"failed: the device reported an error",
        (4, 2) => c"failed: its pixels could not be read or converted",
        (4, 3) => c"failed: the client was gone",
        (4, 4) => c"failed: dropped to keep what was promised",
        (4, 255) => c"failed: the daemon ended without a verdict",
        _ => c"not a verdict of libpunctual's",
    }
}
