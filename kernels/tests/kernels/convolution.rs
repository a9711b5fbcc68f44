//! Convolutions and fully connected layers equal their references on every instruction set.

use crate::support::convolution::{Case, case};
use crate::support::{
    blocked, by_parts, check_output, fits, isa, meaning, noise, run_in_parts, tolerance,
};
use proptest::prelude::*;
use punctual_kernels::{
    BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Isa, Kernel, Linear, LinearSpec, Solution,
    Weights, Winograd,
};
use punctual_model as model;
use punctual_types::{Activation, Extent, Padding, Window};

fn check_case(case: &Case, tolerance: f32) {
    let spec = case.spec();
    let conv = Conv2d::new(case.isa, &spec).unwrap();
    let packed = conv
        .packed(&Weights::floats(&[&case.weights(), &case.bias()]))
        .unwrap();
    let outputs = run_in_parts(case.parts, &spec.output, &case.memory(), &conv, &packed);
    for (member, output) in outputs.iter().enumerate() {
        check_output(&spec.output, output, &case.reference(member), tolerance);
    }
}

proptest! {
    #![proptest_config(crate::support::cases(800))]

    #[test]
    fn convolution_equals_its_reference(case in case()) {
        check_case(&case, case.tolerance());
    }

    #[test]
    fn answers_do_not_depend_on_the_batch_or_the_parts(case in case()) {
        let spec = case.spec();
        let conv = Conv2d::new(case.isa, &spec).unwrap();
        let packed = conv.packed(&Weights::floats(&[&case.weights(), &case.bias()])).unwrap();
        let memory = case.memory();
        let together = run_in_parts(case.parts, &spec.output, &memory, &conv, &packed);
        for (member, output) in together.iter().enumerate() {
            let alone = run_in_parts(1, &spec.output, &memory[member..=member], &conv, &packed);
            prop_assert_eq!(output, &alone[0], "bit for bit");
        }
    }

    #[test]
    fn fully_connected_layer_equals_its_reference(
        isa in isa(),
        (channels, height, width, halo) in (1..=70usize, 1..=4usize, 1..=4usize, 0..=2usize),
        features in 1..=70usize,
        activation in crate::support::activation(),
        (batch, parts, seed) in (1..=3usize, 1..=3usize, any::<u64>()),
    ) {
        let input = BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let output = BlockedLayout::vector(isa, features).unwrap();
        let elements = channels * height * width;
        let (weights, bias) = (noise(seed, features * elements), noise(seed ^ 1, features));
        let spec = LinearSpec { input, output, activation };
        let linear = Linear::new(isa, &spec).unwrap();
        let packed = linear.packed(&Weights::floats(&[&weights, &bias])).unwrap();
        let images: Vec<_> = (0..batch as u64).map(|i| noise(seed ^ (9 + i), elements)).collect();
        let memory: Vec<_> =
            images.iter().map(|image| (blocked(&input, image, 7.0, f32::NAN), None)).collect();
        let outputs = run_in_parts(parts, &output, &memory, &linear, &packed);
        for (image, found) in images.iter().zip(&outputs) {
            let meant = meaning(model::Linear { activation }, [(&input, image)]);
            let expected = meant.weights(&weights).weights(&bias).run();
            check_output(&output, found, &expected, tolerance(elements));
            prop_assert_eq!(found[..features].len(), expected.len(), "features come first");
        }
    }
}

/// The shapes that fast paths are made for, which random sizes seldom hit.
#[test]
fn usual_network_shapes_equal_their_references() {
    let sizes = [
        (3, 16, 64),
        (16, 16, 32),
        (16, 48, 14),
        (32, 32, 16),
        (64, 80, 8),
        (48, 96, 7),
    ];
    for isa in Isa::available() {
        for (inputs, outputs, side) in sizes {
            for (kernel, stride) in [(3, 1), (3, 2), (1, 1), (1, 2)] {
                let case = Case {
                    isa,
                    planar: inputs == 3,
                    inputs,
                    outputs,
                    groups: 1,
                    height: side,
                    width: side,
                    window: Window::new(
                        Extent::square(kernel),
                        Extent::square(stride),
                        Padding::uniform(kernel / 2),
                    ),
                    extra_halo: 0,
                    narrow: false,
                    output_halo: 1,
                    residual_halo: Some(1),
                    activation: Activation::Relu,
                    batch: 1,
                    parts: 2,
                    seed: 5,
                };
                check_case(&case, case.tolerance());
            }
        }
    }
}

