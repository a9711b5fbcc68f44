//! From a package file to a network's first answers on a GPU.
//!
//! Three threads, as PASK (section III-A) has them: this one opens the package and lowers stage after
//! stage; one loads, launch after launch, the pages of weights and the modules of kernels that a launch
//! needs; one launches. Bounded channels lie between them.
//!
//! A kernel whose module is not loaded is replaced by a loaded one of the same pattern, the most
//! recently used first (sections III-B and III-C); all kernels of a pattern read the same weights, and
//! the module `general` has one of each. As published, nothing is replaced before the *milestone*: the
//! moment at which everything is lowered and the device has caught up with what was loaded. Until then
//! loading a module delays no stage. What was replaced is loaded after the last answer.

mod issuing;
mod loading;
mod solutions;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::bounded;
use punctual_core::Instant;
use punctual_cuda_kernels::Module;
use punctual_model::{Network, Package, PackageError};
use punctual_platform::clock;
use punctual_platform::thread::{ThreadError, spawn_ordinary};
use thiserror::Error;

use crate::driver::{Attribute, CallError, Context, Gpu, Stream};
use crate::kernels::{KernelError, Kernels};
use crate::lower::{LowerError, Lowering, PackError, StageProgram, Target};
use issuing::Issuing;
use loading::{Loading, Ready};

const BATCH: u8 = 1;
/// Stages that were lowered and wait to be loaded.
const STAGES_WAITING_MAX: usize = 2;
/// Launches whose weights and code are there.
const LAUNCHES_WAITING_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lowering, loading and launching overlap; kernels are replaced as told.
    Interleaved(Replacement),
    /// All is lowered, then all is loaded, then it runs.
    OneAfterTheOther,
    /// All is lowered, then all weights are loaded, then it runs, and each launch first loads its
    /// kernel if that is not there: what engines do by default, and what PASK compares with.
    Reactive,
}

/// When a kernel that is not loaded is replaced by a loaded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    AfterMilestone,
    /// Never: each is loaded.
    Never,
    /// Wherever a kernel that can replace it is loaded.
    Always,
}

impl Order {
    /// All of them, the recommended one first.
    pub const ALL: [Self; 5] = [
        Self::Interleaved(Replacement::AfterMilestone),
        Self::Interleaved(Replacement::Never),
        Self::Interleaved(Replacement::Always),
        Self::OneAfterTheOther,
        Self::Reactive,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interleaved(Replacement::AfterMilestone) => "interleaved",
            Self::Interleaved(Replacement::Never) => "no-replacement",
            Self::Interleaved(Replacement::Always) => "no-milestone",
            Self::OneAfterTheOther => "in-turn",
            Self::Reactive => "reactive",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub order: Order,
    /// Bytes of a page of weights.
    pub page_bytes: u32,
    /// How long a stage may take, in nanoseconds, before it counts as hanging.
    pub stage_limit_ns: u64,
}

impl Start {
    /// In this order, with the usual pages, and ten seconds for a stage.
    #[must_use]
    pub const fn new(order: Order) -> Self {
        Self {
            order,
            page_bytes: crate::PAGE_BYTES,
            stage_limit_ns: 10_000_000_000,
        }
    }
}

/// What a stage said, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstAnswer {
    /// When the host saw it, on the clock of [`clock::now_ns`].
    pub at: Instant,
    /// The class; means nothing where the stage ends in no exit.
    pub class: u32,
    pub confidence: f32,
    /// Class scores; none where the stage ends in no exit.
    pub scores: Vec<f32>,
}

/// A kernel that another one stood in for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    pub name: String,
    /// The kernel that was chosen for it.
    pub wanted: &'static str,
    pub used: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleLoad {
    pub module: Module,
    /// When that began.
    pub from: Instant,
    pub to: Instant,
}

