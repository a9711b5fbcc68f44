//! One stage as a session of ONNX Runtime.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use ort::session::builder::GraphOptimizationLevel;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::TensorRef;
use punctual_compile::{stage_to_onnx, tensor_name};
use punctual_core::Answer;
use punctual_device::pool::answer_of;
use punctual_model::{Exit, Network, OutputLayout, PlacedExit, TensorId};

use crate::error::StartError;
use crate::library::Library;
use crate::places::Places;
use crate::threads::PinnedThreads;

/// A stage, ready to run for up to as many members as it was made for.
pub(crate) struct StageSession {
    session: Session,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// None: the stage ends in no exit.
    exit: Option<Exit>,
    /// What the exit reads besides what is carried: of the last run, member after member.
    read: BTreeMap<TensorId, Tensor>,
    /// Where a carried tensor lies.
    carried: BTreeMap<TensorId, Range<usize>>,
    /// Channels, rows, columns of what the exit reads.
    shapes: BTreeMap<TensorId, [usize; 3]>,
    /// The outputs that are wanted.
    placed: Option<PlacedExit>,
}

/// A tensor that goes in or out, with all members' values side by side.
struct Tensor {
    name: String,
    /// Channels, rows, columns.
    shape: [usize; 3],
    /// In the request buffer; empty for what only the exit reads.
    place: Range<usize>,
    /// The members' values: of inputs gathered from their request buffers, of what the exit reads as they came.
    staging: Vec<f32>,
}

impl Tensor {
    fn new(network: &Network, id: TensorId, place: Range<usize>, staged_members: usize) -> Self {
        let shape = network.tensors[id.index()];
        let shape = [shape.channels, shape.height, shape.width].map(|side| side as usize);
        Self {
            name: tensor_name(id),
            shape,
            place,
            staging: vec![0.0; staged_members * shape.iter().product::<usize>()],
        }
    }

    fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    Done,
    /// The library reported an error; after a preemption, that one.
    Ended,
}

impl StageSession {
    /// A session for stage `stage` of a valid network, for at most `batch_max` members, that runs
    /// on the calling thread and on a thread of its own on each of `mates`.
    pub(crate) fn new(
        library: Library,
        network: &Network,
        stage: usize,
        places: &Places,
        batch_max: usize,
        mates: &PinnedThreads,
        outputs: Option<&OutputLayout>,
    ) -> Result<Self, StartError> {
        let onnx = stage_to_onnx(network, stage)?;
        let session = session(library, &onnx, mates)?;
        let parts = &network.stages[stage];
        let tensor =
            |&id: &TensorId, staged: usize| Tensor::new(network, id, places.of(id), staged);
        let all: Vec<TensorId> = parts.exit.iter().flat_map(Exit::reads).collect();
        let is_carried = |id: &TensorId| parts.inputs.contains(id) || parts.outputs.contains(id);
        let sides = |id: TensorId| {
            let shape = network.tensors[id.index()];
            [shape.channels, shape.height, shape.width].map(|side| side as usize)
        };
        let (carried, read): (Vec<TensorId>, Vec<TensorId>) =
            all.iter().copied().partition(is_carried);
        let staged = |id: TensorId| (id, Tensor::new(network, id, 0..0, batch_max));
        Ok(Self {
            session,
            inputs: parts
                .inputs
                .iter()
                .map(|id| tensor(id, batch_max))
                .collect(),
            outputs: parts.outputs.iter().map(|id| tensor(id, 0)).collect(),
            exit: parts.exit.clone(),
            read: read.into_iter().map(staged).collect(),
            carried: carried.into_iter().map(|id| (id, places.of(id))).collect(),
            shapes: all.into_iter().map(|id| (id, sides(id))).collect(),
            placed: outputs.and_then(|outputs| outputs.stage(stage)).cloned(),
        })
    }

