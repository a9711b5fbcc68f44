//! Planted faults, which test the checks of the owners of state.

/// The message that the `check` of an owner must return, and the mutation that must cause it.
pub type Fault<T> = (&'static str, fn(&mut T));
