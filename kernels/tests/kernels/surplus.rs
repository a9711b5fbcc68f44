//! What lies in surplus lanes and halos of tensors that an operator reads does not change a value of its result, on every
//! instruction set, in any parts; and all of its result's memory but surplus lanes is written, with zeros in the halo.
//!
//! The surplus lanes of a slice that is read in place are other channels, whatever they are: an infinity there is not the
//! slice's affair. Operators on bytes know no infinities; their tests draw these lanes.

use crate::support::{blocked, noise, run_in_parts};
use punctual_kernels::{
    AlignedBuffer, Attention, AttentionSpec, BestScore, BestScoreSpec, Binary, BinaryOperand,
    BinarySpec, BlockedLayout, ChannelRun, Conv2d, Conv2dSpec, ConvInput, Copy, CopySpec,
    Detections, DetectionsSpec, Embedding, Gather, GatherSpec, GlobalAveragePool, GridSample,
    GridSampleSpec, Isa, Kernel, KernelError, LayerNorm, LayerNormSpec, Linear, LinearSpec, Pool,
    PoolSpec, Product, ProductSpec, Recurrent, RecurrentSpec, Resize, ResizeSpec, Softmax,
    SoftmaxSpec, Take, TakeSpec, Tokens, TopK, TopKSpec, Unary, Weights,
};
use punctual_types::{
    Activation, Axis, BinaryFunction, BoxForm, Cell, Coordinates, Decoder, Digit, Extent, Filter,
    Interpolation, Outside, Padding, Piece, PoolKind, Ranking, Resampling, Rounding, Sampling,
    Scoring, UnaryFunction, View, Window,
};

/// Neither a multiple of any number of lanes nor of two.
const CHANNELS: usize = 21;
const HEIGHT: usize = 5;
const WIDTH: usize = 6;

/// An operator with the tensors that it reads and writes.
struct Case {
    name: &'static str,
    inputs: Vec<BlockedLayout>,
    output: BlockedLayout,
    kernel: Box<dyn Kernel>,
    packed: AlignedBuffer,
}

/// Of an operator without weights.
fn case(
    name: &'static str,
    inputs: Vec<BlockedLayout>,
    output: BlockedLayout,
    kernel: Result<impl Kernel + 'static, KernelError>,
) -> Case {
    let kernel = Box::new(kernel.unwrap());
    let packed = AlignedBuffer::zeroed(kernel.packed_len());
    Case {
        name,
        inputs,
        output,
        kernel,
        packed,
    }
}

/// The same of an operator with weights; `weights` gives the length of each.
fn weighted(
    name: &'static str,
    inputs: Vec<BlockedLayout>,
    output: BlockedLayout,
    kernel: Result<impl Kernel + 'static, KernelError>,
    weights: &[usize],
) -> Case {
    let case = case(name, inputs, output, kernel);
    let weights: Vec<Vec<f32>> = weights.iter().map(|&len| noise(7, len)).collect();
    let weights: Vec<&[f32]> = weights.iter().map(Vec::as_slice).collect();
    let packed = case.kernel.packed(&Weights::floats(&weights)).unwrap();
    Case { packed, ..case }
}

fn layout(isa: Isa, channels: usize, height: usize, width: usize, halo: usize) -> BlockedLayout {
    BlockedLayout::new(isa, channels, height, width, halo).unwrap()
}

