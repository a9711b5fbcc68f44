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

/// Bytes from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) place: Place,
    pub(crate) bytes: u64,
}

/// All that a launch touches. What is not there is left out; of a page of weights only the start is
/// named, as nothing is ever written there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) reads: Vec<Span>,
    pub(crate) writes: Vec<Span>,
}

const HALF: u64 = size_of::<u16>() as u64;
const FLOAT: u64 = size_of::<f32>() as u64;

/// Bytes of an image's tensor.
pub(super) fn image_bytes(view: &TensorView, kept: Kept) -> u64 {
    let pixels = u64::from(view.height) * u64::from(view.width);
    pixels * u64::from(view.pitch) * u64::from(kept.bytes())
}

/// Bytes of a value, by the code of its [`Kept`].
fn value_bytes(code: u32) -> u64 {
    match code {
        code if code == Kept::Floats as u32 => FLOAT,
        code if code == Kept::Bytes as u32 => 1,
        _ => HALF,
    }
}

impl Span {
    fn tensor(view: &TensorView, images: u32) -> Self {
        Self::kept(view, images, Kept::Halves as u32)
    }

    fn kept(view: &TensorView, images: u32, code: u32) -> Self {
        let pixels = u64::from(view.height) * u64::from(view.width);
        let values = pixels * u64::from(view.pitch) * u64::from(images);
        Self::at(view.address, values * value_bytes(code))
    }

