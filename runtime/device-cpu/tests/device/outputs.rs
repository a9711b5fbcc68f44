//! What exits give as outputs, against the plain interpreter, on every instruction set of this machine: written row by
//! row and at the end of a stage, by one core and by two.

use punctual_conformance::networks;
use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{
    AnswerKind, Conv2d, Exit, InputSpec, Network, Operator, Output, Pool, Quantised, Resize, Stage,
    Tensor, TensorId, WeightRange, reference,
};
use punctual_types::{
    Activation, Axis, Coordinates, Digit, Element, Extent, Filter, Padding, Random, Resampling,
    View, Window,
};

/// Of floats, and of whole numbers that were floats or steps of bytes.
const TOLERANCE: f32 = 1e-4;

fn output(tensor: TensorId, shape: Tensor, order: [usize; 3], element: Element) -> Output {
    let axes = [Axis::Channel, Axis::Row, Axis::Column];
    let extents = [shape.channels, shape.height, shape.width];
    let digit = |axis: usize| Digit {
        axis: axes[axis],
        step: 1,
        extent: extents[axis],
    };
    Output {
        name: format!("{tensor:?} {order:?} {element:?}"),
        tensor,
        shape: order.map(|axis| extents[axis]).to_vec(),
        view: View {
            start: [0; 3],
            digits: order.map(digit).to_vec(),
        },
        element,
    }
}

const PLANES: [usize; 3] = [0, 1, 2];
const TOKENS: [usize; 3] = [1, 2, 0];

/// A convolution of `channels` channels whose result is also read by others, enlarged by 2: many rows at once do not fit.
fn maps(channels: u32) -> Network {
    let mut random = Random::new(u64::from(channels));
    let (weights, bias) = (27 * channels, channels);
    let values = (0..weights + bias).map(|_| random.signed_unit());
    let of_conv = [(0, weights), (weights, bias)].map(|(start, len)| WeightRange { start, len });
    let conv = Conv2d {
        window: Window::new(Extent::square(3), Extent::square(1), Padding::uniform(1)),
        groups: 1,
        activation: Activation::Relu,
    };
    let resampling = Resampling {
        size: Extent {
            height: 192,
            width: 200,
        },
        scale: [2.0; 2],
        coordinates: Coordinates::HalfPixel,
        filter: Filter::Linear,
    };
    let tensor = |channels, height, width| Tensor {
        channels,
        height,
        width,
    };
    let (near, far) = (tensor(channels, 96, 100), tensor(channels, 192, 200));
    let mut outputs = vec![];
    for order in [PLANES, TOKENS, [1, 0, 2]] {
        for element in [Element::F32, Element::I32, Element::Bool] {
            outputs.push(output(TensorId(1), near, order, element));
            outputs.push(output(TensorId(2), far, order, element));
        }
    }
    outputs.push(output(
        TensorId(3),
        Tensor::features(channels),
        PLANES,
        Element::F32,
    ));
    Network {
        name: format!("maps of {channels}"),
        input: InputSpec::rgb(96, 100, [0.0; 3], [1.0; 3]),
        vectors: vec![],
        answer: AnswerKind::None,
        classes: vec![],
        tensors: vec![tensor(3, 96, 100), near, far, Tensor::features(channels)],
        stages: vec![Stage {
            inputs: vec![TensorId(0)],
            outputs: vec![],
            operators: vec![
                Operator::new("conv", &[TensorId(0)], TensorId(1), conv).with_weights(of_conv),
                Operator::new(
                    "enlarged",
                    &[TensorId(1)],
                    TensorId(2),
                    Resize { resampling },
                ),
                Operator::new(
                    "mean",
                    &[TensorId(1)],
                    TensorId(3),
                    Pool::mean_of_all(near.extent()),
                ),
            ],
            exit: Some(Exit {
                outputs,
                scores: None,
                confidence: None,
            }),
        }],
        weights: values.collect::<Vec<f32>>().into(),
        quantised: Quantised::default(),
    }
}