/// Pools and resizes.
fn of_windows(isa: Isa) -> Vec<Case> {
    let input = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let output = layout(isa, CHANNELS, HEIGHT, WIDTH, 2);
    let window = Window::new(Extent::square(3), Extent::square(1), Padding::uniform(1));
    let pool = |kind| {
        let spec = PoolSpec {
            input,
            output,
            window,
            kind,
        };
        case("pool", vec![input], output, Pool::new(isa, &spec))
    };
    let (height, width) = (HEIGHT as u32, WIDTH as u32);
    let resize = |filter| {
        let resampling = Resampling {
            size: Extent { height, width },
            scale: [0.8, 0.9],
            coordinates: Coordinates::HalfPixel,
            filter,
        };
        let spec = ResizeSpec {
            input,
            output,
            resampling,
        };
        case("resize", vec![input], output, Resize::new(isa, &spec))
    };
    let mean = layout(isa, CHANNELS, 1, 1, 0);
    vec![
        pool(PoolKind::Max),
        pool(PoolKind::Average {
            counts_padding: true,
        }),
        pool(PoolKind::Average {
            counts_padding: false,
        }),
        resize(Filter::Linear),
        resize(Filter::Nearest(Rounding::Floor)),
        case(
            "mean",
            vec![input],
            mean,
            GlobalAveragePool::new(isa, input, mean),
        ),
    ]
}

/// Functions of one value and of two.
fn of_values(isa: Isa) -> Vec<Case> {
    let input = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let output = layout(isa, CHANNELS, HEIGHT, WIDTH, 2);
    let mean = layout(isa, CHANNELS, 1, 1, 0);
    let of_one = |function| {
        case(
            "function of one",
            vec![input],
            output,
            Unary::new(isa, function, input, output),
        )
    };
    let of_two = |(function, second): (BinaryFunction, BlockedLayout)| {
        let spec = BinarySpec {
            function,
            operands: [input, second].map(BinaryOperand::Tensor),
            swapped: true,
            output,
            activation: Activation::Silu,
        };
        weighted(
            "function of two",
            vec![input, second],
            output,
            Binary::new(isa, &spec),
            &[0],
        )
    };
    let one = [
        UnaryFunction::SquareRoot,
        UnaryFunction::Reciprocal,
        UnaryFunction::Sine,
    ];
    let two = BinaryFunction::ALL
        .into_iter()
        .flat_map(|function| [(function, input), (function, mean)]);
    one.into_iter().map(of_one).chain(two.map(of_two)).collect()
}

/// Operators that sum over channels or choose among them.
fn over_channels(isa: Isa) -> Vec<Case> {
    let input = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let output = layout(isa, CHANNELS, HEIGHT, WIDTH, 2);
    let softmax = |axis, extent, step| {
        let digit = Digit { axis, step, extent };
        let spec = SoftmaxSpec {
            input,
            output,
            digit,
            logarithm: false,
        };
        case("softmax", vec![input], output, Softmax::new(isa, &spec))
    };
    let ranking = Ranking {
        largest: true,
        last: false,
    };
    let top = |axis, output| {
        let spec = TopKSpec {
            input,
            output,
            axis,
            ranking,
        };
        case("best", vec![input], output, TopK::new(isa, &spec))
    };
    let norm = LayerNormSpec {
        input,
        output,
        epsilon: 1e-3,
    };
    vec![
        softmax(Axis::Channel, 7, 1),
        softmax(Axis::Channel, 7, 3),
        softmax(Axis::Row, 5, 1),
        top(Axis::Channel, layout(isa, 1, HEIGHT, WIDTH, 1)),
        top(Axis::Column, layout(isa, CHANNELS, HEIGHT, 2, 1)),
        weighted(
            "layer norm",
            vec![input],
            output,
            LayerNorm::new(isa, &norm),
            &[CHANNELS, CHANNELS],
        ),
    ]
}

