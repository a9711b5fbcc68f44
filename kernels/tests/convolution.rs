//! Convolutions and fully connected layers equal their references on every instruction set.

mod support;

use proptest::prelude::*;
use punctual_kernels::{
    Activation, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Extent, Isa, KernelError, Linear,
    LinearSpec, Padding, Part, PlanarLayout, Window, reference,
};
use support::{blocked, check_output, isa, noise, run_in_parts, shape, tolerance};

/// A convolution to try.
#[derive(Clone, Debug)]
struct Case {
    isa: Isa,
    planar: bool,
    inputs: usize,
    outputs: usize,
    groups: usize,
    height: usize,
    width: usize,
    window: Window,
    /// Beyond what the padding needs.
    extra_halo: usize,
    output_halo: usize,
    residual_halo: Option<usize>,
    activation: Activation,
    batch: usize,
    parts: usize,
    seed: u64,
}

fn window() -> impl Strategy<Value = Window> {
    let kernel = (1..=5usize, 1..=5usize);
    (
        kernel,
        (1..=3usize, 1..=3usize),
        (0..=2usize, 0..=2usize, 0..=2usize, 0..=2usize),
    )
        .prop_map(|(kernel, stride, (top, left, bottom, right))| Window {
            kernel: Extent {
                height: kernel.0,
                width: kernel.1,
            },
            stride: Extent {
                height: stride.0,
                width: stride.1,
            },
            padding: Padding {
                top,
                left,
                bottom,
                right,
            },
        })
}

/// The windows that networks use.
fn usual_window() -> impl Strategy<Value = Window> {
    (prop::sample::select(vec![1usize, 3]), 1..=2usize).prop_map(|(kernel, stride)| Window {
        kernel: Extent::square(kernel),
        stride: Extent::square(stride),
        padding: Padding::uniform(kernel / 2),
    })
}

