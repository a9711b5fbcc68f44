//! What a launch reads and writes, seen from its arguments.
//!
//! Memory is planned by this and audited by it, so that a list cannot say one thing and do another.

use punctual_kernels::cuda::params::{Answer, Conv, Gather, Linear, TensorView};
use punctual_kernels::cuda::{Arguments, padded};

use super::place::Place;

/// Bytes from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) place: Place,
    pub(super) bytes: u64,
}

/// All that a launch touches. What is not there is left out; of a page of weights only the start is
/// named, as nothing is ever written there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) reads: Vec<Span>,
    pub(super) writes: Vec<Span>,
}

const HALF: u64 = size_of::<u16>() as u64;
const FLOAT: u64 = size_of::<f32>() as u64;

/// Bytes of an image's tensor.
pub(super) fn image_bytes(view: &TensorView) -> u64 {
    u64::from(view.height) * u64::from(view.width) * u64::from(view.pitch) * HALF
}

impl Span {
    fn tensor(view: &TensorView, images: u32) -> Self {
        Self::at(view.address, image_bytes(view) * u64::from(images))
    }

    fn at(encoded: u64, bytes: u64) -> Self {
        Self {
            place: Place::decode(encoded),
            bytes,
        }
    }

    /// Whether they share a byte.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let share = |a: u64, b: u64| a < b + other.bytes && b < a + self.bytes;
        match (self.place, other.place) {
            (Place::Workspace { offset: a }, Place::Workspace { offset: b }) => share(a, b),
            (
                Place::Request { member, offset: a },
                Place::Request {
                    member: of,
                    offset: b,
                },
            ) => member == of && share(a, b),
            (Place::Weights { page, .. }, Place::Weights { page: of, .. }) => page == of,
            (a, b) => a == b,
        }
    }
}

impl Traffic {
    fn new<const R: usize, const W: usize>(reads: [Span; R], writes: [Span; W]) -> Self {
        let there = |span: &Span| span.place != Place::Nothing;
        Self {
            reads: reads.into_iter().filter(there).collect(),
            writes: writes.into_iter().filter(there).collect(),
        }
    }

    /// Of a launch with these arguments, which have [`Place`]s for addresses.
    pub(super) fn of(arguments: &Arguments) -> Self {
        match arguments {
            Arguments::Conv(conv) => of_conv(conv),
            Arguments::Linear(linear) => of_linear(linear),
            Arguments::Pool(pool) => Self::new(
                [Span::tensor(&pool.input, pool.images)],
                [Span::tensor(&pool.output, pool.images)],
            ),
            Arguments::GlobalPool(pool) => Self::new(
                [Span::tensor(&pool.input, pool.images)],
                [Span::tensor(&pool.output, pool.images)],
            ),
            Arguments::Elementwise(both) => {
                let input = Span::tensor(&both.input, both.images);
                let other = match both.broadcast {
                    0 => input.bytes,
                    _ => u64::from(both.input.pitch) * HALF * u64::from(both.images),
                };
                let output = Span::at(both.output, input.bytes);
                Self::new([input, Span::at(both.other, other)], [output])
            }
            Arguments::Gather(gather) => of_gather(gather),
            Arguments::Members(members) => {
                let batch = Span::at(members.batch, members.bytes * u64::from(members.images));
                let slots = members.members.iter().take(members.images as usize);
                let slots = slots.map(|&slot| Span::at(slot, members.bytes));
                Self {
                    reads: slots.collect(),
                    writes: vec![batch],
                }
            }
            Arguments::InputPlanar(input) => {
                let members = input.members.iter().take(input.images as usize);
                Self {
                    reads: members.map(|&member| Span::at(member, 0)).collect(),
                    writes: vec![Span::tensor(&input.output, input.images)],
                }
            }
            Arguments::Answers(answers) => {
                let images = u64::from(answers.images);
                let scores = images * u64::from(answers.pitch) * FLOAT;
                Self::new(
                    [Span::at(answers.scores, scores)],
                    [
                        Span::at(answers.answers, images * size_of::<Answer>() as u64),
                        Span::at(answers.done, size_of::<u32>() as u64),
                    ],
                )
            }
            Arguments::Preprocess(_) | Arguments::Whereabouts(_) | Arguments::Hold(_) => {
                Self::default()
            }
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

/// A launch without an input adds up what others have summed; one with parts leaves them to such a launch.
fn of_conv(conv: &Conv) -> Traffic {
    let input = Span::tensor(&conv.input, conv.images);
    let output = Span::tensor(&conv.output, conv.images);
    let pixels = u64::from(conv.output.height) * u64::from(conv.output.width);
    let sums = pixels * u64::from(conv.images) * u64::from(conv.output.pitch);
    let partial = Span::at(conv.partial, sums * u64::from(conv.splits) * FLOAT);
    let residual = Span::at(conv.residual, output.bytes);
    let weights = Span::at(conv.weights, 0);
    let bias = Span::at(conv.bias, 0);
    if input.place == Place::Nothing {
        Traffic::new([partial, residual, bias], [output])
    } else if partial.place == Place::Nothing {
        Traffic::new([input, residual, weights, bias], [output])
    } else {
        Traffic::new([input, weights], [partial])
    }
}

fn of_gather(gather: &Gather) -> Traffic {
    let pixels = u64::from(gather.output.height) * u64::from(gather.output.width);
    let pixels = pixels * u64::from(gather.images);
    let mut traffic = Traffic::new(
        [Span::at(gather.table, 0)],
        [Span::tensor(&gather.output, gather.images)],
    );
    let sources = gather.sources.iter().zip(gather.pitches);
    let sources =
        sources.map(|(&source, pitch)| Span::at(source, pixels * u64::from(pitch) * HALF));
    let there = |span: &Span| span.place != Place::Nothing;
    traffic.reads.extend(sources.filter(there));
    traffic
}

fn of_linear(linear: &Linear) -> Traffic {
    let images = u64::from(linear.images);
    let features = images * u64::from(padded(linear.features));
    let input = Span::at(linear.input, images * u64::from(linear.depth) * HALF);
    let partial = features * u64::from(linear.splits) * FLOAT;
    let reads = [
        input,
        Span::at(linear.partial, partial),
        Span::at(linear.weights, 0),
        Span::at(linear.bias, 0),
    ];
    let writes = [
        Span::at(linear.output, features * HALF),
        Span::at(linear.scores, features * FLOAT),
    ];
    Traffic::new(reads, writes)
}
