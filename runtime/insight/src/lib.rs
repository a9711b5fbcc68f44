//! What a recording shows.
//!
//! | to find | look at |
//! |---|---|
//! | one frame's story, against what the plan allowed | [`explain`](explain::explain) |
//! | a trace for Perfetto | [`trace()`] |
//! | its format | `perfetto`; its tracks and arrows: `tracks`, `flows` |
//! | a page for people who have no viewer | [`page`] |
//! | how long stages were expected to take, and took | [`Expected`] |
//! | a profile from the field | [`Field`] |
#![forbid(unsafe_code)]

mod expected;
pub mod explain;
mod field;
mod flows;
mod lanes;
mod loads;
mod parts;
mod perfetto;
mod picture;
mod runs;
mod trace;
mod tracks;
mod words;

pub use expected::{Cell, Expected, Row};
pub use field::{Field, FieldProfile};
pub use picture::{Part, page};
pub use trace::{TraceError, Traced, trace};