/// Groups, and channels in and out of each: dense, depthwise, anything.
fn channels() -> impl Strategy<Value = (usize, usize, usize)> {
    prop_oneof![
        3 => (Just(1usize), 1..=40usize, 1..=70usize),
        1 => (1..=40usize, Just(1usize), Just(1usize)),
        1 => (2..=6usize, 1..=9usize, 1..=9usize),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let halos = (0..=1usize, 0..=2usize, prop::option::of(0..=2usize));
    let image = (channels(), 1..=19usize, 1..=19usize);
    let rest = (support::activation(), 1..=3usize, 1..=4usize, any::<u64>());
    (
        isa(),
        any::<bool>(),
        image,
        prop_oneof![window(), usual_window()],
        halos,
        rest,
    )
        .prop_filter_map(
            "the window fits",
            |(isa, planar, image, window, halos, rest)| {
                let ((groups, inputs, outputs), height, width) = image;
                window.output_extent(height, width).ok()?;
                Some(Case {
                    isa,
                    planar,
                    inputs: inputs * groups,
                    outputs: outputs * groups,
                    groups,
                    height,
                    width,
                    window,
                    extra_halo: halos.0,
                    output_halo: halos.1,
                    residual_halo: halos.2,
                    activation: rest.0,
                    batch: rest.1,
                    parts: rest.2,
                    seed: rest.3,
                })
            },
        )
}

impl Case {
    fn spec(&self) -> Conv2dSpec {
        let Case {
            isa,
            inputs,
            height,
            width,
            ..
        } = *self;
        let halo = self.window.padding.largest() + self.extra_halo;
        let input = if self.planar {
            PlanarLayout::new(inputs, height, width, halo).map(ConvInput::Planar)
        } else {
            BlockedLayout::new(isa, inputs, height, width, halo).map(ConvInput::Blocked)
        };
        let extent = self.window.output_extent(height, width).unwrap();
        let output = |halo| {
            BlockedLayout::new(isa, self.outputs, extent.height, extent.width, halo).unwrap()
        };
        Conv2dSpec {
            input: input.unwrap(),
            output: output(self.output_halo),
            residual: self.residual_halo.map(output),
            window: self.window,
            groups: self.groups,
            activation: self.activation,
        }
    }

    fn weights(&self) -> Vec<f32> {
        let Extent { height, width } = self.window.kernel;
        noise(
            self.seed ^ 1,
            self.outputs * self.inputs / self.groups * height * width,
        )
    }

    fn bias(&self) -> Vec<f32> {
        noise(self.seed ^ 2, self.outputs)
    }

    fn input_image(&self, member: usize) -> Vec<f32> {
        noise(
            self.seed ^ (100 + member as u64),
            self.inputs * self.height * self.width,
        )
    }

    fn residual_image(&self, member: usize) -> Option<Vec<f32>> {
        let elements = self.spec().output.shape().elements();
        self.residual_halo
            .map(|_| noise(self.seed ^ (200 + member as u64), elements))
    }

    /// The batch in memory. Surplus lanes hold values that must not count.
    fn memory(&self) -> Vec<(Vec<f32>, Option<Vec<f32>>)> {
        let spec = self.spec();
        (0..self.batch)
            .map(|member| {
                let image = self.input_image(member);
                let input = match &spec.input {
                    ConvInput::Blocked(layout) => blocked(layout, &image, 7.0, 0.0),
                    ConvInput::Planar(layout) => planar(layout, &image),
                };
                let residual = self
                    .residual_image(member)
                    .map(|image| blocked(&spec.residual.unwrap(), &image, 7.0, f32::NAN));
                (input, residual)
            })
            .collect()
    }

    fn reference(&self, member: usize) -> Vec<f32> {
        reference::conv2d(
            shape(self.inputs, self.height, self.width),
            &self.window,
            self.groups,
            self.activation,
            &self.weights(),
            &self.bias(),
            &self.input_image(member),
            self.residual_image(member).as_deref(),
        )
    }

    fn tolerance(&self) -> f32 {
        let Extent { height, width } = self.window.kernel;
        tolerance(self.inputs / self.groups * height * width)
    }
}

fn planar(layout: &PlanarLayout, image: &[f32]) -> Vec<f32> {
    let mut memory = vec![0.0; layout.len()];
    for (i, &value) in image.iter().enumerate() {
        let (row, column) = (i / layout.width() % layout.height(), i % layout.width());
        memory[layout.index(i / layout.width() / layout.height(), row, column)] = value;
    }
    memory
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn convolution_equals_its_reference(case in case()) {
        let spec = case.spec();
        let conv = Conv2d::new(case.isa, &spec, &case.weights(), &case.bias()).unwrap();
        let outputs = run_in_parts(case.parts, &spec.output, &case.memory(), |part, images| {
            conv.run(part, images);
        });
        for (member, output) in outputs.iter().enumerate() {
            check_output(&spec.output, output, &case.reference(member), case.tolerance());
        }
    }

    #[test]
    fn answers_do_not_depend_on_the_batch_or_the_parts(case in case()) {
        let spec = case.spec();
        let conv = Conv2d::new(case.isa, &spec, &case.weights(), &case.bias()).unwrap();
        let memory = case.memory();
        let run = |part: Part, images: &mut [punctual_kernels::Image<'_>]| conv.run(part, images);
        let together = run_in_parts(case.parts, &spec.output, &memory, run);
        for (member, output) in together.iter().enumerate() {
            let alone = run_in_parts(1, &spec.output, &memory[member..=member], run);
            prop_assert_eq!(output, &alone[0], "bit for bit");
        }
    }

    #[test]
    fn fully_connected_layer_equals_its_reference(
        isa in isa(),
        (channels, height, width, halo) in (1..=70usize, 1..=4usize, 1..=4usize, 0..=2usize),
        features in 1..=70usize,
        activation in support::activation(),
        (batch, parts, seed) in (1..=3usize, 1..=3usize, any::<u64>()),
    ) {
        let input = BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let output = BlockedLayout::vector(isa, features).unwrap();
        let elements = channels * height * width;
        let (weights, bias) = (noise(seed, features * elements), noise(seed ^ 1, features));
        let spec = LinearSpec { input, output, activation };
        let linear = Linear::new(isa, &spec, &weights, &bias).unwrap();
        let images: Vec<_> = (0..batch as u64).map(|i| noise(seed ^ (9 + i), elements)).collect();
        let memory: Vec<_> =
            images.iter().map(|image| (blocked(&input, image, 7.0, f32::NAN), None)).collect();
        let outputs = run_in_parts(parts, &output, &memory, |part, images| linear.run(part, images));
        for (image, found) in images.iter().zip(&outputs) {
            let expected = reference::linear(activation, &weights, &bias, image);
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
                    window: Window {
                        kernel: Extent::square(kernel),
                        stride: Extent::square(stride),
                        padding: Padding::uniform(kernel / 2),
                    },
                    extra_halo: 0,
                    output_halo: 1,
                    residual_halo: Some(1),
                    activation: Activation::Relu,
                    batch: 1,
                    parts: 2,
                    seed: 5,
                };
                let spec = case.spec();
                let conv = Conv2d::new(isa, &spec, &case.weights(), &case.bias()).unwrap();
                let run = |part: Part, images: &mut [punctual_kernels::Image<'_>]| {
                    conv.run(part, images);
                };
                let outputs = run_in_parts(case.parts, &spec.output, &case.memory(), run);
                check_output(
                    &spec.output,
                    &outputs[0],
                    &case.reference(0),
                    case.tolerance(),
                );
            }
        }
    }
}

