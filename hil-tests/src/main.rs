//! `punctual-hil`: tests the installed binaries on a target; and, copied there, the agent.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use punctual_hil::{agent, run};
use punctual_platform::output;

/// Black-box tests of the installed binaries on a named target.
#[derive(Debug, Parser)]
#[command(name = "punctual-hil", version, after_help = AFTER_HELP)]
enum Command {
    /// Run cases on a target and report.
    #[command(after_help = AFTER_HELP)]
    Run(Box<run::Options>),
    /// Act as a client, a load or a probe on this machine; `run` uses it on the target.
    #[command(subcommand)]
    Agent(agent::Role),
}

const AFTER_HELP: &str = "\
EXAMPLES:
  Everything that does not disturb this machine, with the binaries of a build:
      punctual-hil run --bin target/release --out hil-report
  A board behind ssh, with the packages installed there:
      punctual-hil run --target ssh:nano --board jetson-orin-nano-8gb \\
          --agent target/aarch64-unknown-linux-gnu/release/punctual-hil --out nano
  What there is:
      punctual-hil run --list
  One case, with all that it says:
      punctual-hil run --case faults/daemon-killed --json
  Two hours of soak, and faults of the whole machine:
      punctual-hil run --suite soak --hours 2
      punctual-hil run --suite faults --disruptive

TERMINATION CODES:
  0   every case that ran held
  1   a case did not hold: its findings say why; a missed bound names its file and key
  2   wrong usage of the command line
  3   no such suite, case or board, or its bounds are wrong
  4   a file is missing, unreadable or cannot be written
  5   the target cannot be reached or prepared
  6   every case was skipped: nothing was tested
  7   interrupted by SIGINT or SIGTERM: the target was cleared, cases not begun are not reported
  141 whoever read standard output went away before everything was printed";

fn main() -> ExitCode {
    match Command::try_parse() {
        Err(usage) => {
            output::usage_code(usage.print(), usage.exit_code(), "punctual-hil", 4).into()
        }
        Ok(Command::Run(options)) => run::run(&options).into(),
        Ok(Command::Agent(role)) => match agent::play(&role) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                output::note(format_args!("punctual-hil agent: {error}"));
                ExitCode::FAILURE
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands of a text as they would be typed; those that leave something to be filled in are left out.
    fn shown(text: &str) -> Vec<Vec<String>> {
        let text = text.replace("\\\n", " ");
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches("target/release/"));
        let ours = lines.filter(|line| line.starts_with("punctual-hil ") && !line.contains("..."));
        let typed = ours.map(|line| line.split(" #").next().unwrap_or_default());
        typed
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect()
    }

    #[test]
    fn every_documented_command_is_understood() {
        let readme = shown(include_str!("../README.md"));
        let help = shown(AFTER_HELP);
        assert!(readme.len() > 2 && help.len() > 5, "{readme:?} {help:?}");
        for words in readme.iter().chain(&help) {
            if let Err(error) = Command::try_parse_from(words) {
                panic!("{}\n{error}", words.join(" "));
            }
        }
    }
}
