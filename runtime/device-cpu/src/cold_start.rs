//! From a package file to a network's first answers.
//!
//! Three threads, as PASK (section III-A) has them: this one opens the package and lowers stage
//! after stage; one loads the weights, page after page in the order in which they are needed;
//! one runs each operator as soon as its stage is lowered and its weights are there. Bounded
//! channels lie between them: stages that wait to be run, and a mark up to which weights are ready.
//!
//! A *solution* that was chosen for an operator because it is the fastest, but whose own weights are
//! not prepared yet, is replaced by the direct one, which runs from the weights as they were loaded
//! (section III-B; the cache by categories of section III-C has one entry here: every operator has
//! exactly one solution that needs no preparation, so it is found without a search). Before the
//! *milestone*, while stages are still being lowered, solutions are prepared and not replaced.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use punctual_core::{ActionId, Instant, ModelId, StageId};
use punctual_kernels::Isa;
use punctual_model::{Network, Package, PackageError, SolutionChoice, WeightImage};
use punctual_platform::thread::{ThreadError, spawn_ordinary};
use punctual_platform::{OsError, clock};
use thiserror::Error;

use crate::executable::{Executable, LoadedModel};
use crate::lower::{self, LowerError, Lowering};
use crate::shared::team::{self, Leader};
use crate::shared::weights::{self, Ledger, LoadError, Loader, Source, Weights};
use punctual_device::InputBuffers;
use punctual_device::pool::{CancelFlag, Outcome};
use punctual_device::regions::ClaimedRegions;

/// The one model, and the one stage of each team: a stage is run by a team of its own.
const MODEL: ModelId = ModelId(0);
const STAGE: StageId = StageId(0);

/// Stages that were lowered and wait to be run.
const WAITING_MAX: usize = 2;

/// How a network is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lowering, loading and running overlap. The chosen solutions are prepared as told.
    Interleaved(Preparation),
    /// All is lowered, then all is loaded, then it runs.
    OneAfterTheOther,
    /// The whole file is read and verified before the rest, which goes one after the other.
    VerifiedFirst,
    /// As `VerifiedFirst`, with the weights packed here instead of taken as the compiler packed them.
    PackedFirst,
}

/// Whether the solutions chosen for a stage are prepared before it runs, or replaced by the direct one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Prepared for the stages before the milestone, replaced after it.
    BeforeMilestone,
    /// All are prepared.
    Always,
    /// All are replaced.
    Never,
}

/// What an exit said, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstAnswer {
    /// On the clock of [`clock::now_ns`].
    pub at: Instant,
    /// Class scores.
    pub scores: Vec<f32>,
}

/// A network's first answers, from the first exit to the last, and when things were done.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstAnswers {
    /// The package was opened (and verified, where that comes first).
    pub opened: Instant,
    /// The last stage was lowered.
    pub lowered: Instant,
    /// The last weights were there.
    pub loaded: Instant,
    /// One entry a stage.
    pub exits: Vec<FirstAnswer>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ColdStartError {
    /// The package cannot be used.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The package has no weights packed for this processor.
    #[error(
        "the package has no packed weights for vectors of {0} floats: compile it with --lanes {0}"
    )]
    NoImage(usize),
    /// An operator has no kernel.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The weights cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Memory is unavailable.
    #[error(transparent)]
    Memory(#[from] OsError),
    /// A thread cannot be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// The input has the wrong length.
    #[error("the input has {found} values; the network takes {expected}")]
    Input {
        /// As given.
        found: usize,
        /// Channels times rows times columns.
        expected: usize,
    },
    /// A kernel panicked, and said so.
    #[error("operators of stage {0} failed")]
    Run(usize),
}

