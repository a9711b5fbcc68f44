//! Stages at each batch size on one partition size.

use std::ops::Range;
use std::sync::Arc;

use punctual_core::{
    ActionId, Criticality, Event, Finished, Infer, Instant, ModelId, Nanos, PartitionId, RequestId,
    StageId, Window,
};
use punctual_model::{Network, OutputLayout, SolutionMemory, StageProfile};
use punctual_platform::areas::Area;
use punctual_platform::{Doorbell, clock};
use punctual_types::AREA_BYTES_MAX;
use punctual_types::Random;

use super::samples::{BLOCK, Samples};
use super::{MeasureError, Request, Subject};
use crate::device::Device;
use crate::provider::Provider;
use crate::request_buffers::InputBuffers;
use crate::shell::HostedDevice;
use crate::spec::{DeviceSpec, ModelSpec};

/// Rounds before the first that counts: pages are touched, caches and the clock's speed are up.
const WARM_UP: usize = 10;

/// Every so many requests of a batch size come after a pause, as frames of a camera do: meanwhile whoever shares the memory takes
/// what was kept of a network in the far caches, and clocks go down. A block of samples has 23 of them.
const PAUSE_EVERY: usize = 3;
const PAUSE_NS: u64 = 40_000_000;

/// The figures of one partition size.
pub(super) struct Figures {
    pub(super) stages: Vec<StageProfile>,
    /// The 99% quantile of the longest operator.
    pub(super) preemption: Nanos,
    /// What the solutions take that it ran with, whatever the partition size.
    pub(super) solution_memory: SolutionMemory,
}

/// Measures all stages at all batch sizes on `units` compute units; `progress` is told the round.
pub(super) fn measure<P: Provider>(
    provider: &P,
    (subject, beside): (Subject<'_>, Option<Subject<'_>>),
    request: &Request,
    units: u8,
    progress: &mut dyn FnMut(usize),
) -> Result<Figures, MeasureError<P::Error>> {
    let mut bench = Bench::start(provider, subject, beside, request, units)?;
    for round in 0..WARM_UP {
        bench.round(round)?;
    }
    for figure in &mut bench.figures {
        figure.forget();
    }
    let missing = bench.device.shell().missing();
    let limit = clock::now_ns() + request.effort.limit().as_nanos();
    for round in 0..request.effort.rounds() {
        let block_begins = round > 0 && round.is_multiple_of(BLOCK);
        if block_begins && clock::now_ns() > limit {
            break;
        }
        progress(round);
        let begun = clock::now_ns();
        let paused = bench.round(round)?;
        super::rest(&missing, begun + paused);
    }
    Ok(bench.measured(units))
}

