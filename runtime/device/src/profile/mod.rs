//! The profiler: how long every stage of a network takes on this machine, at each batch size and
//! on each number of cores, and how long its frames take to prepare.
//!
//! # What is measured
//! First, unless it is left out, which solution of each operator is the fastest; then, with those,
//! what the daemon will run: a device with one partition, told stage after stage, batch after batch, in the order in which requests go through a network. So a stage finds
//! the caches as its predecessor left them, and the core as a pause left it. If another network shares the partition, it runs
//! before each request: its weights and activations have then taken the caches, as they will in the daemon. One request in three
//! comes after a pause. The worker's own clock
//! counts, from the claim of the first member to the last answer
//! ([`Finished::measured`](punctual_core::Finished::measured)): wake-ups before and after are in the
//! plan's margins. A preparation is the copies of the vectors and of the crop's rows, and
//! [`Preprocessor::run`](punctual_kernels::preprocess::Preprocessor::run), on frames that change. Where a device may prepare frames, that is
//! measured while it runs the network's stages one after the other.
//!
//! # With busy neighbours
//! If the request says which partitions there are ([`Request::beside`]), each partition size is measured a second time while
//! all other compute units of these partitions run stages of the largest other network without a gap. They take memory
//! bandwidth and shared caches from the measured stage, as they will when work runs on idle units while all others are busy.
//!
//! # Preemption
//! Each stage is also run as best-effort work and stopped at random times ([`Request::interruptions`]): the plan's blocking is how long
//! that takes.
//!
//! # Quantiles in noise
//! Other programs and the machine beneath a virtual one disturb measurements, usually in bursts.
//! Pooling all samples, a disturbance of 1% of the time owns the 99% quantile. So samples come in
//! blocks of 69, one after another in time, and the 99% quantile is the **median of the blocks' longest**
//! ([`Samples`]): a burst has to hit half of the blocks to move it. What
//! disturbs all the time is in it, as it should be: the daemon will meet it too. `max` is the
//! longest sample of all, bursts included. Budgets are made from `p99` with a margin (the plan's
//! `Margins`); `max` only says when a worker is believed to be stuck.

mod neighbours;
mod preemption;
mod prepare;
mod prepare_on_device;
mod stages;

use std::fmt;

use punctual_core::Nanos;
use punctual_kernels::preprocess::PreprocessError;
use punctual_model::{
    Package, Profile, ProfileKey, Samples, SolutionChoice, SolutionMemory, same_stages,
};
use punctual_platform::thread::ThreadError;
use punctual_platform::{Missing, clock};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};
use thiserror::Error;

use crate::frames::FramesRefused;
use crate::provider::Provider;
use crate::spec::PartitionSpec;
pub(crate) use stages::{all_outputs, give_areas};

/// What to measure, and on what.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The board's name, for the profile's key.
    pub board: String,
    /// The power mode that the machine is in, for the profile's key.
    pub power_mode: String,
    /// Batch sizes, rising from 1.
    pub batches: Vec<u8>,
    /// Partition sizes, in compute units (cores, TPCs).
    pub units: Vec<u8>,
    /// Sizes of all partitions of the device, to measure stages also while all compute units but theirs are busy. Empty:
    /// stages are measured alone only.
    pub beside: Vec<u8>,
    /// Frames whose preparation should be measured: for a profile of the processor.
    pub frames: Vec<Frame>,
    /// Frames whose preparation by the device should be measured, at each partition size.
    pub frames_on_device: Vec<Frame>,
    /// The core to prepare them on; none: wherever the kernel likes.
    pub core: Option<usize>,
    /// How many samples.
    pub effort: Effort,
    /// How often each stage is stopped, to measure how long that takes; 0: that is not measured.
    pub interruptions: usize,
    /// Whether to measure single launches, too, where stages consist of such.
    pub launches: bool,
    /// Whether to keep to the general, direct solution of every operator, instead of choosing the
    /// fastest by measuring.
    pub direct: bool,
}

/// A stream's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where pixels lie.
    pub layout: FrameLayout,
    /// Size of the part that the network sees.
    pub crop: Size,
    /// What becomes of its aspect ratio.
    pub fit: Fit,
}

impl Frame {
    /// Frames of `size`, stretched to the input, whose rows, of both planes if there are two, begin `stride` bytes apart.
    #[must_use]
    pub fn new(format: PixelFormat, size: Size, stride: u32, crop: Size) -> Self {
        let mut layout = FrameLayout::packed(format, size.width, size.height);
        layout.row_stride = stride;
        if format == PixelFormat::Nv12 {
            layout.chroma_offset = stride.saturating_mul(size.height);
            layout.chroma_stride = stride;
        }
        let fit = Fit::Stretch;
        Self { layout, crop, fit }
    }
}

