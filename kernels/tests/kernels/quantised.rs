//! Operators on bytes equal their references to the last bit: any shapes, halos, parts and batches.

use crate::support::{cases, fits, isa, noise, shape};
use proptest::prelude::*;
use punctual_conformance::Alone;
use punctual_kernels::quantised::{self, Convert, ConvertSpec};
use punctual_kernels::{
    BlockedLayout, ConvInput, Image, Inputs, Isa, Kernel, Part, PlanarLayout, PoolSpec, Weights,
};
use punctual_model as model;
use punctual_types::{Activation, BinaryFunction, Extent, Padding, PoolKind, Quantisation, Window};

/// Bytes that follow from `seed`.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let byte = |value: f32| ((value + 1.0) * 128.0) as u8;
    noise(seed, len).into_iter().map(byte).collect()
}

fn quantisation() -> impl Strategy<Value = Quantisation> {
    let zero = prop_oneof![Just(0), Just(128), Just(255), any::<u8>()];
    (0.001..0.5_f32, zero).prop_map(|(scale, zero)| Quantisation { scale, zero })
}

fn clip() -> impl Strategy<Value = Activation> {
    let six = Activation::Clip {
        low: 0.0,
        high: 6.0,
    };
    prop::sample::select(vec![Activation::None, Activation::Relu, six])
}

fn window() -> impl Strategy<Value = Window> {
    let sides = (1..=4u32, 1..=4u32, 1..=3u32, 1..=3u32);
    let padding = (0..=2u32, 0..=2u32, 0..=2u32, 0..=2u32);
    (sides, padding).prop_map(|((height, width, down, along), padding)| {
        Window::new(
            Extent { height, width },
            Extent {
                height: down,
                width: along,
            },
            Padding {
                top: padding.0.min(height - 1),
                left: padding.1.min(width - 1),
                bottom: padding.2.min(height - 1),
                right: padding.3.min(width - 1),
            },
        )
    })
}

/// As any, its elements apart.
fn dilated_window() -> impl Strategy<Value = Window> {
    (window(), 1..=3u32, 1..=3u32).prop_map(|(window, height, width)| Window {
        dilation: Extent { height, width },
        ..window
    })
}

/// A tensor of bytes in memory, with `surplus` wherever no value and no halo is.
fn packed(layout: &BlockedLayout, image: &[u8], surplus: u8) -> Vec<f32> {
    let mut memory = vec![f32::from_ne_bytes([surplus; 4]); layout.len()];
    layout.pack_bytes(image, &mut memory);
    memory
}

fn layout(isa: Isa, sizes: (usize, usize, usize), halo: usize) -> BlockedLayout {
    BlockedLayout::new(isa, sizes.0, sizes.1, sizes.2, halo).unwrap()
}