/// Operators that move values.
fn moved(isa: Isa) -> Vec<Case> {
    let input = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let output = layout(isa, CHANNELS, HEIGHT, WIDTH, 2);
    let run = |first, count| ChannelRun {
        source: 0,
        first,
        count,
    };
    let runs = vec![run(3, 18), run(0, 3)];
    let gather = GatherSpec {
        inputs: vec![input],
        output,
        runs,
    };
    let mut turned = View::plain([CHANNELS, HEIGHT, WIDTH].map(|side| side as u32));
    turned.digits.swap(0, 2);
    let transposed = layout(isa, WIDTH, HEIGHT, CHANNELS, 1);
    let copy = CopySpec {
        inputs: vec![input],
        table: 0,
        output: transposed,
        pieces: vec![Piece::whole(
            turned,
            [WIDTH, HEIGHT, CHANNELS].map(|side| side as u32),
        )],
    };
    let columns = layout(isa, CHANNELS, HEIGHT, 2, 1);
    let take = TakeSpec {
        input,
        indices: columns,
        output: columns,
        axis: Axis::Column,
    };
    let grid = layout(isa, 2, HEIGHT, WIDTH, 0);
    let sampling = Sampling {
        interpolation: Interpolation::Linear,
        outside: Outside::Zeros,
        align_corners: false,
    };
    let sample = GridSampleSpec {
        input,
        grid,
        output,
        groups: 1,
        sampling,
    };
    vec![
        case("gather", vec![input], output, Gather::new(isa, &gather)),
        case("take", vec![input, columns], columns, Take::new(isa, &take)),
        case(
            "grid",
            vec![input, grid],
            output,
            GridSample::new(isa, &sample),
        ),
        weighted("copy", vec![input], transposed, Copy::new(isa, &copy), &[0]),
    ]
}

fn row(isa: Isa, channels: usize, width: usize) -> BlockedLayout {
    layout(isa, channels, 1, width, 0)
}

fn attention(isa: Isa) -> Case {
    let query = row(isa, CHANNELS, WIDTH);
    let mask = row(isa, 1, WIDTH);
    let spec = AttentionSpec {
        query,
        key: query,
        value: query,
        mask: Some(mask),
        output: query,
        heads: 3,
        scale: 0.5,
        by_row: false,
        bias: None,
    };
    let inputs = vec![query, query, query, mask];
    case("attention", inputs, query, Attention::new(isa, &spec))
}

/// Operators of sequences.
fn of_sequences(isa: Isa) -> Vec<Case> {
    let image = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let (first, second, output) = (
        row(isa, CHANNELS, WIDTH),
        row(isa, 9, CHANNELS),
        row(isa, 9, WIDTH),
    );
    let product = ProductSpec {
        first,
        second,
        output,
    };
    let tokens = row(isa, CHANNELS, HEIGHT * WIDTH + 1);
    let words = layout(isa, 1, HEIGHT, WIDTH, 1);
    let (initial, states) = (row(isa, 7, 1), row(isa, 7, WIDTH));
    let recurrent = RecurrentSpec {
        cell: Cell::Gru {
            resets_product: true,
        },
        gates: first,
        initial: Some(initial),
        output: states,
        backwards: false,
    };
    let table = tokens.shape().elements();
    vec![
        attention(isa),
        case(
            "product",
            vec![first, second],
            output,
            Product::new(isa, &product),
        ),
        weighted(
            "tokens",
            vec![image],
            tokens,
            Tokens::new(isa, image, tokens, 1),
            &[table],
        ),
        weighted(
            "embedding",
            vec![words],
            image,
            Embedding::new(isa, words, image, 4),
            &[4 * CHANNELS],
        ),
        weighted(
            "recurrent",
            vec![first, initial],
            states,
            Recurrent::new(isa, &recurrent),
            &[21 * 7, 21],
        ),
    ]
}

/// What a detector's places become.
fn of_detectors(isa: Isa) -> Vec<Case> {
    let places = HEIGHT * WIDTH;
    let scores = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let boxes = layout(isa, 4, HEIGHT, WIDTH, 1);
    let best = layout(isa, places, 1, 1, 0);
    let scoring = Scoring {
        first: 1,
        classes: 19,
        logits: true,
    };
    let decoder = Decoder {
        form: BoxForm::CentreAndSize,
        unit: [10.0; 2],
        size: [32; 2],
        threshold: 0.4,
        rows: 9,
        candidates: 20,
        overlap: Some(0.4),
        by_class: true,
        averaged: 3,
    };
    let list = layout(isa, 6, 1, 10, 0);
    let of_scores = BestScoreSpec {
        scores,
        objectness: Some(best),
        output: best,
        scoring,
    };
    let objects = DetectionsSpec {
        best,
        boxes,
        scores,
        output: list,
        scoring,
        decoder,
    };
    vec![
        case(
            "best score",
            vec![scores, best],
            best,
            BestScore::new(isa, &of_scores),
        ),
        case(
            "detections",
            vec![best, boxes, scores],
            list,
            Detections::new(isa, &objects),
        ),
    ]
}

