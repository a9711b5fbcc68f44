//! Stages at each batch size on one partition size.

use std::ops::Range;
use std::sync::Arc;

use punctual_core::{
    ActionId, Criticality, Event, Finished, Infer, Instant, ModelId, Nanos, PartitionId, RequestId,
    StageId, Window,
};
use punctual_model::{
    Network, OutputLayout, PreemptionProfile, Samples, SolutionMemory, StageProfile, same_stages,
};
use punctual_platform::areas::Area;
use punctual_platform::{Doorbell, Missing, clock};
use punctual_types::AREA_BYTES_MAX;
use punctual_types::Random;

use super::preemption::{self, Stopped};
use super::{MeasureError, Other, Request, Subject};
use crate::device::Device;
use crate::provider::Provider;
use crate::request_buffers::InputBuffers;
use crate::shell::HostedDevice;
use crate::spec::{DeviceSpec, ModelSpec, PartitionSpec, Start};

/// Rounds before the first that counts: pages are touched, caches and the clock's speed are up.
const WARM_UP: usize = 10;

/// Of each batch size, one request in this number comes after a pause, as frames of a camera do: meanwhile other users of the
/// memory evict what the far caches kept of a network, and clocks go down. A block of samples has 23 of them.
const PAUSE_EVERY: usize = 3;
const PAUSE_NS: u64 = 40_000_000;

/// After this time without a rest there is one before the next request. Neighbours are busy all the time: on a large network they
/// would otherwise meet the kernel's limit, by default 950 ms in each second, within a round.
const BUSY_NS_MAX: u64 = 400_000_000;

/// The figures of one partition size.
pub(super) struct Figures {
    pub(super) stages: Vec<StageProfile>,
    /// The 99% quantile of the longest operator.
    pub(super) preemption: Nanos,
    /// How long stages take that are stopped, where there are no neighbours.
    pub(super) stopped: Vec<PreemptionProfile>,
    /// What the solutions take that it ran with, whatever the partition size.
    pub(super) solution_memory: SolutionMemory,
}

/// Measures all stages at all batch sizes on a partition of the first of `sizes`, while partitions of the other sizes are
/// busy; `progress` is told the round.
pub(super) fn measure<P: Provider>(
    provider: &P,
    subject: Subject<'_>,
    other: Option<Other<'_>>,
    request: &Request,
    sizes: &[u8],
    progress: &mut dyn FnMut(usize),
) -> Result<Figures, MeasureError<P::Error>> {
    let mut bench = Bench::start(provider, subject, other, request, sizes)?;
    for round in 0..WARM_UP {
        bench.round(round)?;
    }
    for figure in &mut bench.figures {
        figure.forget();
    }
    let began_ns = clock::now_ns();
    for round in 0..request.effort.rounds() {
        let took = Nanos::new(clock::now_ns() - began_ns);
        if request.effort.is_over(round, took) {
            break;
        }
        progress(round);
        bench.round(round)?;
    }
    // With neighbours, the longer times are those of stages, too; and a stage that is preempted has no neighbours.
    let mut stopped = Vec::new();
    if bench.preemptible && bench.neighbours.is_empty() {
        let limit = clock::now_ns() + request.effort.limit().as_nanos() / 4;
        stopped = preemption::measure(&mut bench, request.interruptions, limit)?;
    }
    Ok(bench.measured(sizes[0], &stopped))
}

/// The partition that is measured; those of neighbours follow.
pub(super) const MEASURED: PartitionId = PartitionId(0);
pub(super) const SUBJECT: ModelId = ModelId(0);
/// The network that runs before each request, and on neighbours. There it is a model of its own even if it is the measured
/// network: neighbours must not share its weights in the caches, nor what the device notes of its last run.
const OTHER: ModelId = ModelId(1);

