//! The rules of the house that no compiler checks.
#![forbid(unsafe_code)]

mod operators;
mod rooms;
mod rules;
mod words;
