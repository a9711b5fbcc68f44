//! Tests of the scheduler as a whole, in virtual time.

mod canaries;
mod checker;
mod exhaustive;
mod guarantee;
mod misbehaviour;
mod overrun;
mod plans;
mod random;
mod random_plans;
mod slack;
mod worked_example;
mod world;
