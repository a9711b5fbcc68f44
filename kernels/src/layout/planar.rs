//! The network's input, in planes.

use crate::KernelError;
use crate::shape::Shape;
use crate::spec::{check_dimensions, check_elements};

/// A network's input `[channel][row][column]` with a border of zeros, the halo.
///
/// The owner of the memory clears it once; intake threads then write the image only ([`PlanarLayout::origin`]
/// and the strides) and no kernel ever writes to it, so the halo stays zero for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanarLayout {
    channels: usize,
    height: usize,
    width: usize,
    halo: usize,
}

impl PlanarLayout {
    /// A layout of `channels` x `height` x `width` with `halo` zeros on all four sides.
    pub fn new(
        channels: usize,
        height: usize,
        width: usize,
        halo: usize,
    ) -> Result<PlanarLayout, KernelError> {
        check_dimensions(channels, height, width, halo)?;
        check_elements(channels, height + 2 * halo, width + 2 * halo)?;
        Ok(PlanarLayout {
            channels,
            height,
            width,
            halo,
        })
    }

    /// As many of its planes, from any one on.
    ///
    /// # Panics
    /// If it has fewer.
    pub fn of_channels(&self, channels: usize) -> PlanarLayout {
        assert!((1..=self.channels).contains(&channels));
        PlanarLayout { channels, ..*self }
    }

    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Rows, without halo.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns, without halo.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows or columns of zeros on each side.
    pub fn halo(&self) -> usize {
        self.halo
    }

    /// The image's shape.
    pub fn shape(&self) -> Shape {
        Shape {
            channels: self.channels,
            height: self.height,
            width: self.width,
        }
    }

    /// Elements between a pixel and the one below.
    pub fn row_stride(&self) -> usize {
        self.width + 2 * self.halo
    }

    /// Elements between a channel's plane and the next.
    pub fn plane_stride(&self) -> usize {
        (self.height + 2 * self.halo) * self.row_stride()
    }

    /// Where the image's first value lies.
    pub fn origin(&self) -> usize {
        self.halo * self.row_stride() + self.halo
    }

    /// Elements of the whole tensor, halo included.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.channels * self.plane_stride()
    }

    /// Where a value of the image lies.
    pub fn index(&self, channel: usize, row: usize, column: usize) -> usize {
        assert!(channel < self.channels && row < self.height && column < self.width);
        self.origin() + channel * self.plane_stride() + row * self.row_stride() + column
    }
}
