//! What a launch reads and writes, seen from its arguments.
//!
//! Memory is planned by this and audited by it, so that a list cannot say one thing and do another.

use punctual_kernels::cuda::params::{
    Answer, Answers, Attention, BestScore, Conv, ConvBytes, Copy, Detections, Elementwise,
    Embedding, Gather, GridSample, InputPlanar, Kept, LayerNorm, Linear, Members, Operand, Output,
    Product, Recurrent, Resize, Softmax, TensorView, Tokens, TopK,
};
use punctual_kernels::cuda::{Arguments, padded};
use punctual_types::DETECTION_VALUES;

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

const HALF: u64 = size_of::<u16>() as u64;
const FLOAT: u64 = size_of::<f32>() as u64;

/// Bytes of a value, by the code of its [`Kept`].
fn value_bytes(code: u32) -> u64 {
    match code {
        code if code == Kept::Floats as u32 => FLOAT,
        code if code == Kept::Bytes as u32 => 1,
        _ => HALF,
    }
}

use Role::{Between, Operand as Read, Outside, Result, Weights};

impl Span {
    /// Of halves.
    fn tensor(role: Role, view: &TensorView, images: u32) -> Self {
        Self::kept(role, view, images, Kept::Halves as u32)
    }

    fn kept(role: Role, view: &TensorView, images: u32, code: u32) -> Self {
        let values = view.image() * u64::from(images);
        Self {
            shape: Some([view.height, view.width, view.channels, view.pitch]),
            ..Self::at(role, view.address, values * value_bytes(code))
        }
    }

    fn operand(at: u8, operand: &Operand, images: u32) -> Self {
        let values = u64::from(operand.image) * u64::from(images);
        let role = match Place::decode(operand.address) {
            Place::Weights { .. } => Weights,
            _ => Read(at),
        };
        Self::at(role, operand.address, values * value_bytes(operand.kept))
    }

    /// Of weights only the start is named.
    fn weights(encoded: u64) -> Self {
        Self::at(Weights, encoded, 0)
    }