    fn operand(operand: &Operand, images: u32) -> Self {
        let values = u64::from(operand.image) * u64::from(images);
        Self::at(operand.address, values * value_bytes(operand.kept))
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
            Arguments::Elementwise(both) => of_elementwise(both),
            Arguments::Copy(copy) => of_copy(copy),
            Arguments::Output(output) => of_output(output),
            Arguments::ConvBytes(conv) => of_conv_bytes(conv),
            Arguments::PoolBytes(pool) => Self::new(
                [Span::kept(&pool.input, pool.images, Kept::Bytes as u32)],
                [Span::kept(&pool.output, pool.images, Kept::Bytes as u32)],
            ),
            Arguments::AddBytes(add) => {
                let output = Span::kept(&add.output, add.images, Kept::Bytes as u32);
                let operand = |address| Span::at(address, output.bytes);
                Self::new([operand(add.first), operand(add.second)], [output])
            }
            Arguments::Convert(convert) => Self::new(
                [Span::kept(&convert.input, convert.images, convert.from)],
                [Span::kept(&convert.output, convert.images, convert.to)],
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
                    Span::tensor(&take.input, take.images),
                    Span::kept(&take.indices, take.images, take.kept),
                ],
                [Span::tensor(&take.output, take.images)],
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

fn of_copy(copy: &Copy) -> Traffic {
    let values = u64::from(copy.source_image) * u64::from(copy.images);
    let source = Span::at(copy.source, values * value_bytes(copy.from));
    let output = Span::kept(&copy.output, copy.images, copy.to);
    Traffic::new([source], [output])
}

fn of_output(output: &Output) -> Traffic {
    let images = u64::from(output.images);
    let values = u64::from(output.source_image) * images;
    let source = Span::at(output.source, values * value_bytes(output.from));
    let counts = Span::at(output.counts, images * u64::from(output.all_counts) * FLOAT);
    let target = Span::at(output.target, images * output.target_image);
    Traffic::new([source], [counts, target])
}

fn of_recurrent(layer: &Recurrent) -> Traffic {
    let state = u64::from(layer.images) * u64::from(layer.output.pitch);
    Traffic::new(
        [
            Span::tensor(&layer.gates, layer.images),
            Span::at(layer.state, state * value_bytes(layer.kept)),
            Span::at(layer.weights, 0),
            Span::at(layer.bias, 0),
        ],
        [
            Span::tensor(&layer.output, layer.images),
            Span::at(layer.carried, state * FLOAT),
        ],
    )
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

fn of_elementwise(both: &Elementwise) -> Traffic {
    Traffic::new(
        [
            Span::operand(&both.first, both.images),
            Span::operand(&both.second, both.images),
        ],
        [Span::tensor(&both.output, both.images)],
    )
}

fn of_conv_bytes(conv: &ConvBytes) -> Traffic {
    Traffic::new(
        [
            Span::kept(&conv.input, conv.images, Kept::Bytes as u32),
            Span::at(conv.weights, 0),
            Span::at(conv.bias, 0),
            Span::at(conv.factors, 0),
        ],
        [Span::kept(&conv.output, conv.images, conv.kept)],
    )
}

fn of_softmax(softmax: &Softmax) -> Traffic {
    let values = u64::from(softmax.images * softmax.rest * softmax.rest_step);
    Traffic::new(
        [Span::at(softmax.input, values * HALF)],
        [Span::at(softmax.output, values * HALF)],
    )
}

fn of_embedding(embedding: &Embedding) -> Traffic {
    let output = &embedding.output;
    let pixels = u64::from(embedding.images * output.height * output.width);
    let values = pixels * u64::from(embedding.pitch);
    Traffic::new(
        [
            Span::at(embedding.input, values * value_bytes(embedding.kept)),
            Span::at(embedding.table, 0),
        ],
        [Span::tensor(output, embedding.images)],
    )
}

fn of_tokens(tokens: &Tokens) -> Traffic {
    let output = Span::tensor(&tokens.output, tokens.images);
    let pixels = u64::from(tokens.images * (tokens.output.width - tokens.prefix));
    let input = pixels * u64::from(tokens.output.pitch) * HALF;
    let read = [Span::at(tokens.input, input), Span::at(tokens.table, 0)];
    Traffic::new(read, [output])
}

fn of_attention(attention: &Attention) -> Traffic {
    let query = Span::tensor(&attention.query, attention.images);
    let key = Span::tensor(&attention.key, attention.images);
    let value = Span::tensor(&attention.value, attention.images);
    let rows = u64::from(attention.images * attention.rows);
    let keys = rows * u64::from(attention.keys);
    let mask = Span::at(attention.mask, keys * u64::from(padded(1)) * HALF);
    let bias = Span::at(attention.bias, 0);
    let values = rows * u64::from(attention.queries * attention.value.pitch);
    let output = Span::at(attention.output, values * HALF);
    Traffic::new([query, key, value, mask, bias], [output])
}

fn of_grid_sample(sample: &GridSample) -> Traffic {
    let grid = Span::tensor(&sample.grid, sample.images);
    let pixels = u64::from(sample.images * sample.grid.height * sample.grid.width);
    let output = pixels * u64::from(sample.input.pitch) * HALF;
    Traffic::new(
        [Span::tensor(&sample.input, sample.images), grid],
        [Span::at(sample.output, output)],
    )
}

fn of_top_k(top: &TopK) -> Traffic {
    let lines = u64::from(top.images * top.input.height);
    let values = match top.count {
        0 => lines * u64::from(top.input.width * padded(1)),
        count => lines * u64::from(count * top.input.pitch),
    };
    Traffic::new(
        [Span::tensor(&top.input, top.images)],
        [Span::at(top.output, values * FLOAT)],
    )
}

fn of_best_score(best: &BestScore) -> Traffic {
    let objectness = u64::from(best.images) * u64::from(best.output.pitch) * HALF;
    Traffic::new(
        [
            Span::tensor(&best.scores, best.images),
            Span::at(best.objectness, objectness),
        ],
        [Span::kept(&best.output, best.images, Kept::Floats as u32)],
    )
}

fn of_detections(list: &Detections) -> Traffic {
    let row = u64::from(padded(DETECTION_VALUES)) * FLOAT;
    let rows = u64::from(list.images) * (u64::from(list.rows) + 1);
    Traffic::new(
        [
            Span::kept(&list.best, list.images, list.kept),
            Span::kept(&list.boxes, list.images, list.boxes_kept),
            Span::tensor(&list.scores, list.images),
        ],
        [Span::at(list.output, rows * row)],
    )
}

fn of_product(product: &Product) -> Traffic {
    let (first, second) = (&product.first, &product.second);
    let pixels = u64::from(product.images * first.height * first.width);
    let output = pixels * u64::from(second.pitch) * HALF;
    Traffic::new(
        [
            Span::tensor(first, product.images),
            Span::tensor(second, product.images),
        ],
        [Span::at(product.output, output)],
    )
}

fn of_resize(resize: &Resize) -> Traffic {
    Traffic::new(
        [
            Span::kept(&resize.input, resize.images, resize.kept),
            Span::at(resize.table, 0),
        ],
        [Span::kept(&resize.output, resize.images, resize.kept)],
    )
}

fn of_layer_norm(norm: &LayerNorm) -> Traffic {
    let input = Span::tensor(&norm.input, norm.images);
    let output = Span::at(norm.output, input.bytes);
    let read = [input, Span::at(norm.scale, 0), Span::at(norm.bias, 0)];
    Traffic::new(read, [output])
}

fn of_members(members: &Members) -> Traffic {
    let batch = Span::at(members.batch, members.bytes * u64::from(members.images));
    let slots = members.members.iter().take(members.images as usize);
    let slots = slots.map(|&slot| Span::at(slot, members.bytes));
    Traffic {
        reads: slots.collect(),
        writes: vec![batch],
    }
}

fn of_input_planar(input: &InputPlanar) -> Traffic {
    let members = input.members.iter().take(input.images as usize);
    Traffic {
        reads: members.map(|&member| Span::at(member, 0)).collect(),
        writes: vec![Span::kept(&input.output, input.images, input.kept)],
    }
}

fn of_answers(answers: &Answers) -> Traffic {
    let images = u64::from(answers.images);
    let scores = images * u64::from(answers.pitch) * FLOAT;
    let confidence = images * u64::from(padded(1)) * FLOAT;
    let counts = images * u64::from(answers.all_counts) * FLOAT;
    Traffic::new(
        [
            Span::at(answers.scores, scores),
            Span::at(answers.confidence, confidence),
            Span::at(answers.counts, counts),
        ],
        [
            Span::at(answers.answers, images * size_of::<Answer>() as u64),
            Span::at(answers.done, size_of::<u32>() as u64),
        ],
    )
}
