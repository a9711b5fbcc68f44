//! `punctual board`: what this machine offers to plans.

mod detect;
mod file;
pub(crate) mod found;
mod ours;
mod table;
mod trial;

use punctual_platform::termination::Termination;

pub(crate) use file::quoted;

/// What to do.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Options {
    /// Detect the GPU, partitions, memory and clocks, and write a board file.
    Detect(detect::Options),
    /// Try a mechanism for partitions, in a process of its own, as it may crash.
    #[command(hide = true)]
    Calibrate(trial::Options),
}

pub fn run(options: &Options) -> Termination {
    match options {
        Options::Detect(options) => detect::run(options),
        Options::Calibrate(options) => trial::run(options),
    }
}