pub(super) struct Bench<D> {
    pub(super) device: D,
    /// Whether a stage can be stopped before its end.
    preemptible: bool,
    bell: Arc<Doorbell>,
    /// Request buffers: two sets of the largest batch, used in turn, so that a batch does not find
    /// its own input in the nearest cache.
    set: u16,
    last_buffer: u16,
    /// Stages of the network that runs before each request.
    stages_before: u8,
    /// On the partitions after the measured one.
    neighbours: Vec<Neighbour>,
    /// Batch after batch, stage after stage: what a round runs.
    runs: Vec<Run>,
    /// Of stages that are the same there is one.
    figures: Vec<Figure>,
    /// Submitted, and not ended.
    running: Vec<(ActionId, Step)>,
    actions: u64,
    /// What the machine did not grant the workers.
    missing: Vec<Missing>,
    /// The end of the last rest, later by the pauses since in which nothing ran.
    busy_since_ns: u64,
}

/// What an action does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) partition: PartitionId,
    pub(super) model: ModelId,
    pub(super) stage: u8,
    pub(super) batch: u8,
    /// The first of its request buffers.
    pub(super) first: u16,
}

/// A partition that is busy all the time while another one is measured.
struct Neighbour {
    /// What it runs next.
    next: Step,
    stages: u8,
}

/// A stage at a batch size, and where its times go.
#[derive(Clone, Copy)]
struct Run {
    stage: u8,
    batch: u8,
    figure: usize,
}

struct Figure {
    stage: u8,
    batch: u8,
    took: Samples,
    longest_operator: Samples,
}

impl Figure {
    fn forget(&mut self) {
        self.took.clear();
        self.longest_operator.clear();
    }
}

impl<D: HostedDevice> Bench<D> {
    pub(super) fn start<P: Provider<Device = D>>(
        provider: &P,
        subject: Subject<'_>,
        other: Option<Other<'_>>,
        request: &Request,
        sizes: &[u8],
    ) -> Result<Self, MeasureError<P::Error>> {
        let set = request.batches.iter().copied().max().unwrap_or(1);
        let busy = sizes.len() - 1;
        let itself = Other {
            subject,
            batch_max: set,
        };
        let runs_on_neighbours = other.unwrap_or(itself);
        let stages_before = other.map_or(0, |other| stages(other.subject));
        let mut other_batches = vec![1];
        if busy > 0 && runs_on_neighbours.batch_max > 1 {
            other_batches.push(runs_on_neighbours.batch_max);
        }
        let mut loaded = vec![(subject, &request.batches[..])];
        if other.is_some() || busy > 0 {
            loaded.push((runs_on_neighbours.subject, &other_batches[..]));
        }
        // One buffer for the request that runs before each, and a batch for each neighbour.
        let own = 2 * u16::from(set);
        let before = u16::from(other.is_some());
        let batch = *other_batches.last().expect("never empty");
        let for_frames = u16::from(!request.frames_on_device.is_empty());
        let buffers = own + before + busy as u16 * u16::from(batch) + for_frames;
        let partitions = provider.partitions(sizes).map_err(MeasureError::Start)?;
        let bell = Arc::new(Doorbell::new());
        let device = load(provider, &loaded, &partitions, own, buffers, bell.clone())?;
        let neighbour = |index: u16| Neighbour {
            next: Step {
                partition: PartitionId(index + 1),
                model: OTHER,
                stage: 0,
                batch,
                first: own + before + index * u16::from(batch),
            },
            stages: stages(runs_on_neighbours.subject),
        };
        let (runs, figures) = figures(subject, request);
        Ok(Self {
            missing: device.shell().missing(),
            device,
            preemptible: P::PROMISES.preemptible,
            bell,
            set: set.into(),
            last_buffer: buffers - 1,
            stages_before,
            neighbours: (0..busy as u16).map(neighbour).collect(),
            runs,
            figures,
            running: Vec::new(),
            actions: 0,
            busy_since_ns: clock::now_ns(),
        })
    }

