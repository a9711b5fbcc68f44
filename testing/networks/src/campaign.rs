//! All networks of a range of seeds, on several threads.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use punctual_networks::{Drawn, Engine, Verdict, compare, panics, shrunk};
use punctual_platform::clock::now_ns;
use punctual_platform::output;
use thiserror::Error;

use crate::Arguments;

/// How often progress is said.
const PROGRESS: Duration = Duration::from_secs(2);

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

/// Draws and compares all networks that the arguments name.
///
/// # Errors
/// [`CampaignError`].
pub fn run(arguments: &Arguments) -> Result<Tally, CampaignError> {
    for engine in &arguments.engines {
        let engine = *engine;
        engine
            .is_there()
            .map_err(|why| CampaignError::Engine { engine, why })?;
    }
    if let Some(folder) = &arguments.out {
        let failed = |source| CampaignError::Write {
            path: folder.clone(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
    }
    panics::remember();
    let campaign = Campaign {
        arguments,
        began_ns: now_ns(),
        next: AtomicU64::new(0),
        tally: Mutex::default(),
    };
    let processors = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..arguments.threads.unwrap_or(processors).max(1) {
            scope.spawn(|| campaign.work());
        }
        campaign.progress();
    });
    let elapsed = campaign.elapsed();
    let mut tally = campaign
        .tally
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    tally.elapsed = elapsed;
    Ok(tally)
}

struct Campaign<'a> {
    arguments: &'a Arguments,
    began_ns: u64,
    /// How many seeds were taken.
    next: AtomicU64,
    tally: Mutex<Tally>,
}

impl Campaign<'_> {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(now_ns() - self.began_ns)
    }

    fn is_over(&self) -> bool {
        let limit = self.arguments.seconds.map(Duration::from_secs);
        limit.is_some_and(|limit| self.elapsed() >= limit)
    }

    fn work(&self) {
        while !self.is_over() {
            // Relaxed: each number is taken once, whatever the order.
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.arguments.count {
                return;
            }
            self.one(self.arguments.first.wrapping_add(at));
        }
        // The thread that prints the progress ends then, too.
        self.next.store(self.arguments.count, Ordering::Relaxed);
    }

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
        if let Some(small) = self
            .arguments
            .out
            .as_ref()
            .and_then(|_| shrunk(drawn, verdict))
        {
            let operators = small
                .graph()
                .node
                .iter()
                .filter_map(|node| node.op_type.as_deref());
            said += &format!("  shrunk: {}\n", operators.collect::<Vec<_>>().join(" "));
            if let Some(folder) = &self.arguments.out {
                said += &written(folder, &small, drawn);
            }
        }
        output::note(said.trim_end());
    }

    /// Says on the standard error how far it is, until all seeds are taken.
    fn progress(&self) {
        let mut said = Duration::ZERO;
        loop {
            let taken = self.next.load(Ordering::Relaxed);
            if taken >= self.arguments.count {
                return;
            }
            thread::park_timeout(Duration::from_millis(50));
            if self.elapsed() >= said + PROGRESS {
                said = self.elapsed();
                let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
                let line = format!(
                    "{} of {} networks, {} refused, {} failed, {} s",
                    tally.networks,
                    self.arguments.count,
                    tally.refusals(),
                    tally.failed,
                    self.elapsed().as_secs()
                );
                drop(tally);
                let mut stderr = io::stderr().lock();
                let end = if stderr.is_terminal() { "\r" } else { "\n" };
                // A line that cannot be written is not needed.
                let _ = write!(stderr, "{line}{end}");
            }
        }
    }
}

/// Writes a network, as it was drawn and shrunk, and says where.
fn written(folder: &Path, small: &Drawn, drawn: &Drawn) -> String {
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
