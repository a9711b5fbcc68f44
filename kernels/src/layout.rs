//! Where the values of one image's tensor lie in a slice.
//!
//! Two layouts: [`PlanarLayout`] for the network's input, which intake threads write, and
//! [`BlockedLayout`] for everything else.

mod blocked;
mod planar;

use core::ops::Range;

pub(crate) use self::blocked::Span;
pub use self::blocked::{BlockedLayout, Element};
pub use self::planar::PlanarLayout;
use crate::KernelError;

/// The largest size of a dimension: rows, columns, channels, kernel sides, strides.
pub(crate) const DIMENSION_MAX: usize = 1 << 20;
/// The largest tensor or packed weight, in elements: products of two offsets stay far from overflowing `isize` bytes.
pub(crate) const ELEMENTS_MAX: usize = 1 << 30;

/// One share of an operator's work: `index` of `of`, for `of` cores that work side by side.
///
/// Each core runs the same kernel with its own part on its own slice of the output; the slices
/// ([`BlockedLayout::part`]) are contiguous, disjoint, in order, and together the whole tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: usize,
    of: usize,
}

impl Part {
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// Share `index` of `of`. Panics unless `index < of`.
    pub const fn new(index: usize, of: usize) -> Part {
        assert!(
            index < of,
            "a part's index is less than the number of parts"
        );
        Part { index, of }
    }

    /// How many parts the work has.
    pub const fn of(self) -> usize {
        self.of
    }

    /// This part's share of `units`, as equal as whole units allow.
    pub(crate) fn share(self, units: usize) -> Range<usize> {
        units * self.index / self.of..units * (self.index + 1) / self.of
    }
}

fn check_dimensions(
    channels: usize,
    height: usize,
    width: usize,
    halo: usize,
) -> Result<(), KernelError> {
    for (what, found) in [("channels", channels), ("height", height), ("width", width)] {
        if found == 0 {
            return Err(KernelError::Zero { what });
        }
        check_limit(what, found, DIMENSION_MAX)?;
    }
    check_limit("halo", halo, DIMENSION_MAX)
}

fn check_elements(a: usize, b: usize, c: usize) -> Result<(), KernelError> {
    let elements = a.saturating_mul(b).saturating_mul(c);
    check_limit("elements of a tensor", elements, ELEMENTS_MAX)
}

pub(crate) fn check_limit(
    what: &'static str,
    found: usize,
    limit: usize,
) -> Result<(), KernelError> {
    if found <= limit {
        Ok(())
    } else {
        Err(KernelError::TooLarge { what, found, limit })
    }
}