/// Exits give every tensor of their stage, twice.
fn giving_all(mut network: Network) -> Network {
    for at in 0..network.stages.len() {
        let written = network.stages[at].operators.iter();
        let outputs = written.flat_map(|operator| {
            let tensor = operator.output;
            let elements = match network.quantisation(tensor) {
                None => [Element::F32, Element::I32],
                Some(of) => {
                    let (scale, zero) = (of.scale, of.zero);
                    let signed = (i16::from(zero) - 128) as i8;
                    [
                        Element::U8 { scale, zero },
                        Element::I8 {
                            scale,
                            zero: signed,
                        },
                    ]
                }
            };
            let shape = network.tensors[tensor.index()];
            let pairs = [PLANES, TOKENS].into_iter().zip(elements);
            pairs.map(move |(order, element)| output(tensor, shape, order, element))
        });
        let outputs: Vec<_> = outputs.collect();
        if let Some(exit) = &mut network.stages[at].exit {
            exit.outputs = outputs;
        }
    }
    network
}

/// A written value as a number, and how far it may be from the interpreter's.
fn value(element: Element, bytes: &[u8]) -> (f32, f32) {
    let word = || [bytes[0], bytes[1], bytes[2], bytes[3]];
    match element {
        Element::F32 => (f32::from_ne_bytes(word()), TOLERANCE),
        Element::I32 => (i32::from_ne_bytes(word()) as f32, 1.0),
        Element::Bool => (f32::from(bytes[0]), 0.0),
        Element::U8 { .. } => (f32::from(bytes[0]), 1.0),
        Element::I8 { .. } => (f32::from(bytes[0] as i8) + 128.0, 1.0),
    }
}

fn assert_outputs(network: &Network, cores: &[usize]) {
    let images: Vec<Vec<f32>> = (0..2).map(|seed| networks::image(network, seed)).collect();
    let batch: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    let expected: Vec<_> = images
        .iter()
        .map(|image| reference::run_all(network, &[image]))
        .collect();
    for isa in Isa::available() {
        let evaluator = Evaluator::with_mates(isa, network, batch.len(), cores, &[]);
        let mut evaluator = evaluator.expect("lowers");
        evaluator.load(&batch);
        let stages = evaluator.exits(batch.len());
        for (at, (stage, results)) in network.stages.iter().zip(&stages).enumerate() {
            for (image, result) in results.iter().enumerate() {
                let exit = stage.exit.as_ref().expect("it has results");
                let wanted = expected[image][at].as_ref().expect("an exit");
                for (output, (bytes, wanted)) in exit
                    .outputs
                    .iter()
                    .zip(result.outputs.iter().zip(&wanted.outputs))
                {
                    let each = output.element.bytes() as usize;
                    assert_eq!(bytes.len(), wanted.len() * each);
                    for (at, (bytes, &wanted)) in bytes.chunks_exact(each).zip(wanted).enumerate() {
                        let (found, tolerance) = value(output.element, bytes);
                        let wanted = match output.element {
                            // What is nearly 0 may be on the other side of it.
                            Element::Bool if wanted.abs() <= TOLERANCE => found,
                            Element::Bool => 1.0,
                            Element::I32 => wanted.trunc(),
                            _ => wanted,
                        };
                        assert!(
                            (found - wanted).abs() <= tolerance,
                            "{} of {} on {isa}, value {at}: {found} instead of {wanted}",
                            output.name,
                            network.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn outputs_that_are_written_row_by_row_are_what_the_interpreter_gives() {
    for channels in [1, 6, 17] {
        assert_outputs(&maps(channels), &[]);
        assert_outputs(&maps(channels), &[1]);
    }
}

#[test]
fn every_tensor_can_be_an_output_as_floats_and_as_bytes() {
    for network in [
        networks::segments(3),
        networks::quantised(3),
        networks::gathers(3),
        networks::copies(3),
        networks::detectors(3),
    ] {
        let network = giving_all(network);
        assert_outputs(&network, &[]);
        assert_outputs(&network, &[1]);
    }
}
