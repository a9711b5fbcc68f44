//! Where the values of one image's tensor lie in a slice.
//!
//! Two layouts: [`PlanarLayout`] for the network's input, which intake threads write, and
//! [`BlockedLayout`] for everything else.

mod blocked;
mod planar;

pub(crate) use self::blocked::Span;
pub use self::blocked::{BlockedLayout, Element, Part};
pub use self::planar::PlanarLayout;
