//! All networks of a range of seeds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use punctual_networks::{Drawn, Engine, Verdict, compare, shrunk};
use punctual_platform::output;
use thiserror::Error;

use crate::Arguments;
use crate::seeds::Seeds;

#[derive(Debug, Error)]
pub enum CampaignError {
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        path: std::path::PathBuf,
        source: io::Error,
    },
    #[error("the engine {engine} is not there: {why}")]
    Engine { engine: Engine, why: String },
}

/// What came of all networks.
#[derive(Default)]
pub struct Tally {
    pub networks: u64,
    pub operators: u64,
    /// By reason.
    pub refused: BTreeMap<String, u64>,
    /// Networks with any failure.
    pub failed: u64,
    pub engines: BTreeMap<Engine, OnEngine>,
    /// What the compiler or the interpreter panicked with, and the seeds.
    pub broken: Vec<(u64, String)>,
    pub elapsed: Duration,
}

#[derive(Clone, Copy, Default)]
pub struct OnEngine {
    /// Networks that agreed.
    pub agreed: u64,
    pub values: u64,
    pub undecided: u64,
    pub wrong: u64,
}

impl Tally {
    fn add(&mut self, drawn: &Drawn, verdict: &Verdict) {
        self.networks += 1;
        self.failed += u64::from(verdict.is_failure());
        match verdict {
            Verdict::Refused(reason) => *self.refused.entry(reason.clone()).or_default() += 1,
            Verdict::Broken(what) => self.broken.push((drawn.seed, what.clone())),
            Verdict::Compared(compared) => {
                self.operators += drawn.graph().node.len() as u64;
                for (engine, result) in compared {
                    let on = self.engines.entry(*engine).or_default();
                    match result {
                        Ok(compared) => {
                            on.agreed += 1;
                            on.values += compared.values;
                            on.undecided += compared.undecided;
                        }
                        Err(_) => on.wrong += 1,
                    }
                }
            }
        }
    }

    pub fn refusals(&self) -> u64 {
        self.refused.values().sum()
    }
}

/// That an engine can run here.
///
/// # Errors
/// [`CampaignError::Engine`].
pub fn there(engine: Engine) -> Result<(), CampaignError> {
    engine
        .is_there()
        .map_err(|why| CampaignError::Engine { engine, why })
}

/// Makes the folder for what fails, where one is named.
///
/// # Errors
/// [`CampaignError::Write`].
pub fn folder(seeds: &Seeds) -> Result<(), CampaignError> {
    let Some(folder) = &seeds.out else {
        return Ok(());
    };
    fs::create_dir_all(folder).map_err(|source| CampaignError::Write {
        path: folder.clone(),
        source,
    })
}

/// Draws and compares all networks that the arguments name.
///
/// # Errors
/// [`CampaignError`].
pub fn run(arguments: &Arguments) -> Result<Tally, CampaignError> {
    for engine in &arguments.engines {
        there(*engine)?;
    }
    folder(&arguments.seeds)?;
    let campaign = Campaign {
        arguments,
        tally: Mutex::default(),
    };
    let elapsed = arguments
        .seeds
        .each(|seed| campaign.one(seed), || campaign.progress());
    let mut tally = campaign
        .tally
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    tally.elapsed = elapsed;
    Ok(tally)
}

struct Campaign<'a> {
    arguments: &'a Arguments,
    tally: Mutex<Tally>,
}

impl Campaign<'_> {
    fn one(&self, seed: u64) {
        let drawn = Drawn::of(seed);
        let verdict = compare(&drawn, &self.arguments.engines);
        if verdict.is_failure() {
            self.found(&drawn, &verdict);
        }
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.add(&drawn, &verdict);
    }

    /// Says what is wrong with a network, and writes the smallest that is.
    fn found(&self, drawn: &Drawn, verdict: &Verdict) {
        let mut said = String::new();
        if let Verdict::Broken(what) = verdict {
            said += &format!("seed {}: {what}\n", drawn.seed);
        }
        for (engine, failure) in verdict.failures() {
            let kind = failure.kind.name();
            said += &format!("seed {}, {engine}, {kind}: {}\n", drawn.seed, failure.what);
        }
        let first = verdict.failures().next().map(|(engine, _)| engine);
        let engines = first.map_or(String::new(), |engine| format!(" --engines {engine}"));
        said += &format!(
            "  again: cargo run --release -p punctual-networks -- --first {} --count 1{engines}\n",
            drawn.seed
        );
        let folder = self.arguments.seeds.out.as_ref();
        if let Some(small) = folder.and_then(|_| shrunk(drawn, verdict)) {
            let operators = small
                .graph()
                .node
                .iter()
                .filter_map(|node| node.op_type.as_deref());
            said += &format!("  shrunk: {}\n", operators.collect::<Vec<_>>().join(" "));
            if let Some(folder) = folder {
                said += &written(folder, &small, drawn);
            }
        }
        output::note(said.trim_end());
    }

    fn progress(&self) -> String {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{} refused, {} failed", tally.refusals(), tally.failed)
    }
}

/// Writes a network, as it was drawn and shrunk, and says where.
pub fn written(folder: &Path, small: &Drawn, drawn: &Drawn) -> String {
    let (whole, part) = (
        format!("{}.onnx", drawn.seed),
        format!("{}.shrunk.onnx", drawn.seed),
    );
    let mut said = String::new();
    for (name, drawn) in [(whole, drawn), (part, small)] {
        let path = folder.join(name);
        said += &match fs::write(&path, drawn.bytes()) {
            Ok(()) => format!("  written: {}\n", path.display()),
            Err(error) => format!("  cannot write {}: {error}\n", path.display()),
        };
    }
    said
}