struct Bench<D> {
    device: D,
    /// Whether a stage can be stopped before its end.
    preemptible: bool,
    bell: Arc<Doorbell>,
    /// Request buffers: two sets of the largest batch, used in turn, so that a batch does not find
    /// its own input in the nearest cache.
    set: u16,
    /// Stages of the network that runs before each request.
    stages_beside: u8,
    /// Batch after batch, stage after stage.
    figures: Vec<Figure>,
    actions: u64,
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
    fn start<P: Provider<Device = D>>(
        provider: &P,
        subject: Subject<'_>,
        beside: Option<Subject<'_>>,
        request: &Request,
        units: u8,
    ) -> Result<Self, MeasureError<P::Error>> {
        let set = request.batches.iter().copied().max().unwrap_or(1);
        let own = 2 * u16::from(set);
        let bell = Arc::new(Doorbell::new());
        let partition = provider.partition(units).map_err(MeasureError::Start)?;
        let subjects: Vec<Subject<'_>> = [subject].into_iter().chain(beside).collect();
        let networks = subjects.iter().map(|subject| subject.package.network());
        let outputs: Vec<OutputLayout> = networks.clone().map(all_outputs).collect();
        let batches = [&request.batches[..], &[1]];
        let models: Vec<ModelSpec<'_>> = subjects
            .iter()
            .zip(batches)
            .zip(&outputs)
            .map(|((subject, batches), outputs)| ModelSpec {
                outputs: Some(outputs),
                solutions: subject.solutions,
                ..ModelSpec::resident(subject.package.network(), batches)
            })
            .collect();
        let spec = DeviceSpec {
            models: &models,
            partitions: &[partition],
            request_buffers: own + u16::from(beside.is_some()),
            cache: None,
        };
        let started = provider.start(&spec, bell.clone());
        let device = started.map_err(MeasureError::Start)?;
        let buffers = [0..own, own..spec.request_buffers];
        for (model, (network, buffers)) in networks.zip(buffers).enumerate() {
            let inputs = device.shell().input_buffers();
            write_inputs(&inputs, buffers.clone(), ModelId(model as u16), network);
            give_areas(&inputs, buffers, &outputs[model]);
        }
        let network = subject.package.network();
        let rounds = request.effort.rounds();
        let figure = |batch: u8, stage: usize| Figure {
            stage: stage as u8,
            batch,
            took: Samples::with_capacity(rounds),
            longest_operator: Samples::with_capacity(rounds),
        };
        let stages = network.stages.len();
        let of_batch = |&batch: &u8| (0..stages).map(move |stage| figure(batch, stage));
        Ok(Self {
            device,
            preemptible: P::PROMISES.preemptible,
            bell,
            set: set.into(),
            stages_beside: beside.map_or(0, |other| other.package.network().stages.len() as u8),
            figures: request.batches.iter().flat_map(of_batch).collect(),
            actions: 0,
        })
    }

    /// One sample of each figure. Returns the nanoseconds of its pauses.
    fn round<E>(&mut self, round: usize) -> Result<u64, MeasureError<E>> {
        let mut paused = 0;
        let first = (round % 2) as u16 * self.set;
        for index in 0..self.figures.len() {
            let Figure { stage, batch, .. } = self.figures[index];
            if stage == 0 {
                if (round + index).is_multiple_of(PAUSE_EVERY) {
                    clock::sleep_until_ns(clock::now_ns() + PAUSE_NS);
                    paused += PAUSE_NS;
                }
                for stage in 0..self.stages_beside {
                    self.run(ModelId(1), stage, 1, 2 * self.set)?;
                }
            }
            let finished = self.run(ModelId(0), stage, batch, first)?;
            let longest = self.device.longest_step(ModelId(0), StageId(stage));
            let longest = longest.filter(|_| self.preemptible);
            let longest = longest.unwrap_or(finished.measured);
            let figure = &mut self.figures[index];
            figure.took.add(finished.measured);
            figure.longest_operator.add(longest);
        }
        Ok(paused)
    }

    fn run<E>(
        &mut self,
        model: ModelId,
        stage: u8,
        batch: u8,
        first: u16,
    ) -> Result<Finished, MeasureError<E>> {
        self.actions += 1;
        let infer = Infer {
            id: ActionId(self.actions),
            partition: PartitionId(0),
            model,
            stage: StageId(stage),
            batch,
            members: (first..first + u16::from(batch)).map(request).collect(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::FAR_FUTURE,
            },
            criticality: Criticality::RealTime,
        };
        let mut seen = self.bell.count();
        self.device
            .submit(&infer)
            .expect("the device was started for this action, and is idle");
        loop {
            match self.device.poll() {
                Some(Event::Finished(finished)) => return Ok(finished),
                Some(_) => return Err(MeasureError::Failed { stage, batch }),
                None => seen = self.bell.wait(seen, None),
            }
        }
    }

    fn measured(self, units: u8) -> Figures {
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
            solution_memory: self.device.solution_memory(ModelId(0)),
        }
    }
}

fn request(buffer: u16) -> RequestId {
    RequestId {
        buffer,
        generation: 0,
    }
}

/// The outputs that are written while stages are measured: as many as a manifest can want.
fn all_outputs(network: &Network) -> OutputLayout {
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
fn give_areas(inputs: &InputBuffers, buffers: Range<u16>, outputs: &OutputLayout) {
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
