//! `punctual check`: the plan made from a manifest, or everything that is wrong with it; and with
//! `--host` everything on the machine that will cost latency.

use punctual_plan::Policies;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use punctual_platform::files::write_whole;
use punctual_platform::output::{self, OutputError};

use crate::host::{self, Cores, Finding, Machine};
use punctual_platform::termination::{Terminates, Termination};

/// What to check, and how to say it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual check manifest.toml
  punctual check manifest.toml --profile signs.profile.json
  punctual check manifest.toml --json | jq .schedulability
  punctual check --host                        # settings of this machine that cost latency
  punctual check --host manifest.toml          # the same, for the cores of that plan
  punctual check --host --json | jq '.findings[] | select(.gravity == \"grave\")'
  punctual check --host --record machine.txt   # record it, and check it on another machine:
  punctual check --host --root machine.txt

Checks exactly what `punctual daemon` checks before it starts anything: manifest, board, packages
and profiles, on this machine. Nothing is reserved and nothing is started.

With --host it reads the kernel's files instead and changes nothing: what was found, why it matters,
its source, and the command that corrects it. Without a manifest the first core counts as the daemon's
and the others as the partitions'.

TERMINATION CODES: 0 the daemon would start, nothing about the machine is grave; 1 something is grave;
3 the manifest or its plan is invalid; 4 a file is missing or unreadable; 5 this process, or its control
group, may not have the memory that the plan takes.")]
pub struct Options {
    /// The manifest (TOML).
    #[arg(required_unless_present = "host")]
    manifest: Option<PathBuf>,
    /// Check the machine's settings: those that cost latency, and how to change them.
    #[arg(long)]
    host: bool,
    /// With --host: check the machine whose files are in this folder, or in a file written by --record.
    #[arg(long, value_name = "PATH", default_value = "/", requires = "host")]
    root: PathBuf,
    /// With --host: write the files that were read to this file.
    #[arg(long, value_name = "FILE", requires = "host")]
    record: Option<PathBuf>,
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
        return match check_host(options, policies) {
            Ok(termination) => termination,
            Err(error) => Termination::of("check", Err(error)),
        };
    }
    match plan(options, policies) {
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
                && let punctual_daemon::StartupError::Plan(problems) = &error
            {
                return termination.once_printed("check", output::text(problems.to_json()));
            }
            output::note(error);
            termination
        }
    }
}

/// The plan of the manifest that was named, if one was.
fn plan(
    options: &Options,
    policies: &Policies,
) -> Result<punctual_plan::Plan, punctual_daemon::StartupError> {
    let daemon = punctual_daemon::Options {
        manifest: options.manifest.clone(),
        profiles: options.profiles.clone(),
        ..punctual_daemon::Options::default()
    };
    punctual_daemon::plan(&daemon, policies)
}

/// Why a machine could not be looked at.
#[derive(Debug, thiserror::Error)]
enum HostError {
    #[error("the machine's files at {path} cannot be read: {source}")]
    Root {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the record cannot be written to {path}: {source}")]
    Record {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Plan(#[from] punctual_daemon::StartupError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for HostError {
    fn termination(&self) -> Termination {
        match self {
            Self::Root { .. } | Self::Record { .. } => Termination::File,
            Self::Plan(error) => Termination::Code(error.termination().code()),
            Self::Output(error) => error.termination(),
        }
    }
}

/// What `--host --json` prints.
#[derive(serde::Serialize)]
struct HostReport<'a> {
    partition_cores: &'a [u16],
    daemon_cores: &'a [u16],
    grave: bool,
    findings: Vec<FindingReport<'a>>,
}

/// A finding, with what is known of its subject.
#[derive(serde::Serialize)]
struct FindingReport<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    why: &'static str,
    source: &'static str,
}

fn check_host(options: &Options, policies: &Policies) -> Result<Termination, HostError> {
    let machine = Machine::at(&options.root).map_err(|source| HostError::Root {
        path: options.root.clone(),
        source,
    })?;
    let cores = match &options.manifest {
        Some(_) => Cores::of(&plan(options, policies)?),
        None => Cores::of_machine(&machine),
    };
    let findings = host::examine(&machine, &cores);
    if let Some(path) = &options.record {
        record(&machine, path)?;
    }
    let grave = host::any_grave(&findings);
    let text = if options.json {
        json(&cores, grave, &findings)
    } else {
        let (partitions, daemon) = (host::shown(&cores.partitions), host::shown(&cores.daemon));
        let table = host::table(&findings, std::io::stdout().is_terminal());
        format!("partitions on cores {partitions}, the daemon's other threads on {daemon}\n{table}")
    };
    output::text(text)?;
    Ok(if grave {
        Termination::BadResult
    } else {
        Termination::Done
    })
}

fn record(machine: &Machine, path: &Path) -> Result<(), HostError> {
    write_whole(path, machine.record().as_bytes()).map_err(|source| HostError::Record {
        path: path.to_owned(),
        source,
    })
}

fn json(cores: &Cores, grave: bool, findings: &[Finding]) -> String {
    let findings = findings.iter().map(|finding| FindingReport {
        finding,
        why: finding.subject.why(),
        source: finding.subject.source(),
    });
    let report = HostReport {
        partition_cores: &cores.partitions,
        daemon_cores: &cores.daemon,
        grave,
        findings: findings.collect(),
    };
    serde_json::to_string_pretty(&report).expect("plain data serialises") + "\n"
}
