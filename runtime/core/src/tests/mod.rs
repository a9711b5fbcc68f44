//! Tests of the scheduler as a whole, in virtual time.

mod canaries;
mod checker;
mod exhaustive;
mod guarantee;
mod plans;
mod random;
mod worked_example;
mod world;
