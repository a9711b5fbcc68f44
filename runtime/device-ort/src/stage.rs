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
use crate::tail::Tail;
use crate::threads::PinnedThreads;

/// A stage, ready to run for up to as many members as it was made for.
pub(crate) struct StageSession {
    session: Session,
    inputs: Vec<Tensor>,
    /// What is carried over, of what the session makes.
    outputs: Vec<Tensor>,
    /// None: the stage ends in no exit.
    exit: Option<Exit>,
    results: Results,
    /// None: the session does all of it.
    tail: Option<Tail>,
    /// What is carried over, of what the tail makes, and where it lies.
    reduced: Vec<(TensorId, Range<usize>)>,
    /// Channels, rows, columns of what the exit reads.
    shapes: BTreeMap<TensorId, [usize; 3]>,
    /// The outputs that are wanted.
    placed: Option<PlacedExit>,
}

/// What the exit and the tail read of the session's last run.
struct Results {
    /// What is not carried, member after member.
    read: BTreeMap<TensorId, Tensor>,
    /// Where a carried tensor lies.
    carried: BTreeMap<TensorId, Range<usize>>,
}

impl Results {
    /// A tensor, planar; none if the session does not make it.
    fn values<'a>(
        &'a self,
        tensor: TensorId,
        member: usize,
        request: &'a [f32],
    ) -> Option<&'a [f32]> {
        if let Some(place) = self.carried.get(&tensor) {
            return Some(&request[place.clone()]);
        }
        let tensor = self.read.get(&tensor)?;
        let elements = tensor.elements();
        Some(&tensor.staging[member * elements..][..elements])
    }
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
        let file = stage_to_onnx(network, stage)?;
        let tail = Tail::new(network, stage, &file, batch_max).map_err(Box::new)?;
        let parts = &network.stages[stage];
        let tensor =
            |&id: &TensorId, staged: usize| Tensor::new(network, id, places.of(id), staged);
        let sides = |id: TensorId| {
            let shape = network.tensors[id.index()];
            [shape.channels, shape.height, shape.width].map(|side| side as usize)
        };
        let exit: Vec<TensorId> = parts.exit.iter().flat_map(Exit::reads).collect();
        let all = exit.iter().copied().chain(file.read_behind());
        let is_carried = |id: &TensorId| parts.inputs.contains(id) || parts.outputs.contains(id);
        let (carried, read): (Vec<TensorId>, Vec<TensorId>) = all.partition(is_carried);
        let by_tail = |id: &&TensorId| file.behind.iter().any(|each| each.output == **id);
        let (reduced, left): (Vec<_>, Vec<_>) = parts.outputs.iter().partition(by_tail);
        let staged = |&id: &TensorId| (id, Tensor::new(network, id, 0..0, batch_max));
        Ok(Self {
            session: session(library, &file.onnx, mates)?,
            inputs: parts
                .inputs
                .iter()
                .map(|id| tensor(id, batch_max))
                .collect(),
            outputs: left.into_iter().map(|id| tensor(id, 0)).collect(),
            exit: parts.exit.clone(),
            results: Results {
                read: read.iter().filter(|id| !by_tail(id)).map(staged).collect(),
                carried: carried.into_iter().map(|id| (id, places.of(id))).collect(),
            },
            tail,
            reduced: reduced.into_iter().map(|&id| (id, places.of(id))).collect(),
            shapes: exit.into_iter().map(|id| (id, sides(id))).collect(),
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
        if self.infer(count, members, options).is_err() {
            return Ran::Ended;
        }
        self.reduce(members);
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
        for tensor in self.results.read.values_mut() {
            let (_, found) = results[tensor.name.as_str()].try_extract_tensor::<f32>()?;
            tensor.staging[..found.len()].copy_from_slice(found);
        }
        Ok(())
    }

    /// Runs the tail, and leaves what is carried over of it.
    fn reduce(&mut self, members: &mut [&mut [f32]]) {
        let Some(tail) = &mut self.tail else {
            return;
        };
        tail.run(members.len(), |tensor, member| {
            let values = self.results.values(tensor, member, &*members[member]);
            values.expect("the session makes all that its tail reads")
        });
        for (at, member) in members.iter_mut().enumerate() {
            for (tensor, place) in &self.reduced {
                let made = tail
                    .values(*tensor, at)
                    .expect("the session does not make it");
                member[place.clone()].copy_from_slice(made);
            }
        }
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
        let made = || self.tail.as_ref()?.values(tensor, member);
        let values = self.results.values(tensor, member, request).or_else(made);
        values.unwrap_or_default()
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
