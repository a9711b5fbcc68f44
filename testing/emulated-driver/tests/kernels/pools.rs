//! Pooling.
use crate::convolution::window;
use crate::error;
use crate::launch::launch;
use crate::tensor::{Tensor, shape};
use punctual_conformance::Alone;
use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::{GlobalPool, Pool};
use punctual_kernels::Shape;
use punctual_types::{PoolKind, Random, Window};

/// What a pool of this window makes of an image.
fn pooled(input: Shape, window: Window, kind: PoolKind, image: &[f32]) -> Vec<f32> {
    let Window {
        kernel,
        stride,
        padding,
        ..
    } = window;
    let meant = punctual_model::Pool {
        kind,
        kernel,
        stride,
        padding,
    };
    Alone::new(meant).reads(input.sides(), image).run()
}

fn check_pool(input: Shape, window: Window, code: u32, kind: PoolKind) {
    let (mut tensor, images) = Tensor::random(input, 2, &mut Random::new(3));
    let result = input.windowed(&window, input.channels);
    let mut output = Tensor::unwritten(result.expect("the window fits"), 2);
    launch(
        "pool",
        Arguments::Pool(Pool {
            input: tensor.view(),
            output: output.view(),
            images: 2,
            kind: code,
            kernel_height: window.kernel.height,
            kernel_width: window.kernel.width,
            stride_height: window.stride.height,
            stride_width: window.stride.width,
            pad_top: window.padding.top,
            pad_left: window.padding.left,
        }),
    );
    for (found, image) in output.planar().iter().zip(&images) {
        let expected = pooled(input, window, kind, image);
        let steps = window.kernel.area() + 1;
        error::check("pool", found, &expected, steps, &vec![1.0; expected.len()]);
    }
}

#[test]
fn windows_of_all_kinds() {
    let average = |counts_padding| PoolKind::Average { counts_padding };
    for (code, kind) in [(0, PoolKind::Max), (1, average(true)), (2, average(false))] {
        check_pool(
            shape(20, 9, 7),
            window((3, 3), (2, 2), (1, 1, 1, 1)),
            code,
            kind,
        );
        check_pool(
            shape(8, 6, 6),
            window((2, 3), (2, 1), (0, 2, 1, 0)),
            code,
            kind,
        );
    }
}

#[test]
fn whole_images_of_all_kinds() {
    let average = |counts_padding| PoolKind::Average { counts_padding };
    let kinds = [(0, PoolKind::Max), (1, average(true)), (2, average(false))];
    for input in [shape(72, 7, 7), shape(3, 1, 1), shape(136, 5, 9)] {
        for (code, kind) in kinds {
            check_whole(input, code, kind);
        }
    }
}

fn check_whole(input: Shape, code: u32, kind: PoolKind) {
    let (mut tensor, images) = Tensor::random(input, 3, &mut Random::new(4));
    let mut output = Tensor::unwritten(shape(input.channels, 1, 1), 3);
    launch(
        "global_pool",
        Arguments::GlobalPool(GlobalPool {
            input: tensor.view(),
            output: output.view(),
            images: 3,
            kind: code,
        }),
    );
    let size = (input.height as u32, input.width as u32);
    let whole = window(size, size, (0, 0, 0, 0));
    for (found, image) in output.planar().iter().zip(&images) {
        let expected = pooled(input, whole, kind, image);
        let steps = input.height * input.width + 1;
        error::check("pool", found, &expected, steps, &vec![1.0; expected.len()]);
    }
}
