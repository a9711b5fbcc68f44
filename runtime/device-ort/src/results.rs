//! What is made of a session's results: the reductions behind it, an exit's answer and its outputs.

use std::collections::BTreeMap;
use std::ops::Range;

use punctual_compile::StageFile;
use punctual_core::Answer;
use punctual_device::pool::answer_of;
use punctual_model::{Exit, Network, OutputLayout, PlacedExit, TensorId};

use crate::error::StartError;
use crate::places::Places;
use crate::tail::Tail;

/// Of one stage, for at most as many members as it was made for.
pub(crate) struct Results {
    /// None: the stage ends in no exit.
    exit: Option<Exit>,
    read: Read,
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
struct Read {
    /// What does not lie in request buffers, member after member.
    staged: BTreeMap<TensorId, Staged>,
    /// Where in a request buffer the others lie.
    carried: BTreeMap<TensorId, Range<usize>>,
}

struct Staged {
    /// Of one member.
    elements: usize,
    values: Vec<f32>,
}

impl Read {
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
        let staged = self.staged.get(&tensor)?;
        Some(&staged.values[member * staged.elements..][..staged.elements])
    }
}

impl Results {
    /// Of stage `stage`, whose file is `file`; `is_carried` says what the exit and the tail find in request buffers.
    pub(crate) fn new(
        network: &Network,
        stage: usize,
        file: &StageFile<'_>,
        places: &Places,
        batch_max: usize,
        outputs: Option<&OutputLayout>,
        is_carried: impl Fn(&TensorId) -> bool,
    ) -> Result<Self, StartError> {
        let tail = Tail::new(network, stage, file, batch_max).map_err(Box::new)?;
        let parts = &network.stages[stage];
        let sides = |id: TensorId| {
            let shape = network.tensors[id.index()];
            [shape.channels, shape.height, shape.width].map(|side| side as usize)
        };
        let exit: Vec<TensorId> = parts.exit.iter().flat_map(Exit::reads).collect();
        let all = exit.iter().copied().chain(file.read_behind());
        let (carried, read): (Vec<TensorId>, Vec<TensorId>) =
            all.partition(|id| is_carried(id) && !is_made_behind(file, *id));
        let staged = |id: TensorId| {
            let elements = sides(id).iter().product();
            let values = vec![0.0; batch_max * elements];
            (id, Staged { elements, values })
        };
        let read = read.into_iter().filter(|id| !is_made_behind(file, *id));
        let reduced = parts.outputs.iter().copied();
        let reduced = reduced.filter(|id| is_made_behind(file, *id));
        Ok(Self {
            exit: parts.exit.clone(),
            read: Read {
                staged: read.map(staged).collect(),
                carried: carried.into_iter().map(|id| (id, places.of(id))).collect(),
            },
            tail,
            reduced: reduced.map(|id| (id, places.of(id))).collect(),
            shapes: exit.into_iter().map(|id| (id, sides(id))).collect(),
            placed: outputs.and_then(|outputs| outputs.stage(stage)).cloned(),
        })
    }

    /// Memory for what the session leaves and no request buffer holds, member after member: the caller fills it after each run.
    pub(crate) fn staged(&mut self) -> impl Iterator<Item = (TensorId, &mut [f32])> {
        let staged = self.read.staged.iter_mut();
        staged.map(|(id, staged)| (*id, &mut staged.values[..]))
    }

    /// Runs the tail, and leaves what is carried over of it.
    pub(crate) fn reduce(&mut self, members: &mut [&mut [f32]]) {
        let Some(tail) = &mut self.tail else {
            return;
        };
        tail.run(members.len(), |tensor, member| {
            let values = self.read.values(tensor, member, &*members[member]);
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

    /// What a member is; `request` is its buffer.
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
        let values = self.read.values(tensor, member, request).or_else(made);
        values.unwrap_or_default()
    }
}

/// Whether what runs behind a stage's file makes a tensor.
pub(crate) fn is_made_behind(file: &StageFile<'_>, tensor: TensorId) -> bool {
    file.behind.iter().any(|each| each.output == tensor)
}
