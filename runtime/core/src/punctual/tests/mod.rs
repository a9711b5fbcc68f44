//! Tests of the scheduler as a whole, in virtual time.

mod admission;
mod best_effort;
mod canaries;
mod checker;
mod demotion;
mod depth;
mod exhaustive;
mod guarantee;
mod joint;
mod latest;
mod layouts;
mod look_ahead;
mod misbehaviour;
mod overrun;
mod paging;
mod plans;
mod prefix;
mod price;
mod random_plans;
mod rhythm;
mod shedding;
mod slack;
mod spill;
mod switches;
mod worked_example;
mod world;
