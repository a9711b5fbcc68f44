//! What every device must do, as functions that panic when it does not.
mod interpreter;
pub mod networks;
pub use interpreter::interpret;
