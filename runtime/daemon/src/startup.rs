//! From a command line to a daemon that serves, phase by phase.

use crate::{Options, Termination};

/// Serves a manifest until told to terminate. Returns how it ended; everything worth saying has
/// been said on standard error by then.
#[must_use]
pub fn run(_options: &Options) -> Termination {
    eprintln!("punctuald: this version has no channel and no device yet");
    Termination::Internal
}
