//! `punctual check`: the plan made from a manifest, or everything that is wrong with it.

use std::path::PathBuf;

use punctual_daemon::{ManifestSource, StartupError};
use punctual_plan::{Plan, PlanInputs, Policies};
use punctual_platform::output;
use punctual_platform::termination::Termination;

/// Wrong usage of the command line.
const USAGE: u8 = 2;

/// What to check, and how to say it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual check manifest.toml
  punctual check manifest.toml --profile signs.profile.json
  punctual check manifest.toml --json | jq .schedulability
  punctual check robot.toml --board jetson-orin-nx-16gb   # a robot's manifest, judged on another machine

Checks exactly what `punctual daemon` checks before it starts anything: manifest, board, packages
and profiles, on this machine. Nothing is reserved and nothing is started. `punctual doctor` checks the machine's settings.

With --board the plan is that of a board which is elsewhere: cores and memory by its file, times by its profile, which is in the
package, or beside it as PACKAGE.profile.json or PACKAGE.BOARD.profile.json. Real-time privileges are assumed there, and any user that the
manifest names; partitions are of cores, as what a GPU offers is known only where it is.

TERMINATION CODES: 0 the daemon would start; 2 wrong usage; 3 the manifest or its plan is invalid; 4 a file is missing or
unreadable; 5 this process, or its control group, may not have the memory that the plan takes.")]
pub struct Options {
    /// The manifest (TOML) [default: the daemon's, /etc/punctual/manifest.toml].
    manifest: Option<PathBuf>,
    /// Judge it for this board, by its file and by profiles that were measured on it.
    #[arg(long, value_name = "NAME")]
    board: Option<String>,
    /// The former name of `punctual doctor`.
    #[arg(long, hide = true)]
    host: bool,
    /// A profile made by `punctual profile`; once for each model. Without it, the profile beside
    /// each model's package is used.
    #[arg(long = "profile", value_name = "FILE")]
    profiles: Vec<PathBuf>,
    /// Print the plan, or the problems, as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the plan or the problems.
pub fn run(options: &Options, policies: &Policies) -> Termination {
    if options.host {
        output::note("punctual check: `check --host` is `punctual doctor`, with the same options");
        return Termination::Code(USAGE);
    }
    let (manifest, profiles) = (options.manifest.as_ref(), &options.profiles);
    let planned = match &options.board {
        Some(board) => plan_elsewhere(manifest, profiles, board, policies),
        None => plan(manifest, profiles, policies),
    };
    match planned {
        Ok(plan) => {
            let text = if options.json {
                // They are no part of the plan, which the JSON is.
                for key in &plan.renamed_keys {
                    output::note(format!("warning: {key}"));
                }
                plan.to_json()
            } else {
                format!("{plan:0$}", output::width())
            };
            Termination::of("check", output::text(text))
        }
        Err(error) => {
            let termination = Termination::Code(error.termination().code());
            if options.json
                && let StartupError::Plan(problems) = &error
            {
                return termination.once_printed("check", output::text(problems.to_json()));
            }
            output::note(error);
            termination
        }
    }
}

/// The plan of a manifest for a board that is not this machine.
fn plan_elsewhere(
    manifest: Option<&PathBuf>,
    profiles: &[PathBuf],
    board: &str,
    policies: &Policies,
) -> Result<Plan, StartupError> {
    let daemon = punctual_daemon::Options {
        manifest: manifest.cloned(),
        ..punctual_daemon::Options::default()
    };
    let ManifestSource { path, files, .. } = daemon.manifest_that_is_there()?;
    output::note(format_args!(
        "punctual check: for board {board}, by its file and its profiles; of the machine itself nothing is known here"
    ));
    let policies = policies.clone();
    let inputs = PlanInputs::read_for_board(&path, &files, profiles, board, policies)?;
    Ok(Plan::build(&inputs)?)
}

/// The plan of a manifest, or of the daemon's if none was named.
pub(super) fn plan(
    manifest: Option<&PathBuf>,
    profiles: &[PathBuf],
    policies: &Policies,
) -> Result<Plan, StartupError> {
    let daemon = punctual_daemon::Options {
        manifest: manifest.cloned(),
        profiles: profiles.to_vec(),
        ..punctual_daemon::Options::default()
    };
    punctual_daemon::plan(&daemon, policies)
}
