//! Operators on computed positions equal their references on every instruction set, whatever the positions are.

use crate::support::{blocked, check_output, isa, meaning, noise, run_in_parts, shape};
use proptest::prelude::*;
use punctual_kernels::{
    BlockedLayout, GridSample, GridSampleSpec, Isa, KernelError, Take, TakeSpec, TopK, TopKSpec,
};
use punctual_model as model;
use punctual_types::{Axis, Interpolation, Outside, Ranking, Sampling};

/// Positions that no network should compute.
const HOSTILE: [f32; 10] = [
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    f32::MIN,
    1e20,
    -1e20,
    3.0e9,
    -3.0e9,
    1.0,
    -1.0,
];

fn sampling() -> impl Strategy<Value = Sampling> {
    let interpolation = [Interpolation::Nearest, Interpolation::Linear];
    let outside = [Outside::Zeros, Outside::Border, Outside::Reflection];
    let parts = (
        prop::sample::select(interpolation.to_vec()),
        prop::sample::select(outside.to_vec()),
        any::<bool>(),
    );
    parts.prop_map(|(interpolation, outside, align_corners)| Sampling {
        interpolation,
        outside,
        align_corners,
    })
}

fn ranking() -> impl Strategy<Value = Ranking> {
    any::<(bool, bool)>().prop_map(|(largest, last)| Ranking { largest, last })
}

fn layout(isa: Isa, [channels, height, width]: [usize; 3], halo: usize) -> BlockedLayout {
    BlockedLayout::new(isa, channels, height, width, halo).unwrap()
}

/// Positions around an image, some of them far away.
fn positions(seed: u64, len: usize, hostile: bool) -> Vec<f32> {
    let mut positions = noise(seed, len);
    for (at, position) in positions.iter_mut().enumerate() {
        *position *= 1.7;
        if hostile && at % 3 == 0 {
            *position = HOSTILE[at / 3 % HOSTILE.len()];
        }
    }
    positions
}

