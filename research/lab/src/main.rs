//! `punctual-lab`: is it better than what is published? `punctual compare | simulate | plan` start it.
#![forbid(unsafe_code)]

mod compare;
#[cfg(test)]
mod documented;
mod plan;
mod simulate;
mod workload;

use clap::{CommandFactory as _, Parser, Subcommand};
use punctual_platform::output;
use punctual_platform::termination::Termination;

/// Schedulers compared, without any hardware: workloads of papers and one's own, in virtual time.
#[derive(Debug, Parser)]
#[command(name = "punctual-lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Pack sessions and queries onto a fleet of boards.
    Plan(plan::Options),
    /// Simulate a workload in virtual time, or run an experiment.
    Simulate(simulate::Options),
    /// Compare policies on a workload in virtual time.
    Compare(compare::Options),
    /// Write manual pages and shell completions, for packages.
    #[command(hide = true)]
    Manuals(punctual_manuals::Options),
}

fn main() -> std::process::ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) => {
            let unwritten = Termination::File.code();
            return output::usage_code(usage.print(), usage.exit_code(), "punctual", unwritten)
                .into();
        }
    };
    let termination = match arguments.command {
        Command::Plan(options) => plan::run(&options),
        Command::Simulate(options) => Termination::of("simulate", simulate::run(&options)),
        Command::Compare(options) => Termination::of("compare", compare::run(&options)),
        Command::Manuals(options) => {
            let written = punctual_manuals::write(&options.into, Arguments::command(), "1");
            Termination::of("manuals", written)
        }
    };
    termination.into()
}
