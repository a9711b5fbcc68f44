//! The `punctual` command: see it work, check a manifest, compile and profile a network.
#![forbid(unsafe_code)]

#[cfg(test)]
mod documented;
mod sibling;

use clap::{CommandFactory as _, Parser, Subcommand};

use punctual::commands::{
    ask, board, calibrate, camera, check, compile, daemon, doctor, explain, init, inspect, load,
    manuals, metrics, profile, record, share, status, top, trace,
};
use punctual::demo;
use punctual_plan::Policies;
use punctual_platform::output;
use punctual_platform::signals;
use punctual_platform::termination::Termination;

/// Counts what the daemon's real-time threads must not do.
#[global_allocator]
static ALLOCATOR: punctual_platform::SealedAllocator = punctual_platform::SealedAllocator;

/// On-time inference for edge boards: frames with deadlines in, answers on time out.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve four cameras on this machine for a few seconds and show how it went.
    Demo(demo::Options),
    /// Run the daemon (the same as the installed `punctuald`).
    #[command(after_help = punctual_daemon::AFTER_HELP)]
    Daemon(daemon::Options),
    /// Send rendered frames with known labels to a daemon, as the demo's cameras do.
    Camera(camera::Options),
    /// Ask a daemon about pictures or arrays in files, and print or draw what it answers.
    Ask(ask::Options),
    /// Watch a daemon: tasks, partitions, threads, log.
    Top(top::Options),
    /// Show how a daemon is; the code says whether all is well.
    Status(status::Options),
    /// Serve a daemon's metrics to Prometheus, by HTTP.
    Metrics(metrics::Options),
    /// Load a daemon's tasks, at rising rates until promises break.
    Load(load::Options),
    /// Check a manifest and show the plan made from it.
    Check(check::Options),
    /// Check this machine's settings: those that cost latency, and how to change them.
    Doctor(doctor::Options),
    /// Write a first manifest, with comments, for packages on this machine.
    Init(init::Options),
    /// Compile an ONNX file with early exits into a model package.
    Compile(Box<compile::Options>),
    /// Show what a model package holds: input, outputs by exit, stages, weights, profiles.
    Inspect(inspect::Options),
    /// Measure each exit's accuracy as a function of its confidence, with labelled pictures.
    Calibrate(calibrate::Options),
    /// Split networks that begin with the same layers, so that they share stages.
    Share(share::Options),
    /// Measure a package on this machine.
    Profile(profile::Options),
    /// Pack sessions and queries onto a fleet of boards.
    Plan(sibling::Passed),
    /// Simulate a workload in virtual time, or run an experiment.
    Simulate(sibling::Passed),
    /// Compare policies on a workload in virtual time.
    Compare(sibling::Passed),
    /// Have a daemon write what it recorded.
    #[command(subcommand)]
    Record(record::Options),
    /// Show why a recorded frame was late, rejected or slow.
    Explain(explain::Options),
    /// Let the scheduler decide again what a recording has.
    Replay(sibling::Passed),
    /// Make a trace, a page or a comparison of times of a recording.
    Trace(trace::Options),
    /// Show this machine's GPU, partitions, memory and clocks.
    #[command(subcommand)]
    Board(board::Options),
    /// Measure latencies and throughput on this machine.
    Bench(sibling::Passed),
    /// Write manual pages and shell completions, for packages.
    #[command(hide = true)]
    Manuals(punctual_manuals::Options),
}

const AFTER_HELP: &str = "\
EXAMPLES:
  See it work, ten seconds:
      punctual demo
  Four times the cameras' rates, result for a machine:
      punctual demo --overload 4 --json
  From a trained network to a daemon:
      punctual compile resnet.onnx --normalise imagenet --answer classes
      punctual init resnet.punctual --output robot.toml
      punctual profile robot.toml
      punctual check robot.toml
      punctual daemon robot.toml
  Compare schedulers on a published workload, without any hardware:
      punctual compare seeb-poisson --html seeb.html

TERMINATION CODES:
  0   done
  1   it ran, and the result is bad: a frame was lost, a process did not end cleanly
  2   wrong usage of the command line
  3   bad input: the manifest, plan, network, package or workload is invalid
  4   a file is missing, unreadable or cannot be written; so is standard output, as on a full disk
  5   resources unavailable: memory, threads, sockets, processes
  6, 7, 70  as `punctual daemon --help` says
  130, 143  interrupted by SIGINT (Ctrl-C), by SIGTERM
  141 whoever read standard output went away before everything was printed";

/// This program with the name of its command, as it was called.
fn invoked() -> String {
    let command = std::env::args().nth(1).unwrap_or_default();
    format!("punctual {command}")
}

fn main() -> std::process::ExitCode {
    // Before any thread exists, and before the driver is opened.
    punctual_device_cuda::driver::environment::prepare();
    let given: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(termination) = sibling::start(&given) {
        return termination.into();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) => {
            let unwritten = Termination::File.code();
            return output::usage_code(usage.print(), usage.exit_code(), "punctual", unwritten)
                .into();
        }
    };
    let policies = Policies::shipped();
    // The others take signals over themselves.
    if !matches!(
        arguments.command,
        Command::Demo(_)
            | Command::Daemon(_)
            | Command::Camera(_)
            | Command::Load(_)
            | Command::Metrics(_)
            | Command::Top(_)
    ) {
        signals::end_at_once(&invoked());
    }
    match arguments.command {
        Command::Demo(options) => demo::run(&options).into(),
        Command::Daemon(options) => daemon::run(&options, &policies).into(),
        Command::Camera(options) => Termination::of("camera", camera::run(&options)).into(),
        Command::Ask(options) => Termination::of("ask", ask::run(&options)).into(),
        Command::Top(options) => Termination::of("top", top::run(&options)).into(),
        Command::Status(options) => status::run(&options).into(),
        Command::Metrics(options) => Termination::of("metrics", metrics::run(&options)).into(),
        Command::Load(options) => load::run(&options).into(),
        Command::Check(options) => check::run(&options, &policies).into(),
        Command::Doctor(options) => doctor::run(&options, &policies).into(),
        Command::Init(options) => Termination::of("init", init::run(&options)).into(),
        Command::Compile(options) => Termination::of("compile", compile::run(&options)).into(),
        Command::Inspect(options) => Termination::of("inspect", inspect::run(&options)).into(),
        Command::Calibrate(options) => {
            Termination::of("calibrate", calibrate::run(&options)).into()
        }
        Command::Share(options) => Termination::of("share", share::run(&options)).into(),
        Command::Profile(options) => {
            Termination::of("profile", profile::run(&options, &policies)).into()
        }
        Command::Record(options) => Termination::of("record", record::run(&options)).into(),
        Command::Explain(options) => Termination::of("explain", explain::run(&options)).into(),
        Command::Trace(options) => Termination::of("trace", trace::run(&options)).into(),
        Command::Board(options) => board::run(&options).into(),
        // Started above, so that `--help` is theirs, too.
        Command::Plan(_)
        | Command::Simulate(_)
        | Command::Compare(_)
        | Command::Replay(_)
        | Command::Bench(_) => Termination::BadInput.into(),
        Command::Manuals(options) => {
            Termination::of("manuals", manuals::run(&options, Arguments::command())).into()
        }
    }
}
