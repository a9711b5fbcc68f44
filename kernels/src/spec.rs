//! The parameters that operators share.

use crate::KernelError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub height: usize,
    pub width: usize,
}

impl Extent {
    pub const fn square(side: usize) -> Extent {
        Extent {
            height: side,
            width: side,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    pub top: usize,
    /// Columns before.
    pub left: usize,
    pub bottom: usize,
    pub right: usize,
}

impl Padding {
    /// The same on all four sides.
    pub const fn uniform(pixels: usize) -> Padding {
        Padding {
            top: pixels,
            left: pixels,
            bottom: pixels,
            right: pixels,
        }
    }

    /// That of the widest side: the halo that a tensor read with this padding needs.
    pub fn largest(self) -> usize {
        self.top.max(self.left).max(self.bottom).max(self.right)
    }
}

/// A sliding window over an image: of a convolution or a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub kernel: Extent,
    /// Step between output pixels, in input pixels.
    pub stride: Extent,
    pub padding: Padding,
}

impl Window {
    /// Rows and columns of the result for an input of `height` x `width`.
    pub fn output_extent(&self, height: usize, width: usize) -> Result<Extent, KernelError> {
        let Window {
            kernel,
            stride,
            padding,
        } = self;
        Ok(Extent {
            height: steps(
                "kernel height",
                height + padding.top + padding.bottom,
                kernel.height,
                stride.height,
            )?,
            width: steps(
                "kernel width",
                width + padding.left + padding.right,
                kernel.width,
                stride.width,
            )?,
        })
    }
}

fn steps(
    what: &'static str,
    padded: usize,
    window: usize,
    stride: usize,
) -> Result<usize, KernelError> {
    if window == 0 || stride == 0 {
        return Err(KernelError::Zero {
            what: if window == 0 { what } else { "stride" },
        });
    }
    if window > padded {
        return Err(KernelError::WindowTooLarge {
            what,
            window,
            padded,
        });
    }
    Ok((padded - window) / stride + 1)
}

pub(crate) fn check_equal(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), KernelError> {
    if found == expected {
        Ok(())
    } else {
        Err(KernelError::Mismatch {
            what,
            found,
            expected,
        })
    }
}

pub(crate) fn check_finite(what: &'static str, values: &[f32]) -> Result<(), KernelError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(KernelError::NotFinite {
            what,
            index,
            value: values[index],
        }),
    }
}
