//! Windows that slide over an image: of convolutions and of pools.

use core::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub height: u32,
    pub width: u32,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.height, self.width)
    }
}

impl Extent {
    #[must_use]
    pub const fn square(side: u32) -> Self {
        Self {
            height: side,
            width: side,
        }
    }

    /// Rows times columns.
    #[must_use]
    pub const fn area(self) -> usize {
        (self.height as usize).saturating_mul(self.width as usize)
    }
}

/// Rows and columns around an image, which read as nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Padding {
    pub top: u32,
    /// Columns before.
    pub left: u32,
    pub bottom: u32,
    pub right: u32,
}

impl fmt::Display for Padding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            top,
            left,
            bottom,
            right,
        } = self;
        write!(
            f,
            "({top} above, {left} before, {bottom} below, {right} behind)"
        )
    }
}

impl Padding {
    /// The same on all four sides.
    #[must_use]
    pub const fn uniform(pixels: u32) -> Self {
        Self {
            top: pixels,
            left: pixels,
            bottom: pixels,
            right: pixels,
        }
    }

    /// That of the widest side: the halo that a tensor read with this padding needs.
    #[must_use]
    pub fn largest(self) -> usize {
        let Self {
            top,
            left,
            bottom,
            right,
        } = self;
        top.max(left).max(bottom).max(right) as usize
    }
}

/// A sliding window over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub kernel: Extent,
    /// Step between output pixels, in input pixels.
    pub stride: Extent,
    pub padding: Padding,
    /// Step between the kernel's elements, in input pixels.
    pub dilation: Extent,
}

/// A window that cannot slide over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    #[error("{what} is 0: every size is at least 1")]
    Zero { what: &'static str },
    /// The window does not fit into the padded input.
    #[error("{what} is {window}, more than the padded input's {padded}: use a smaller kernel")]
    TooLarge {
        what: &'static str,
        window: u32,
        padded: u64,
    },
    #[error(
        "{steps} windows in a direction are more than {}: use a smaller input",
        u32::MAX
    )]
    TooMany { steps: u64 },
}

impl Window {
    /// One whose elements lie side by side.
    #[must_use]
    pub const fn new(kernel: Extent, stride: Extent, padding: Padding) -> Self {
        Self {
            kernel,
            stride,
            padding,
            dilation: Extent::square(1),
        }
    }

    /// The one window that covers an image.
    #[must_use]
    pub const fn whole(image: Extent) -> Self {
        Self::new(image, Extent::square(1), Padding::uniform(0))
    }

    /// Whether its elements lie apart.
    #[must_use]
    pub fn is_dilated(&self) -> bool {
        self.dilation != Extent::square(1)
    }

    /// Rows and columns from the first of its elements to the last: `dilation * (kernel - 1) + 1`.
    /// Zero only where the kernel is; saturating.
    #[must_use]
    pub const fn span(&self) -> Extent {
        const fn span(kernel: u32, dilation: u32) -> u32 {
            match kernel {
                0 => 0,
                kernel => dilation.saturating_mul(kernel - 1).saturating_add(1),
            }
        }
        Extent {
            height: span(self.kernel.height, self.dilation.height),
            width: span(self.kernel.width, self.dilation.width),
        }
    }

    /// How wide a halo of zeros a convolution with this window wants around what it reads: its
    /// padding. A dilated window may pad by more than the image has, and leaves out what lies in
    /// a wide padding instead: that takes less memory and less time.
    #[must_use]
    pub fn halo(&self) -> usize {
        const WIDE: usize = 4;
        let padding = self.padding.largest();
        if self.is_dilated() && padding > WIDE {
            return 0;
        }
        padding
    }

    /// Rows and columns of the result. Windows that would begin or end outside the padded input do
    /// not count: `floor((input + padding - span) / stride) + 1`.
    pub fn output(&self, input: Extent) -> Result<Extent, WindowError> {
        let Self {
            stride,
            padding,
            dilation,
            ..
        } = self;
        if dilation.height == 0 || dilation.width == 0 {
            return Err(WindowError::Zero { what: "dilation" });
        }
        let span = self.span();
        let padded = |length: u32, before: u32, after: u32| {
            u64::from(length) + u64::from(before) + u64::from(after)
        };
        let rows = padded(input.height, padding.top, padding.bottom);
        let columns = padded(input.width, padding.left, padding.right);
        Ok(Extent {
            height: steps("kernel height", rows, span.height, stride.height)?,
            width: steps("kernel width", columns, span.width, stride.width)?,
        })
    }
}

fn steps(what: &'static str, padded: u64, window: u32, stride: u32) -> Result<u32, WindowError> {
    if window == 0 || stride == 0 {
        return Err(WindowError::Zero {
            what: if window == 0 { what } else { "stride" },
        });
    }
    let room = padded
        .checked_sub(u64::from(window))
        .ok_or(WindowError::TooLarge {
            what,
            window,
            padded,
        })?;
    let steps = room / u64::from(stride) + 1;
    u32::try_from(steps).map_err(|_| WindowError::TooMany { steps })
}

/// How a pool reduces its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolKind {
    /// The largest. Padding never wins; whether a NaN does is not specified.
    Max,
    Average {
        /// Whether padding counts as zeros in each window's mean, or is left out of it.
        counts_padding: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_windows_count() {
        let stride = Extent {
            height: 1,
            width: 2,
        };
        let padding = Padding {
            top: 1,
            ..Padding::default()
        };
        let window = Window::new(Extent::square(3), stride, padding);
        let of = |height, width| window.output(Extent { height, width });
        assert_eq!(
            of(4, 6),
            Ok(Extent {
                height: 3,
                width: 2
            })
        );
        let error = of(4, 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel width is 3, more than the padded input's 2: use a smaller kernel"
        );
        assert_eq!(of(u32::MAX, 3).unwrap().height, u32::MAX - 1);
    }

    #[test]
    fn a_dilated_window_spans_more_than_its_elements() {
        let window = Window {
            dilation: Extent {
                height: 12,
                width: 2,
            },
            ..Window::new(Extent::square(3), Extent::square(1), Padding::uniform(2))
        };
        let input = Extent {
            height: 30,
            width: 7,
        };
        let expected = Extent {
            height: 10,
            width: 7,
        };
        assert_eq!(window.output(input), Ok(expected));
        assert_eq!((window.span().height, window.span().width), (25, 5));
        let dilation = Extent::square(0);
        let window = Window { dilation, ..window };
        let error = WindowError::Zero { what: "dilation" };
        assert_eq!(window.output(input), Err(error));
    }

    #[test]
    fn the_largest_sizes_do_not_wrap() {
        let image = Extent::square(u32::MAX);
        assert_eq!(Window::whole(image).output(image), Ok(Extent::square(1)));
        let window = Window {
            kernel: Extent::square(1),
            padding: Padding::uniform(u32::MAX),
            ..Window::whole(image)
        };
        let steps = 3 * u64::from(u32::MAX);
        assert_eq!(window.output(image), Err(WindowError::TooMany { steps }));
    }
}
