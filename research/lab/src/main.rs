//! `punctual-lab`: is it better than what is published? `punctual compare | simulate | replay | plan` start it. Its `daemon`, `check`
//! and `profile` are those of `punctual`, and know every published policy.
#![forbid(unsafe_code)]

mod compare;
#[cfg(test)]
mod documented;
mod manifest;
mod plan;
mod planned;
mod replay;
mod simulate;
mod what_if;
mod workload;

use clap::{CommandFactory as _, Parser, Subcommand};
use punctual::commands::{check, daemon, profile};
use punctual_platform::termination::Termination;
use punctual_platform::{output, signals};

/// Counts what the daemon's real-time threads must not do.
#[global_allocator]
static ALLOCATOR: punctual_platform::SealedAllocator = punctual_platform::SealedAllocator;

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
    /// Let the scheduler decide again what a recording has, and compare every action.
    Replay(replay::Options),
    /// Compare policies on a workload in virtual time.
    Compare(compare::Options),
    /// Run the daemon with any policy: one that ships, or a published one.
    #[command(after_help = SAME)]
    Daemon(daemon::Options),
    /// Check a manifest that may name any policy, and show the plan made from it.
    #[command(after_help = SAME)]
    Check(check::Options),
    /// Measure a package on this machine, for a manifest that may name any policy.
    #[command(after_help = SAME)]
    Profile(profile::Options),
    /// Write manual pages and shell completions, for packages.
    #[command(hide = true)]
    Manuals(punctual_manuals::Options),
}

const SAME: &str = "\
EXAMPLES:
  punctual-lab profile manifest.toml     # with `policy = \"clockwork\"` in its [daemon]
  punctual-lab check manifest.toml
  punctual-lab daemon manifest.toml --socket /tmp/punctual.sock

For comparisons on a board: no published policy promises deadlines. Otherwise the same as the command of `punctual`, whose
help says more; `punctual-lab compare --list` lists the policies.";

fn main() -> std::process::ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) => {
            let unwritten = Termination::File.code();
            return output::usage_code(usage.print(), usage.exit_code(), "punctual", unwritten)
                .into();
        }
    };
    let policies = punctual_baselines::all();
    // A daemon takes signals over itself.
    if !matches!(arguments.command, Command::Daemon(_)) {
        signals::end_at_once("punctual");
    }
    let termination = match arguments.command {
        Command::Daemon(options) => daemon::run(&options, &policies),
        Command::Check(options) => check::run(&options, &policies),
        Command::Profile(options) => Termination::of("profile", profile::run(&options, &policies)),
        Command::Plan(options) => plan::run(&options),
        Command::Simulate(options) => Termination::of("simulate", simulate::run(&options)),
        Command::Replay(options) => Termination::of("replay", replay::run(&options)),
        Command::Compare(options) => Termination::of("compare", compare::run(&options)),
        Command::Manuals(options) => {
            let written = punctual_manuals::write(&options.into, Arguments::command(), "1");
            Termination::of("manuals", written)
        }
    };
    termination.into()
}