    /// One sample of each figure, and a rest.
    fn round<E>(&mut self, round: usize) -> Result<(), MeasureError<E>> {
        let first = (round % 2) as u16 * self.set;
        self.occupy_neighbours();
        for index in 0..self.runs.len() {
            let Run {
                stage,
                batch,
                figure,
            } = self.runs[index];
            if stage == 0 {
                if clock::now_ns().saturating_sub(self.busy_since_ns) > BUSY_NS_MAX {
                    self.rest()?;
                    self.occupy_neighbours();
                }
                if (round + index).is_multiple_of(PAUSE_EVERY) {
                    self.pause()?;
                }
                for stage in 0..self.stages_before {
                    self.run(OTHER, stage, 1, 2 * self.set)?;
                }
            }
            let finished = self.run(SUBJECT, stage, batch, first)?;
            let longest = self.device.longest_step(SUBJECT, StageId(stage));
            let longest = longest.filter(|_| self.preemptible);
            let longest = longest.unwrap_or(finished.measured);
            let figure = &mut self.figures[figure];
            figure.took.add(finished.measured);
            figure.longest_operator.add(longest);
        }
        self.rest()
    }

    /// The request buffer that no stage uses, of a request with frames for the device.
    pub(super) const fn buffer_for_frames(&self) -> u16 {
        self.last_buffer
    }

    /// Runs each stage once at each batch size.
    pub(super) fn run_all<E>(&mut self) -> Result<(), MeasureError<E>> {
        for index in 0..self.runs.len() {
            let Run { stage, batch, .. } = self.runs[index];
            self.run(SUBJECT, stage, batch, 0)?;
        }
        Ok(())
    }

    /// Runs a stage on the measured partition.
    fn run<E>(
        &mut self,
        model: ModelId,
        stage: u8,
        batch: u8,
        first: u16,
    ) -> Result<Finished, MeasureError<E>> {
        self.submit(Step {
            partition: MEASURED,
            model,
            stage,
            batch,
            first,
        });
        loop {
            let ended = self.next_end(None)?;
            let (partition, finished) = ended.expect("there is no time limit");
            if partition == MEASURED {
                return Ok(finished);
            }
            self.occupy(partition);
        }
    }

    /// Leaves the measured partition idle for a while.
    fn pause<E>(&mut self) -> Result<(), MeasureError<E>> {
        let until = clock::now_ns() + PAUSE_NS;
        while clock::now_ns() < until {
            if let Some((partition, _)) = self.next_end(Some(until))? {
                self.occupy(partition);
            }
        }
        if self.neighbours.is_empty() {
            self.busy_since_ns += PAUSE_NS;
        }
        Ok(())
    }

    /// Two actions each: the second one follows the first without a gap.
    fn occupy_neighbours(&mut self) {
        for _ in 0..2 {
            for index in 0..self.neighbours.len() {
                self.occupy(PartitionId(index as u16 + 1));
            }
        }
    }

    /// Gives a neighbour its next action.
    fn occupy(&mut self, partition: PartitionId) {
        let neighbour = &mut self.neighbours[partition.index() - 1];
        let step = neighbour.next;
        neighbour.next.stage = (step.stage + 1) % neighbour.stages;
        self.submit(step);
    }

    /// Waits until neighbours have nothing to do; then all rest.
    pub(super) fn rest<E>(&mut self) -> Result<(), MeasureError<E>> {
        while !self.running.is_empty() {
            self.next_end(None)?;
        }
        super::rest(&self.missing, self.busy_since_ns);
        self.busy_since_ns = clock::now_ns();
        Ok(())
    }

    fn submit(&mut self, step: Step) {
        self.submit_as(step, Criticality::RealTime);
    }

    pub(super) fn submit_as(&mut self, step: Step, criticality: Criticality) -> ActionId {
        self.actions += 1;
        let id = ActionId(self.actions);
        let members = step.first..step.first + u16::from(step.batch);
        let infer = Infer {
            id,
            partition: step.partition,
            model: step.model,
            stage: StageId(step.stage),
            batch: step.batch,
            members: members.map(request).collect(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::FAR_FUTURE,
            },
            criticality,
        };
        self.device
            .submit(&infer)
            .expect("the device was started for this action, and the partition has room for it");
        self.running.push((id, step));
        id
    }

