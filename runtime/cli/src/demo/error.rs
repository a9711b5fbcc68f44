//! Why the demo cannot be shown.

use std::path::PathBuf;

use punctual_daemon::{ProcessError, StartupError};
use punctual_device_cpu::images::ImageError;
use punctual_platform::output::OutputError;
use punctual_platform::termination::{Terminates, Termination};

use crate::cache;
use crate::interruption::InterruptionError;

/// Why the demo could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("the demo's temporary folder cannot be made or written to: {0}")]
    Folder(std::io::Error),
    #[error("cannot write {path}: {source}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "the demo needs two cores, one for the networks and one for the daemon and its cameras: this process may use \
         {found}; allow it more (taskset, the limits of its container)"
    )]
    Cores { found: usize },
    #[error("cannot start a process of the demo: {0}")]
    Spawn(std::io::Error),
    #[error("the demo's networks cannot be packed for this processor: {0}")]
    Image(#[from] ImageError),
    #[error(transparent)]
    Daemon(#[from] ProcessError),
    #[error(transparent)]
    Cache(#[from] cache::CacheError),
    #[error("the demo's own plan: {0}")]
    Plan(StartupError),
    #[error(
        "this machine is too slow or too busy for the demo: even with {slower} times fewer frames, each due {slower} times later, \
         its cameras cannot be promised answers; stop other programs, and try again with --profile-again"
    )]
    TooSlow { slower: f64 },
    #[error("cannot draw the page's pictures: {0}")]
    Picture(#[from] image::ImageError),
    #[error("the daemon's report: {0}")]
    Report(#[from] punctual_daemon::ReportError),
    #[error("the daemon made no recording; its lines above say why")]
    NotRecorded,
    #[error(transparent)]
    Interruption(#[from] InterruptionError),
    /// Standard output takes no more; everything was ended.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for DemoError {
    fn termination(&self) -> Termination {
        match self {
            Self::Write { .. } | Self::Folder(_) => Termination::File,
            Self::Cores { .. } | Self::Spawn(_) | Self::Interruption(_) => Termination::Resources,
            Self::Report(_)
            | Self::Picture(_)
            | Self::Image(_)
            | Self::NotRecorded
            | Self::TooSlow { .. } => Termination::BadResult,
            Self::Plan(error) => Termination::Code(error.termination().code()),
            Self::Daemon(error) => error.termination(),
            Self::Cache(error) => error.termination(),
            Self::Output(error) => error.termination(),
        }
    }
}