/// A network's first answers, from the first exit to the last, and when things were done.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstAnswers {
    pub opened: Instant,
    /// How long the driver took to make the context, in every order, in nanoseconds.
    pub context_ns: u64,
    /// The last stage was lowered.
    pub lowered: Instant,
    /// The last weights and the last module that was waited for were there.
    pub loaded: Instant,
    /// Everything was lowered and the device had caught up with what was loaded; none if that came no more.
    pub milestone: Option<Instant>,
    pub exits: Vec<FirstAnswer>,
    /// Launches by kernels that stood in.
    pub replaced: Vec<Replaced>,
    /// All modules, those that came after the last answer too.
    pub loads: Vec<ModuleLoad>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ColdStartError {
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The network has no form on the device.
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Driver(#[from] CallError),
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// The input has the wrong length.
    #[error("the input has {found} values; the network takes {expected}")]
    Input { found: usize, expected: usize },
    #[error("stage {stage} did not end within {limit_ns} ns: the device hangs, or is too slow")]
    Hang {
        stage: usize,
        /// How long it was waited for.
        limit_ns: u64,
    },
}

/// How far the three threads are.
struct Progress {
    all_lowered: AtomicBool,
    /// Launches that were given to the driver.
    issued: AtomicU32,
}

struct Lowered {
    number: usize,
    program: StageProgram,
}

/// The answers of every exit of the network at `path`, each as soon as it is computed. `input` returns the network's
/// input as `[channel][row][column]`, normalised, with the vectors behind it. Best called in a fresh process, as the
/// driver initialises only once.
pub fn first_answers(
    gpu: Gpu,
    path: &Path,
    input: impl FnOnce(&Network) -> Vec<f32>,
    start: &Start,
) -> Result<FirstAnswers, ColdStartError> {
    let package = Arc::new(Package::open(path)?);
    let opened = now();
    let context = Context::retain(gpu)?;
    let context_ns = now().as_nanos() - opened.as_nanos();
    let target = Target {
        multiprocessors: gpu.attribute(Attribute::Multiprocessors)?,
        compute_capability: gpu.compute_capability()?,
        page_bytes: start.page_bytes,
    };
    let network = package.network();
    let lowering = Lowering::new(network, &target, &[])?;
    let input = input(network);
    let tensors = network.input_tensors();
    let elements: u64 = tensors
        .map(|tensor| network.tensors[tensor.index()].elements())
        .sum();
    let expected = elements as usize;
    if input.len() != expected {
        let found = input.len();
        return Err(ColdStartError::Input { found, expected });
    }
    let progress = Arc::new(Progress {
        all_lowered: AtomicBool::new(false),
        issued: AtomicU32::new(0),
    });
    let (_, highest) = context.stream_priorities()?;
    let stream = Arc::new(Stream::new(&context, highest)?);
    let kernels = Arc::new(Kernels::new());
    let loading = Loading::new(
        &context,
        (package.clone(), lowering.pages()),
        (start.order, kernels.clone()),
        (progress.clone(), stream.clone()),
    )?;
    let issuing = Issuing::new(
        stream,
        kernels,
        loading.pages(),
        (lowering.request_bytes(), &input),
        (progress.clone(), start.stage_limit_ns),
    )?;
    let mut answers = match start.order {
        Order::Interleaved(_) => interleaved(&lowering, loading, issuing, &progress)?,
        Order::OneAfterTheOther | Order::Reactive => in_turn(&lowering, loading, issuing, start)?,
    };
    answers.opened = opened;
    answers.context_ns = context_ns;
    Ok(answers)
}

fn interleaved(
    lowering: &Lowering<'_>,
    mut loading: Loading,
    mut issuing: Issuing,
    progress: &Progress,
) -> Result<FirstAnswers, ColdStartError> {
    let (to_load, lowered) = bounded::<Lowered>(STAGES_WAITING_MAX);
    let (to_issue, ready) = bounded::<Ready>(LAUNCHES_WAITING_MAX);
    let load = spawn_ordinary("load", move || {
        for stage in lowered {
            if !loading.load_stage(stage, |ready| to_issue.send(ready).is_ok())? {
                // The issuing thread has ended and says why.
                break;
            }
        }
        loading.synchronize()?;
        let loaded = now();
        // The issuing thread sees that there is no more.
        drop(to_issue);
        Ok((loading, loaded))
    })?;
    let issue = spawn_ordinary("issue", move || issuing.run(ready.into_iter().map(Ok)))?;
    let mut failed = None;
    for (number, program) in lowering.stages(&[BATCH]).enumerate() {
        let sent = program.map(|program| to_load.send(Lowered { number, program }).is_ok());
        match sent {
            Ok(true) => {}
            // The loading thread has ended and says why.
            Ok(false) => break,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let lowered = now();
    // Relaxed: late by a launch at most.
    progress.all_lowered.store(true, Ordering::Relaxed);
    drop(to_load);
    let loaded: Result<(Loading, Instant), ColdStartError> = joined(load);
    let exits = joined(issue);
    // What went wrong first explains the rest.
    if let Some(error) = failed {
        return Err(error.into());
    }
    let (mut loading, loaded) = loaded?;
    let exits = exits?;
    loading.load_what_was_replaced()?;
    Ok(loading.answers(lowered, loaded, exits))
}

fn in_turn(
    lowering: &Lowering<'_>,
    mut loading: Loading,
    mut issuing: Issuing,
    start: &Start,
) -> Result<FirstAnswers, ColdStartError> {
    let stages = lowering.stages(&[BATCH]).collect::<Result<Vec<_>, _>>()?;
    let lowered = now();
    let stages = stages.into_iter().enumerate();
    let stages = stages.map(|(number, program)| Lowered { number, program });
    if start.order == Order::Reactive {
        loading.load_all_pages()?;
        loading.synchronize()?;
        let loaded = now();
        let mut exits = Vec::new();
        for stage in stages {
            exits.extend(issuing.run(loading.on_demand(stage))?);
        }
        return Ok(loading.answers(lowered, loaded, exits));
    }
    let mut ready = Vec::new();
    for stage in stages {
        loading.load_stage(stage, |each| {
            ready.push(each);
            true
        })?;
    }
    loading.synchronize()?;
    let loaded = now();
    let exits = issuing.run(ready.into_iter().map(Ok))?;
    Ok(loading.answers(lowered, loaded, exits))
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    let result = thread.join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}
