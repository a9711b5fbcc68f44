//! `punctual-lab`, as it is typed.
#![forbid(unsafe_code)]

mod compare;
mod daemon;
#[path = "../../../../runtime/daemon/tests/support/division.rs"]
mod division;
#[path = "../../../../runtime/daemon/tests/support/emulated_gpu.rs"]
mod emulated_gpu;
mod incident;
mod plan;
mod replay;
#[path = "../../../../runtime/daemon/tests/support/mod.rs"]
mod support;
