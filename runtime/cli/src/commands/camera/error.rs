//! Why a camera stops before its time.

use std::path::PathBuf;

use punctual_client::{ConnectError, Lost, PixelFormat, SubmitError};
use punctual_platform::OsError;
use punctual_platform::output::OutputError;
use punctual_platform::termination::{Terminates, Termination};

/// Why a camera stopped before its time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no connection to {path}: {source}", path = path.display())]
    Connect { path: PathBuf, source: ConnectError },
    #[error(
        "this camera shows rendered traffic signs in frames of 640x480, for the demonstration networks, and the task's frames are \
         {width}x{height}: ask about your own pictures by `punctual ask`, and load the task by `punctual load`"
    )]
    Frame { width: u32, height: u32 },
    #[error(
        "this camera shows rendered traffic signs as {shown}, for the demonstration networks, and the task takes {wanted}: choose \
         rgb8 or nv12 by --format, or ask about your own pictures by `punctual ask`, and load the task by `punctual load`",
        shown = shown.name(),
        wanted = wanted.name()
    )]
    Format {
        shown: PixelFormat,
        wanted: PixelFormat,
    },
    #[error(
        "the task's crop is {width}x{height}, and --scenes streets is for tasks that see whole frames: remove `crop` from `frame` in the \
         manifest, show --scenes signs, or ask about your own pictures by `punctual ask`"
    )]
    Crop { width: u32, height: u32 },
    #[error(transparent)]
    Lost(#[from] Lost),
    /// A frame could not be submitted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error("{missing} frames have no verdict two seconds after the last one was submitted")]
    Missing { missing: u64 },
    /// Signals or threads are unavailable.
    #[error(transparent)]
    Os(#[from] OsError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Connect { .. } | Self::Os(_) => Termination::Resources,
            Self::Frame { .. } | Self::Format { .. } | Self::Crop { .. } => Termination::BadInput,
            Self::Lost(_) | Self::Submit(_) | Self::Missing { .. } => Termination::BadResult,
        }
    }
}
