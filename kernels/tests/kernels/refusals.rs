//! Unsound specifications are refused with the reason; a caller's wrong slices are its error.

use crate::support::run_in_parts;
use punctual_kernels::{
    BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Isa, Kernel, KernelError, Pool, PoolSpec, Weights,
};
use punctual_types::{Activation, Extent, Padding, PoolKind, Window, WindowError};

fn sound() -> (Isa, Conv2dSpec) {
    let isa = Isa::Scalar;
    let layout = BlockedLayout::new(isa, 8, 6, 6, 1).unwrap();
    let window = Window::new(Extent::square(3), Extent::square(1), Padding::uniform(1));
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
fn unsound_convolutions_are_refused_with_the_reason() {
    let (isa, spec) = sound();
    let make = |spec: &Conv2dSpec| Conv2d::new(isa, spec).err();
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
    assert_eq!(
        make(&still),
        Some(WindowError::Zero { what: "stride" }.into())
    );

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
        Some(KernelError::Window(WindowError::TooLarge {
            what,
            window: 9,
            padded: 8
        }))
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
}

#[test]
fn weights_that_do_not_fit_or_are_not_finite_are_refused() {
    let (isa, spec) = sound();
    let (weights, bias) = (vec![0.5; 8 * 8 * 9], vec![0.0; 8]);
    let conv = Conv2d::new(isa, &spec).unwrap();
    let few = conv.packed(&Weights::floats(&[&weights[1..], &bias])).err();
    let what = "the number of weights";
    assert_eq!(
        few,
        Some(KernelError::Mismatch {
            what,
            found: 575,
            expected: 576
        })
    );

    let infinite = conv
        .packed(&Weights::floats(&[&weights, &[f32::INFINITY; 8]]))
        .err();
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
        let made = Conv2d::new(isa, &spec).err();
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
        let made = Conv2d::new(isa, &spec).err();
        assert_eq!(made, Some(KernelError::IsaUnavailable { isa }));
    }
}

#[test]
#[should_panic(expected = "the inputs are whole tensors")]
fn a_short_input_is_the_callers_error() {
    let (isa, spec) = sound();
    let conv = Conv2d::new(isa, &spec).unwrap();
    let packed = conv
        .packed(&Weights::floats(&[&[0.5; 8 * 8 * 9], &[0.0; 8]]))
        .unwrap();
    let memory = [(vec![0.0; spec.input.len() - 1], None)];
    run_in_parts(1, &spec.output, &memory, &conv, &packed);
}

#[test]
fn a_pool_whose_windows_may_see_no_pixel_is_refused() {
    let isa = Isa::Scalar;
    let input = BlockedLayout::new(isa, 4, 4, 4, 0).unwrap();
    let output = BlockedLayout::new(isa, 4, 7, 7, 0).unwrap();
    let window = Window::new(Extent::square(2), Extent::square(1), Padding::uniform(2));
    let made = Pool::new(
        isa,
        &PoolSpec {
            input,
            output,
            window,
            kind: PoolKind::Max,
        },
    )
    .err();
    assert_eq!(
        made,
        Some(KernelError::PaddingCoversWindow {
            padding: 2,
            window: 2
        })
    );
}

#[test]
fn empty_and_enormous_tensors_are_refused() {
    let isa = Isa::Scalar;
    let zero = BlockedLayout::new(isa, 4, 0, 4, 0).err();
    assert_eq!(zero, Some(KernelError::Zero { what: "height" }));
    let wide = BlockedLayout::new(isa, 4, 1, usize::MAX, 0).err();
    let (what, limit) = ("width", 1 << 20);
    assert_eq!(
        wide,
        Some(KernelError::TooLarge {
            what,
            found: usize::MAX,
            limit
        })
    );
    let large = BlockedLayout::new(isa, 1 << 16, 1 << 16, 1 << 16, 1 << 16).err();
    assert!(matches!(
        large,
        Some(KernelError::TooLarge {
            what: "elements of a tensor",
            ..
        })
    ));
}
