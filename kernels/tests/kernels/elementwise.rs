//! Sums, products and gathers equal their references on every instruction set.

use crate::support::{blocked, check_output, isa, meaning, noise, run_in_parts};
use proptest::prelude::*;
use punctual_kernels::{
    Binary, BinaryOperand, BinarySpec, BlockedLayout, ChannelRun, Gather, GatherSpec, Isa, Kernel,
    KernelError, Shape, Softmax, SoftmaxSpec, Unary, Weights,
};
use punctual_model as model;
use punctual_types::{Activation, Axis, BinaryFunction, Digit, UnaryFunction};

/// Channels, rows and columns.
fn size() -> impl Strategy<Value = (usize, usize, usize)> {
    (1..=40usize, 1..=12usize, 1..=12usize)
}

/// Channels of each source, and runs of any of them.
fn runs() -> impl Strategy<Value = (Vec<usize>, Vec<ChannelRun>)> {
    prop::collection::vec(1..=50usize, 1..=8).prop_flat_map(|channels| {
        let sources = channels.clone();
        let run = (0..channels.len()).prop_flat_map(move |source| {
            let there = sources[source];
            (0..there).prop_flat_map(move |first| {
                (1..=there - first).prop_map(move |count| ChannelRun {
                    source,
                    first,
                    count,
                })
            })
        });
        (Just(channels), prop::collection::vec(run, 1..=12))
    })
}

/// An operand made of noise that suits the function: some are equal for comparisons, and no divisor is near 0.
fn argument(function: BinaryFunction, operand: usize, noise: f32) -> f32 {
    match function {
        BinaryFunction::Divide if operand == 1 => noise.signum() * (noise.abs() + 0.5),
        BinaryFunction::Equal
        | BinaryFunction::NotEqual
        | BinaryFunction::Less
        | BinaryFunction::LessOrEqual => (4.0 * noise).round(),
        BinaryFunction::KeepWhere | BinaryFunction::KeepUnless if operand == 1 => noise.round(),
        BinaryFunction::Power if operand == 0 => noise.abs() + 0.1,
        // Integers, which have an exact remainder; no divisor is 0.
        BinaryFunction::Modulo | BinaryFunction::Remainder if operand == 0 => {
            (99.0 * noise).round()
        }
        BinaryFunction::Modulo | BinaryFunction::Remainder => {
            (9.0 * noise).round() + noise.signum()
        }
        _ => noise,
    }
}

