//! Pools equal their references on every instruction set; parts tile every layout.

use crate::support::{blocked, check_output, fits, isa, meaning, noise, run_in_parts, tolerance};
use proptest::prelude::*;
use punctual_kernels::{BlockedLayout, GlobalAveragePool, Part, Pool, PoolSpec};
use punctual_model as model;
use punctual_types::{Extent, Padding, PoolKind, Window};

/// stride and a padding less than the kernel, in one direction.
fn direction() -> impl Strategy<Value = (u32, u32, u32, u32)> {
    (1..=4u32, 1..=3u32)
        .prop_flat_map(|(kernel, stride)| (Just(kernel), Just(stride), 0..kernel, 0..kernel))
}

fn window() -> impl Strategy<Value = Window> {
    (direction(), direction()).prop_map(|(vertical, horizontal)| {
        Window::new(
            Extent {
                height: vertical.0,
                width: horizontal.0,
            },
            Extent {
                height: vertical.1,
                width: horizontal.1,
            },
            Padding {
                top: vertical.2,
                left: horizontal.2,
                bottom: vertical.3,
                right: horizontal.3,
            },
        )
    })
}

proptest! {
    #![proptest_config(crate::support::cases(600))]

    #[test]
    fn pool_equals_its_reference(
        isa in isa(),
        window in window(),
        kind in prop::sample::select(vec![
            PoolKind::Max,
            PoolKind::Average { counts_padding: false },
            PoolKind::Average { counts_padding: true },
        ]),
        (channels, height, width) in (1..=40usize, 1..=12usize, 1..=16usize),
        (input_halo, output_halo) in (0..=2usize, 0..=2usize),
        (batch, parts, seed) in (1..=3usize, 1..=4usize, any::<u64>()),
    ) {
        prop_assume!(fits(&window, height, width));
        let input = BlockedLayout::new(isa, channels, height, width, input_halo).unwrap();
        let result = input.shape().windowed(&window, channels).unwrap();
        let output =
            BlockedLayout::new(isa, channels, result.height, result.width, output_halo).unwrap();
        let pool = Pool::new(isa, &PoolSpec { input, output, window, kind }).unwrap();
        let images: Vec<_> = (0..batch as u64)
            .map(|i| noise(seed ^ (9 + i), input.shape().elements()))
            .collect();
        // Padding must not count, so the halo holds what would win or spoil any result.
        let memory: Vec<_> =
            images.iter().map(|image| (blocked(&input, image, 7.0, 1e9), None)).collect();
        let outputs = run_in_parts(parts, &output, &memory, &pool, &[]);
        for (image, found) in images.iter().zip(&outputs) {
            let Window { kernel, stride, padding, .. } = window;
            let meant = model::Pool { kind, kernel, stride, padding };
            let expected = meaning(meant, [(&input, image)]).run();
            check_output(&output, found, &expected, tolerance(16));
        }
    }

    #[test]
    fn global_average_pool_equals_its_reference(
        isa in isa(),
        (channels, height, width, halo) in (1..=70usize, 1..=25usize, 1..=25usize, 0..=2usize),
        (batch, parts, seed) in (1..=3usize, 1..=4usize, any::<u64>()),
    ) {
        let input = BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let output = BlockedLayout::vector(isa, channels).unwrap();
        let pool = GlobalAveragePool::new(isa, input, output).unwrap();
        let images: Vec<_> = (0..batch as u64)
            .map(|i| noise(seed ^ (9 + i), input.shape().elements()))
            .collect();
        let memory: Vec<_> =
            images.iter().map(|image| (blocked(&input, image, 7.0, 1e9), None)).collect();
        let outputs = run_in_parts(parts, &output, &memory, &pool, &[]);
        for (image, found) in images.iter().zip(&outputs) {
            let extent = Extent { height: height as u32, width: width as u32 };
            let expected = meaning(model::Pool::mean_of_all(extent), [(&input, image)]).run();
            check_output(&output, found, &expected, 1e-6);
        }
    }

    #[test]
    fn parts_are_equal_shares_of_the_rows(
        isa in isa(),
        (channels, height, width, halo) in (1..=70usize, 1..=20usize, 1..=20usize, 0..=2usize),
        parts in 1..=9usize,
    ) {
        let layout = BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let mut end = 0;
        for index in 0..parts {
            let range = layout.part(Part::new(index, parts));
            prop_assert_eq!(range.start, end);
            end = range.end;
            prop_assert_eq!(range.start % layout.row_stride(), 0);
            let rows = range.len() / layout.row_stride();
            let share = layout.blocks() * height / parts;
            // One more from rounding; each block that a share touches brings its halo.
            let halos = 2 * halo * (share / height + 2);
            prop_assert!((share..=share + 1 + halos).contains(&rows));
        }
        prop_assert_eq!(end, layout.len());
    }

    #[test]
    fn packing_and_unpacking_a_tensor_gives_it_back(
        isa in isa(),
        (channels, height, width, halo) in (1..=70usize, 1..=12usize, 1..=12usize, 0..=2usize),
        seed in any::<u64>(),
    ) {
        let layout = BlockedLayout::new(isa, channels, height, width, halo).unwrap();
        let image = noise(seed, layout.shape().elements());
        let mut memory = vec![f32::NAN; layout.len()];
        layout.pack(&image, &mut memory);
        prop_assert_eq!(&memory, &blocked(&layout, &image, 0.0, 0.0));
        let mut back = vec![f32::NAN; image.len()];
        layout.unpack(&memory, &mut back);
        prop_assert_eq!(back, image);
    }
}
