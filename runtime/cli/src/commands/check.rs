//! `punctual check`: the plan made from a manifest, or everything that is wrong with it.

use std::io::Write as _;
use std::path::PathBuf;

use crate::termination::Termination;

/// What to check, and how to say it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual check manifest.toml
  punctual check manifest.toml --profile signs.profile.json
  punctual check manifest.toml --json | jq .schedulability

Checks exactly what `punctual daemon` checks before it starts anything: manifest, board, packages
and profiles, on this machine. Nothing is reserved and nothing is started.

TERMINATION CODES: 0 the daemon would start; 3 the manifest or its plan is invalid; 4 a file is
missing or unreadable.")]
pub struct Options {
    /// The manifest (TOML).
    manifest: PathBuf,
    /// A profile made by `punctual profile`; once for each model. Without it, the profile beside
    /// each model's package is used.
    #[arg(long = "profile", value_name = "FILE")]
    profiles: Vec<PathBuf>,
    /// Print the plan, or the problems, as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the plan or the problems.
pub fn run(options: &Options) -> Termination {
    let daemon = punctual_daemon::Options {
        manifest: Some(options.manifest.clone()),
        profiles: options.profiles.clone(),
        ..punctual_daemon::Options::default()
    };
    match punctual_daemon::plan(&daemon) {
        Ok(plan) => {
            let text = if options.json {
                plan.to_json()
            } else {
                plan.to_string()
            };
            // A reader that went away is no reason to fail.
            let _ = std::io::stdout().write_all(text.as_bytes());
            Termination::Done
        }
        Err(error) => {
            if options.json
                && let punctual_daemon::StartupError::Plan(problems) = &error
            {
                let json = serde_json::to_string_pretty(problems).expect("plain data serialises");
                println!("{json}");
            } else {
                eprintln!("{error}");
            }
            Termination::Daemon(error.termination())
        }
    }
}
