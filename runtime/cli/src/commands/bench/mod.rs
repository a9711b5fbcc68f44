//! `punctual bench`: measurements on this machine, some on the user's own files.

pub mod cold_start;
mod cold_start_report;
pub mod engine;
mod engine_report;
pub mod gpu;
mod measured;
mod open_loop;
pub mod paging;
pub mod wakeup;

use crate::termination::Termination;

/// What to measure.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Options {
    /// How soon a network answers after its process was started.
    ColdStart(cold_start::Options),
    /// Our engine and ONNX Runtime on one file, in alternation.
    Engine(engine::Options),
    /// Everything that is to be known about the CUDA device on a GPU.
    Gpu(gpu::Options),
    /// Many networks, and a cache that holds a part of their weights.
    Paging(paging::Options),
    /// How soon a woken real-time thread runs, beside cyclictest.
    Wakeup(wakeup::Options),
}

/// Measures it.
pub fn run(options: &Options) -> Termination {
    match options {
        Options::ColdStart(options) => {
            Termination::of("bench cold-start", cold_start::run(options))
        }
        Options::Engine(options) => Termination::of("bench engine", engine::run(options)),
        Options::Gpu(options) => Termination::of("bench gpu", gpu::run(options)),
        Options::Paging(options) => Termination::of("bench paging", paging::run(options)),
        Options::Wakeup(options) => Termination::of("bench wakeup", wakeup::run(options)),
    }
}
