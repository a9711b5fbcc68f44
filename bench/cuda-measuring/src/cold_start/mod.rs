//! From a package file to a network's first answers on a GPU.
//!
//! Two threads, as PASK (section III-A) has them behind its parser: one loads, launch after launch, the pages of weights and
//! the modules of kernels that a launch needs; one launches. A bounded channel lies between them. The network is lowered
//! before: that takes about a millisecond, so there is nothing to overlap it with.
//!
//! A kernel whose module is not loaded is replaced by a loaded one of the same pattern, the most
//! recently used first (sections III-B and III-C); all kernels of a pattern read the same weights, and
//! the module `general` has one of each. As published, nothing is replaced before the *milestone*: the
//! moment at which the device has caught up with what was loaded. Until then
//! loading a module delays no stage. What was replaced is loaded after the last answer.

mod issuing;
mod loading;
mod solutions;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crossbeam_channel::bounded;
use punctual_core::Instant;
use punctual_cuda_kernels::Module;
use punctual_device_cuda::driver::{CallError, Context, Gpu, Stream};
use punctual_device_cuda::lower::{LowerError, PackError, Program};
use punctual_device_cuda::{KernelError, Kernels, PAGE_BYTES};
use punctual_model::{Network, Package, PackageError};
use punctual_platform::clock;
use punctual_platform::thread::{ThreadError, spawn_ordinary};
use thiserror::Error;

use crate::target;
use issuing::Issuing;
use loading::{Loading, Ready};

const BATCH: u8 = 1;
/// Launches whose weights and code are there.
const LAUNCHES_WAITING_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Loading and launching overlap; kernels are replaced after the milestone.
    Interleaved,
    /// The same, but a kernel is replaced wherever one that can replace it is loaded.
    NoMilestone,
    /// All weights are loaded, then it runs, and each launch first loads its kernel if that is not there: what engines do
    /// by default, and what PASK compares with.
    Reactive,
}

impl Order {
    /// All of them, the recommended one first.
    pub const ALL: [Self; 3] = [Self::Interleaved, Self::NoMilestone, Self::Reactive];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interleaved => "interleaved",
            Self::NoMilestone => "no-milestone",
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
            page_bytes: PAGE_BYTES,
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
    /// All stages were lowered.
    pub lowered: Instant,
    /// The last weights and, unless it is reactive, the last module that was waited for were there.
    pub loaded: Instant,
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

/// What both threads use.
struct Shared {
    context: Arc<Context>,
    /// Launches go into it.
    stream: Stream,
    kernels: Kernels,
    package: Package,
    program: Program,
    /// Launches that were given to the driver.
    issued: AtomicU32,
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
    let package = Package::open(path)?;
    let opened = now();
    let context = Context::retain(gpu)?;
    let context_ns = now().as_nanos() - opened.as_nanos();
    let target = target(gpu, start.page_bytes)?;
    let input = input(package.network());
    let program = Program::lower(package.network(), &[BATCH], &target, &[])?;
    let lowered = now();
    let (found, expected) = (input.len(), program.input_floats());
    if found != expected {
        return Err(ColdStartError::Input { found, expected });
    }
    let (_, highest) = context.stream_priorities()?;
    let shared = Arc::new(Shared {
        stream: Stream::new(&context, highest)?,
        context,
        kernels: Kernels::default(),
        package,
        program,
        issued: AtomicU32::new(0),
    });
    let loading = Loading::new(shared.clone(), start.order)?;
    let issuing = Issuing::new(shared, loading.pages(), &input, start.stage_limit_ns)?;
    let (exits, loaded, loading) = match start.order {
        Order::Interleaved | Order::NoMilestone => interleaved(loading, issuing)?,
        Order::Reactive => reactive(loading, issuing)?,
    };
    Ok(FirstAnswers {
        opened,
        context_ns,
        lowered,
        loaded,
        exits,
        replaced: loading.replaced,
        loads: loading.loads,
    })
}

/// The answers, when all was loaded that they waited for, and what was loaded.
type Answered = (Vec<FirstAnswer>, Instant, Loading);

fn interleaved(mut loading: Loading, mut issuing: Issuing) -> Result<Answered, ColdStartError> {
    let (to_issue, ready) = bounded::<Ready>(LAUNCHES_WAITING_MAX);
    let load = spawn_ordinary("load", move || -> Result<_, ColdStartError> {
        for ready in loading.launches() {
            if to_issue.send(ready?).is_err() {
                // The issuing thread has ended and says why.
                break;
            }
        }
        loading.synchronize()?;
        Ok((loading, now()))
    })?;
    let exits = issuing.run(ready.into_iter().map(Ok));
    let loaded = load.join();
    let loaded = loaded.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    // What went wrong first explains the rest.
    let (mut loading, loaded) = loaded?;
    let exits = exits?;
    loading.load_what_was_replaced()?;
    Ok((exits, loaded, loading))
}

fn reactive(mut loading: Loading, mut issuing: Issuing) -> Result<Answered, ColdStartError> {
    loading.load_all_pages()?;
    loading.synchronize()?;
    let loaded = now();
    let exits = issuing.run(loading.launches())?;
    Ok((exits, loaded, loading))
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}
