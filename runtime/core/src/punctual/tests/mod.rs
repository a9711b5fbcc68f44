//! Tests that need the inside of the scheduler, in virtual time. What shows from outside is tested in
//! `testing/policies`, where the auditor looks at every step.

mod check;
mod guarantee;
mod joint;
mod layouts;
mod look_ahead;
mod plans;
mod price;
mod random_plans;
mod slack;
mod workload;
mod world;
