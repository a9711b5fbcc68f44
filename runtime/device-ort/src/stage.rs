//! One stage as a session of ONNX Runtime.

use std::borrow::Cow;
use std::ops::Range;

use ort::session::builder::GraphOptimizationLevel;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::TensorRef;
use punctual_compile::{stage_to_onnx, tensor_name};
use punctual_core::Answer;
use punctual_model::{Network, OutputLayout, TensorId};

use crate::error::StartError;
use crate::library::Library;
use crate::places::Places;
use crate::results::{Results, is_made_behind};
use crate::threads::PinnedThreads;

/// A stage, ready to run for up to as many members as it was made for.
pub(crate) struct StageSession {
    session: Session,
    inputs: Vec<Tensor>,
    /// What is carried over, of what the session makes.
    outputs: Vec<Tensor>,
    results: Results,
}

/// A tensor that goes in or out, with all members' values side by side.
struct Tensor {
    name: String,
    /// Channels, rows, columns.
    shape: [usize; 3],
    /// In the request buffer.
    place: Range<usize>,
    /// The members' values, gathered from their request buffers; of inputs only.
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
        let file = stage_to_onnx(network, stage)?;
        let parts = &network.stages[stage];
        let tensor =
            |&id: &TensorId, staged: usize| Tensor::new(network, id, places.of(id), staged);
        let is_carried = |id: &TensorId| parts.inputs.contains(id) || parts.outputs.contains(id);
        let results = Results::new(
            network, stage, &file, places, batch_max, outputs, is_carried,
        )?;
        let left = parts.outputs.iter();
        let left = left.filter(|id| !is_made_behind(&file, **id));
        Ok(Self {
            session: session(library, &file.onnx, mates)?,
            inputs: parts
                .inputs
                .iter()
                .map(|id| tensor(id, batch_max))
                .collect(),
            outputs: left.map(|id| tensor(id, 0)).collect(),
            results,
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
        if self.infer(count, members, options).is_err() {
            return Ran::Ended;
        }
        self.results.reduce(members);
        Ran::Done
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
        for (id, values) in self.results.staged() {
            let (_, found) = results[tensor_name(id).as_str()].try_extract_tensor::<f32>()?;
            values[..found.len()].copy_from_slice(found);
        }
        Ok(())
    }

    /// What a member of the last run that was [`Ran::Done`] is; `request` is its buffer.
    pub(crate) fn answer(&self, member: usize, request: &[f32]) -> Answer {
        self.results.answer(member, request)
    }

    /// Writes the outputs of a member to its area.
    pub(crate) fn deliver(&self, member: usize, request: &[f32], area: &mut [u8]) {
        self.results.deliver(member, request, area);
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
