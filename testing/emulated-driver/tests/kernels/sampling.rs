//! Operators on computed positions. Values are halves, so that no rounding changes which positions are chosen.
use crate::buffer::Buffer;
use crate::error;
use crate::launch::launch;
use crate::tensor::{Tensor, pitch, shape};
use punctual_conformance::Alone;
use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::{GridSample, Take, TopK};
use punctual_kernels::Shape;
use punctual_model as model;
use punctual_types::{Axis, Interpolation, Outside, Random, Ranking, Sampling};

/// Two images with few different values, so that many are equal.
fn steps(of: Shape, random: &mut Random) -> (Tensor, Vec<Vec<f32>>) {
    let value = |random: &mut Random| (random.signed_unit() * 4.0).round() / 4.0;
    let mut image = || (0..of.elements()).map(|_| value(random)).collect();
    let images: Vec<Vec<f32>> = vec![image(), image()];
    (Tensor::of(of, &images), images)
}

/// The planar values of one image of a buffer of floats.
fn planar(floats: &[f32], of: Shape, image: usize) -> Vec<f32> {
    let (pixels, pitch) = (of.height * of.width, pitch(of));
    let image = &floats[image * pixels * pitch..][..pixels * pitch];
    let channel = |channel| (0..pixels).map(move |pixel| image[pixel * pitch + channel]);
    (0..of.channels).flat_map(channel).collect()
}

#[test]
fn the_first_values_of_a_line_and_the_first_channel_of_a_pixel() {
    let mut random = Random::new(31);
    let of = shape(11, 3, 13);
    let (mut input, images) = steps(of, &mut random);
    for (largest, last) in [(true, false), (true, true), (false, false), (false, true)] {
        let ranking = Ranking { largest, last };
        for (kernel, axis, count) in [
            ("top_columns", Axis::Column, 5),
            ("top_channel", Axis::Channel, 1),
        ] {
            let chosen = match axis {
                Axis::Column => shape(11, 3, count),
                _ => shape(1, 3, 13),
            };
            let bytes = 2 * chosen.height * chosen.width * pitch(chosen) * 4;
            let mut output = Buffer::of_bytes(bytes);
            launch(
                kernel,
                Arguments::TopK(TopK {
                    input: input.view(),
                    output: output.address(),
                    images: 2,
                    count: if axis == Axis::Column {
                        count as u32
                    } else {
                        0
                    },
                    largest: u32::from(largest),
                    last: u32::from(last),
                }),
            );
            for (at, image) in images.iter().enumerate() {
                let count = count as u32;
                let meant = model::TopK {
                    axis,
                    count,
                    ranking,
                };
                let expected = Alone::new(meant).reads(of.sides(), image).run();
                assert_eq!(planar(&output.f32s(), chosen, at), expected, "{ranking:?}");
            }
        }
    }
}

#[test]
fn values_at_positions_along_every_axis() {
    let mut random = Random::new(32);
    let of = shape(11, 4, 6);
    let (mut input, images) = Tensor::random(of, 2, &mut random);
    for (code, axis, of_indices) in [
        (0, Axis::Channel, shape(5, 4, 6)),
        (1, Axis::Row, shape(11, 3, 1)),
        (2, Axis::Column, shape(1, 4, 9)),
    ] {
        let mut index = || (random.signed_unit() * 14.0).floor();
        let mut image = || (0..of_indices.elements()).map(|_| index()).collect();
        let positions: Vec<Vec<f32>> = vec![image(), image()];
        let mut indices = Tensor::of(of_indices, &positions);
        let of_output = match axis {
            Axis::Channel => shape(5, 4, 6),
            Axis::Row => shape(11, 3, 6),
            _ => shape(11, 4, 9),
        };
        let mut output = Tensor::unwritten(of_output, 2);
        launch(
            "take",
            Arguments::Take(Take {
                input: input.view(),
                indices: indices.view(),
                output: output.view(),
                images: 2,
                axis: code,
                ..Take::default()
            }),
        );
        for ((found, image), positions) in output.planar().iter().zip(&images).zip(&positions) {
            let alone = Alone::new(model::Take { axis }).reads(of.sides(), image);
            let expected = alone.reads(of_indices.sides(), positions).run();
            assert_eq!(*found, expected, "{axis:?}");
        }
    }
}

#[test]
fn samples_inside_and_outside_of_the_image() {
    let mut random = Random::new(33);
    let (of, of_grid) = (shape(10, 5, 7), shape(4, 6, 4));
    let (mut input, images) = Tensor::random(of, 2, &mut random);
    let mut position = || (random.signed_unit() * 3.0 * 256.0).round() / 256.0;
    let mut image = || (0..of_grid.elements()).map(|_| position()).collect();
    let grids: Vec<Vec<f32>> = vec![image(), image()];
    let mut grid = Tensor::of(of_grid, &grids);
    for interpolation in [Interpolation::Nearest, Interpolation::Linear] {
        for (code, outside) in [
            (0, Outside::Zeros),
            (1, Outside::Border),
            (2, Outside::Reflection),
        ] {
            for align_corners in [false, true] {
                let sampling = Sampling {
                    interpolation,
                    outside,
                    align_corners,
                };
                let mut output = Tensor::unwritten(shape(10, 6, 4), 2);
                launch(
                    "grid_sample",
                    Arguments::GridSample(GridSample {
                        input: input.view(),
                        grid: grid.view(),
                        output: output.buffer.address(),
                        images: 2,
                        groups: 2,
                        nearest: u32::from(interpolation == Interpolation::Nearest),
                        outside: code,
                        align_corners: u32::from(align_corners),
                        gap: 0,
                    }),
                );
                for ((found, image), grid) in output.planar().iter().zip(&images).zip(&grids) {
                    let meant = model::GridSample {
                        groups: 2,
                        sampling,
                    };
                    let alone = Alone::new(meant).reads(of.sides(), image);
                    let expected = alone.reads(of_grid.sides(), grid).run();
                    let what = format!("{sampling:?}");
                    error::check(&what, found, &expected, 4, &vec![2.0; expected.len()]);
                }
            }
        }
    }
}
