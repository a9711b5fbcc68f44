//! What a launch reads and writes, seen from its arguments.
//!
//! Memory is planned by this and audited by it, so that a list cannot say one thing and do another. What the launches of an
//! operator do is said in the operator's own module; here is what those launches do that the device adds.

use std::ops::Range;

use punctual_cuda_kernels::padded;
use punctual_cuda_kernels::params::{
    Answer, Answers, Hold, InputPlanar, Kept, Members, Operand, Output, Preprocess, ReportEvicted,
    TensorView, Whereabouts,
};

use super::place::Place;

/// What a launch reads or writes at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A tensor that its operator reads, by its position in [`Operator::reads`](punctual_model::Operator::reads); of the
    /// two of `elementwise` the first or the second.
    Operand(u8),
    /// The tensor that is made.
    Result,
    /// What one launch leaves for another and no operator names: sums in parts, states, counts.
    Between,
    /// Weights, biases and tables.
    Weights,
    /// What is not the workspace's: inputs, slots, what the host reads.
    Outside,
}

/// Bytes from a place on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) role: Role,
    pub(crate) place: Place,
    pub(crate) bytes: u64,
    /// How the tensor lies, where the arguments say so: height, width, channels, pitch.
    pub(crate) shape: Option<[u32; 4]>,
}

/// All that a launch touches. What is not there is left out; of a page of weights only the start is
/// named, as nothing is ever written there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) reads: Vec<Span>,
    pub(crate) writes: Vec<Span>,
}

pub(super) const HALF: u64 = size_of::<u16>() as u64;
pub(super) const FLOAT: u64 = size_of::<f32>() as u64;

/// Bytes of a value, by the code of its [`Kept`].
pub(super) fn value_bytes(code: u32) -> u64 {
    match code {
        code if code == Kept::Floats as u32 => FLOAT,
        code if code == Kept::Bytes as u32 => 1,
        _ => HALF,
    }
}

use Role::{Between, Operand as Read, Outside, Result, Weights};

impl Span {
    /// Of halves.
    pub(super) fn tensor(role: Role, view: &TensorView, images: u32) -> Self {
        Self::kept(role, view, images, Kept::Halves as u32)
    }

    pub(super) fn kept(role: Role, view: &TensorView, images: u32, code: u32) -> Self {
        let values = view.image() * u64::from(images);
        Self {
            shape: Some([view.height, view.width, view.channels, view.pitch]),
            ..Self::at(role, view.address, values * value_bytes(code))
        }
    }

    pub(super) fn operand(at: u8, operand: &Operand, images: u32) -> Self {
        let values = u64::from(operand.image) * u64::from(images);
        let role = match Place::decode(operand.address) {
            Place::Weights { .. } => Weights,
            _ => Read(at),
        };
        Self::at(role, operand.address, values * value_bytes(operand.kept))
    }

    /// Of weights only the start is named.
    pub(super) fn weights(encoded: u64) -> Self {
        Self::at(Weights, encoded, 0)
    }

    pub(super) fn at(role: Role, encoded: u64, bytes: u64) -> Self {
        Self {
            role,
            place: Place::decode(encoded),
            bytes,
            shape: None,
        }
    }

    /// Whether they share a byte.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let share = |a: u64, b: u64| a < b + other.bytes && b < a + self.bytes;
        match (self.place, other.place) {
            (Place::Workspace { offset: a }, Place::Workspace { offset: b })
            | (Place::Outputs { offset: a }, Place::Outputs { offset: b }) => share(a, b),
            (
                Place::Request { member, offset: a },
                Place::Request {
                    member: of,
                    offset: b,
                },
            ) => member == of && share(a, b),
            (Place::Weights { page, .. }, Place::Weights { page: of, .. }) => page == of,
            (Place::Answers, Place::Answers) | (Place::Done, Place::Done) => true,
            // Nothing is ever written to an input.
            _ => false,
        }
    }
}

