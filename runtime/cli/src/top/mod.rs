//! A daemon as it runs, drawn again and again.

mod machine;
mod view;

pub use machine::Machine;
pub use view::{Picture, draw, text};