/// How many samples to take of each figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// 207, or fewer if a partition size would take longer than 6 s; on a busy machine so few that only the time is kept. For
    /// somebody who waits.
    Brief,
    /// 345, or fewer if a partition size would take longer than 12 s. For a first look: the
    /// demonstration network takes about 6 s.
    Quick,
    /// 3105, or fewer if a partition size would take longer than 2 minutes.
    Thorough,
}

/// With fewer samples than these the longest says nothing of a 99% quantile.
const BRIEF_ROUNDS_MIN: usize = 15;

impl Effort {
    /// Blocks of samples. An odd number has a median that is one of them.
    const fn blocks(self) -> usize {
        match self {
            Self::Brief => 3,
            Self::Quick => 5,
            Self::Thorough => 45,
        }
    }

    /// After this time on one partition size no further block is begun, and of [`Self::Brief`] no further round.
    const fn limit(self) -> Nanos {
        match self {
            Self::Brief => Nanos::from_millis(6_000),
            Self::Quick => Nanos::from_millis(12_000),
            Self::Thorough => Nanos::from_millis(120_000),
        }
    }

    /// Whether this round is left out, as the measurement has taken so long.
    fn is_over(self, round: usize, took: Nanos) -> bool {
        let may_end = match self {
            Self::Brief => round >= BRIEF_ROUNDS_MIN,
            Self::Quick | Self::Thorough => round > 0 && round.is_multiple_of(Samples::BLOCK),
        };
        may_end && took > self.limit()
    }

    /// How often each stage is stopped.
    #[must_use]
    pub const fn interruptions(self) -> usize {
        match self {
            Self::Brief | Self::Quick => Samples::BLOCK,
            Self::Thorough => 5 * Samples::BLOCK,
        }
    }

    const fn rounds(self) -> usize {
        self.blocks() * Samples::BLOCK
    }

    /// Runs of each solution at each batch size: whole networks, of which many take long.
    #[must_use]
    pub const fn solution_rounds(self) -> usize {
        match self {
            Self::Brief => 2,
            Self::Quick => 3,
            Self::Thorough => 15,
        }
    }
}

/// How far the measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rounds done.
    pub done: u32,
    /// Rounds in all. Some are left out when time runs short.
    pub total: u32,
    /// What is being measured.
    pub what: Phase,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Which solutions of operators are the fastest on this many cores; in no count of rounds.
    Solutions {
        /// Cores of the partition.
        units: u8,
    },
    /// All stages at all batch sizes on this many compute units.
    Stages {
        /// Of the partition.
        units: u8,
        /// What they are: `core`, `TPC`.
        unit: &'static str,
    },
    /// The same while all other compute units are busy.
    Beside {
        /// Of the partition.
        units: u8,
        /// What they are: `core`, `TPC`.
        unit: &'static str,
    },
    /// The preparation of frames.
    Prepare,
    /// What the reference interpreter gives, input after input.
    Reference,
    /// Stages on this many compute units compared with that.
    Compared {
        /// Of the partition.
        units: u8,
        /// What they are: `core`, `TPC`.
        unit: &'static str,
    },
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Solutions { units: 1 } => f.write_str("solutions on 1 core"),
            Self::Solutions { units } => write!(f, "solutions on {units} cores"),
            Self::Stages { units: 1, unit } => write!(f, "stages on 1 {unit}"),
            Self::Stages { units, unit } => write!(f, "stages on {units} {unit}s"),
            Self::Beside { units: 1, unit } => write!(f, "stages on 1 {unit}, all others busy"),
            Self::Beside { units, unit } => {
                write!(f, "stages on {units} {unit}s, all others busy")
            }
            Self::Prepare => f.write_str("preparing frames"),
            Self::Reference => f.write_str("inputs of the reference interpreter"),
            Self::Compared { units: 1, unit } => write!(f, "comparing stages on 1 {unit}"),
            Self::Compared { units, unit } => write!(f, "comparing stages on {units} {unit}s"),
        }
    }
}

