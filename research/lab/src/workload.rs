//! What `compare` and `simulate` have in common: naming workloads, policies and loads.

use punctual_core::PolicySpec;
use punctual_daemon::StartupError;
use punctual_plan::{Diagnostics, PolicyChoice};
use std::path::{Path, PathBuf};

use punctual_evaluation::disb::{self, DisbError};
use punctual_evaluation::format::{self, Workload};
use punctual_evaluation::recorded::{self, Log, Played};
use punctual_evaluation::workloads::{self, UnknownWorkload};
use punctual_platform::output::{self, OutputError};
use punctual_platform::read;
use punctual_report::Table;
use punctual_simulator::run::RunError;
use punctual_simulator::scenario::Scenario;

use crate::{manifest, planned};
use punctual_platform::termination::{Terminates, Termination};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Workload(#[from] UnknownWorkload),
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A workload file that is invalid or cannot be read.
    #[error(transparent)]
    Format(#[from] Diagnostics),
    /// A DISB file that is invalid.
    #[error(transparent)]
    Disb(#[from] DisbError),
    #[error("there is no policy {name:?}; there are {}", .known.join(", "))]
    Policy {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("there is no experiment {name:?}; there are {}", .known.join(", "))]
    Experiment {
        name: String,
        known: Vec<&'static str>,
    },
    /// A recording that cannot be played.
    #[error(transparent)]
    Recorded(#[from] recorded::Error),
    /// A manifest that the daemon would not serve here.
    #[error("{0}")]
    Manifest(#[source] Box<StartupError>),
    /// What is asked of a recording is known only of workloads.
    #[error(
        "{name}: a recording has the times of its places, measured beside what ran there; --corun stretches those of workloads"
    )]
    Corun { name: String },
    /// A run could not be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Something ran, and its result is bad.
    #[error("{0}")]
    Bad(String),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Recorded(error) => error.termination(),
            Self::Manifest(error) => Termination::Code(error.termination().code()),
            Self::Read { .. } | Self::Write { .. } => Termination::File,
            Self::Workload(_)
            | Self::Format(_)
            | Self::Disb(_)
            | Self::Policy { .. }
            | Self::Corun { .. }
            | Self::Experiment { .. }
            | Self::Run(_) => Termination::BadInput,
            Self::Bad(_) => Termination::BadResult,
        }
    }
}

/// Where policies that lend may run stages.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Places {
    /// Run each stage on its home only.
    #[arg(long)]
    no_lending: bool,
    /// How many times longer stages take on places than alone, as neighbours share memory with them.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor, conflicts_with = "no_lending")]
    corun: f64,
}

impl Places {
    pub fn apply(self, scenario: &mut Scenario) -> Result<(), Error> {
        if scenario.recorded.is_some() && self.corun > 1.0 {
            let name = scenario.name.clone();
            return Err(Error::Corun { name });
        }
        if self.no_lending {
            scenario.lending = None;
        }
        if let Some(lending) = &mut scenario.lending {
            lending.corun = self.corun;
        }
        Ok(())
    }

    /// The same on the command line; nothing for what it is without.
    pub fn words(self) -> Option<String> {
        match self {
            Self {
                no_lending: true, ..
            } => Some("--no-lending".to_owned()),
            Self { corun, .. } if corun > 1.0 => Some(format!("--corun {corun}")),
            Self { .. } => None,
        }
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (1.0..=10.0).contains(&factor) {
        Ok(factor)
    } else {
        Err(format!("a factor is 1 to 10, not {factor}"))
    }
}

/// A built-in workload, a manifest, or a file that describes one, with the policies whose parameters the file sets.
pub fn document(name: &str) -> Result<Workload, Error> {
    let path = Path::new(name);
    let scenario = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") if planned::names_packages(path) => return manifest::workload(path),
        Some("toml") => {
            let workload = format::read(path)?;
            for key in &workload.renamed_keys {
                output::note(format!("warning: {key}"));
            }
            return Ok(workload);
        }
        Some("json") => published(path)?,
        Some("mcap") => return recording(path),
        _ => workloads::by_name(name)?,
    };
    Ok(Workload {
        scenario,
        policies: Vec::new(),
        renamed_keys: Vec::new(),
    })
}

/// A recording, to be played again.
fn recording(path: &Path) -> Result<Workload, Error> {
    let file = recorded::File::read(path)?;
    let opened = file.open()?;
    let log = Log::of(&opened)?;
    for note in log.omitted.notes() {
        output::note(note);
    }
    let Played {
        scenario, policy, ..
    } = Played::again(&opened, &log)?;
    Ok(Workload {
        scenario,
        policies: vec![policy],
        renamed_keys: Vec::new(),
    })
}

/// A file of DISB's.
fn published(path: &Path) -> Result<Scenario, Error> {
    let text = read::text(path, read::TEXT_BYTES_MAX).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let mut scenario = disb::parse(&path.display().to_string(), &text)?;
    scenario.name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    "a file of DISB's".clone_into(&mut scenario.about);
    Ok(scenario)
}

/// The policies of those names, all of them if none is named; with the parameters that the workload's file sets.
pub fn policies(names: &[String], set: &[PolicyChoice]) -> Result<Vec<PolicyChoice>, Error> {
    if !names.is_empty() {
        return names.iter().map(|name| policy(name, set)).collect();
    }
    punctual_baselines::all()
        .iter()
        .map(|default| policy(default.name(), set))
        .collect()
}

/// The policy of that name, with the parameters that the workload's file sets.
pub fn policy(name: &str, set: &[PolicyChoice]) -> Result<PolicyChoice, Error> {
    let set = set.iter().find(|policy| policy.name() == name).cloned();
    let all = punctual_baselines::all();
    let found = set.or_else(|| all.by_name(name).cloned());
    found.ok_or_else(|| Error::Policy {
        name: name.to_owned(),
        known: all.names().collect(),
    })
}

/// A factor on a workload's rates, from the command line.
pub fn load(text: &str) -> Result<f64, String> {
    let load: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.001..=1000.0).contains(&load) {
        Ok(load)
    } else {
        Err(format!("a load is 0.001 to 1000, not {load}"))
    }
}

/// Workloads and policies, a line each.
pub fn list() -> String {
    let (workloads, policies) = (workloads::all(), punctual_baselines::all());
    let workloads = listed(workloads.iter().map(|one| (one.name, one.about)));
    let policies = listed(policies.iter().map(|one| (one.name(), one.summary())));
    format!(
        "WORKLOADS (or a file: one's own .toml, DISB's .json, a recording's .mcap)\n{workloads}\nPOLICIES\n{policies}"
    )
}

/// Names, and what each is about.
pub fn listed<'t>(lines: impl Iterator<Item = (&'t str, &'t str)>) -> String {
    let mut table = Table::list().inset();
    lines.for_each(|(name, about)| table.row([name, about]));
    format!("{table:0$}", output::width())
}

pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    punctual_platform::files::write_whole(path, text.as_bytes()).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}
