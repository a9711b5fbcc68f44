//! What lies in surplus lanes and halos of tensors that an operator reads does not change a value of its result, on every
//! instruction set, in any parts; and all of its result's memory but surplus lanes is written, with zeros in the halo.
//!
//! The surplus lanes of a slice that is read in place are other channels, whatever they are: an infinity there is not the
//! slice's affair. Operators on bytes know no infinities; their tests draw these lanes.

use crate::support::{blocked, noise, run_in_parts};
use punctual_kernels::{
    Attention, AttentionSpec, BestScore, BestScoreSpec, Binary, BinaryOperand, BinarySpec,
    BlockedLayout, ChannelRun, Conv2d, Conv2dSpec, ConvInput, Copy, CopySpec, Detections,
    DetectionsSpec, Embedding, Gather, GatherSpec, GlobalAveragePool, GridSample, GridSampleSpec,
    Image, Isa, LayerNorm, LayerNormSpec, Linear, LinearSpec, Part, Pool, PoolSpec, Product,
    ProductSpec, Recurrent, RecurrentSpec, Resize, ResizeSpec, Softmax, SoftmaxSpec, Take,
    TakeSpec, Token, Tokens, TopK, TopKSpec, Unary,
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

type Run = Box<dyn Fn(Part, &mut [Image<'_>])>;

/// An operator with the tensors that it reads and writes.
struct Case {
    name: &'static str,
    inputs: Vec<BlockedLayout>,
    output: BlockedLayout,
    run: Run,
}

/// A `Case` of an operator without weights.
macro_rules! case {
    ($name:literal, $inputs:expr, $output:expr, $kernel:expr) => {{
        let kernel = $kernel.unwrap();
        Case {
            name: $name,
            inputs: $inputs,
            output: $output,
            run: Box::new(move |part, images| kernel.run(part, images)),
        }
    }};
}

/// The same of one with weights, which are packed.
macro_rules! weighted {
    ($name:literal, $inputs:expr, $output:expr, $kernel:expr, $($weights:expr),*) => {{
        let kernel = $kernel.unwrap();
        let mut packed = vec![0.0; kernel.packed_len()];
        kernel.pack($(&noise(7, $weights),)* &mut packed).unwrap();
        Case {
            name: $name,
            inputs: $inputs,
            output: $output,
            run: Box::new(move |part, images| kernel.run(&packed, part, images)),
        }
    }};
}

fn layout(isa: Isa, channels: usize, height: usize, width: usize, halo: usize) -> BlockedLayout {
    BlockedLayout::new(isa, channels, height, width, halo).unwrap()
}

/// Operators that read the channels of the last block one vector at a time.
fn by_vectors(isa: Isa) -> Vec<Case> {
    let input = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let output = layout(isa, CHANNELS, HEIGHT, WIDTH, 2);
    let window = Window::new(Extent::square(3), Extent::square(1), Padding::uniform(1));
    let pool = |kind| {
        Pool::new(
            isa,
            &PoolSpec {
                input,
                output,
                window,
                kind,
            },
        )
    };
    let mean = layout(isa, CHANNELS, 1, 1, 0);
    let resize = |filter| {
        let resampling = Resampling {
            size: Extent {
                height: HEIGHT as u32,
                width: WIDTH as u32,
            },
            scale: [0.8, 0.9],
            coordinates: Coordinates::HalfPixel,
            filter,
        };
        Resize::new(
            isa,
            &ResizeSpec {
                input,
                output,
                resampling,
            },
        )
    };
    let binary = |function, operands| {
        let activation = Activation::Silu;
        let swapped = true;
        let spec = BinarySpec {
            function,
            operands,
            swapped,
            output,
            activation,
        };
        Binary::new(isa, &spec)
    };
    let both = [BinaryOperand::Tensor(input), BinaryOperand::Tensor(input)];
    let one = [BinaryOperand::Tensor(input), BinaryOperand::Tensor(mean)];
    let mut all = vec![
        case!("largest", vec![input], output, pool(PoolKind::Max)),
        case!(
            "average",
            vec![input],
            output,
            pool(PoolKind::Average {
                counts_padding: true
            })
        ),
        case!(
            "mean",
            vec![input],
            mean,
            GlobalAveragePool::new(isa, input, mean)
        ),
        case!("smooth", vec![input], output, resize(Filter::Linear)),
        case!(
            "nearest",
            vec![input],
            output,
            resize(Filter::Nearest(Rounding::Floor))
        ),
        case!(
            "root",
            vec![input],
            output,
            Unary::new(isa, UnaryFunction::SquareRoot, input, output)
        ),
        case!(
            "sine",
            vec![input],
            output,
            Unary::new(isa, UnaryFunction::Sine, input, output)
        ),
    ];
    for function in BinaryFunction::ALL {
        for (operands, inputs) in [(both, vec![input, input]), (one, vec![input, mean])] {
            let kernel = binary(function, operands).unwrap();
            let run: Run = Box::new(move |part, images| kernel.run(&[], part, images));
            all.push(Case {
                name: function_name(function),
                inputs,
                output,
                run,
            });
        }
    }
    all
}

fn function_name(function: BinaryFunction) -> &'static str {
    match function {
        BinaryFunction::Divide => "quotient",
        BinaryFunction::Power => "power",
        _ => "function of two",
    }
}

/// Operators that sum over channels, choose among them, or move them.
fn across_channels(isa: Isa) -> Vec<Case> {
    let input = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let output = layout(isa, CHANNELS, HEIGHT, WIDTH, 2);
    let softmax = |axis, extent| {
        let digit = Digit {
            axis,
            step: 1,
            extent,
        };
        Softmax::new(
            isa,
            &SoftmaxSpec {
                input,
                output,
                digit,
                logarithm: false,
            },
        )
    };
    let epsilon = 1e-3;
    let ranking = Ranking {
        largest: true,
        last: false,
    };
    let best = layout(isa, 1, HEIGHT, WIDTH, 1);
    let columns = layout(isa, CHANNELS, HEIGHT, 2, 1);
    let top = |axis, output| {
        TopK::new(
            isa,
            &TopKSpec {
                input,
                output,
                axis,
                ranking,
            },
        )
    };
    let run = |first, count| ChannelRun {
        source: 0,
        first,
        count,
    };
    let gather = GatherSpec {
        inputs: vec![input],
        output,
        runs: vec![run(3, 18), run(0, 3)],
    };
    let mut turned = View::plain([CHANNELS, HEIGHT, WIDTH].map(|side| side as u32));
    turned.digits.swap(0, 2);
    let sizes = [WIDTH, HEIGHT, CHANNELS].map(|side| side as u32);
    let transposed = layout(isa, WIDTH, HEIGHT, CHANNELS, 1);
    let copy = CopySpec {
        inputs: vec![input],
        table: 0,
        output: transposed,
        pieces: vec![Piece::whole(turned, sizes)],
    };
    let copy = Copy::new(isa, &copy).unwrap();
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
        case!(
            "softmax of channels",
            vec![input],
            output,
            softmax(Axis::Channel, 7)
        ),
        case!(
            "softmax of rows",
            vec![input],
            output,
            softmax(Axis::Row, 5)
        ),
        case!("best channel", vec![input], best, top(Axis::Channel, best)),
        case!(
            "best columns",
            vec![input],
            columns,
            top(Axis::Column, columns)
        ),
        case!("gather", vec![input], output, Gather::new(isa, &gather)),
        case!("take", vec![input, columns], columns, Take::new(isa, &take)),
        case!(
            "grid",
            vec![input, grid],
            output,
            GridSample::new(isa, &sample)
        ),
        Case {
            name: "copy",
            inputs: vec![input],
            output: transposed,
            run: Box::new(move |part, images| copy.run(&[], part, images)),
        },
        weighted!(
            "layer norm",
            vec![input],
            output,
            LayerNorm::new(
                isa,
                &LayerNormSpec {
                    input,
                    output,
                    epsilon
                }
            ),
            CHANNELS,
            CHANNELS
        ),
    ]
}

/// Operators of sequences.
fn of_sequences(isa: Isa) -> Vec<Case> {
    let row = |channels, width| layout(isa, channels, 1, width, 0);
    let query = row(CHANNELS, WIDTH);
    let attention = AttentionSpec {
        query,
        key: query,
        value: query,
        mask: Some(row(1, WIDTH)),
        output: query,
        heads: 3,
        scale: 0.5,
        by_row: false,
        bias: None,
    };
    let attention = Attention::new(isa, &attention).unwrap();
    let second = row(9, CHANNELS);
    let product = ProductSpec {
        first: query,
        second,
        output: row(9, WIDTH),
    };
    let image = layout(isa, CHANNELS, HEIGHT, WIDTH, 1);
    let tokens = row(CHANNELS, HEIGHT * WIDTH + 1);
    let words = layout(isa, 1, HEIGHT, WIDTH, 1);
    let token = layout(isa, CHANNELS, 1, 1, 0);
    let spec = RecurrentSpec {
        cell: Cell::Gru {
            resets_product: true,
        },
        gates: query,
        initial: Some(layout(isa, 7, 1, 1, 0)),
        output: row(7, WIDTH),
        backwards: false,
    };
    vec![
        Case {
            name: "attention",
            inputs: vec![query, query, query, row(1, WIDTH)],
            output: query,
            run: Box::new(move |part, images| attention.run(&[], part, images)),
        },
        case!(
            "product",
            vec![query, second],
            product.output,
            Product::new(isa, &product)
        ),
        case!(
            "token",
            vec![query],
            token,
            Token::new(isa, query, token, 2)
        ),
        weighted!(
            "tokens",
            vec![image],
            tokens,
            Tokens::new(isa, image, tokens, 1),
            tokens.shape().elements()
        ),
        weighted!(
            "embedding",
            vec![words],
            image,
            Embedding::new(isa, words, image, 4),
            4 * CHANNELS
        ),
        weighted!(
            "recurrent",
            vec![query, spec.initial.unwrap()],
            spec.output,
            Recurrent::new(isa, &spec),
            21 * 7,
            21
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
        case!(
            "best score",
            vec![scores, best],
            best,
            BestScore::new(isa, &of_scores)
        ),
        case!(
            "detections",
            vec![best, boxes, scores],
            list,
            Detections::new(isa, &objects)
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
        weighted!(
            "convolution",
            vec![input],
            output,
            Conv2d::new(isa, &conv),
            9 * CHANNELS,
            9
        ),
        weighted!(
            "linear",
            vec![input],
            vector,
            Linear::new(isa, &linear),
            9 * elements,
            9
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
    let found = run_in_parts(parts, &case.output, &members, &case.run);
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
        let cases = [by_vectors, across_channels, of_sequences, of_detectors];
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
