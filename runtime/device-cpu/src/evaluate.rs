//! A network run on the calling thread, for its scores rather than its time.

use std::sync::Arc;

use punctual_core::{Answer, ModelId, StageId};
use punctual_kernels::Isa;
use punctual_model::{Exit, Network, OutputLayout, PlacedOutput, SolutionChoice};
use punctual_platform::areas::Area;
use punctual_platform::clock;
use punctual_platform::thread::{ThreadSpec, spawn_realtime};

use crate::executable::Step;
use crate::lower::lower;
use crate::model::LoadedModel;
use crate::shared::team::{self, Helper, Leader};
use crate::shared::weights::Weights;
use crate::store::{self, Memory};
use crate::{OperatorTime, StartError};
use punctual_device::pool::{BufferGuard, CancelFlag, Outcome};
use punctual_device::{InputBuffers, ModelSpec, Start};

const MODEL: ModelId = ModelId(0);

/// Runs all stages of a network with the CPU device's kernels and memory, on the calling thread
/// instead of the device's: for calibration, for comparing engines, for a look at one image.
pub struct Evaluator {
    models: Arc<[LoadedModel]>,
    weights: Arc<Weights>,
    inputs: InputBuffers,
    leader: Leader,
    batch_max: usize,
    /// The exits, by stage; and where their outputs go.
    exits: Vec<Option<Exit>>,
    layout: OutputLayout,
    /// An area for each image, which its request has while that runs.
    areas: Vec<Option<Area>>,
    /// How long each stage took in the last run.
    stage_ns: Vec<u64>,
}

/// Until helpers sleep that spin for the next stage.
const REST_NS: u64 = 200_000;

/// What an exit gives for one image.
#[derive(Clone, Debug, PartialEq)]
pub struct ExitResult {
    pub answer: Answer,
    /// One a class; empty if its answer has none.
    pub scores: Vec<f32>,
    /// The network's own.
    pub confidence: Option<f32>,
    /// The bytes of each output, as a client gets them.
    pub outputs: Vec<Vec<u8>>,
}

impl Evaluator {
    /// An evaluator of `network` with kernels for `isa`, for up to `batch_max` images at once.
    ///
    /// # Errors
    /// [`StartError`], when an operator has no kernel, the processor lacks `isa`, or memory is
    /// unavailable.
    ///
    /// # Panics
    /// If `batch_max` is zero or above [`BATCH_MAX`](punctual_core::BATCH_MAX).
    pub fn new(isa: Isa, network: &Network, batch_max: usize) -> Result<Self, StartError> {
        Ok(Self::team(isa, network, batch_max, 1, &[])?.0)
    }

