//! A first manifest for some packages on this machine: which promises it asks for, and its text, with a reason for each line.

mod machine;
mod promise;
mod text;

pub use machine::{Machine, from_folder};
pub use promise::{Promise, Wanted, Work, propose};
pub use text::{Network, Proposal};
