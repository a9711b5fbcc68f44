//! Tests of all policies alike. What is particular to one stands in its own file.

mod conformance;
pub(crate) mod random;