    /// The next end of an action, and where it ran; none if there was none until then.
    fn next_end<E>(
        &mut self,
        until_ns: Option<u64>,
    ) -> Result<Option<(PartitionId, Finished)>, MeasureError<E>> {
        let mut seen = self.bell.count();
        loop {
            match self.device.poll() {
                Some(Event::Finished(finished)) => {
                    let Step { partition, .. } = self.ended(finished.action);
                    return Ok(Some((partition, finished)));
                }
                Some(
                    Event::Failed { action }
                    | Event::NotRun { action, .. }
                    | Event::Preempted { action, .. },
                ) => {
                    let Step { stage, batch, .. } = self.ended(action);
                    return Err(MeasureError::Failed { stage, batch });
                }
                Some(event) => unreachable!("no action has this event: {event:?}"),
                None if until_ns.is_some_and(|until| clock::now_ns() >= until) => return Ok(None),
                None => seen = self.bell.wait(seen, until_ns),
            }
        }
    }

    pub(super) fn ended(&mut self, action: ActionId) -> Step {
        let found = self.running.iter().position(|(id, _)| *id == action);
        let found = found.expect("only what was submitted ends");
        self.running.swap_remove(found).1
    }

    /// Each stage that is measured at each batch size, and its median in nanoseconds.
    pub(super) fn typical(&self) -> Vec<(u8, u8, u64)> {
        let figures = self.figures.iter();
        let typical = |figure: &Figure| {
            let median = figure.took.quantiles().p50_ns;
            (figure.stage, figure.batch, median)
        };
        figures.map(typical).collect()
    }

    /// The 99% quantile of its longest operator, where the device knows operators.
    pub(super) fn longest_operator(&self, stage: u8, batch: u8) -> Option<Nanos> {
        self.device.longest_step(SUBJECT, StageId(stage))?;
        let mut figures = self.figures.iter();
        let figure = figures.find(|figure| (figure.stage, figure.batch) == (stage, batch))?;
        Some(Nanos::new(figure.longest_operator.quantiles().p99_ns))
    }

    /// Runs the stages before `stage`, so that it finds what it reads.
    pub(super) fn prepare<E>(&mut self, stage: u8, batch: u8) -> Result<(), MeasureError<E>> {
        (0..stage).try_for_each(|before| self.run(SUBJECT, before, batch, 0).map(drop))
    }

    fn measured(self, units: u8, stopped: &[Stopped]) -> Figures {
        let longest = |figure: &Figure| figure.longest_operator.quantiles().p99_ns;
        let preemption = self.figures.iter().map(longest).max().unwrap_or(0);
        let stage = |figure: &Figure| {
            let quantiles = figure.took.quantiles();
            StageProfile {
                stage: figure.stage,
                batch: figure.batch,
                units,
                samples: quantiles.samples,
                p50_ns: quantiles.p50_ns,
                p99_ns: quantiles.p99_ns,
                max_ns: quantiles.max_ns,
            }
        };
        Figures {
            stages: self.figures.iter().map(stage).collect(),
            preemption: Nanos::new(preemption),
            stopped: stopped
                .iter()
                .filter_map(|each| each.profile(units))
                .collect(),
            solution_memory: self.device.solution_memory(SUBJECT),
        }
    }
}