/// One running sum of `INPUTS` products is off by 8e-5; sums of 512 of them, as of a window of one pixel, by less than 3e-5.
#[test]
fn a_long_sum_rounds_less_than_a_running_one() {
    const INPUTS: usize = 4096;
    for isa in Isa::available() {
        let case = Case {
            isa,
            planar: false,
            inputs: INPUTS,
            outputs: 32,
            groups: 1,
            height: 1,
            width: 4,
            window: Window::new(Extent::square(1), Extent::square(1), Padding::uniform(0)),
            extra_halo: 0,
            narrow: false,
            output_halo: 0,
            residual_halo: None,
            activation: Activation::None,
            batch: 1,
            parts: 1,
            seed: 5,
        };
        check_case(&case, 3e-5);
    }
}

#[test]
fn a_nan_in_the_input_is_not_hidden_by_an_activation() {
    for isa in Isa::available() {
        let layout = BlockedLayout::new(isa, 8, 6, 6, 1).unwrap();
        let spec = Conv2dSpec {
            input: ConvInput::Blocked(layout),
            output: layout,
            residual: None,
            window: Window::new(Extent::square(3), Extent::square(1), Padding::uniform(1)),
            groups: 1,
            activation: Activation::Clip {
                low: 0.0,
                high: 6.0,
            },
        };
        let conv = Conv2d::new(isa, &spec).unwrap();
        let packed = conv
            .packed(&Weights::floats(&[&[0.5; 8 * 8 * 9], &[0.0; 8]]))
            .unwrap();
        let mut input = vec![0.0; layout.len()];
        input[layout.index(0, 0, 0)] = f32::NAN;
        let output = run_in_parts(1, &layout, &[(input, None)], &conv, &packed);
        assert!(output[0][layout.index(0, 0, 0)].is_nan());
        assert_eq!(output[0][layout.index(0, 5, 5)], 0.0);
    }
}

/// Winograd's solutions of one convolution, and how much further from the reference they may be than its tolerance.
fn winograds(conv: &Conv2d) -> impl Iterator<Item = (Winograd, f32)> {
    [(Solution::Winograd2, 4.0), (Solution::Winograd4, 16.0)]
        .into_iter()
        .filter_map(|(solution, factor)| Some((conv.specialised(solution)?, factor)))
}

fn run_winograd(
    conv: &Conv2d,
    winograd: &Winograd,
    packed: &[f32],
    case: &Case,
    parts: usize,
    memory: &[(Vec<f32>, Option<Vec<f32>>)],
) -> Vec<Vec<f32>> {
    let mut own = vec![f32::NAN; winograd.own_len()];
    winograd.prepare(packed, &mut own);
    let scratch = std::cell::RefCell::new(vec![f32::NAN; winograd.scratch_len(memory.len())]);
    assert_eq!(conv.spec(), &case.spec());
    by_parts(parts, &case.spec().output, memory, |part, images| {
        winograd.run(&own, part, images, &mut scratch.borrow_mut());
    })
}

proptest! {
    #![proptest_config(crate::support::cases(400))]

    #[test]
    fn winograd_equals_the_reference_whatever_the_batch_and_the_parts(mut case in case()) {
        case.window.kernel = Extent::square(3);
        case.window.stride = Extent::square(1);
        case.window.dilation = Extent::square(1);
        // One channel to one is depthwise.
        case.inputs = (case.inputs / case.groups).max(2);
        case.outputs /= case.groups;
        case.groups = 1;
        case.planar = false;
        prop_assume!(fits(&case.window, case.height, case.width));
        let spec = case.spec();
        let conv = Conv2d::new(case.isa, &spec).unwrap();
        let packed = conv.packed(&Weights::floats(&[&case.weights(), &case.bias()])).unwrap();
        let memory = case.memory();
        prop_assert_eq!(winograds(&conv).count(), 2);
        for (winograd, factor) in winograds(&conv) {
            let together = run_winograd(&conv, &winograd, &packed, &case, case.parts, &memory);
            for (member, output) in together.iter().enumerate() {
                let tolerance = factor * case.tolerance();
                check_output(&spec.output, output, &case.reference(member), tolerance);
                let alone = run_winograd(
                    &conv, &winograd, &packed, &case, 1, &memory[member..=member],
                );
                prop_assert_eq!(output, &alone[0], "bit for bit");
            }
        }
    }
}
