//! `punctual bench`: measurements on the user's own files.

pub mod cold_start;
mod cold_start_report;

use crate::termination::Termination;

/// What to measure.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Options {
    /// How soon a network answers after its process was started.
    ColdStart(cold_start::Options),
}

/// Measures it.
pub fn run(options: &Options) -> Termination {
    match options {
        Options::ColdStart(options) => {
            Termination::of("bench cold-start", cold_start::run(options))
        }
    }
}