/// Runs a kernel in parts for one image and returns the whole memory of its output.
fn in_parts(
    output: &BlockedLayout,
    inputs: &[&[f32]],
    parts: usize,
    mut run: impl FnMut(Part, &mut [Image<'_>]),
) -> Vec<f32> {
    // A pattern that no kernel writes everywhere, so that what is left out shows.
    let mut memory = vec![f32::from_ne_bytes([0x5a; 4]); output.len()];
    for index in 0..parts {
        let part = Part::new(index, parts);
        let mut image = [Image {
            inputs: Inputs::new(inputs.iter().copied()),
            output: &mut memory[output.part(part)],
        }];
        run(part, &mut image);
    }
    memory
}

/// The image in `memory`, whose halo must be all zero points.
fn unpacked(layout: &BlockedLayout, memory: &[f32]) -> Vec<u8> {
    let mut image = vec![0; layout.shape().elements()];
    layout.unpack_bytes(memory, &mut image);
    let mut again = memory.to_vec();
    layout.pack_bytes(&image, &mut again);
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
    assert!(memory.iter().zip(&again).all(same), "the halo");
    image
}

#[derive(Clone, Debug)]
struct Case {
    isa: Isa,
    groups: usize,
    inputs: usize,
    outputs: usize,
    height: usize,
    width: usize,
    window: Window,
    halos: (usize, usize),
    from: Quantisation,
    to: Option<Quantisation>,
    activation: Activation,
    parts: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let channels = prop_oneof![
        3 => (Just(1usize), 1..=40usize, 1..=70usize),
        2 => (1..=40usize, Just(1usize), Just(1usize)),
        1 => (2..=6usize, 1..=9usize, 1..=9usize),
    ];
    let image = (channels, 1..=19usize, 1..=19usize, dilated_window());
    let values = (quantisation(), prop::option::of(quantisation()), clip());
    let rest = (isa(), (0..=1usize, 0..=2usize), 1..=4usize, any::<u64>());
    (image, values, rest).prop_filter_map("the window fits", |(image, values, rest)| {
        let ((groups, inputs, outputs), height, width, window) = image;
        fits(&window, height, width).then_some(())?;
        Some(Case {
            isa: rest.0,
            groups,
            inputs: inputs * groups,
            outputs: outputs * groups,
            height,
            width,
            window,
            halos: rest.1,
            from: values.0,
            to: values.1,
            activation: values.2,
            parts: rest.2,
            seed: rest.3,
        })
    })
}

impl Case {
    fn check(&self) {
        let Case {
            isa,
            groups,
            inputs,
            outputs,
            height,
            width,
            window,
            halos,
            from,
            to,
            activation,
            parts,
            seed,
        } = *self;
        let image = shape(inputs, height, width);
        let result = image.windowed(&window, outputs).unwrap();
        let halo = window.padding.largest() + halos.0;
        let input = layout(isa, (inputs, height, width), halo);
        let output = layout(isa, (outputs, result.height, result.width), halos.1);
        let spec = quantised::Conv2dSpec {
            input: input.quantised(from).unwrap(),
            output: match to {
                Some(to) => output.quantised(to).unwrap(),
                None => output,
            },
            window,
            groups,
            activation,
        };
        let kernel = quantised::Conv2d::new(isa, &spec).unwrap();
        let taps = window.kernel.area();
        let weights: Vec<i8> = bytes(seed ^ 1, outputs * (inputs / groups) * taps)
            .into_iter()
            .map(u8::cast_signed)
            .collect();
        let scales: Vec<f32> = noise(seed ^ 2, outputs)
            .iter()
            .map(|x| 0.01 + x.abs() * 0.01)
            .collect();
        let bias: Vec<f32> = noise(seed ^ 3, outputs).iter().map(|x| x * 10.0).collect();
        let image = bytes(seed ^ 4, inputs * height * width);
        let memory = packed(&spec.input, &image, 201);
        let packed = kernel
            .packed(&Weights {
                floats: &[&scales, &bias],
                integers: &[&weights],
            })
            .unwrap();
        let result = in_parts(&spec.output, &[&memory], parts, |part, images| {
            kernel.run(&packed, part, images);
        });
        let meant = model::QuantisedConv2d {
            window,
            groups: groups as u32,
            activation,
        };
        let meant = Alone::new(meant).reads_bytes(input.shape().sides(), from, &image);
        let meant = meant.integers(&weights).weights(&scales).weights(&bias);
        match to {
            Some(to) => assert_eq!(unpacked(&spec.output, &result), meant.run_to_bytes(to)),
            None => {
                let mut image = vec![0.0; output.shape().elements()];
                output.unpack(&result, &mut image);
                assert_eq!(image, meant.run());
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_convolution_of_bytes_equals_the_reference_to_the_last_bit(case in case()) {
        case.check();
    }

    #[test]
    fn an_addition_of_bytes_equals_the_reference_to_the_last_bit(
        isa in isa(),
        sizes in (1..=40usize, 1..=9usize, 1..=9usize),
        halos in (0..=1usize, 0..=1usize, 0..=1usize),
        of in (quantisation(), quantisation(), quantisation()),
        activation in clip(),
        parts in 1..=4usize,
        seed in any::<u64>(),
    ) {
        let layout = |halo, of| layout(isa, sizes, halo).quantised(of).unwrap();
        let spec = quantised::AddSpec {
            input: layout(halos.0, of.0),
            addend: layout(halos.1, of.1),
            output: layout(halos.2, of.2),
            activation,
        };
        let elements = sizes.0 * sizes.1 * sizes.2;
        let (a, b) = (bytes(seed, elements), bytes(seed ^ 1, elements));
        let memory = [packed(&spec.input, &a, 77), packed(&spec.addend, &b, 99)];
        let kernel = quantised::Add::new(isa, &spec).unwrap();
        let result = in_parts(&spec.output, &[&memory[0], &memory[1]], parts, |part, images| {
            kernel.run(&[], part, images);
        });
        let meant = model::Binary { activation, ..model::Binary::new(BinaryFunction::Add) };
        let sides = spec.output.shape().sides();
        let meant = Alone::new(meant).reads_bytes(sides, of.0, &a).reads_bytes(sides, of.1, &b);
        prop_assert_eq!(unpacked(&spec.output, &result), meant.run_to_bytes(of.2));
    }

    #[test]
    fn a_pool_of_bytes_equals_the_reference_to_the_last_bit(
        isa in isa(),
        sizes in (1..=40usize, 1..=9usize, 1..=9usize),
        window in window(),
        kind in prop::sample::select(vec![
            PoolKind::Max,
            PoolKind::Average { counts_padding: false },
            PoolKind::Average { counts_padding: true },
        ]),
        halos in (0..=1usize, 0..=1usize),
        of in (quantisation(), quantisation()),
        parts in 1..=4usize,
        seed in any::<u64>(),
    ) {
        let (channels, height, width) = sizes;
        prop_assume!(fits(&window, height, width));
        let input = layout(isa, sizes, halos.0);
        let result = input.shape().windowed(&window, channels).unwrap();
        let output = layout(isa, (channels, result.height, result.width), halos.1);
        let spec = PoolSpec {
            input: input.quantised(of.0).unwrap(),
            output: output.quantised(of.1).unwrap(),
            window,
            kind,
        };
        let image = bytes(seed, channels * height * width);
        let memory = packed(&spec.input, &image, 255);
        let kernel = quantised::Pool::new(isa, &spec).unwrap();
        let result = in_parts(&spec.output, &[&memory], parts, |part, images| {
            kernel.run(&[], part, images);
        });
        let Window { kernel, stride, padding, .. } = window;
        let meant = Alone::new(model::Pool { kind, kernel, stride, padding });
        let meant = meant.reads_bytes(input.shape().sides(), of.0, &image);
        prop_assert_eq!(unpacked(&spec.output, &result), meant.run_to_bytes(of.1));
    }

    #[test]
    fn floats_become_bytes_and_bytes_floats_as_in_the_reference(
        isa in isa(),
        planar in any::<bool>(),
        sizes in (1..=4usize, 1..=9usize, 1..=150usize),
        halos in (0..=1usize, 0..=1usize),
        of in (quantisation(), quantisation()),
        parts in 1..=4usize,
        seed in any::<u64>(),
    ) {
        let (channels, height, width) = sizes;
        let floats: Vec<f32> =
            noise(seed, channels * height * width).iter().map(|x| x * 20.0).collect();
        let (input, memory) = if planar {
            let layout = PlanarLayout::new(channels, height, width, halos.0).unwrap();
            let mut memory = vec![0.0; layout.len()];
            for (at, &value) in floats.iter().enumerate() {
                let (row, column) = (at / width % height, at % width);
                memory[layout.index(at / width / height, row, column)] = value;
            }
            (ConvInput::Planar(layout), memory)
        } else {
            let layout = layout(isa, sizes, halos.0);
            let mut memory = vec![0.0; layout.len()];
            layout.pack(&floats, &mut memory);
            (ConvInput::Blocked(layout), memory)
        };
        let there = layout(isa, sizes, halos.1).quantised(of.0).unwrap();
        let other = layout(isa, sizes, halos.1).quantised(of.1).unwrap();
        let back = layout(isa, sizes, halos.0);
        let convert = |input, output: BlockedLayout, memory: &[f32]| {
            let kernel = Convert::new(isa, &ConvertSpec { input, output }).unwrap();
            in_parts(&output, &[memory], parts, |part, images| kernel.run(&[], part, images))
        };

        let result = convert(input, there, &memory);
        let meant = || Alone::new(model::Convert);
        let sides = back.shape().sides();
        let bytes = meant().reads(sides, &floats).run_to_bytes(of.0);
        prop_assert_eq!(&unpacked(&there, &result), &bytes);

        let requantised = convert(ConvInput::Blocked(there), other, &result);
        let of_bytes = || meant().reads_bytes(sides, of.0, &bytes);
        prop_assert_eq!(unpacked(&other, &requantised), of_bytes().run_to_bytes(of.1));

        let result = convert(ConvInput::Blocked(there), back, &result);
        let mut image = vec![0.0; bytes.len()];
        back.unpack(&result, &mut image);
        prop_assert_eq!(image, of_bytes().run());
    }
}

#[test]
fn what_bytes_cannot_do_is_refused() {
    let isa = Isa::detect();
    let floats = layout(isa, (4, 1, 1), 0);
    let of = Quantisation {
        scale: 0.1,
        zero: 3,
    };
    let bytes = floats.quantised(of).unwrap();
    let window = Window::new(Extent::square(1), Extent::square(1), Padding::default());
    let spec = quantised::Conv2dSpec {
        input: bytes,
        output: bytes,
        window,
        groups: 1,
        activation: Activation::None,
    };
    let said = |spec: quantised::Conv2dSpec| {
        quantised::Conv2d::new(isa, &spec)
            .err()
            .unwrap()
            .to_string()
    };
    let input = said(quantised::Conv2dSpec {
        input: floats,
        ..spec
    });
    assert!(input.contains("must be a tensor of bytes"), "{input}");
    let curve = said(quantised::Conv2dSpec {
        activation: Activation::Silu,
        ..spec
    });
    assert!(curve.contains("can only clip"), "{curve}");
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 2.0] {
        let refused = floats.quantised(Quantisation { scale, zero: 0 });
        assert!(refused.unwrap_err().to_string().contains("scale"));
    }
    let kernel = quantised::Conv2d::new(isa, &spec).unwrap();
    let scales = [0.1; 4];
    assert!(
        kernel
            .packed(&Weights {
                floats: &[&scales, &[0.0; 4]],
                integers: &[&[0; 15]]
            })
            .is_err()
    );
    assert!(
        kernel
            .packed(&Weights {
                floats: &[&scales, &[f32::NAN; 4]],
                integers: &[&[0; 16]]
            })
            .is_err()
    );
    assert!(
        kernel
            .packed(&Weights {
                floats: &[&[0.0; 4], &[0.0; 4]],
                integers: &[&[0; 16]]
            })
            .is_err()
    );
}