fn sound() -> (Isa, Conv2dSpec) {
    let isa = Isa::Scalar;
    let layout = BlockedLayout::new(isa, 8, 6, 6, 1).unwrap();
    let window = Window {
        kernel: Extent::square(3),
        stride: Extent::square(1),
        padding: Padding::uniform(1),
    };
    let spec = Conv2dSpec {
        input: ConvInput::Blocked(layout),
        output: layout,
        residual: None,
        window,
        groups: 1,
        activation: Activation::None,
    };
    (isa, spec)
}

#[test]
fn a_nan_in_the_input_is_not_hidden_by_an_activation() {
    let (_, mut spec) = sound();
    spec.activation = Activation::Clip {
        low: 0.0,
        high: 6.0,
    };
    for isa in Isa::available() {
        let layout = BlockedLayout::new(isa, 8, 6, 6, 1).unwrap();
        spec.input = ConvInput::Blocked(layout);
        spec.output = layout;
        let conv = Conv2d::new(isa, &spec, &[0.5; 8 * 8 * 9], &[0.0; 8]).unwrap();
        let mut input = vec![0.0; layout.len()];
        input[layout.index(0, 0, 0)] = f32::NAN;
        let run = |part: Part, images: &mut [punctual_kernels::Image<'_>]| conv.run(part, images);
        let output = run_in_parts(1, &layout, &[(input, None)], run);
        assert!(output[0][layout.index(0, 0, 0)].is_nan());
        assert_eq!(output[0][layout.index(0, 5, 5)], 0.0);
    }
}

#[test]
fn unsound_convolutions_are_refused_with_the_reason() {
    let (isa, spec) = sound();
    let (weights, bias) = (vec![0.5; 8 * 8 * 9], vec![0.0; 8]);
    let make = |spec: &Conv2dSpec| Conv2d::new(isa, spec, &weights, &bias).err();
    assert_eq!(make(&spec), None);

    let padding = Padding::uniform(2);
    let padded = Conv2dSpec {
        window: Window {
            padding,
            ..spec.window
        },
        ..spec
    };
    assert_eq!(
        make(&padded),
        Some(KernelError::HaloTooSmall {
            padding: 2,
            halo: 1
        })
    );

    let stride = Extent::square(2);
    let strided = Conv2dSpec {
        window: Window {
            stride,
            ..spec.window
        },
        ..spec
    };
    let what = "the output's height";
    assert_eq!(
        make(&strided),
        Some(KernelError::Mismatch {
            what,
            found: 6,
            expected: 3
        })
    );

    let stride = Extent {
        height: 1,
        width: 0,
    };
    let still = Conv2dSpec {
        window: Window {
            stride,
            ..spec.window
        },
        ..spec
    };
    assert_eq!(make(&still), Some(KernelError::Zero { what: "stride" }));

    let kernel = Extent::square(9);
    let large = Conv2dSpec {
        window: Window {
            kernel,
            ..spec.window
        },
        ..spec
    };
    let what = "kernel height";
    assert_eq!(
        make(&large),
        Some(KernelError::WindowTooLarge {
            what,
            window: 9,
            padded: 8
        })
    );

    let grouped = Conv2dSpec { groups: 3, ..spec };
    assert_eq!(
        make(&grouped),
        Some(KernelError::Groups {
            groups: 3,
            inputs: 8,
            outputs: 8
        })
    );

    let residual = BlockedLayout::new(isa, 7, 6, 6, 0).ok();
    let other = Conv2dSpec { residual, ..spec };
    let what = "the addend's channels";
    assert_eq!(
        make(&other),
        Some(KernelError::Mismatch {
            what,
            found: 7,
            expected: 8
        })
    );

    let activation = Activation::Clip {
        low: 1.0,
        high: 0.0,
    };
    let clipped = Conv2dSpec { activation, ..spec };
    assert_eq!(
        make(&clipped),
        Some(KernelError::ClipBounds {
            low: 1.0,
            high: 0.0
        })
    );

    let few = Conv2d::new(isa, &spec, &weights[1..], &bias).err();
    let what = "the number of weights";
    assert_eq!(
        few,
        Some(KernelError::Mismatch {
            what,
            found: 575,
            expected: 576
        })
    );

    let infinite = Conv2d::new(isa, &spec, &weights, &[f32::INFINITY; 8]).err();
    let value = f32::INFINITY;
    assert_eq!(
        infinite,
        Some(KernelError::NotFinite {
            what: "bias",
            index: 0,
            value
        })
    );
}

#[test]
fn layouts_of_another_instruction_set_are_refused() {
    let (_, spec) = sound();
    for isa in Isa::available().filter(|isa| isa.lanes() != Isa::Scalar.lanes()) {
        let made = Conv2d::new(isa, &spec, &[0.5; 8 * 8 * 9], &[0.0; 8]).err();
        assert_eq!(
            made,
            Some(KernelError::LanesDiffer {
                tensor: "input",
                found: 4,
                isa
            })
        );
    }
}

#[test]
fn instruction_sets_that_the_machine_lacks_are_refused() {
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let layout = BlockedLayout::new(isa, 8, 6, 6, 1).unwrap();
        let spec = Conv2dSpec {
            input: ConvInput::Blocked(layout),
            output: layout,
            ..sound().1
        };
        let made = Conv2d::new(isa, &spec, &[0.5; 8 * 8 * 9], &[0.0; 8]).err();
        assert_eq!(made, Some(KernelError::IsaUnavailable { isa }));
    }
}

#[test]
#[should_panic(expected = "the input is the whole tensor")]
fn a_short_input_is_the_callers_error() {
    let (isa, spec) = sound();
    let conv = Conv2d::new(isa, &spec, &[0.5; 8 * 8 * 9], &[0.0; 8]).unwrap();
    let memory = [(vec![0.0; spec.input.len() - 1], None)];
    run_in_parts(1, &spec.output, &memory, |part, images| {
        conv.run(part, images)
    });
}
