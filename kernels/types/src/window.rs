//! Windows that slide over an image: of convolutions and of pools.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub height: u32,
    pub width: u32,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub kernel: Extent,
    /// Step between output pixels, in input pixels.
    pub stride: Extent,
    pub padding: Padding,
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
    /// The one window that covers an image.
    #[must_use]
    pub fn whole(image: Extent) -> Self {
        Self {
            kernel: image,
            stride: Extent::square(1),
            padding: Padding::default(),
        }
    }

    /// Rows and columns of the result. Windows that would begin or end outside the padded input do
    /// not count: `floor((input + padding - kernel) / stride) + 1`.
    pub fn output(&self, input: Extent) -> Result<Extent, WindowError> {
        let Self {
            kernel,
            stride,
            padding,
        } = self;
        let padded = |length: u32, before: u32, after: u32| {
            u64::from(length) + u64::from(before) + u64::from(after)
        };
        let rows = padded(input.height, padding.top, padding.bottom);
        let columns = padded(input.width, padding.left, padding.right);
        Ok(Extent {
            height: steps("kernel height", rows, kernel.height, stride.height)?,
            width: steps("kernel width", columns, kernel.width, stride.width)?,
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
        let window = Window {
            kernel: Extent::square(3),
            stride: Extent {
                height: 1,
                width: 2,
            },
            padding: Padding {
                top: 1,
                ..Padding::default()
            },
        };
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
