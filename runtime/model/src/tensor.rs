//! Tensors and weights of a network: their shapes, and where they are among its own.

use punctual_types::Extent;
use serde::{Deserialize, Serialize};

/// Position of a tensor in [`Network::tensors`](crate::Network::tensors).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorId(pub u32);

impl std::fmt::Display for TensorId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl TensorId {
    /// The position in [`Network::tensors`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shape of one image's tensor. A vector of features has `height = width = 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Channels, or features.
    pub channels: u32,
    pub height: u32,
    pub width: u32,
}

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

/// A range of [`Network::weights`](crate::Network::weights).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WeightRange {
    /// First element.
    pub start: u32,
    pub len: u32,
}
