//! One stage as a session of ONNX Runtime.

use std::borrow::Cow;
use std::ops::Range;

use ort::session::builder::GraphOptimizationLevel;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::TensorRef;
use punctual_compile::{stage_to_onnx, tensor_name};
use punctual_model::{Network, TensorId};

use crate::StartError;
use crate::library::Library;
use crate::places::Places;
use crate::threads::PinnedThreads;

/// A stage, ready to run for up to as many members as it was made for.
pub(crate) struct StageSession {
    session: Session,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// Of a stage that ends in an exit.
    logits: Option<Tensor>,
    /// Class scores of the last run, member after member.
    scores: Vec<f32>,
}

/// A tensor that goes in or out, with all members' values side by side.
struct Tensor {
    name: String,
    /// Channels, rows, columns.
    shape: [usize; 3],
    /// In the request buffer; empty for the class scores.
    place: Range<usize>,
    /// For inputs: the members' values, gathered from their request buffers.
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
    ) -> Result<Self, StartError> {
        let onnx = stage_to_onnx(network, stage)?;
        let session = session(library, &onnx, mates)?;
        let parts = &network.stages[stage];
        let tensor =
            |&id: &TensorId, staged: usize| Tensor::new(network, id, places.of(id), staged);
        let logits = parts.logits.map(|id| Tensor::new(network, id, 0..0, 0));
        Ok(Self {
            session,
            inputs: parts
                .inputs
                .iter()
                .map(|id| tensor(id, batch_max))
                .collect(),
            outputs: parts.outputs.iter().map(|id| tensor(id, 0)).collect(),
            scores: vec![0.0; batch_max * logits.as_ref().map_or(0, Tensor::elements)],
            logits,
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
        if let Some(logits) = &self.logits {
            let (_, found) = results[logits.name.as_str()].try_extract_tensor::<f32>()?;
            self.scores[..found.len()].copy_from_slice(found);
        }
        Ok(())
    }

    /// The class scores of a member of the last run that was [`Ran::Done`]; none if the stage ends in no exit.
    pub(crate) fn scores(&self, member: usize) -> &[f32] {
        let classes = self.logits.as_ref().map_or(0, Tensor::elements);
        &self.scores[member * classes..][..classes]
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