    /// Runs the stage: takes its inputs from the members' request buffers and leaves there what is
    /// carried over, unless it did not end well: then they are as they were.
    pub(crate) fn run(&mut self, members: &mut [&mut [f32]], options: &RunOptions) -> Ran {
        let count = members.len();
        for input in &mut self.inputs {
            let elements = input.elements();
            for (to, member) in input.staging.chunks_exact_mut(elements).zip(members.iter()) {
                to.copy_from_slice(&member[input.place.clone()]);
            }
        }
        match self.infer(count, members, options) {
            Ok(()) => Ran::Done,
            Err(_) => Ran::Ended,
        }
    }

    fn infer(
        &mut self,
        count: usize,
        members: &mut [&mut [f32]],
        options: &RunOptions,
    ) -> Result<(), ort::Error> {
        let mut values: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = Vec::new();
        for input in &self.inputs {
            let [channels, height, width] = input.shape;
            let filled = &input.staging[..count * input.elements()];
            let view = TensorRef::from_array_view(([count, channels, height, width], filled))?;
            values.push((input.name.as_str().into(), view.into()));
        }
        let results = self.session.run_with_options(values, options)?;
        for output in &self.outputs {
            let (_, found) = results[output.name.as_str()].try_extract_tensor::<f32>()?;
            for (from, member) in found
                .chunks_exact(output.elements())
                .zip(members.iter_mut())
            {
                member[output.place.clone()].copy_from_slice(from);
            }
        }
        for tensor in self.read.values_mut() {
            let (_, found) = results[tensor.name.as_str()].try_extract_tensor::<f32>()?;
            tensor.staging[..found.len()].copy_from_slice(found);
        }
        Ok(())
    }

    /// What a member of the last run that was [`Ran::Done`] is; `request` is its buffer.
    pub(crate) fn answer(&self, member: usize, request: &[f32]) -> Answer {
        let Some(exit) = &self.exit else {
            return Answer::default();
        };
        let scores = exit
            .scores
            .map(|scores| (self.values(scores.tensor, member, request), scores.form));
        let confidence = exit
            .confidence
            .map(|tensor| self.values(tensor, member, request)[0]);
        answer_of(scores, confidence)
    }

    /// Writes the outputs of a member to its area.
    pub(crate) fn deliver(&self, member: usize, request: &[f32], area: &mut [u8]) {
        let (Some(exit), Some(placed)) = (&self.exit, &self.placed) else {
            return;
        };
        let mut not_finite = 0_u32;
        for place in &placed.outputs {
            let output = &exit.outputs[place.output];
            let values = self.values(output.tensor, member, request);
            let [_, height, width] = self.shapes[&output.tensor];
            let to = &mut area[place.offset as usize..][..place.bytes as usize];
            let each = to.chunks_exact_mut(output.element.bytes() as usize);
            for (bytes, position) in each.zip(output.view.positions()) {
                let [channel, row, column] = position.map(|at| at as usize);
                let value = values[(channel * height + row) * width + column];
                not_finite = not_finite.saturating_add(u32::from(!value.is_finite()));
                output.element.write(value, bytes);
            }
        }
        area[placed.not_finite()..][..4].copy_from_slice(&not_finite.to_ne_bytes());
    }

    /// A tensor that the exit reads, planar.
    fn values<'a>(&'a self, tensor: TensorId, member: usize, request: &'a [f32]) -> &'a [f32] {
        match (self.read.get(&tensor), self.carried.get(&tensor)) {
            (Some(tensor), _) => &tensor.staging[member * tensor.elements()..][..tensor.elements()],
            (None, Some(place)) => &request[place.clone()],
            (None, None) => &[],
        }
    }
}

fn session(library: Library, onnx: &[u8], mates: &PinnedThreads) -> ort::Result<Session> {
    let mut builder = Session::builder(library.environment)?
        .with_intra_threads(1 + mates.count())?
        .with_optimization_level(GraphOptimizationLevel::All)?
        // A helper that spins takes time from other threads on its core.
        .with_config_entry("session.intra_op.allow_spinning", "0")?;
    if mates.count() > 0 {
        builder = builder.with_thread_manager(mates.clone())?;
    }
    builder.commit_from_memory(onnx)
}
