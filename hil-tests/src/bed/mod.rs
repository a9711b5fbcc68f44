//! What a case has on the target: a fresh folder, a time limit, what it starts and what it finds out.

mod cameras;
mod daemons;
mod test_bed;

pub use cameras::{Camera, CameraPlan};
pub use daemons::{Daemon, DaemonPlan, End};
pub use test_bed::{Setting, TestBed};