proptest! {
    #![proptest_config(crate::support::cases(600))]

    #[test]
    fn a_grid_sample_equals_its_reference(
        isa in isa(),
        sampling in sampling(),
        (groups, each) in prop_oneof![(1..=3usize, 1..=40usize), (1..=40usize, 1..=3usize), (2..=4usize, Just(32))],
        (height, width, rows, columns) in (1..=9usize, 1..=9usize, 1..=7usize, 1..=70usize),
        (input_halo, output_halo, parts, seed) in (0..=2usize, 0..=1usize, 1..=5usize, any::<u64>()),
        hostile in any::<bool>(),
    ) {
        let input = layout(isa, [groups * each, height, width], input_halo);
        let grid = layout(isa, [2 * groups, rows, columns], output_halo);
        let output = layout(isa, [groups * each, rows, columns], output_halo);
        let spec = GridSampleSpec { input, grid, output, groups, sampling };
        let kernel = GridSample::new(isa, &spec).unwrap();
        let image = noise(seed, input.shape().elements());
        let grid_values = positions(seed ^ 1, grid.shape().elements(), hostile);
        // Neither the halo nor the surplus lanes may count.
        let memory = vec![
            blocked(&input, &image, 7.0, 1e9),
            blocked(&grid, &grid_values, f32::NAN, 1e9),
        ];
        let found = run_in_parts(parts, &output, &[memory], &kernel, &[]);
        let meant = model::GridSample { groups: groups as u32, sampling };
        let expected = meaning(meant, [(&input, &image), (&grid, &grid_values)]).run();
        check_output(&output, &found[0], &expected, 1e-6);
    }

    #[test]
    fn the_first_of_values_equal_their_reference(
        isa in isa(),
        ranking in ranking(),
        (channels, height, width) in (1..=40usize, 1..=4usize, 1..=50usize),
        (count, input_halo, output_halo) in (1..=50usize, 0..=2usize, 0..=2usize),
        (parts, seed, levels) in (1..=5usize, any::<u64>(), prop_oneof![Just(1e9_f32), Just(3.0)]),
        (of_channels, hostile) in any::<(bool, bool)>(),
    ) {
        let count = if of_channels { 1 } else { count.min(width) };
        let axis = if of_channels { Axis::Channel } else { Axis::Column };
        let chosen = if of_channels { [1, height, width] } else { [channels, height, count] };
        let input = layout(isa, [channels, height, width], input_halo);
        let output = layout(isa, chosen, output_halo);
        let kernel = TopK::new(isa, &TopKSpec { input, output, axis, ranking }).unwrap();
        let mut values = noise(seed, input.shape().elements());
        // A few levels make many equal values; zeros have both signs.
        values.iter_mut().for_each(|value| *value = (*value * levels).round() / levels);
        if hostile {
            for value in values.iter_mut().step_by(3) {
                *value = if *value > 0.5 { f32::NAN } else { HOSTILE[(*value * 9.0) as usize] };
            }
        }
        let memory = vec![blocked(&input, &values, 1e9, 1e9)];
        let found = run_in_parts(parts, &output, &[memory], &kernel, &[]);
        let meant = model::TopK { axis, count: count as u32, ranking };
        let expected = meaning(meant, [(&input, &values)]).run();
        check_output(&output, &found[0], &expected, 0.0);
    }

    #[test]
    fn what_is_taken_equals_its_reference(
        isa in isa(),
        axis in prop::sample::select(vec![Axis::Channel, Axis::Row, Axis::Column]),
        sizes in prop::array::uniform3(1..=20usize),
        (count, shared) in (1..=20usize, prop::array::uniform3(any::<bool>())),
        (halo, parts, seed, hostile) in (0..=2usize, 1..=5usize, any::<u64>(), any::<bool>()),
    ) {
        let along = axis.index().unwrap();
        let mut taken = [0, 1, 2].map(|at| if shared[at] { 1 } else { sizes[at] });
        let mut made = sizes;
        (taken[along], made[along]) = (count, count);
        let (input, indices) = (layout(isa, sizes, halo), layout(isa, taken, halo));
        let output = layout(isa, made, 2 - halo);
        let kernel = Take::new(isa, &TakeSpec { input, indices, output, axis }).unwrap();
        let values = noise(seed, input.shape().elements());
        let mut numbers = noise(seed ^ 1, indices.shape().elements());
        for (at, number) in numbers.iter_mut().enumerate() {
            *number = (*number * sizes[along] as f32).floor();
            if hostile && at % 3 == 0 {
                *number = if at % 2 == 0 { f32::NAN } else { HOSTILE[at % HOSTILE.len()] };
            }
        }
        let memory = vec![blocked(&input, &values, 7.0, 1e9), blocked(&indices, &numbers, 7.0, 1e9)];
        let found = run_in_parts(parts, &output, &[memory], &kernel, &[]);
        let read = [(&input, &values), (&indices, &numbers)];
        let expected = meaning(model::Take { axis }, read).run();
        check_output(&output, &found[0], &expected, 0.0);
    }
}

#[test]
fn a_position_that_is_no_number_gives_nan_and_spoils_no_other_pixel() {
    for isa in Isa::available() {
        for (groups, each) in [(1, 20), (20, 1)] {
            for interpolation in [Interpolation::Nearest, Interpolation::Linear] {
                for outside in [Outside::Zeros, Outside::Border, Outside::Reflection] {
                    let sampling = Sampling {
                        interpolation,
                        outside,
                        align_corners: false,
                    };
                    let input = layout(isa, [groups * each, 3, 3], 0);
                    let grid = layout(isa, [2 * groups, 1, 4], 0);
                    let output = layout(isa, [groups * each, 1, 4], 0);
                    let spec = GridSampleSpec {
                        input,
                        grid,
                        output,
                        groups,
                        sampling,
                    };
                    let kernel = GridSample::new(isa, &spec).unwrap();
                    let positions = [0.0, f32::NAN, 0.0, 0.0];
                    let positions = positions.repeat(2 * groups);
                    let image = vec![1.0; input.shape().elements()];
                    let memory = vec![
                        blocked(&input, &image, 0.0, 0.0),
                        blocked(&grid, &positions, 0.0, 0.0),
                    ];
                    let found = run_in_parts(1, &output, &[memory], &kernel, &[]);
                    let mut values = vec![0.0; output.shape().elements()];
                    output.unpack(&found[0], &mut values);
                    for pixels in values.chunks_exact(4) {
                        assert_eq!([pixels[0], pixels[2], pixels[3]], [1.0; 3]);
                        assert!(pixels[1].is_nan());
                    }
                }
            }
        }
    }
}