/// Why nothing was measured.
#[derive(Debug, Error)]
pub enum MeasureError<E> {
    /// No partition size to measure.
    #[error("no partition size was asked for: name at least one")]
    NoUnits,
    /// The device does not start.
    #[error(transparent)]
    Start(E),
    /// A frame cannot be prepared for this network.
    #[error("frames cannot be prepared: {0}")]
    Frame(#[from] PreprocessError),
    /// The device prepares no such frames.
    #[error(transparent)]
    FramesOnDevice(#[from] FramesRefused),
    #[error("the device failed while it prepared frames; please report this")]
    NotPrepared,
    /// No thread to prepare frames on.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// An error of the device, which has said so.
    #[error("stage {stage} at batch {batch} failed during the measurement; please report this")]
    Failed {
        stage: u8,
        /// At which batch size.
        batch: u8,
    },
}

/// A network, and the solutions of its operators that it runs with: those that [`choose`] found, or none.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub package: &'a Package,
    pub solutions: &'a [SolutionChoice],
}

/// The largest other network of the manifest.
#[derive(Clone, Copy, Debug)]
pub struct Other<'a> {
    pub subject: Subject<'a>,
    /// The largest batch size that it is compiled for.
    pub batch_max: u8,
}

/// Partitions with these numbers of cores, the first on the last of `cores`, for measurements: the first cores serve most of a
/// machine's interrupts. None if one has no cores, or there are too few.
#[must_use]
pub fn on_last_cores(cores: &[usize], sizes: &[u8]) -> Option<Vec<PartitionSpec>> {
    let mut end = cores.len();
    let mut partition = |&size: &u8| {
        let first = end.checked_sub(usize::from(size)).filter(|_| size > 0)?;
        let taken = cores[first..end].to_vec();
        end = first;
        Some(PartitionSpec::on_cores("profile", taken, Some(PRIORITY)))
    };
    sizes.iter().map(&mut partition).collect()
}

