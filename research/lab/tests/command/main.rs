//! `punctual-lab`, as it is typed.
#![forbid(unsafe_code)]

mod compare;
mod daemon;
mod plan;
#[path = "../../../../runtime/daemon/tests/support/mod.rs"]
mod support;
