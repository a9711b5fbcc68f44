//! Dense convolutions: the general kernel and each tile of tensor cores, by the same cases.
use crate::buffer::Buffer;
use crate::convolution::{Case, Prepared, check, window};
use crate::launch::launch;
use crate::tensor::{Tensor, shape};
use punctual_cuda_kernels::KERNELS;
use punctual_cuda_kernels::params::Pattern;
use punctual_types::{Activation, Extent, Random, Window};

fn check_dense(case: &Case) {
    for kernel in KERNELS.iter().filter(|k| k.pattern == Some(Pattern::Dense)) {
        check(kernel.name, case);
    }
}

#[test]
fn dense_with_padding_and_channels_that_fill_no_vector() {
    check_dense(&Case::plain());
}

#[test]
fn dense_with_residual_and_activation() {
    check_dense(&Case {
        images: 3,
        residual: true,
        activation: Activation::Relu,
        outputs: 37,
        pieces: vec![37],
        ..Case::plain()
    });
}

#[test]
fn dense_first_layer_of_three_channels_and_a_wide_window() {
    check_dense(&Case {
        images: 1,
        input: shape(3, 17, 15),
        outputs: 24,
        window: window((7, 7), (2, 2), (3, 3, 3, 3)),
        activation: Activation::Clip {
            low: 0.0,
            high: 6.0,
        },
        pieces: vec![24],
        ..Case::plain()
    });
}

#[test]
fn dense_single_taps_of_more_pixels_and_channels_than_the_largest_tile() {
    check_dense(&Case {
        input: shape(72, 9, 8),
        outputs: 136,
        window: window((1, 1), (1, 1), (0, 0, 0, 0)),
        activation: Activation::Silu,
        pieces: vec![136],
        ..Case::plain()
    });
}

#[test]
fn dense_single_taps_with_strides() {
    check_dense(&Case {
        input: shape(64, 9, 8),
        window: window((1, 1), (2, 2), (0, 0, 0, 0)),
        ..Case::plain()
    });
}

#[test]
fn dense_windows_strides_and_paddings_that_are_not_square() {
    check_dense(&Case {
        window: window((3, 2), (2, 1), (0, 1, 2, 0)),
        ..Case::plain()
    });
    check_dense(&Case {
        window: window((1, 5), (1, 3), (0, 2, 0, 1)),
        ..Case::plain()
    });
}

#[test]
fn dense_windows_whose_taps_lie_apart() {
    let window = Window {
        dilation: Extent {
            height: 3,
            width: 2,
        },
        ..window((3, 2), (1, 2), (4, 1, 2, 1))
    };
    check_dense(&Case {
        window,
        ..Case::plain()
    });
}

#[test]
fn dense_sums_cut_into_splits() {
    for splits in [2, 3, 7] {
        check_dense(&Case {
            splits,
            residual: true,
            activation: Activation::Relu,
            ..Case::plain()
        });
    }
}

#[test]
fn dense_sums_cut_into_more_splits_than_there_are_tiles() {
    check_dense(&Case {
        input: shape(8, 3, 3),
        window: window((1, 1), (1, 1), (0, 0, 0, 0)),
        splits: 4,
        ..Case::plain()
    });
}

#[test]
fn dense_operators_in_pieces() {
    check_dense(&Case {
        outputs: 93,
        residual: true,
        pieces: vec![16, 72, 5],
        ..Case::plain()
    });
    check_dense(&Case {
        outputs: 93,
        splits: 2,
        pieces: vec![40, 53],
        ..Case::plain()
    });
}

#[test]
fn every_activation_with_zeros_in_the_padding() {
    for activation in [
        Activation::Sigmoid,
        Activation::Silu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Gelu,
        Activation::Tanh,
        Activation::LeakyRelu { slope: 0.2 },
        Activation::Elu {
            above: 1.05,
            below: 1.7,
            rate: 0.8,
        },
        Activation::Mish,
        Activation::Softplus,
        Activation::Softsign,
        Activation::TanhGelu,
        Activation::Clip {
            low: 0.5,
            high: 1.0,
        },
    ] {
        check_dense(&Case {
            images: 1,
            input: shape(8, 4, 4),
            outputs: 12,
            activation,
            pieces: vec![12],
            ..Case::plain()
        });
    }
}

#[test]
fn dense_of_any_shape() {
    let mut random = Random::new(14);
    let mut upto = |limit: u64| (random.next_u64() % limit) as usize;
    for _ in 0..8 {
        let outputs = 1 + upto(140);
        let mut side = |limit: u32| upto(u64::from(limit)) as u32;
        let kernel = (1 + side(4), 1 + side(4));
        let padding = (side(kernel.0), side(kernel.1), side(2), side(2));
        let images = 1 + upto(3);
        let input = shape(1 + upto(70), 4 + upto(8), 4 + upto(8));
        let stride = (1 + upto(3) as u32, 1 + upto(3) as u32);
        check_dense(&Case {
            images,
            input,
            outputs,
            window: window(kernel, stride, padding),
            residual: upto(2) == 1,
            splits: 1 + upto(4) as u32,
            pieces: vec![outputs as u32],
            ..Case::plain()
        });
    }
}

#[test]
fn an_input_that_is_no_number_spoils_the_windows_that_hold_it_and_no_others() {
    let case = Case::plain();
    let (row, column) = (3, 4);
    for kernel in KERNELS.iter().filter(|k| k.pattern == Some(Pattern::Dense)) {
        let mut prepared = Prepared::new(&case);
        let mut images = prepared.input.planar();
        images[1][(5 * 7 + row) * 9 + column] = f32::NAN;
        prepared.input = Tensor::of(case.input, &images);
        launch(kernel.name, prepared.arguments()[0]);
        for (image, found) in prepared.output.planar().iter().enumerate() {
            for (at, found) in found.iter().enumerate() {
                let near = (at / 9 % 7).abs_diff(row) <= 1 && (at % 9).abs_diff(column) <= 1;
                let spoilt = image == 1 && near;
                assert_eq!(
                    found.is_nan(),
                    spoilt,
                    "{} image {image} at {at}",
                    kernel.name
                );
            }
        }
    }
}

#[test]
fn a_result_beyond_the_largest_half_becomes_infinite_and_no_number_stays_none() {
    let case = Case {
        input: shape(8, 3, 3),
        outputs: 8,
        pieces: vec![8],
        images: 1,
        ..Case::plain()
    };
    for kernel in KERNELS.iter().filter(|k| k.pattern == Some(Pattern::Dense)) {
        let mut prepared = Prepared::new(&case);
        let mut bias = vec![0.0; 8];
        (bias[0], bias[1]) = (1e6, f32::NAN);
        prepared.packed[0].1 = Buffer::of_f32(&bias);
        launch(kernel.name, prepared.arguments()[0]);
        let found = &prepared.output.planar()[0];
        assert_eq!(found[0], f32::INFINITY, "{}", kernel.name);
        assert!(found[9].is_nan(), "{}", kernel.name);
    }
}
