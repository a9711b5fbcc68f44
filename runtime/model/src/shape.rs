//! Shapes of tensors, and of what windows see.

mod error;

use punctual_types::{Extent, Padding, Window};

use crate::Tensor;

pub use error::ShapeError;

/// The largest number of rows or columns that a kernel spans, and so of a stride, a dilation or a padding.
pub const KERNEL_MAX: u32 = 1 << 10;

impl std::fmt::Display for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.channels, self.height, self.width)
    }
}

impl Tensor {
    #[must_use]
    pub const fn features(channels: u32) -> Self {
        Self {
            channels,
            height: 1,
            width: 1,
        }
    }

    /// Rows and columns.
    #[must_use]
    pub const fn extent(&self) -> Extent {
        Extent {
            height: self.height,
            width: self.width,
        }
    }

    /// Channels, rows and columns.
    #[must_use]
    pub const fn sides(self) -> [u32; 3] {
        [self.channels, self.height, self.width]
    }

    /// With these channels, rows and columns.
    #[must_use]
    pub const fn of_sides([channels, height, width]: [u32; 3]) -> Self {
        Self {
            channels,
            height,
            width,
        }
    }

    /// Rows times columns.
    #[must_use]
    pub const fn pixels(self) -> u64 {
        self.height as u64 * self.width as u64
    }

    /// All places in it, in the order channel, row, column.
    pub fn places(self) -> impl Iterator<Item = [u32; 3]> {
        let [channels, height, width] = self.sides();
        let rows = (0..channels).flat_map(move |at| (0..height).map(move |row| (at, row)));
        rows.flat_map(move |(at, row)| (0..width).map(move |column| [at, row, column]))
    }

    /// Where a place's value lies in the planar tensor.
    pub const fn position(self, [channel, row, column]: [u32; 3]) -> usize {
        let rows = channel as u64 * self.height as u64 + row as u64;
        (rows * self.width as u64 + column as u64) as usize
    }

    /// Number of elements of one image's tensor.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        // Saturating, since a shape may come from a file that is not validated yet.
        (self.channels as u64 * self.height as u64).saturating_mul(self.width as u64)
    }
}

/// The shape of a window operator's result with `channels` output channels. Unlike
/// [`Window::output`], it also refuses windows that would lie wholly in the padding.
pub fn window_output(input: Tensor, channels: u32, window: &Window) -> Result<Tensor, ShapeError> {
    let Window {
        kernel,
        stride,
        padding,
        dilation,
    } = *window;
    let span = window.span();
    for (what, extent) in [
        ("kernel", kernel),
        ("stride", stride),
        ("dilation", dilation),
        ("kernel, dilated,", span),
    ] {
        let Extent { height, width } = extent;
        if !(1..=KERNEL_MAX).contains(&height) || !(1..=KERNEL_MAX).contains(&width) {
            return Err(ShapeError::Extent {
                what,
                height,
                width,
            });
        }
    }
    let Padding {
        top,
        left,
        bottom,
        right,
    } = padding;
    if top.max(bottom) >= span.height || left.max(right) >= span.width {
        let kernel = span;
        return Err(ShapeError::Padding { padding, kernel });
    }
    let Ok(Extent { height, width }) = window.output(input.extent()) else {
        return Err(ShapeError::InputTooSmall {
            kernel: span,
            input,
            padding,
        });
    };
    Ok(Tensor {
        channels,
        height,
        width,
    })
}