    /// As [`new`](Self::new), with the solutions that were chosen, and with a mate on each of `cores` that
    /// computes its share of every operator, at ordinary priority. Where the caller runs is its own affair.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn with_mates(
        isa: Isa,
        network: &Network,
        batch_max: usize,
        cores: &[usize],
        solutions: &[SolutionChoice],
    ) -> Result<Self, StartError> {
        let size = cores.len() + 1;
        let (evaluator, mates) = Self::team(isa, network, batch_max, size, solutions)?;
        for (&core, mate) in cores.iter().zip(mates) {
            let spec = ThreadSpec::new(format!("mate/{core}"), Some(core), None);
            // It ends when the leader is dropped.
            spawn_realtime(spec, move || mate.serve())?;
        }
        Ok(evaluator)
    }

    fn team(
        isa: Isa,
        network: &Network,
        batch_max: usize,
        size: usize,
        solutions: &[SolutionChoice],
    ) -> Result<(Self, Vec<Helper>), StartError> {
        assert!((1..=punctual_core::BATCH_MAX).contains(&batch_max));
        if !isa.is_available() {
            return Err(StartError::IsaUnavailable(isa));
        }
        let layout = OutputLayout::of(network, |_| true);
        let model = lower(isa, network, Some(&layout))?;
        Self::of(isa, network, model, batch_max, size, solutions)
    }

    /// Of a network that was lowered with all its outputs.
    pub(crate) fn of(
        isa: Isa,
        network: &Network,
        mut model: LoadedModel,
        batch_max: usize,
        size: usize,
        solutions: &[SolutionChoice],
    ) -> Result<(Self, Vec<Helper>), StartError> {
        let layout = OutputLayout::of(network, |_| true);
        let source = store::source(isa, &model, &ModelSpec::resident(network, &[]))?;
        model.choose(solutions);
        let inputs = InputBuffers::awaited(
            batch_max as u16,
            model.request_floats,
            Box::new([model.input]),
        );
        let models: Arc<[LoadedModel]> = Arc::new([model]);
        let (memory, mut starter) =
            Memory::reserve(&models, vec![source], 0, inputs.regions(), Start::Whole)?;
        starter.finish()?;
        let weights = memory.weights().clone();
        let (leader, mates) = team::team(size, &models, &weights, inputs.regions(), batch_max);
        let evaluator = Self {
            models,
            weights,
            inputs,
            leader,
            batch_max,
            exits: network
                .stages
                .iter()
                .map(|stage| stage.exit.clone())
                .collect(),
            areas: (0..batch_max)
                .map(|_| Some(Area::private(layout.area_bytes as usize)))
                .collect(),
            stage_ns: vec![0; network.stages.len()],
            layout,
        };
        Ok((evaluator, mates))
    }

    /// From now on memory that a stage has to write before it reads it is overwritten before each run.
    #[cfg(test)]
    pub(crate) fn poison(&mut self) {
        self.leader.poison();
    }

    /// The class scores of each image after each stage: `scores[stage][image][class]`, without
    /// classes where the stage ends in no exit. An image is `[channel][row][column]`, normalised.
    ///
    /// # Panics
    /// If there are no images or too many, or one has the wrong length.
    pub fn scores(&mut self, images: &[&[f32]]) -> Vec<Vec<Vec<f32>>> {
        self.load(images);
        self.run(images.len())
    }

    /// Puts the vectors of an image that was loaded where the network reads them.
    ///
    /// # Panics
    /// If there are too many, or one has the wrong length.
    pub fn load_vectors(&mut self, image: usize, vectors: &[&[f32]]) {
        let writer = self.inputs.claim(image as u16, MODEL);
        let mut writer = writer.expect("there is no other claim");
        for (at, vector) in vectors.iter().enumerate() {
            writer.vector(at).copy_from_slice(vector);
        }
    }

    /// Puts images where the network reads them.
    ///
    /// # Panics
    /// As [`scores`](Self::scores).
    pub fn load(&mut self, images: &[&[f32]]) {
        assert!((1..=self.batch_max).contains(&images.len()));
        for (buffer, image) in images.iter().enumerate() {
            let mut writer = self
                .inputs
                .claim(buffer as u16, MODEL)
                .expect("there is no other claim");
            writer.write_planar(image);
        }
    }

    /// The scores of the first `batch` images that were loaded last.
    ///
    /// # Panics
    /// If `batch` is zero or above what the evaluator was made for.
    pub fn run(&mut self, batch: usize) -> Vec<Vec<Vec<f32>>> {
        self.each_stage(batch, false, |evaluator, stage, claims| {
            let scores = claims.iter_mut().enumerate().map(|(member, claim)| {
                let scores = evaluator.leader.scores(MODEL, stage, member, claim);
                scores.to_vec()
            });
            scores.collect()
        })
    }

    /// What each stage's exit gives for each of the first `batch` images that were loaded last, with their vectors:
    /// `[stage][image]`, empty where a stage ends in none.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn exits(&mut self, batch: usize) -> Vec<Vec<ExitResult>> {
        self.each_stage(batch, true, |evaluator, stage, claims| {
            if evaluator.exits[stage.index()].is_none() {
                return Vec::new();
            }
            let results = claims.iter_mut().enumerate();
            let results = results.map(|(member, claim)| evaluator.exit(stage, member, claim));
            results.collect()
        })
    }

    /// Runs all stages on the first `batch` images that were loaded last, with their vectors, as the device does:
    /// outputs are written to memory like a client's. For measuring times: results are discarded.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_for_time(&mut self, batch: usize) {
        self.each_stage(batch, true, |_, _, _| ());
    }

    /// As [`run_for_time`](Self::run_for_time), with a rest after each stage, so that the next one finds the helpers asleep,
    /// as most stages of a device do.
    pub(crate) fn run_with_rests(&mut self, batch: usize) {
        self.each_stage(batch, true, |_, _, _| {
            clock::sleep_until_ns(clock::now_ns() + REST_NS);
        });
    }

    fn exit(&mut self, stage: StageId, member: usize, claim: &mut BufferGuard<'_>) -> ExitResult {
        let leader = &mut self.leader;
        let placed = self.layout.stage(stage.index());
        let outputs = placed.into_iter().flat_map(|placed| &placed.outputs);
        let area = claim.area().map_or(&[][..], |area| area.as_slice());
        let bytes = |output: &PlacedOutput| {
            area[output.offset as usize..][..output.bytes as usize].to_vec()
        };
        ExitResult {
            outputs: outputs.map(bytes).collect(),
            answer: leader.answer(MODEL, stage, member, claim),
            scores: leader.scores(MODEL, stage, member, claim).to_vec(),
            confidence: leader.confidence(MODEL, stage, member, claim),
        }
    }

    /// Runs stage after stage, with outputs or without, and calls `then` after each.
    fn each_stage<T>(
        &mut self,
        batch: usize,
        outputs: bool,
        then: impl Fn(&mut Self, StageId, &mut [BufferGuard<'_>]) -> T,
    ) -> Vec<T> {
        assert!((1..=self.batch_max).contains(&batch));
        let regions = self.inputs.regions().clone();
        let mut claims: Vec<_> = (0..batch)
            .map(|buffer| regions.claim(buffer).expect("the writers are gone"))
            .collect();
        for (claim, area) in claims.iter_mut().zip(&mut self.areas) {
            claim.replace_area(area.take_if(|_| outputs));
        }
        let never = CancelFlag::new();
        let all_weights = self.weights.clone();
        let weights = all_weights.claim(MODEL).expect("they are pinned");
        let stages = 0..self.models[0].stages.len();
        let results = stages
            .map(|stage| {
                let stage = StageId(stage as u8);
                let begun_ns = clock::now_ns();
                let outcome = self.leader.run(MODEL, stage, &weights, &mut claims, &never);
                self.stage_ns[stage.index()] = clock::now_ns() - begun_ns;
                assert_eq!(outcome, Outcome::Done, "a kernel panicked");
                then(self, stage, &mut claims)
            })
            .collect();
        if outputs {
            for (claim, area) in claims.iter_mut().zip(&mut self.areas) {
                *area = claim.replace_area(None);
            }
        }
        results
    }

    /// All steps, stage after stage.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        let stages = self.models.iter().flat_map(|model| &model.stages);
        stages.flat_map(|stage| &stage.steps)
    }

    /// All operators, stage after stage, with the time that each took in the last run.
    pub fn operator_times(&self) -> impl Iterator<Item = OperatorTime> {
        let stages = self.models.iter().flat_map(|model| &model.stages);
        stages.flat_map(|stage| &stage.steps).map(OperatorTime::of)
    }

    /// For each stage the nanoseconds that it took in the last run.
    pub fn stage_times(&self) -> impl Iterator<Item = u64> {
        self.stage_ns.iter().copied()
    }
}
