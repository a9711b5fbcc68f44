//! Clients that are stopped and killed at moments of chance.

use super::attack_run::{AttackRun, BESIDE, case};
use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::suites::drawn;

/// Clients that are struck, one after the other.
const STRIKES: u64 = 12;

pub const CASES: &[Case] = &[case(
    "clients-struck",
    "Clients are stopped, woken and killed at moments of chance.",
    BESIDE,
    struck,
)];

fn struck(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let run = AttackRun::start(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    for turn in 0..STRIKES {
        let plan = CameraPlan::of(Task::Watch).named(format!("victim-{turn}"));
        let victim = bed.camera(&run.daemon, &plan)?;
        let draw = |number, below| drawn(bed.seed, 8 * turn + number, below);
        bed.let_pass(draw(0, 150) as f64 / 1e3)?;
        let pid = victim.process.pid;
        if draw(1, 2) == 0 {
            bed.strike(pid, "STOP")?;
            bed.let_pass(draw(2, 150) as f64 / 1e3)?;
            if draw(3, 2) == 0 {
                bed.strike(pid, "CONT")?;
                bed.let_pass(draw(4, 50) as f64 / 1e3)?;
            }
        }
        bed.strike(pid, "KILL")?;
        bed.ended("a killed client", victim.process, 5)?;
    }
    run.serves(bed)?;
    bed.effect(STRIKES, "clients killed, half of them after a stop");
    run.finish(bed).map(drop)
}
