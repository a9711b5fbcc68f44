//! A daemon as it runs, drawn again and again.

mod view;

pub use view::{Picture, draw, text};