/// The answers of every exit of the network at `path` to what `input` gives for it, as
/// `[channel][row][column]`, normalised, as soon as each is computed. `choices` are the solutions
/// that are to be used one day; what is prepared first, uses them now.
///
/// # Errors
/// [`ColdStartError`].
pub fn first_answers(
    isa: Isa,
    path: &Path,
    input: impl FnOnce(&Network) -> Vec<f32>,
    order: Order,
    choices: &[SolutionChoice],
) -> Result<FirstAnswers, ColdStartError> {
    let package = match order {
        Order::Interleaved(_) | Order::OneAfterTheOther => Package::open(path)?,
        Order::VerifiedFirst | Order::PackedFirst => Package::read(path)?,
    };
    let opened = now();
    let lowering = Lowering::new(isa, package.network())?;
    let requests = request(&lowering, &input(package.network()))?;
    let mut times = match order {
        Order::Interleaved(preparation) => {
            let incoming = Incoming::new(image(&package, isa)?)?;
            let choices = match preparation {
                Preparation::Never => &[],
                Preparation::BeforeMilestone | Preparation::Always => choices,
            };
            let maker = Maker::new(choices, &incoming.weights, requests);
            interleaved(&lowering, incoming, maker, preparation)?
        }
        Order::OneAfterTheOther | Order::VerifiedFirst => {
            let stages = lowering.stages()?;
            let incoming = Incoming::new(image(&package, isa)?)?;
            let choices = match order {
                Order::VerifiedFirst => choices,
                _ => &[],
            };
            let maker = Maker::new(choices, &incoming.weights, requests);
            one_after_the_other(&lowering, stages, incoming, &maker)?
        }
        Order::PackedFirst => {
            let stages = lowering.stages()?;
            let floats = lower::pack(package.network(), &stages)?;
            let incoming = Incoming::new(WeightImage::new(isa.lanes() as u8, floats.into()))?;
            let maker = Maker::new(choices, &incoming.weights, requests);
            one_after_the_other(&lowering, stages, incoming, &maker)?
        }
    };
    times.opened = opened;
    Ok(times)
}

/// Weights that are to come.
struct Incoming {
    weights: Arc<Weights>,
    ledger: Ledger,
    loader: Loader,
}

impl Incoming {
    fn new(image: WeightImage) -> Result<Self, OsError> {
        let pages = image.pages();
        let source = Source {
            image,
            paged: false,
        };
        let (weights, ledger, loader) = weights::weights(vec![source], pages, false)?;
        Ok(Self {
            weights,
            ledger,
            loader,
        })
    }
}

fn image(package: &Package, isa: Isa) -> Result<WeightImage, ColdStartError> {
    let lanes = isa.lanes();
    let image = package.image(lanes as u8).cloned();
    image.ok_or(ColdStartError::NoImage(lanes))
}

/// The one request buffer, with its input.
fn request(lowering: &Lowering<'_>, input: &[f32]) -> Result<Arc<ClaimedRegions>, ColdStartError> {
    let layout = lowering.input();
    let expected = layout.channels * layout.height * layout.width;
    if input.len() != expected {
        let found = input.len();
        return Err(ColdStartError::Input { found, expected });
    }
    let buffers = InputBuffers::new(1, lowering.request_floats(), Box::new([layout]));
    let writer = buffers.claim(0, MODEL);
    writer.expect("there is no other claim").write_planar(input);
    Ok(buffers.regions().clone())
}

/// Makes teams of one for stages.
struct Maker {
    choices: Vec<SolutionChoice>,
    weights: Arc<Weights>,
    requests: Arc<ClaimedRegions>,
}

impl Maker {
    fn new(
        choices: &[SolutionChoice],
        weights: &Arc<Weights>,
        requests: Arc<ClaimedRegions>,
    ) -> Self {
        Self {
            choices: choices.to_vec(),
            weights: weights.clone(),
            requests,
        }
    }

    /// A team with its workspace, its stage's chosen solutions prepared as soon as the weights
    /// that they are derived from are there, if `prepared`.
    fn leader(&self, mut stage: LoadedModel, prepared: bool) -> Leader {
        if prepared && !self.choices.is_empty() {
            let weights = self.weights.claim_when_open(MODEL);
            // The runner is told of a failed load, too.
            if self.weights.wait_for(MODEL, stage.weight_floats) {
                stage.specialise(&self.choices, weights.floats());
            }
        }
        let models: Arc<[LoadedModel]> = Arc::new([stage]);
        let (leader, _) = team::team(1, &models, &self.weights, &self.requests, 1);
        leader
    }

    /// Makes teams of stages as they come, each prepared or not as `preparation` says.
    fn make_all(
        &self,
        lowered: &Receiver<LoadedModel>,
        to_run: &Sender<Leader>,
        preparation: Preparation,
        all_lowered: &AtomicBool,
    ) {
        while let Ok(stage) = lowered.recv() {
            let prepared = match preparation {
                Preparation::Always => true,
                Preparation::Never => false,
                // Relaxed: late by a stage at most.
                Preparation::BeforeMilestone => !all_lowered.load(Ordering::Relaxed),
            };
            if to_run.send(self.leader(stage, prepared)).is_err() {
                // The runner has ended and says why.
                return;
            }
        }
    }
}

