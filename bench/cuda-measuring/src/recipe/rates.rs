//! Launches whose time says how fast a device is: products on tensor cores, copies within its memory, looks.

use punctual_cuda_kernels::params::{Conv, Members};
use punctual_cuda_kernels::{Arguments, IMAGES_MAX};

use super::{FIRST, OUTPUT, Recipe, SECOND, THIRD, floats, halves, view};

/// A launch with what it does, to be divided by its time.
#[derive(Clone, Debug)]
pub struct Rated {
    pub recipe: Recipe,
    /// Multiply-accumulates, bytes read and written, or tiles of a main loop.
    pub amount: u64,
}

/// How much is asked of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As little as runs: to see that it runs.
    Tiny,
    /// Enough to keep any device busy for some hundred microseconds.
    Full,
}

/// A convolution of one pixel: `side * side * inputs * outputs` products. What a device computes with changes its time only
/// through the power that it draws, so the inputs are not zeros.
fn products(kernel: &str, side: u32, inputs: u32, outputs: u32) -> Recipe {
    let conv = Conv {
        input: view(FIRST, [side, side, inputs]),
        output: view(OUTPUT, [side, side, outputs]),
        weights: SECOND,
        bias: THIRD,
        images: 1,
        kernel_height: 1,
        kernel_width: 1,
        stride_height: 1,
        stride_width: 1,
        groups: 1,
        splits: 1,
        channel_count: outputs,
        dilation_height: 1,
        dilation_width: 1,
        ..Conv::default()
    };
    let inputs = vec![
        halves((side * side * inputs) as usize, 2),
        halves((inputs * outputs) as usize, 2),
        floats(outputs as usize, 2),
    ];
    let output = 2 * (side * side * outputs) as usize;
    Recipe::new(kernel, output, inputs, Arguments::Conv(conv))
}

/// Products on tensor cores by the kernel with the largest tile. The amount is multiply-accumulates.
#[must_use]
pub fn tensor_products(size: Size) -> Rated {
    let (side, channels) = match size {
        Size::Tiny => (8, 64),
        Size::Full => (64, 2048),
    };
    Rated {
        recipe: products("conv_gemm_128x128", side, channels, channels),
        amount: u64::from(side * side) * u64::from(channels) * u64::from(channels),
    }
}

/// A copy within the device's memory, far more than a cache holds. The amount is bytes read and written.
#[must_use]
pub fn copy(size: Size) -> Rated {
    let bytes: usize = match size {
        Size::Tiny => 1 << 16,
        Size::Full => 128 << 20,
    };
    let mut members = [0; IMAGES_MAX];
    members[0] = FIRST;
    let arguments = Arguments::Members(Members {
        batch: OUTPUT,
        bytes: bytes as u64,
        members,
        images: 1,
        gap: 0,
    });
    Rated {
        recipe: Recipe::new("members_in", bytes, vec![vec![1; bytes]], arguments),
        amount: 2 * bytes as u64,
    }
}

/// One block with a long main loop, which may look at each of its tiles; the amount is those. On devices without the
/// tensor-core kernels the general one has such a loop.
#[must_use]
pub fn looks(size: Size, has_tensor_cores: bool) -> Rated {
    let tiles = match size {
        Size::Tiny => 8,
        Size::Full => 1024,
    };
    // Steps of the sum in a tile of each kernel's main loop.
    let (kernel, depth) = if has_tensor_cores {
        ("conv_gemm_64x64", 64)
    } else {
        ("conv_dense_general", 256)
    };
    Rated {
        recipe: products(kernel, 8, tiles * depth, 32),
        amount: u64::from(tiles),
    }
}
