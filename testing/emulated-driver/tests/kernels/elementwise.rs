//! Sums, products, picked channels.
use crate::buffer::Buffer;
use crate::error;
use crate::launch::launch;
use crate::tensor::{Tensor, pitch, shape};
use punctual_conformance::Alone;
use punctual_cuda_kernels::params::{Elementwise, Function, Gather, Operand, SOURCES_MAX};
use punctual_cuda_kernels::{Arguments, TensorView};
use punctual_model::{Binary, ChannelRun};
use punctual_types::{Activation, BinaryFunction, Random, UnaryFunction};

#[test]
fn sums_and_products_with_an_activation_that_is_not_zero_at_zero() {
    let of = shape(20, 5, 7);
    let activation = Activation::Sigmoid;
    for (function, broadcast) in [
        (BinaryFunction::Add, false),
        (BinaryFunction::Multiply, false),
        (BinaryFunction::Multiply, true),
        (BinaryFunction::Divide, false),
    ] {
        let mut random = Random::new(6);
        let (mut input, inputs) = Tensor::random(of, 3, &mut random);
        let of_other = if broadcast { shape(20, 1, 1) } else { of };
        let (mut other, others) = Tensor::random(of_other, 3, &mut random);
        let mut output = Tensor::unwritten(of, 3);
        let operand = |view: TensorView, repeated: bool| Operand {
            address: view.address,
            image: view.height * view.width * view.pitch,
            row: if repeated { 0 } else { view.width * view.pitch },
            column: if repeated { 0 } else { view.pitch },
            channel: 1,
            ..Operand::default()
        };
        launch(
            "elementwise",
            Arguments::Elementwise(Elementwise {
                output: output.view(),
                first: operand(input.view(), false),
                second: operand(other.view(), broadcast),
                images: 3,
                function: Function::from(function) as u32,
                epilogue: activation.into(),
            }),
        );
        for ((found, input), other) in output.planar().iter().zip(&inputs).zip(&others) {
            let meant = Binary {
                activation,
                ..Binary::new(function)
            };
            let alone = Alone::new(meant).reads(of.sides(), input);
            let expected = alone.reads(of_other.sides(), other).run();
            error::check(
                "elementwise",
                found,
                &expected,
                1,
                &vec![2.0; expected.len()],
            );
        }
    }
}

/// Compares a function on three images of 20 x 5 x 7 values.
fn check_function(function: Function, of_pair: impl Fn(f32, f32) -> f32) {
    let of = shape(20, 5, 7);
    let mut random = Random::new(9);
    let (mut first, firsts) = Tensor::random(of, 3, &mut random);
    let (mut second, seconds) = Tensor::random(of, 3, &mut random);
    let mut output = Tensor::unwritten(of, 3);
    let operand = |view: TensorView| Operand {
        address: view.address,
        image: view.height * view.width * view.pitch,
        row: view.width * view.pitch,
        column: view.pitch,
        channel: 1,
        ..Operand::default()
    };
    launch(
        function.kernel(),
        Arguments::Elementwise(Elementwise {
            output: output.view(),
            first: operand(first.view()),
            second: operand(second.view()),
            images: 3,
            function: function as u32,
            ..Elementwise::default()
        }),
    );
    for ((found, first), second) in output.planar().iter().zip(&firsts).zip(&seconds) {
        for ((&found, &a), &b) in found.iter().zip(first).zip(second) {
            let expected = of_pair(a, b);
            let near = (found - expected).abs() <= 6e-4 * expected.abs().max(1.0);
            let both_none = found.is_nan() && expected.is_nan();
            // Values beyond a half's range become infinite.
            let beyond = found.is_infinite() && expected.abs() >= 65504.0;
            assert!(
                near || both_none || beyond,
                "{function:?} of {a} and {b}: {found} instead of {expected}"
            );
        }
    }
}

#[test]
fn every_function_of_one_value_and_of_two() {
    for function in BinaryFunction::ALL {
        check_function(function.into(), |a, b| function.of(a, b));
    }
    for function in UnaryFunction::ALL {
        check_function(function.into(), |a, _| function.of(a));
    }
}

fn check_gather(channels: &[usize], runs: &[ChannelRun]) {
    let mut random = Random::new(8);
    let mut tensors: Vec<_> = channels
        .iter()
        .map(|&channels| Tensor::random(shape(channels, 3, 5), 2, &mut random))
        .collect();
    let picked = || {
        let entries = |run: &ChannelRun| {
            let source = u32::from(run.source);
            (run.first..run.first + run.count).map(move |channel| source << 24 | channel)
        };
        runs.iter().flat_map(entries)
    };
    let mut table = Buffer::of_u32(&picked().collect::<Vec<u32>>());
    let mut output = Tensor::unwritten(shape(picked().count(), 3, 5), 2);
    let mut params = Gather {
        output: output.view(),
        table: table.address(),
        sources: [0; SOURCES_MAX],
        pitches: [0; SOURCES_MAX],
        images: 2,
        gap: 0,
    };
    for (at, (tensor, _)) in tensors.iter_mut().enumerate() {
        params.sources[at] = tensor.buffer.address();
        params.pitches[at] = pitch(tensor.shape) as u32;
    }
    launch("gather", Arguments::Gather(params));
    for (image, found) in output.planar().iter().enumerate() {
        let meant = Alone::new(punctual_model::Gather {
            runs: runs.to_vec(),
        });
        let meant = tensors.iter().fold(meant, |meant, (tensor, images)| {
            meant.reads(tensor.shape.sides(), &images[image])
        });
        assert_eq!(*found, meant.run(), "{runs:?}");
    }
}

const fn run(source: u8, first: u32, count: u32) -> ChannelRun {
    ChannelRun {
        source,
        first,
        count,
    }
}

#[test]
fn concatenations_slices_and_shuffles() {
    check_gather(&[16, 24], &[run(0, 0, 16), run(1, 0, 24)]);
    check_gather(&[20, 9, 5], &[run(0, 0, 20), run(1, 0, 9), run(2, 0, 5)]);
    check_gather(&[40], &[run(0, 13, 19)]);
    let shuffled: Vec<ChannelRun> = (0..23).flat_map(|c| [run(0, c, 1), run(1, c, 1)]).collect();
    check_gather(&[23, 23], &shuffled);
}