#[test]
fn unsound_shapes_are_refused_with_the_reason() {
    let isa = Isa::detect();
    let of = |sizes| layout(isa, sizes, 0);
    let sampling = Sampling {
        interpolation: Interpolation::Linear,
        outside: Outside::Zeros,
        align_corners: false,
    };
    let spec = GridSampleSpec {
        input: of([6, 3, 3]),
        grid: of([4, 5, 7]),
        output: of([6, 5, 7]),
        groups: 2,
        sampling,
    };
    let refused = |spec: &GridSampleSpec| GridSample::new(isa, spec).err();
    assert_eq!(refused(&spec), None);
    let mismatch = |what, found, expected| {
        Some(KernelError::Mismatch {
            what,
            found,
            expected,
        })
    };
    let grid = of([4, 5, 8]);
    let found = refused(&GridSampleSpec { grid, ..spec });
    assert_eq!(found, mismatch("the grid's width", 8, 7));
    let found = refused(&GridSampleSpec { groups: 3, ..spec });
    assert_eq!(found, mismatch("the grid's channels", 4, 6));
    let found = refused(&GridSampleSpec { groups: 4, ..spec });
    let (inputs, outputs) = (6, 6);
    let groups = 4;
    let uneven = KernelError::Groups {
        groups,
        inputs,
        outputs,
    };
    assert_eq!(found, Some(uneven));

    let ranking = Ranking {
        largest: true,
        last: false,
    };
    let top_k = |axis, input, output| {
        let spec = TopKSpec {
            input: of(input),
            output: of(output),
            axis,
            ranking,
        };
        TopK::new(isa, &spec).err()
    };
    assert_eq!(top_k(Axis::Channel, [6, 3, 3], [1, 3, 3]), None);
    let found = top_k(Axis::Channel, [6, 3, 3], [2, 3, 3]);
    assert_eq!(found, mismatch("the channels that are chosen", 2, 1));
    let found = top_k(Axis::Column, [6, 3, 3], [6, 3, 4]);
    let what = "the columns that are chosen";
    let (found_columns, limit) = (4, 3);
    let too_many = KernelError::TooLarge {
        what,
        found: found_columns,
        limit,
    };
    assert_eq!(found, Some(too_many));
    assert!(top_k(Axis::Row, [6, 3, 3], [6, 1, 3]).is_some());

    let take = |axis, indices, output| {
        let spec = TakeSpec {
            input: of([6, 3, 3]),
            indices: of(indices),
            output: of(output),
            axis,
        };
        Take::new(isa, &spec).err()
    };
    assert_eq!(take(Axis::Column, [1, 1, 9], [6, 3, 9]), None);
    let found = take(Axis::Column, [2, 1, 9], [6, 3, 9]);
    assert_eq!(found, mismatch("the indices' size", 2, 6));
    let found = take(Axis::Row, [1, 2, 3], [6, 3, 3]);
    assert_eq!(found, mismatch("the output's positions", 3, 2));
    assert!(take(Axis::Repeat, [1, 1, 1], [6, 3, 3]).is_some());
    assert_eq!(shape(6, 3, 3), of([6, 3, 3]).shape());
}