    fn at(role: Role, encoded: u64, bytes: u64) -> Self {
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
    fn new<const R: usize, const W: usize>(reads: [Span; R], writes: [Span; W]) -> Self {
        let there = |span: &Span| !span.place.is_nothing();
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
                [Span::tensor(Read(0), &pool.input, pool.images)],
                [Span::tensor(Result, &pool.output, pool.images)],
            ),
            Arguments::GlobalPool(pool) => Self::new(
                [Span::tensor(Read(0), &pool.input, pool.images)],
                [Span::tensor(Result, &pool.output, pool.images)],
            ),
            Arguments::Elementwise(both) => of_elementwise(both),
            Arguments::Copy(copy) => of_copy(copy),
            Arguments::Output(output) => of_output(output),
            Arguments::ConvBytes(conv) => of_conv_bytes(conv),
            Arguments::PoolBytes(pool) => Self::new(
                [Span::kept(
                    Read(0),
                    &pool.input,
                    pool.images,
                    Kept::Bytes as u32,
                )],
                [Span::kept(
                    Result,
                    &pool.output,
                    pool.images,
                    Kept::Bytes as u32,
                )],
            ),
            Arguments::AddBytes(add) => {
                let output = Span::kept(Result, &add.output, add.images, Kept::Bytes as u32);
                let operand = |at, address| Span::at(Read(at), address, output.bytes);
                Self::new([operand(0, add.first), operand(1, add.second)], [output])
            }
            Arguments::Convert(convert) => Self::new(
                [Span::kept(
                    Read(0),
                    &convert.input,
                    convert.images,
                    convert.from,
                )],
                [Span::kept(
                    Result,
                    &convert.output,
                    convert.images,
                    convert.to,
                )],
            ),
            Arguments::Softmax(softmax) => of_softmax(softmax),
            Arguments::Resize(resize) => of_resize(resize),
            Arguments::LayerNorm(norm) => of_layer_norm(norm),
            Arguments::Embedding(embedding) => of_embedding(embedding),
            Arguments::Tokens(tokens) => of_tokens(tokens),
            Arguments::Attention(attention) => of_attention(attention),
            Arguments::GridSample(sample) => of_grid_sample(sample),
            Arguments::Take(take) => Self::new(
                [
                    Span::tensor(Read(0), &take.input, take.images),
                    Span::kept(Read(1), &take.indices, take.images, take.kept),
                ],
                [Span::tensor(Result, &take.output, take.images)],
            ),
            Arguments::TopK(top) => of_top_k(top),
            Arguments::BestScore(best) => of_best_score(best),
            Arguments::Detections(list) => of_detections(list),
            Arguments::Product(product) => of_product(product),
            Arguments::Recurrent(layer) => of_recurrent(layer),
            Arguments::Gather(gather) => of_gather(gather),
            Arguments::Members(members) => of_members(members),
            Arguments::InputPlanar(input) => of_input_planar(input),
            Arguments::Answers(answers) => of_answers(answers),
            Arguments::Preprocess(_)
            | Arguments::ReportEvicted(_)
            | Arguments::Whereabouts(_)
            | Arguments::Hold(_) => Self::default(),
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
    let input = Span::tensor(Read(0), &conv.input, conv.images);
    let output = Span::tensor(Result, &conv.output, conv.images);
    let sums = conv.output.image() * u64::from(conv.images);
    let partial = sums * u64::from(conv.splits) * FLOAT;
    let partial = Span::at(Between, conv.partial, partial);
    let residual = Span::at(Read(1), conv.residual, output.bytes);
    let weights = Span::weights(conv.weights);
    let bias = Span::weights(conv.bias);
    if input.place.is_nothing() {
        Traffic::new([partial, residual, bias], [output])
    } else if partial.place.is_nothing() {
        Traffic::new([input, residual, weights, bias], [output])
    } else {
        Traffic::new([input, weights], [partial])
    }
}

fn of_copy(copy: &Copy) -> Traffic {
    let values = u64::from(copy.source_image) * u64::from(copy.images);
    let source = Span::at(Read(0), copy.source, values * value_bytes(copy.from));
    let output = Span::kept(Result, &copy.output, copy.images, copy.to);
    Traffic::new([source], [output])
}

fn of_output(output: &Output) -> Traffic {
    let images = u64::from(output.images);
    let values = u64::from(output.source_image) * images;
    let source = Span::at(Read(0), output.source, values * value_bytes(output.from));
    let counts = images * u64::from(output.all_counts) * FLOAT;
    let counts = Span::at(Between, output.counts, counts);
    let target = Span::at(Outside, output.target, images * output.target_image);
    Traffic::new([source], [counts, target])
}

fn of_recurrent(layer: &Recurrent) -> Traffic {
    let state = u64::from(layer.images) * u64::from(layer.output.pitch);
    // Only the first steps read what the operator does; the others what the launch before them left.
    let from = if layer.first_step == 0 {
        Read(1)
    } else {
        Between
    };
    Traffic::new(
        [
            Span::tensor(Read(0), &layer.gates, layer.images),
            Span::at(from, layer.state, state * value_bytes(layer.kept)),
            Span::weights(layer.weights),
            Span::weights(layer.bias),
        ],
        [
            Span::tensor(Result, &layer.output, layer.images),
            Span::at(Between, layer.carried, state * FLOAT),
        ],
    )
}

fn of_gather(gather: &Gather) -> Traffic {
    let pixels = u64::from(gather.output.height) * u64::from(gather.output.width);
    let pixels = pixels * u64::from(gather.images);
    let mut traffic = Traffic::new(
        [Span::weights(gather.table)],
        [Span::tensor(Result, &gather.output, gather.images)],
    );
    let sources = (0..).zip(gather.sources).zip(gather.pitches);
    let sources = sources
        .map(|((at, source), pitch)| Span::at(Read(at), source, pixels * u64::from(pitch) * HALF));
    let there = |span: &Span| !span.place.is_nothing();
    traffic.reads.extend(sources.filter(there));
    traffic
}

fn of_linear(linear: &Linear) -> Traffic {
    let images = u64::from(linear.images);
    let features = images * u64::from(padded(linear.features));
    let input = images * u64::from(linear.depth) * HALF;
    let partial = features * u64::from(linear.splits) * FLOAT;
    let reads = [
        Span::at(Read(0), linear.input, input),
        Span::at(Between, linear.partial, partial),
        Span::weights(linear.weights),
        Span::weights(linear.bias),
    ];
    let writes = [
        Span::at(Result, linear.output, features * HALF),
        Span::at(Result, linear.scores, features * FLOAT),
    ];
    Traffic::new(reads, writes)
}

fn of_elementwise(both: &Elementwise) -> Traffic {
    Traffic::new(
        [
            Span::operand(0, &both.first, both.images),
            Span::operand(1, &both.second, both.images),
        ],
        [Span::tensor(Result, &both.output, both.images)],
    )
}

fn of_conv_bytes(conv: &ConvBytes) -> Traffic {
    Traffic::new(
        [
            Span::kept(Read(0), &conv.input, conv.images, Kept::Bytes as u32),
            Span::weights(conv.weights),
            Span::weights(conv.bias),
            Span::weights(conv.factors),
        ],
        [Span::kept(Result, &conv.output, conv.images, conv.kept)],
    )
}

fn of_softmax(softmax: &Softmax) -> Traffic {
    let values = u64::from(softmax.images * softmax.rest * softmax.rest_step);
    Traffic::new(
        [Span::at(Read(0), softmax.input, values * HALF)],
        [Span::at(Result, softmax.output, values * HALF)],
    )
}

fn of_embedding(embedding: &Embedding) -> Traffic {
    let output = &embedding.output;
    let pixels = u64::from(embedding.images * output.height * output.width);
    let values = pixels * u64::from(embedding.pitch);
    let input = values * value_bytes(embedding.kept);
    Traffic::new(
        [
            Span::at(Read(0), embedding.input, input),
            Span::weights(embedding.table),
        ],
        [Span::tensor(Result, output, embedding.images)],
    )
}

fn of_tokens(tokens: &Tokens) -> Traffic {
    let output = Span::tensor(Result, &tokens.output, tokens.images);
    let pixels = u64::from(tokens.images * (tokens.output.width - tokens.prefix));
    let input = pixels * u64::from(tokens.output.pitch) * HALF;
    let input = Span::at(Read(0), tokens.input, input);
    Traffic::new([input, Span::weights(tokens.table)], [output])
}

fn of_attention(attention: &Attention) -> Traffic {
    let query = Span::tensor(Read(0), &attention.query, attention.images);
    let key = Span::tensor(Read(1), &attention.key, attention.images);
    let value = Span::tensor(Read(2), &attention.value, attention.images);
    let rows = u64::from(attention.images * attention.rows);
    let keys = rows * u64::from(attention.keys);
    let mask = keys * u64::from(padded(1)) * HALF;
    let mask = Span::at(Read(3), attention.mask, mask);
    let bias = Span::weights(attention.bias);
    let values = rows * u64::from(attention.queries * attention.value.pitch);
    let output = Span::at(Result, attention.output, values * HALF);
    Traffic::new([query, key, value, mask, bias], [output])
}

fn of_grid_sample(sample: &GridSample) -> Traffic {
    let grid = Span::tensor(Read(1), &sample.grid, sample.images);
    let pixels = u64::from(sample.images * sample.grid.height * sample.grid.width);
    let output = pixels * u64::from(sample.input.pitch) * HALF;
    Traffic::new(
        [Span::tensor(Read(0), &sample.input, sample.images), grid],
        [Span::at(Result, sample.output, output)],
    )
}

fn of_top_k(top: &TopK) -> Traffic {
    let lines = u64::from(top.images * top.input.height);
    let values = match top.count {
        0 => lines * u64::from(top.input.width * padded(1)),
        count => lines * u64::from(count * top.input.pitch),
    };
    Traffic::new(
        [Span::tensor(Read(0), &top.input, top.images)],
        [Span::at(Result, top.output, values * FLOAT)],
    )
}

fn of_best_score(best: &BestScore) -> Traffic {
    let objectness = u64::from(best.images) * u64::from(best.output.pitch) * HALF;
    Traffic::new(
        [
            Span::tensor(Read(0), &best.scores, best.images),
            Span::at(Read(1), best.objectness, objectness),
        ],
        [Span::kept(
            Result,
            &best.output,
            best.images,
            Kept::Floats as u32,
        )],
    )
}

fn of_detections(list: &Detections) -> Traffic {
    let row = u64::from(padded(DETECTION_VALUES)) * FLOAT;
    let rows = u64::from(list.images) * (u64::from(list.rows) + 1);
    Traffic::new(
        [
            Span::kept(Read(0), &list.best, list.images, list.kept),
            Span::kept(Read(1), &list.boxes, list.images, list.boxes_kept),
            Span::tensor(Read(2), &list.scores, list.images),
        ],
        [Span::at(Result, list.output, rows * row)],
    )
}

fn of_product(product: &Product) -> Traffic {
    let (first, second) = (&product.first, &product.second);
    let pixels = u64::from(product.images * first.height * first.width);
    let output = pixels * u64::from(second.pitch) * HALF;
    Traffic::new(
        [
            Span::tensor(Read(0), first, product.images),
            Span::tensor(Read(1), second, product.images),
        ],
        [Span::at(Result, product.output, output)],
    )
}

fn of_resize(resize: &Resize) -> Traffic {
    Traffic::new(
        [
            Span::kept(Read(0), &resize.input, resize.images, resize.kept),
            Span::weights(resize.table),
        ],
        [Span::kept(
            Result,
            &resize.output,
            resize.images,
            resize.kept,
        )],
    )
}

fn of_layer_norm(norm: &LayerNorm) -> Traffic {
    let input = Span::tensor(Read(0), &norm.input, norm.images);
    let output = Span::at(Result, norm.output, input.bytes);
    let read = [input, Span::weights(norm.scale), Span::weights(norm.bias)];
    Traffic::new(read, [output])
}

fn of_members(members: &Members) -> Traffic {
    let batch = members.bytes * u64::from(members.images);
    let batch = Span::at(Result, members.batch, batch);
    let slots = members.members.iter().take(members.images as usize);
    let slots = slots.map(|&slot| Span::at(Outside, slot, members.bytes));
    Traffic {
        reads: slots.collect(),
        writes: vec![batch],
    }
}

fn of_input_planar(input: &InputPlanar) -> Traffic {
    let members = input.members.iter().take(input.images as usize);
    Traffic {
        reads: members
            .map(|&member| Span::at(Outside, member, 0))
            .collect(),
        writes: vec![Span::kept(Result, &input.output, input.images, input.kept)],
    }
}

fn of_answers(answers: &Answers) -> Traffic {
    let images = u64::from(answers.images);
    let scores = images * u64::from(answers.pitch) * FLOAT;
    let confidence = images * u64::from(padded(1)) * FLOAT;
    let counts = images * u64::from(answers.all_counts) * FLOAT;
    Traffic::new(
        [
            Span::at(Read(0), answers.scores, scores),
            Span::at(Read(1), answers.confidence, confidence),
            Span::at(Between, answers.counts, counts),
        ],
        [
            Span::at(
                Outside,
                answers.answers,
                images * size_of::<Answer>() as u64,
            ),
            Span::at(Outside, answers.done, size_of::<u32>() as u64),
        ],
    )
}