/// Makes the choices that are left to measuring; none if the request wants none. `progress` is called on this thread.
///
/// # Errors
/// [`MeasureError`].
pub fn choose<P: Provider>(
    provider: &P,
    package: &Package,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<SolutionChoice>, MeasureError<P::Error>> {
    if request.units.is_empty() {
        return Err(MeasureError::NoUnits);
    }
    if request.direct {
        return Ok(Vec::new());
    }
    let mut steps = Steps::new(request, progress);
    let chosen = provider.choose(package.network(), request, &mut |units| {
        steps.report(0, Phase::Solutions { units });
    });
    chosen.map_err(MeasureError::Start)
}

/// Measures a network's stages on the devices of `provider`, and its frames' preparation; takes seconds ([`Effort`]). `other`
/// is a network that shares its partition; neighbours run it, too, or without one the network itself. `progress` is called on
/// this thread between measurements.
///
/// Workers run at real-time priority if the machine grants it, as in the daemon; then all of them rest for a
/// fifth of the time, so that the kernel's limit on real-time work (`sched_rt_runtime_us`) is not met.
///
/// # Errors
/// [`MeasureError`].
pub fn measure<P: Provider>(
    provider: &P,
    subject: Subject<'_>,
    other: Option<Other<'_>>,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<Profile, MeasureError<P::Error>> {
    if request.units.is_empty() {
        return Err(MeasureError::NoUnits);
    }
    let mut steps = Steps::new(request, progress);
    let mut profile = unmeasured(provider, subject.package, request);
    profile.solutions = subject.solutions.to_vec();
    stages_at_all_sizes(provider, &mut profile, subject, other, request, &mut steps)?;
    if request.launches {
        let launches = provider.launches(subject, request);
        profile.launches = launches.map_err(MeasureError::Start)?;
    }
    for &units in &request.units {
        let on_device = prepare_on_device::measure(provider, subject, request, units)?;
        profile.prepare_on_device.extend(on_device);
    }
    prepare_frames(&mut profile, subject.package, request, &mut steps)?;
    Ok(profile)
}

/// As [`measure`], the preparation of frames only: for networks whose stages run elsewhere.
///
/// # Errors
/// [`MeasureError`].
pub fn measure_preparation<P: Provider>(
    provider: &P,
    package: &Package,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<Profile, MeasureError<P::Error>> {
    let mut steps = Steps::new(request, progress);
    let mut profile = unmeasured(provider, package, request);
    prepare_frames(&mut profile, package, request, &mut steps)?;
    Ok(profile)
}

/// How far a measurement is: a phase for each partition size, and one for the frames.
struct Steps<'p> {
    rounds: u32,
    phases: u32,
    phase: u32,
    progress: &'p mut dyn FnMut(Progress),
}

impl<'p> Steps<'p> {
    fn new(request: &Request, progress: &'p mut dyn FnMut(Progress)) -> Self {
        Self {
            rounds: request.effort.rounds() as u32,
            phases: neighbours::passes(request) as u32 + 1,
            phase: 0,
            progress,
        }
    }

    fn report(&mut self, round: usize, what: Phase) {
        (self.progress)(Progress {
            done: self.rounds * self.phase + round as u32,
            total: self.rounds * self.phases,
            what,
        });
    }
}

fn stages_at_all_sizes<P: Provider>(
    provider: &P,
    profile: &mut Profile,
    subject: Subject<'_>,
    other: Option<Other<'_>>,
    request: &Request,
    steps: &mut Steps<'_>,
) -> Result<(), MeasureError<P::Error>> {
    let unit = P::UNIT;
    for &units in &request.units {
        let mut measure = |sizes: &[u8], what| -> Result<_, MeasureError<P::Error>> {
            let mut report = |round| steps.report(round, what);
            let measured = stages::measure(provider, subject, other, request, sizes, &mut report)?;
            steps.phase += 1;
            let preemption = measured.preemption.as_nanos();
            profile.preemption_ns_max = profile.preemption_ns_max.max(preemption);
            profile.solution_memory = measured.solution_memory;
            profile.preemption.extend(measured.stopped);
            Ok(measured.stages)
        };
        let alone = measure(&[units], Phase::Stages { units, unit })?;
        match &neighbours::left_by(units, &request.beside)[..] {
            [] if request.beside.is_empty() => {}
            // No units are left for neighbours.
            [] => profile.beside.extend(&alone),
            others => {
                let sizes = [&[units], others].concat();
                let beside = measure(&sizes, Phase::Beside { units, unit })?;
                profile.beside.extend(beside);
            }
        }
        profile.stages.extend(alone);
    }
    Ok(())
}

fn prepare_frames<E>(
    profile: &mut Profile,
    package: &Package,
    request: &Request,
    steps: &mut Steps<'_>,
) -> Result<(), MeasureError<E>> {
    steps.report(0, Phase::Prepare);
    profile.prepare = prepare::measure(package.network(), request)?;
    steps.phase += 1;
    steps.report(0, Phase::Prepare);
    Ok(())
}

/// A profile without figures.
fn unmeasured<P: Provider>(provider: &P, package: &Package, request: &Request) -> Profile {
    let mut same_as = same_stages(package.stage_prefixes());
    if same_as
        .iter()
        .enumerate()
        .all(|(stage, &same_as)| stage == usize::from(same_as))
    {
        same_as.clear();
    }
    Profile {
        key: ProfileKey {
            board: request.board.clone(),
            machine: provider.machine(),
            package: package.hash().to_string(),
            timing: package.timing().to_string(),
            power_mode: request.power_mode.clone(),
            clocks: provider.clocks(),
        },
        same_as,
        stages: Vec::new(),
        prepare: Vec::new(),
        beside: Vec::new(),
        settings: provider.settings(),
        preemption_ns_max: 0,
        solutions: Vec::new(),
        solution_memory: SolutionMemory::default(),
        look_stride: provider.look_stride(),
        launches: Vec::new(),
        prepare_on_device: Vec::new(),
        preemption: Vec::new(),
        verified: None,
        field: None,
    }
}

/// The priority of what is measured: any real-time one, since nothing else of ours runs.
pub const PRIORITY: u8 = 50;

/// Rests after real-time work that began at `begun_ns`: a quarter of its time is a fifth of all.
fn rest(missing: &[Missing], begun_ns: u64) {
    if !missing.contains(&Missing::Realtime) {
        let now = clock::now_ns();
        clock::sleep_until_ns(now + now.saturating_sub(begun_ns) / 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_ends_between_blocks_and_a_brief_one_as_soon_as_its_time_is_over() {
        let rounds = |effort: Effort, round_ms: u64| {
            let took = |round: usize| Nanos::from_millis(round as u64 * round_ms);
            let mut rounds = 0..effort.rounds();
            let last = rounds.find(|&round| effort.is_over(round, took(round)));
            last.unwrap_or(effort.rounds())
        };
        assert_eq!(rounds(Effort::Quick, 1), 5 * Samples::BLOCK);
        assert_eq!(rounds(Effort::Quick, 100), 2 * Samples::BLOCK);
        assert_eq!(rounds(Effort::Quick, 100_000), Samples::BLOCK);
        assert_eq!(rounds(Effort::Brief, 1), 3 * Samples::BLOCK);
        assert_eq!(rounds(Effort::Brief, 100), 61);
        assert_eq!(rounds(Effort::Brief, 100_000), BRIEF_ROUNDS_MIN);
    }
}
