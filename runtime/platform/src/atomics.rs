//! The atomics of whatever talks between threads or processes: the machine's, or with `--cfg loom` the
//! ones of the model checker, which tries every order and every stale value that the memory model allows.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