proptest! {
    #![proptest_config(crate::support::cases(500))]

    #[test]
    fn functions_of_two_tensors_equal_their_reference_whatever_is_repeated_or_constant(
        isa in isa(),
        (channels, height, width) in size(),
        halos in (0..=2usize, 0..=2usize, 0..=2usize),
        kept in prop::array::uniform6(prop::bool::weighted(0.6)),
        constant in 0..=3usize,
        swapped in any::<bool>(),
        function in prop::sample::select(BinaryFunction::ALL.to_vec()),
        activation in crate::support::activation(),
        (batch, parts, seed) in (1..=3usize, 1..=4usize, any::<u64>()),
    ) {
        let side = |at: usize, size: usize| if kept[at] { size } else { 1 };
        let layout = |at: usize, halo| {
            let sides = [side(at, channels), side(at + 1, height), side(at + 2, width)];
            BlockedLayout::new(isa, sides[0], sides[1], sides[2], halo).unwrap()
        };
        let operand = |at: usize, halo| if constant == at { BinaryOperand::Constant(layout(3 * at, 0)) } else { BinaryOperand::Tensor(layout(3 * at, halo)) };
        let shapes = [layout(0, 0).shape(), layout(3, 0).shape()];
        let larger = |of: fn(&Shape) -> usize| of(&shapes[0]).max(of(&shapes[1]));
        let (c, h, w) = (larger(|s| s.channels), larger(|s| s.height), larger(|s| s.width));
        let output = BlockedLayout::new(isa, c, h, w, halos.2).unwrap();
        let operands = [operand(0, halos.0), operand(1, halos.1)];
        let spec = BinarySpec { function, operands, swapped, output, activation };
        let binary = Binary::new(isa, &spec).unwrap();
        // A constant is the same for all images; nothing is divided by nearly nothing.
        let values = |at: usize, image: u64| -> Vec<f32> {
            let image = if constant == at { 0 } else { image };
            let noise = noise(seed ^ (9 + 90 * at as u64 + image), shapes[at].elements());
            noise.iter().map(|x| argument(function, at ^ usize::from(swapped), *x)).collect()
        };
        let mut packed = vec![0.0; binary.packed_len()];
        if constant < 2 {
            binary.pack(&Weights::floats(&[&values(constant, 0)]), &mut packed).unwrap();
        }
        let memory: Vec<Vec<Vec<f32>>> = (0..batch as u64)
            .map(|image| {
                let tensors = operands.iter().enumerate().filter_map(|(at, operand)| match operand {
                    BinaryOperand::Tensor(layout) => Some(blocked(layout, &values(at, image), 7.0, 1e9)),
                    BinaryOperand::Constant(_) => None,
                });
                tensors.collect()
            })
            .collect();
        let outputs = run_in_parts(parts, &output, &memory, &binary, &packed);
        for (image, found) in outputs.iter().enumerate() {
            let meant = model::Binary { function, constant: None, swapped, activation };
            let both = [0, 1].map(|at| (layout(3 * at, 0), values(at, image as u64)));
            let expected = meaning(meant, both.iter().map(|(layout, values)| (layout, values))).run();
            check_output(&output, found, &expected, 2e-6);
        }
    }

    #[test]
    fn functions_of_one_tensor_equal_their_reference(
        isa in isa(),
        (channels, height, width) in size(),
        halos in (0..=2usize, 0..=2usize),
        function in prop::sample::select(UnaryFunction::ALL.to_vec()),
        (parts, seed) in (1..=4usize, any::<u64>()),
    ) {
        let layout = |halo| BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let (input, output) = (layout(halos.0), layout(halos.1));
        let unary = Unary::new(isa, function, input, output).unwrap();
        let noise = noise(seed, input.shape().elements());
        let values: Vec<f32> = noise
            .iter()
            .map(|x| match function {
                UnaryFunction::Reciprocal | UnaryFunction::SquareRoot | UnaryFunction::Logarithm => {
                    x.abs() + 0.1
                }
                UnaryFunction::ArcHyperbolicCosine => x.abs() + 1.1,
                UnaryFunction::ArcSine
                | UnaryFunction::ArcCosine
                | UnaryFunction::ArcHyperbolicTangent => 0.9 * x,
                UnaryFunction::Tangent => *x,
                // Multiples of a half, so that some lie exactly between two integers.
                UnaryFunction::Round | UnaryFunction::Sign => (16.0 * x).round() / 2.0,
                _ => 4.0 * x,
            })
            .collect();
        let memory = vec![vec![blocked(&input, &values, 0.0, 1e9)]];
        let outputs = run_in_parts(parts, &output, &memory, &unary, &[]);
        let expected: Vec<f32> = values.iter().map(|x| function.of(*x)).collect();
        check_output(&output, &outputs[0], &expected, 2e-5);
    }

    #[test]
    fn softmax_equals_its_reference_along_any_digit(
        isa in isa(),
        (outer, extent, step) in (1..=4usize, 1..=20usize, 1..=4usize),
        (one, other) in (1..=20usize, 1..=6usize),
        axis in prop::sample::select(vec![Axis::Channel, Axis::Row, Axis::Column]),
        halos in (0..=2usize, 0..=2usize),
        logarithm in any::<bool>(),
        (batch, parts, seed) in (1..=2usize, 1..=4usize, any::<u64>()),
    ) {
        let along = outer * extent * step;
        let [channels, height, width] = match axis {
            Axis::Channel => [along, other, one],
            Axis::Row => [one, along, other],
            _ => [one, other, along],
        };
        let layout = |halo| BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let (input, output) = (layout(halos.0), layout(halos.1));
        let digit = Digit { axis, step: step as u32, extent: extent as u32 };
        let spec = SoftmaxSpec { input, output, digit, logarithm };
        let softmax = Softmax::new(isa, &spec).unwrap();
        let images: Vec<Vec<f32>> = (0..batch as u64)
            .map(|image| noise(seed ^ image, input.shape().elements()))
            .map(|noise| noise.iter().map(|x| 30.0 * x).collect())
            .collect();
        let memory: Vec<_> = images.iter().map(|image| vec![blocked(&input, image, 7.0, 1e9)]).collect();
        let outputs = run_in_parts(parts, &output, &memory, &softmax, &[]);
        for (image, found) in images.iter().zip(&outputs) {
            let expected = meaning(model::Softmax { digit, logarithm }, [(&input, image)]).run();
            check_output(&output, found, &expected, if logarithm { 2e-5 } else { 2e-6 });
        }
    }

    #[test]
    fn gather_equals_its_reference(
        isa in isa(),
        (channels, runs) in runs(),
        (height, width) in (1..=5usize, 1..=5usize),
        (input_halo, output_halo) in (0..=2usize, 0..=2usize),
        (batch, parts, seed) in (1..=2usize, 1..=4usize, any::<u64>()),
    ) {
        let layout = |channels, halo| {
            BlockedLayout::new(isa, channels, height, width, halo).unwrap()
        };
        let inputs: Vec<_> = channels.iter().map(|&c| layout(c, input_halo)).collect();
        let output = layout(runs.iter().map(|run| run.count).sum(), output_halo);
        let spec = GatherSpec { inputs, output, runs };
        check_gather(isa, &spec, batch, parts, seed);
    }
}

