//! In which order the values of a tensor are counted through.
//!
//! A tensor has three axes: channels, rows and columns. A [`View`] lists them in any order and cut into digits, so it
//! can say what a transpose, a reshape, a slice or a shuffle of channels reads. E.g. 48 channels of 8x8 pixels as
//! `[pixel][channel]`:
//!
//! ```
//! use punctual_types::{Axis, Digit, View};
//!
//! let digit = |axis, extent| Digit { axis, step: 1, extent };
//! let view = View {
//!     start: [0; 3],
//!     digits: vec![digit(Axis::Row, 8), digit(Axis::Column, 8), digit(Axis::Channel, 48)],
//! };
//! assert_eq!(view.elements(), 3072);
//! assert!(view.lies_in([48, 8, 8]));
//! // The second value is channel 1 of the first pixel.
//! assert_eq!(view.positions().nth(1), Some([1, 0, 0]));
//! ```

use core::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Axis {
    Channel,
    Row,
    Column,
    /// Nothing: the same values again.
    Repeat,
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Channel => "channels",
            Self::Row => "rows",
            Self::Column => "columns",
            Self::Repeat => "repetitions",
        })
    }
}

impl Axis {
    /// Its place in a position, `[channel, row, column]`; none for a repetition.
    #[must_use]
    pub const fn index(self) -> Option<usize> {
        match self {
            Self::Channel => Some(0),
            Self::Row => Some(1),
            Self::Column => Some(2),
            Self::Repeat => None,
        }
    }
}

/// Counts `extent` positions of an axis, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digit {
    pub axis: Axis,
    pub step: u32,
    /// At least 1.
    pub extent: u32,
}

/// The position on an axis is its start plus the sum of its digits times their steps. The last digit counts fastest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// First channel, row and column.
    pub start: [u32; 3],
    pub digits: Vec<Digit>,
}

impl View {
    /// All values of a tensor in the order channel, row, column.
    #[must_use]
    pub fn plain(shape: [u32; 3]) -> Self {
        let axes = [Axis::Channel, Axis::Row, Axis::Column];
        let digit = |(axis, extent)| Digit {
            axis,
            step: 1,
            extent,
        };
        Self {
            start: [0; 3],
            digits: std::iter::zip(axes, shape).map(digit).collect(),
        }
    }

    /// How many values it counts through.
    #[must_use]
    pub fn elements(&self) -> u64 {
        let extents = self.digits.iter().map(|digit| u64::from(digit.extent));
        extents.fold(1, u64::saturating_mul)
    }

    /// Whether every position is one of a tensor of this shape: channels, rows, columns.
    #[must_use]
    pub fn lies_in(&self, shape: [u32; 3]) -> bool {
        let mut last = self.start.map(u64::from);
        for digit in &self.digits {
            let Some(furthest) = digit.extent.checked_sub(1) else {
                return false;
            };
            if let Some(axis) = digit.axis.index() {
                let reach = u64::from(furthest) * u64::from(digit.step);
                last[axis] = last[axis].saturating_add(reach);
            }
        }
        std::iter::zip(last, shape).all(|(last, size)| last < u64::from(size))
    }

    /// Its digits cut where a tensor's axes begin: those that count the channels, the rows and the columns of a box
    /// of these sizes, through which its values go in plain order. `None` if a digit would have to be broken.
    #[must_use]
    pub fn split(&self, sizes: [u32; 3]) -> Option<[Vec<Digit>; 3]> {
        let mut axes = [const { Vec::new() }; 3];
        let mut left: Vec<Digit> = self.digits.iter().rev().copied().collect();
        for (axis, size) in axes.iter_mut().zip(sizes) {
            let mut need = size;
            while need > 1 {
                let digit = left.pop()?;
                let taken = if need.is_multiple_of(digit.extent) {
                    digit.extent
                } else if digit.extent.is_multiple_of(need) {
                    need
                } else {
                    return None;
                };
                let inner = digit.extent / taken;
                if inner > 1 {
                    left.push(Digit {
                        extent: inner,
                        ..digit
                    });
                }
                if taken > 1 {
                    axis.push(Digit {
                        step: digit.step.checked_mul(inner)?,
                        extent: taken,
                        ..digit
                    });
                }
                need /= taken;
            }
        }
        left.iter().all(|digit| digit.extent == 1).then_some(axes)
    }

    /// Channel, row and column of each value, in order: for references and tests.
    pub fn positions(&self) -> impl Iterator<Item = [u32; 3]> + '_ {
        (0..self.elements()).map(|at| self.position(at))
    }

    fn position(&self, mut at: u64) -> [u32; 3] {
        let mut position = self.start;
        for digit in self.digits.iter().rev() {
            let place = (at % u64::from(digit.extent)) as u32;
            at /= u64::from(digit.extent);
            if let Some(axis) = digit.axis.index() {
                position[axis] += place * digit.step;
            }
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [u32; 3] = [4, 2, 3];

    #[test]
    fn a_plain_view_goes_through_channels_rows_and_columns() {
        let view = View::plain(SHAPE);
        let positions: Vec<_> = view.positions().collect();
        assert_eq!(positions.len(), 24);
        assert_eq!(positions[..4], [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0]]);
        assert!(view.lies_in(SHAPE));
    }

    #[test]
    fn a_view_that_reaches_behind_its_tensor_or_counts_nothing_is_refused() {
        let mut view = View::plain(SHAPE);
        view.start[1] = 1;
        assert!(!view.lies_in(SHAPE));
        view.digits[1].extent = 1;
        assert!(view.lies_in(SHAPE));
        view.digits[2].step = u32::MAX;
        assert!(!view.lies_in(SHAPE));
        view.digits[2].extent = 0;
        assert!(!view.lies_in(SHAPE));
    }

    #[test]
    fn digits_are_cut_where_axes_begin_and_never_broken() {
        let digit = |axis, step, extent| Digit { axis, step, extent };
        let view = View {
            start: [0; 3],
            digits: vec![digit(Axis::Row, 1, 6), digit(Axis::Column, 2, 4)],
        };
        let split = view.split([2, 3, 4]);
        let rows = [digit(Axis::Row, 3, 2), digit(Axis::Row, 1, 3)];
        let columns = digit(Axis::Column, 2, 4);
        assert_eq!(split, Some([vec![rows[0]], vec![rows[1]], vec![columns]]));
        let split = view.split([1, 12, 2]);
        let columns = [digit(Axis::Column, 4, 2), digit(Axis::Column, 2, 2)];
        let rows = vec![digit(Axis::Row, 1, 6), columns[0]];
        assert_eq!(split, Some([vec![], rows, vec![columns[1]]]));
        assert_eq!(view.split([4, 6, 1]), None);
        assert_eq!(view.split([6, 2, 1]), None);
        assert_eq!(view.split([6, 8, 1]), None);
    }

    #[test]
    fn a_shuffle_of_channels_is_two_digits_of_one_axis() {
        let digit = |step, extent| Digit {
            axis: Axis::Channel,
            step,
            extent,
        };
        let view = View {
            start: [0; 3],
            digits: vec![digit(1, 2), digit(2, 2)],
        };
        let channels: Vec<_> = view.positions().map(|[channel, ..]| channel).collect();
        assert_eq!(channels, [0, 2, 1, 3]);
    }
}
