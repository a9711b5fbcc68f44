//! The rules of the house that no compiler checks.
#![forbid(unsafe_code)]

mod mechanisms;
mod operators;
mod parameters;
mod rooms;
mod rules;
mod words;