fn check_gather(isa: Isa, spec: &GatherSpec, batch: usize, parts: usize, seed: u64) {
    let gather = Gather::new(isa, spec).unwrap();
    let images: Vec<Vec<Vec<f32>>> = (0..batch as u64)
        .map(|member| {
            let image = |(i, input): (usize, &BlockedLayout)| {
                noise(
                    seed ^ (9 + 10 * i as u64 + member),
                    input.shape().elements(),
                )
            };
            spec.inputs.iter().enumerate().map(image).collect()
        })
        .collect();
    let memory: Vec<Vec<Vec<f32>>> = images
        .iter()
        .map(|images| {
            let pairs = spec.inputs.iter().zip(images);
            pairs
                .map(|(input, image)| blocked(input, image, 7.0, 1e9))
                .collect()
        })
        .collect();
    let outputs = run_in_parts(parts, &spec.output, &memory, &gather, &[]);
    let meant = |run: &ChannelRun| model::ChannelRun {
        source: run.source as u8,
        first: run.first as u32,
        count: run.count as u32,
    };
    let runs: Vec<_> = spec.runs.iter().map(meant).collect();
    let meant = model::Gather { runs };
    for (images, found) in images.iter().zip(&outputs) {
        let expected = meaning(meant.clone(), spec.inputs.iter().zip(images)).run();
        check_output(&spec.output, found, &expected, 0.0);
    }
}

#[test]
fn comparisons_and_choices_have_their_answer_for_what_is_no_number() {
    let values = [
        0.0,
        -0.0,
        1.0,
        -2.5,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e-42,
    ];
    let pairs: Vec<(f32, f32)> = values
        .iter()
        .flat_map(|a| values.map(|b| (*a, b)))
        .collect();
    let same = |a: f32, b: f32| a == b || (a.is_nan() && b.is_nan());
    for isa in Isa::available() {
        let layout = BlockedLayout::new(isa, pairs.len(), 1, 1, 0).unwrap();
        let operands = [BinaryOperand::Tensor(layout); 2];
        for function in BinaryFunction::ALL {
            let spec = BinarySpec {
                function,
                operands,
                swapped: false,
                output: layout,
                activation: Activation::None,
            };
            let binary = Binary::new(isa, &spec).unwrap();
            let memory = [0, 1].map(|at| {
                let side = |pair: &(f32, f32)| if at == 0 { pair.0 } else { pair.1 };
                pairs.iter().map(side).collect::<Vec<f32>>()
            });
            let found = run_in_parts(1, &layout, &[memory.to_vec()], &binary, &[]);
            for (&(a, b), &found) in pairs.iter().zip(&found[0]) {
                let expected = function.of(a, b);
                assert!(
                    same(found, expected),
                    "{isa} {function:?}({a}, {b}) is {found}, not {expected}"
                );
            }
        }
        for function in [
            UnaryFunction::Absolute,
            UnaryFunction::Logarithm,
            UnaryFunction::Sign,
            UnaryFunction::Floor,
            UnaryFunction::Ceiling,
            UnaryFunction::Round,
            UnaryFunction::Truncate,
            UnaryFunction::Sine,
        ] {
            let layout = BlockedLayout::new(isa, values.len(), 1, 1, 0).unwrap();
            let unary = Unary::new(isa, function, layout, layout).unwrap();
            let memory = vec![vec![blocked(&layout, &values, 0.0, 0.0)]];
            let found = run_in_parts(1, &layout, &memory, &unary, &[]);
            for (&x, &found) in values.iter().zip(&found[0]) {
                let expected = function.of(x);
                assert!(
                    same(found, expected) || (found - expected).abs() < 1e-5 * expected.abs(),
                    "{isa} {function:?}({x}) is {found}, not {expected}"
                );
            }
        }
    }
}

