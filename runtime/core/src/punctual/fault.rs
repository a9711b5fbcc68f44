//! What the checks of the owners are tested with.

/// What the `check` of an owner of state must find, and how a test plants it.
pub type Fault<T> = (&'static str, fn(&mut T));
