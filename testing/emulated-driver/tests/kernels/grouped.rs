//! Convolutions in groups.
use punctual_types::{Activation, Extent, Window};

use crate::convolution::{Case, check, window};
use crate::tensor::shape;

#[test]
fn depthwise_of_odd_widths_strides_and_pieces() {
    let plain = Case {
        input: shape(20, 7, 9),
        outputs: 20,
        groups: 20,
        pieces: vec![20],
        activation: Activation::HardSwish,
        ..Case::plain()
    };
    check("conv_depthwise_general", &plain);
    check(
        "conv_depthwise_general",
        &Case {
            window: window((5, 3), (2, 2), (2, 0, 1, 1)),
            residual: true,
            pieces: vec![8, 12],
            ..plain.clone()
        },
    );
    check(
        "conv_depthwise_general",
        &Case {
            input: shape(20, 6, 8),
            window: window((3, 3), (1, 2), (1, 1, 1, 1)),
            ..plain
        },
    );
}

#[test]
fn groups_of_any_size() {
    // (inputs, outputs, groups): vectors and no vectors of inputs, groups within a vector and
    // across, one input a group with two outputs.
    for (inputs, outputs, groups) in [
        (32, 16, 2),
        (48, 24, 6),
        (15, 10, 5),
        (12, 24, 12),
        (64, 64, 4),
    ] {
        check(
            "conv_grouped_general",
            &Case {
                input: shape(inputs, 6, 5),
                outputs,
                groups,
                window: window((3, 3), (2, 1), (1, 1, 1, 0)),
                pieces: vec![8, outputs as u32 - 8],
                activation: Activation::Relu,
                ..Case::plain()
            },
        );
    }
}

#[test]
fn grouped_windows_whose_taps_lie_apart() {
    let window = Window {
        dilation: Extent::square(2),
        ..window((3, 3), (1, 1), (2, 2, 1, 2))
    };
    for (kernel, groups) in [("conv_depthwise_general", 20), ("conv_grouped_general", 4)] {
        check(
            kernel,
            &Case {
                input: shape(20, 7, 9),
                outputs: 20,
                groups,
                window,
                pieces: vec![20],
                ..Case::plain()
            },
        );
    }
}