/// Operators whose weights for surplus lanes are zeros: these must hold something finite.
fn multiplied_by_zero(isa: Isa) -> Vec<Case> {
    let input = layout(isa, CHANNELS, HEIGHT, WIDTH, 0);
    let output = layout(isa, 9, HEIGHT, WIDTH, 2);
    let vector = layout(isa, 9, 1, 1, 0);
    let conv = Conv2dSpec {
        input: ConvInput::Blocked(input),
        output,
        residual: None,
        window: Window::new(Extent::square(1), Extent::square(1), Padding::default()),
        groups: 1,
        activation: Activation::Relu,
    };
    let linear = LinearSpec {
        input,
        output: vector,
        activation: Activation::None,
    };
    let elements = CHANNELS * HEIGHT * WIDTH;
    vec![
        weighted(
            "convolution",
            vec![input],
            output,
            Conv2d::new(isa, &conv),
            &[9 * CHANNELS, 9],
        ),
        weighted(
            "linear",
            vec![input],
            vector,
            Linear::new(isa, &linear),
            &[9 * elements, 9],
        ),
    ]
}

/// The image that comes of inputs with `surplus` in surplus lanes and `halo` around them.
fn image(case: &Case, parts: usize, surplus: f32, halo: f32) -> Vec<u32> {
    let tensors = case.inputs.iter().zip(1..).map(|(layout, seed)| {
        let values = noise(seed, layout.shape().elements());
        let values: Vec<f32> = values.iter().map(|value| value.abs() + 0.01).collect();
        blocked(layout, &values, surplus, halo)
    });
    let members = [tensors.collect::<Vec<_>>()];
    let found = run_in_parts(parts, &case.output, &members, &*case.kernel, &case.packed);
    let elements = case.output.shape().elements();
    let inside = blocked(&case.output, &vec![1.0; elements], 1.0, 0.0);
    for (value, inside) in found[0].iter().zip(inside) {
        assert!(
            inside == 1.0 || *value == 0.0,
            "{}: the halo is {value}",
            case.name
        );
    }
    let mut image = vec![0.0; elements];
    case.output.unpack(&found[0], &mut image);
    assert!(
        image.iter().all(|value| value.is_finite()),
        "{}: {image:?}",
        case.name
    );
    image.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn surplus_lanes_and_halos_of_what_an_operator_reads_change_no_value() {
    for isa in Isa::available() {
        let cases = [
            of_windows,
            of_values,
            over_channels,
            moved,
            of_sequences,
            of_detectors,
        ];
        for case in cases.iter().flat_map(|cases| cases(isa)) {
            for parts in 1..=3 {
                let expected = image(&case, parts, 0.0, 0.0);
                for other in [7.0, f32::NAN, f32::INFINITY] {
                    let found = image(&case, parts, other, other);
                    assert_eq!(
                        found, expected,
                        "{} on {isa} with {other} in {parts}",
                        case.name
                    );
                }
            }
        }
    }
}

#[test]
fn surplus_lanes_of_what_a_convolution_reads_change_no_value_if_they_are_finite() {
    for isa in Isa::available() {
        for case in multiplied_by_zero(isa) {
            for parts in 1..=3 {
                let expected = image(&case, parts, 0.0, 0.0);
                for other in [7.0, f32::MAX, f32::MIN] {
                    let found = image(&case, parts, other, 0.0);
                    assert_eq!(
                        found, expected,
                        "{} on {isa} with {other} in {parts}",
                        case.name
                    );
                }
            }
        }
    }
}
