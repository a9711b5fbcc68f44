//! `punctual-bench`: measurements on this machine, some on the user's own files. `punctual bench` starts it.
#![forbid(unsafe_code)]

mod answers;
mod beside;
mod camera;
mod detection;
#[cfg(test)]
mod documented;
mod engine;
mod engine_report;
mod gpu;
mod lending;
mod overhead;
mod paging;
mod prefix;
mod programs;
mod progress;
mod start;
mod usage;
mod wakeup;
mod zoo;

use clap::{CommandFactory as _, Parser, Subcommand};
use punctual_platform::termination::Termination;
use punctual_platform::{output, signals};

/// Counts what real-time threads must not do.
#[global_allocator]
static ALLOCATOR: punctual_platform::SealedAllocator = punctual_platform::SealedAllocator;

/// Measure on this machine, some of it on packages of yours.
#[derive(Debug, Parser)]
#[command(name = "punctual-bench", version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What answers of a megabyte cost, beside a copy of as many bytes.
    Answers(answers::Options),
    /// The demo's cameras served by the daemon, and by loops that a good engineer writes in an hour.
    Beside(beside::Options),
    /// A detector with early exits, beside the same one at full depth only.
    Detection(detection::Options),
    /// Our engine and ONNX Runtime on one file, in alternation.
    Engine(engine::Options),
    /// Measurements of the CUDA device on a GPU.
    Gpu(gpu::Options),
    /// Four cameras on two cores: stages on idle cores of others, beside each task on its own core only.
    Lending(lending::Options),
    /// The cost of a frame without its network: served by the daemon, and by a thread of its own.
    Overhead(overhead::Options),
    /// Many networks, and a cache that holds a part of their weights.
    Paging(paging::Options),
    /// Networks that begin alike: their common part in one batch for all, and apart.
    Prefix(prefix::Options),
    /// A daemon started again and again: until it is ready, and until the first answer of each task.
    Start(start::Options),
    /// How soon a woken real-time thread runs, compared with cyclictest.
    Wakeup(wakeup::Options),
    /// Write manual pages and shell completions, for packages.
    #[command(hide = true)]
    Manuals(punctual_manuals::Options),
}

fn main() -> std::process::ExitCode {
    // Before any thread exists, and before the driver is opened.
    punctual_device_cuda::driver::environment::prepare();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) => {
            let unwritten = Termination::File.code();
            return output::usage_code(usage.print(), usage.exit_code(), "punctual", unwritten)
                .into();
        }
    };
    signals::end_at_once("punctual bench");
    let termination = match arguments.what {
        What::Answers(options) => Termination::of("bench answers", answers::run(&options)),
        What::Beside(options) => Termination::of("bench beside", beside::run(&options)),
        What::Detection(options) => Termination::of("bench detection", detection::run(&options)),
        What::Engine(options) => Termination::of("bench engine", engine::run(&options)),
        What::Gpu(options) => Termination::of("bench gpu", gpu::run(&options)),
        What::Lending(options) => Termination::of("bench lending", lending::run(&options)),
        What::Overhead(options) => Termination::of("bench overhead", overhead::run(&options)),
        What::Paging(options) => Termination::of("bench paging", paging::run(&options)),
        What::Prefix(options) => Termination::of("bench prefix", prefix::run(&options)),
        What::Start(options) => Termination::of("bench start", start::run(&options)),
        What::Wakeup(options) => Termination::of("bench wakeup", wakeup::run(&options)),
        What::Manuals(options) => {
            let written = punctual_manuals::write(&options.into, Arguments::command(), "1");
            Termination::of("manuals", written)
        }
    };
    termination.into()
}
