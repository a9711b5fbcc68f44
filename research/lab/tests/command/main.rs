//! `punctual-lab`, as it is typed.
#![forbid(unsafe_code)]

mod compare;
mod plan;