/// Starts a device with these networks, and with noise in its request buffers: before `own` for the first network, the others
/// for the second.
fn load<P: Provider>(
    provider: &P,
    loaded: &[(Subject<'_>, &[u8])],
    partitions: &[PartitionSpec],
    own: u16,
    buffers: u16,
    bell: Arc<Doorbell>,
) -> Result<P::Device, MeasureError<P::Error>> {
    let network = |(subject, _): &(Subject<'_>, &[u8])| all_outputs(subject.package.network());
    let outputs: Vec<OutputLayout> = loaded.iter().map(network).collect();
    let with_outputs = loaded.iter().zip(&outputs);
    let models: Vec<ModelSpec<'_>> = with_outputs
        .map(|((subject, batches), outputs)| ModelSpec {
            outputs: Some(outputs),
            solutions: subject.solutions,
            ..ModelSpec::resident(subject.package.network(), batches)
        })
        .collect();
    let spec = DeviceSpec {
        models: &models,
        partitions,
        request_buffers: buffers,
        cache: None,
        start: Start::Whole,
    };
    let device = provider.start(&spec, bell).map_err(MeasureError::Start)?;
    let inputs = device.shell().input_buffers();
    let of_models = [(SUBJECT, 0..own), (OTHER, own..buffers)];
    for ((spec, outputs), (model, buffers)) in models.iter().zip(&outputs).zip(of_models) {
        write_inputs(&inputs, buffers.clone(), model, spec.network);
        give_areas(&inputs, buffers, outputs);
    }
    Ok(device)
}

/// All stages at all batch sizes, and figures without samples. Stages that are the same have one between them, so that a round
/// gives it a sample for each: the first of them, which may find its weights in no cache, is in every block of samples.
fn figures(subject: Subject<'_>, request: &Request) -> (Vec<Run>, Vec<Figure>) {
    let same_as = same_stages(subject.package.stage_prefixes());
    let (mut runs, mut figures) = (Vec::new(), Vec::<Figure>::new());
    for &batch in &request.batches {
        for (stage, &measured_as) in (0..).zip(&same_as) {
            let same = |figure: &Figure| (figure.stage, figure.batch) == (measured_as, batch);
            let figure = figures.iter().position(same).unwrap_or(figures.len());
            if figure == figures.len() {
                let count = same_as
                    .iter()
                    .filter(|&&other| other == measured_as)
                    .count();
                let capacity = request.effort.rounds() * count;
                figures.push(Figure {
                    stage: measured_as,
                    batch,
                    took: Samples::with_capacity(capacity),
                    longest_operator: Samples::with_capacity(capacity),
                });
            }
            runs.push(Run {
                stage,
                batch,
                figure,
            });
        }
    }
    (runs, figures)
}

/// A package never has more than `STAGES_MAX`.
fn stages(subject: Subject<'_>) -> u8 {
    subject.package.network().stages.len() as u8
}

fn request(buffer: u16) -> RequestId {
    RequestId {
        buffer,
        generation: 0,
    }
}

/// The outputs that are written while stages are measured: as many as a manifest can want.
pub(crate) fn all_outputs(network: &Network) -> OutputLayout {
    let mut kept: Vec<&str> = Vec::new();
    let layout = |kept: &[&str]| OutputLayout::of(network, |name| kept.contains(&name));
    for name in network.output_names() {
        kept.push(name);
        if layout(&kept).area_bytes > u64::from(AREA_BYTES_MAX) {
            kept.pop();
        }
    }
    layout(&kept)
}

/// Gives each request buffer an area.
pub(crate) fn give_areas(inputs: &InputBuffers, buffers: Range<u16>, outputs: &OutputLayout) {
    let regions = inputs.regions();
    for buffer in buffers.filter(|_| !outputs.is_empty()) {
        let area = Area::private(outputs.area_bytes as usize);
        let claim = regions.claim(buffer.into());
        let mut claim = claim.expect("there is no other claim");
        claim.replace_area(Some(area));
    }
}

/// Noise in the range of normalised pixels, and as vectors. How long a stage takes does not depend on it, unless
/// all of it were denormal.
fn write_inputs(inputs: &InputBuffers, buffers: Range<u16>, model: ModelId, network: &Network) {
    let mut random = Random::new(1);
    let mut value = move || random.below(4_001) as f32 / 1_000.0 - 2.0;
    for buffer in buffers {
        let claim = inputs.claim(buffer, model);
        let mut writer = claim.expect("there is no other claim");
        let image: Vec<f32> = (0..network.input.tensor().elements())
            .map(|_| value())
            .collect();
        writer.write_planar(&image);
        for at in 0..network.vectors.len() {
            writer.vector(at).fill_with(&mut value);
        }
    }
}