fn interleaved(
    lowering: &Lowering<'_>,
    incoming: Incoming,
    maker: Maker,
    preparation: Preparation,
) -> Result<FirstAnswers, ColdStartError> {
    let Incoming {
        weights,
        mut ledger,
        mut loader,
    } = incoming;
    ledger.load(ActionId(0), MODEL, true);
    let load = spawn_ordinary("load", move || {
        let loaded = loader.carry_out();
        loaded.map_or(Ok(now()), |result| result.map(|()| now()))
    })?;
    let (to_run, runnable) = bounded(WAITING_MAX);
    let run = {
        let (weights, requests) = (weights.clone(), maker.requests.clone());
        spawn_ordinary("run", move || run_all(&runnable, &weights, &requests))?
    };
    // Each part sees the end of the one before it by the end of its channel.
    let lowered = if maker.choices.is_empty() {
        let lowered = lower_all(lowering, |stage| {
            to_run.send(maker.leader(stage, false)).is_ok()
        });
        drop(to_run);
        lowered
    } else {
        let (to_prepare, lowered) = bounded(WAITING_MAX);
        let all_lowered = Arc::new(AtomicBool::new(false));
        let milestone = all_lowered.clone();
        // The runner waits for it: it ends first.
        spawn_ordinary("prepare", move || {
            maker.make_all(&lowered, &to_run, preparation, &milestone);
        })?;
        let lowered = lower_all(lowering, |stage| to_prepare.send(stage).is_ok());
        all_lowered.store(true, Ordering::Relaxed);
        lowered
    };
    let loaded = joined(load).map_err(|(_, error)| error);
    let exits = joined(run);
    // What went wrong first explains the rest.
    Ok(FirstAnswers {
        opened: Instant::ZERO,
        lowered: lowered?,
        loaded: loaded?,
        exits: exits?,
    })
}
/// Lowers stage after stage and hands them on, as long as they are taken.
fn lower_all(
    lowering: &Lowering<'_>,
    mut hand_on: impl FnMut(LoadedModel) -> bool,
) -> Result<Instant, LowerError> {
    for stage in lowering.each_stage() {
        if !hand_on(lowering.model(vec![stage?])) {
            // The runner has ended and says why.
            break;
        }
    }
    Ok(now())
}

fn one_after_the_other(
    lowering: &Lowering<'_>,
    stages: Vec<Executable>,
    incoming: Incoming,
    maker: &Maker,
) -> Result<FirstAnswers, ColdStartError> {
    let Incoming {
        weights,
        mut ledger,
        mut loader,
    } = incoming;
    let lowered = now();
    ledger.load(ActionId(0), MODEL, false);
    let loading = loader.carry_out().unwrap_or(Ok(()));
    loading.map_err(|(_, error)| error)?;
    let loaded = now();
    let (to_run, runnable) = bounded(stages.len());
    for stage in stages {
        // There is room for all.
        let _ = to_run.send(maker.leader(lowering.model(vec![stage]), true));
    }
    drop(to_run);
    Ok(FirstAnswers {
        opened: Instant::ZERO,
        lowered,
        loaded,
        exits: run_all(&runnable, &weights, &maker.requests)?,
    })
}

/// Runs stages as they come.
fn run_all(
    to_run: &Receiver<Leader>,
    weights: &Weights,
    requests: &ClaimedRegions,
) -> Result<Vec<FirstAnswer>, ColdStartError> {
    let mut exits = Vec::new();
    let mut claims = [requests.claim(0).expect("there is no other claim")];
    let never = CancelFlag::new();
    let weights = weights.claim_when_open(MODEL);
    while let Ok(mut leader) = to_run.recv() {
        if leader.run(MODEL, STAGE, &weights, &mut claims, &never) != Outcome::Done {
            return Err(ColdStartError::Run(exits.len()));
        }
        let scores = leader.scores((MODEL, STAGE), 0, &mut claims[0]).to_vec();
        exits.push(FirstAnswer { at: now(), scores });
    }
    Ok(exits)
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    let result = thread.join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}