/// Concatenations of whole and of broken blocks, and the channel shuffles of ShuffleNetV2.
#[test]
fn usual_gathers_equal_their_references() {
    let whole = |source, count| ChannelRun {
        source,
        first: 0,
        count,
    };
    let interleaved = |channels: usize| -> Vec<ChannelRun> {
        let one = |channel| {
            [0, 1].map(|source| ChannelRun {
                source,
                first: channel,
                count: 1,
            })
        };
        (0..channels).flat_map(one).collect()
    };
    let cases = [
        (
            vec![64, 128, 32, 32],
            vec![whole(0, 64), whole(1, 128), whole(2, 32), whole(3, 32)],
        ),
        (vec![24, 40], vec![whole(0, 24), whole(1, 40)]),
        (vec![58, 58], interleaved(58)),
        (vec![116, 116], interleaved(116)),
        (vec![232, 232], interleaved(232)),
    ];
    for isa in Isa::available() {
        for (channels, runs) in &cases {
            let layout = |channels, halo| BlockedLayout::new(isa, channels, 7, 5, halo).unwrap();
            let inputs: Vec<_> = channels.iter().map(|&c| layout(c, 0)).collect();
            let output = layout(runs.iter().map(|run| run.count).sum(), 1);
            let runs = runs.clone();
            check_gather(
                isa,
                &GatherSpec {
                    inputs,
                    output,
                    runs,
                },
                1,
                2,
                3,
            );
        }
    }
}

#[test]
fn unsound_gathers_and_products_are_refused_with_the_reason() {
    let isa = Isa::Scalar;
    let layout = |channels, height| BlockedLayout::new(isa, channels, height, 5, 0).unwrap();
    let gather = |count, channels, height| {
        let run = ChannelRun {
            source: 0,
            first: 3,
            count,
        };
        let spec = GatherSpec {
            inputs: vec![layout(8, 5)],
            output: layout(channels, height),
            runs: vec![run],
        };
        Gather::new(isa, &spec).err()
    };
    assert_eq!(gather(5, 5, 5), None);
    let what = "the end of a run of channels";
    let (found, limit) = (9, 8);
    assert_eq!(
        gather(6, 6, 5),
        Some(KernelError::TooLarge { what, found, limit })
    );
    let what = "the output's channels";
    let (found, expected) = (6, 5);
    assert_eq!(
        gather(5, 6, 5),
        Some(KernelError::Mismatch {
            what,
            found,
            expected
        })
    );
    let what = "the input's height";
    let (found, expected) = (5, 4);
    assert_eq!(
        gather(5, 5, 4),
        Some(KernelError::Mismatch {
            what,
            found,
            expected
        })
    );

    let spec = |operands| BinarySpec {
        function: BinaryFunction::Multiply,
        operands,
        swapped: false,
        output: layout(8, 5),
        activation: Activation::None,
    };
    let tensor = BinaryOperand::Tensor(layout(8, 5));
    let seven = BinaryOperand::Tensor(BlockedLayout::vector(isa, 7).unwrap());
    let what = "the operand's channels";
    let (found, expected) = (7, 8);
    let refused = Binary::new(isa, &spec([tensor, seven])).err();
    assert_eq!(
        refused,
        Some(KernelError::Mismatch {
            what,
            found,
            expected
        })
    );
    let haloed = BlockedLayout::new(isa, 8, 5, 5, 1).unwrap();
    for constants in [
        [tensor, BinaryOperand::Constant(haloed)],
        [BinaryOperand::Constant(layout(8, 5)); 2],
    ] {
        assert!(Binary::new(isa, &spec(constants)).is_err());
    }
}

#[test]
fn a_softmax_along_what_does_not_divide_the_axis_is_refused() {
    let layout = BlockedLayout::vector(Isa::Scalar, 12).unwrap();
    let refused = |axis, step, extent| {
        let spec = SoftmaxSpec {
            input: layout,
            output: layout,
            digit: Digit { axis, step, extent },
            logarithm: false,
        };
        Softmax::new(Isa::Scalar, &spec).is_err()
    };
    assert!(!refused(Axis::Channel, 2, 3));
    assert!(refused(Axis::Channel, 2, 4));
    assert!(refused(Axis::Channel, 0, 4));
    assert!(refused(Axis::Channel, 1 << 31, 1 << 31));
    assert!(refused(Axis::Row, 1, 2));
    assert!(refused(Axis::Repeat, 1, 1));
}