impl Traffic {
    pub(super) fn new<const R: usize, const W: usize>(reads: [Span; R], writes: [Span; W]) -> Self {
        let there = |span: &Span| !span.place.is_nothing();
        Self {
            reads: reads.into_iter().filter(there).collect(),
            writes: writes.into_iter().filter(there).collect(),
        }
    }

    /// With reads and writes exchanged: `members_out` copies where `members_in` copies from.
    pub(super) fn reversed(self) -> Self {
        Self {
            reads: self.writes,
            writes: self.reads,
        }
    }

    /// Whether something is written where something is read.
    pub(super) fn overlaps(&self) -> bool {
        let mut pairs = self
            .writes
            .iter()
            .flat_map(|write| self.reads.iter().map(move |read| (write, read)));
        pairs.any(|(write, read)| write.overlaps(read))
    }
}

/// What a launch does, seen from its arguments.
pub(crate) trait Launch {
    /// What it reads and writes. Its arguments have [`Place`]s for addresses.
    fn traffic(&self) -> Traffic;

    /// Bytes of its weights, tables or, of prepared inputs, of each member: traffic names only where they begin.
    fn weight_bytes(&self) -> u64 {
        0
    }

    /// Which part of its first operand it reads.
    fn share_read(&self) -> f64 {
        1.0
    }

    /// Which part of its operator's result it makes; none: all.
    fn part(&self) -> Option<Part> {
        None
    }
}

/// A part of a result.
pub(crate) enum Part {
    Channels(Range<u32>),
    /// Of a recurrent layer.
    Steps(Range<u32>),
}

impl Part {
    pub(super) fn channels(first: u32, count: u32) -> Self {
        Self::Channels(first..first.saturating_add(count))
    }

    pub(super) fn steps(first: u32, count: u32) -> Self {
        Self::Steps(first..first.saturating_add(count))
    }
}

impl Launch for Output {
    fn traffic(&self) -> Traffic {
        let images = u64::from(self.images);
        let values = u64::from(self.source_image) * images;
        let source = Span::at(Read(0), self.source, values * value_bytes(self.from));
        let counts = images * u64::from(self.all_counts) * FLOAT;
        let counts = Span::at(Between, self.counts, counts);
        let target = Span::at(Outside, self.target, images * self.target_image);
        Traffic::new([source], [counts, target])
    }
}

impl Launch for Members {
    fn traffic(&self) -> Traffic {
        let batch = self.bytes * u64::from(self.images);
        let batch = Span::at(Result, self.batch, batch);
        let slots = self.members.iter().take(self.images as usize);
        let slots = slots.map(|&slot| Span::at(Outside, slot, self.bytes));
        Traffic {
            reads: slots.collect(),
            writes: vec![batch],
        }
    }
}

impl Launch for InputPlanar {
    fn traffic(&self) -> Traffic {
        let members = self.members.iter().take(self.images as usize);
        Traffic {
            reads: members
                .map(|&member| Span::at(Outside, member, 0))
                .collect(),
            writes: vec![Span::kept(Result, &self.output, self.images, self.kept)],
        }
    }

    fn weight_bytes(&self) -> u64 {
        let output = &self.output;
        4 * u64::from(output.channels) * u64::from(output.height) * u64::from(output.width)
    }
}

impl Launch for Answers {
    fn traffic(&self) -> Traffic {
        let images = u64::from(self.images);
        let scores = images * u64::from(self.pitch) * FLOAT;
        let confidence = images * u64::from(padded(1)) * FLOAT;
        let counts = images * u64::from(self.all_counts) * FLOAT;
        Traffic::new(
            [
                Span::at(Read(0), self.scores, scores),
                Span::at(Read(1), self.confidence, confidence),
                Span::at(Between, self.counts, counts),
            ],
            [
                Span::at(Outside, self.answers, images * size_of::<Answer>() as u64),
                Span::at(Outside, self.done, size_of::<u32>() as u64),
            ],
        )
    }
}

impl Launch for Preprocess {
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

impl Launch for ReportEvicted {
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

impl Launch for Whereabouts {
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

impl Launch for Hold {
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}
