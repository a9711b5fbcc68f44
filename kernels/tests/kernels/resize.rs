//! Resizes equal their references on every instruction set.

use crate::support::{blocked, check_output, isa, meaning, noise, run_in_parts};
use proptest::prelude::*;
use punctual_conformance::Alone;
use punctual_kernels::{BlockedLayout, Isa, KernelError, Resize, ResizeSpec};
use punctual_model as model;
use punctual_types::{Coordinates, Extent, Filter, Quantisation, Resampling, Rounding};

fn rounding() -> impl Strategy<Value = Rounding> {
    prop::sample::select(vec![
        Rounding::Floor,
        Rounding::Ceil,
        Rounding::PreferFloor,
        Rounding::PreferCeil,
    ])
}

fn coordinates() -> impl Strategy<Value = Coordinates> {
    prop::sample::select(vec![
        Coordinates::Asymmetric,
        Coordinates::HalfPixel,
        Coordinates::HalfPixelSymmetric,
        Coordinates::PytorchHalfPixel,
        Coordinates::AlignCorners,
    ])
}

/// Rows and columns of an image, and how it is resized: by sizes, or by scales that differ from their ratio.
fn resampling() -> impl Strategy<Value = ((usize, usize), Resampling)> {
    let filter = prop_oneof![Just(Filter::Linear), rounding().prop_map(Filter::Nearest)];
    let sizes = (1..=12u32, 1..=12u32, 1..=30u32, 1..=30u32);
    let made = (sizes, coordinates(), filter, (0.9..1.1_f32, any::<bool>()));
    made.prop_map(|(sizes, coordinates, filter, (factor, by_scale))| {
        let (height, width, rows, columns) = sizes;
        let factor = if by_scale { factor } else { 1.0 };
        let scale = |from: u32, to: u32| factor * (to as f32 / from as f32);
        let resampling = Resampling {
            size: Extent {
                height: rows,
                width: columns,
            },
            scale: [scale(height, rows), scale(width, columns)],
            coordinates,
            filter,
        };
        ((height as usize, width as usize), resampling)
    })
}

proptest! {
    #![proptest_config(crate::support::cases(600))]

    #[test]
    fn a_resize_equals_its_reference(
        isa in isa(),
        ((height, width), resampling) in resampling(),
        (channels, input_halo, output_halo) in (1..=40usize, 0..=2usize, 0..=2usize),
        (batch, parts, seed) in (1..=3usize, 1..=5usize, any::<u64>()),
    ) {
        let input = BlockedLayout::new(isa, channels, height, width, input_halo).unwrap();
        let Extent { height: rows, width: columns } = resampling.size;
        let output =
            BlockedLayout::new(isa, channels, rows as usize, columns as usize, output_halo).unwrap();
        let kernel = Resize::new(isa, &ResizeSpec { input, output, resampling }).unwrap();
        let images: Vec<_> = (0..batch as u64)
            .map(|i| noise(seed ^ (9 + i), input.shape().elements()))
            .collect();
        // The halo must not count.
        let memory: Vec<_> =
            images.iter().map(|image| (blocked(&input, image, 7.0, 1e9), None)).collect();
        let outputs = run_in_parts(parts, &output, &memory, &kernel, &[]);
        for (image, found) in images.iter().zip(&outputs) {
            let expected = meaning(model::Resize { resampling }, [(&input, image)]).run();
            check_output(&output, found, &expected, 1e-6);
        }
    }

    #[test]
    fn the_nearest_bytes_are_moved_as_they_are(
        isa in isa(),
        ((height, width), resampling) in resampling(),
        rounding in rounding(),
        (channels, halo, parts, seed) in (1..=40usize, 0..=2usize, 1..=5usize, any::<u64>()),
    ) {
        let resampling = Resampling { filter: Filter::Nearest(rounding), ..resampling };
        let of = Quantisation { scale: 0.1, zero: 9 };
        let bytes = |height, width, halo| {
            BlockedLayout::new(isa, channels, height, width, halo).unwrap().quantised(of).unwrap()
        };
        let (input, size) = (bytes(height, width, 0), resampling.size);
        let output = bytes(size.height as usize, size.width as usize, halo);
        let kernel = Resize::new(isa, &ResizeSpec { input, output, resampling }).unwrap();
        let numbers = noise(seed, input.shape().elements());
        let image: Vec<u8> = numbers.iter().map(|value| (value * 127.0 + 128.0) as u8).collect();
        let mut memory = vec![0.0; input.len()];
        input.pack_bytes(&image, &mut memory);
        let found = run_in_parts(parts, &output, &[(memory, None)], &kernel, &[]);
        let mut result = vec![0; output.shape().elements()];
        output.unpack_bytes(&found[0], &mut result);
        let alone = Alone::new(model::Resize { resampling });
        let alone = alone.reads_bytes(input.shape().sides(), of, &image);
        prop_assert_eq!(result, alone.run_to_bytes(of));
    }
}

#[test]
fn unsound_resizes_are_refused_with_the_reason() {
    let isa = Isa::detect();
    let layout = |side| BlockedLayout::new(isa, 4, side, side, 0).unwrap();
    let spec = ResizeSpec {
        input: layout(3),
        output: layout(6),
        resampling: Resampling {
            size: Extent::square(6),
            scale: [2.0; 2],
            coordinates: Coordinates::HalfPixel,
            filter: Filter::Linear,
        },
    };
    let refused = |spec: &ResizeSpec| Resize::new(isa, spec).err();
    assert_eq!(refused(&spec), None);
    let what = "the output's height";
    let output = layout(7);
    let error = KernelError::Mismatch {
        what,
        found: 7,
        expected: 6,
    };
    assert_eq!(refused(&ResizeSpec { output, ..spec }), Some(error));
    let of = Quantisation {
        scale: 0.1,
        zero: 0,
    };
    let bytes = ResizeSpec {
        input: layout(3).quantised(of).unwrap(),
        output: layout(6).quantised(of).unwrap(),
        ..spec
    };
    let error = KernelError::Element {
        tensor: "input",
        expected: "floats",
    };
    assert_eq!(refused(&bytes), Some(error), "bytes are not blended");
    let nearest = Resampling {
        filter: Filter::Nearest(Rounding::Floor),
        ..spec.resampling
    };
    let mixed = ResizeSpec {
        input: bytes.input,
        resampling: nearest,
        ..spec
    };
    let error = KernelError::Element {
        tensor: "output",
        expected: "what its input is",
    };
    assert_eq!(refused(&mixed), Some(error));
}
