//! `punctual check`: the plan made from a manifest, or everything that is wrong with it.

use std::path::PathBuf;

use punctual_daemon::StartupError;
use punctual_plan::{Plan, Policies};
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

Checks exactly what `punctual daemon` checks before it starts anything: manifest, board, packages
and profiles, on this machine. Nothing is reserved and nothing is started. `punctual doctor` checks the machine's settings.

TERMINATION CODES: 0 the daemon would start; 2 wrong usage; 3 the manifest or its plan is invalid; 4 a file is missing or
unreadable; 5 this process, or its control group, may not have the memory that the plan takes.")]
pub struct Options {
    /// The manifest (TOML) [default: the daemon's, /etc/punctual/manifest.toml].
    manifest: Option<PathBuf>,
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
    match plan(options.manifest.as_ref(), &options.profiles, policies) {
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
