//! Signals: those that end the daemon as SIGTERM does, and those that do not end it.

use super::attack_run::{AttackRun, BESIDE, case};
use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::target::Script;

pub const CASES: &[Case] = &[
    case(
        "signals-that-drain",
        "HUP and QUIT end the daemon as TERM does: everything answered, and a report.",
        BESIDE,
        drain,
    ),
    case(
        "signals-that-do-not-end",
        "ALRM and USR2 are ignored, USR1 writes the report as it is; cameras notice nothing.",
        BESIDE,
        stay,
    ),
];

fn drain(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    for signal in ["HUP", "QUIT"] {
        let plan = DaemonPlan {
            name: signal,
            ..DaemonPlan::serving(&[Task::Front, Task::Fast])
        };
        let daemon = bed.daemon(&plan)?;
        let camera = CameraPlan::of(Task::Fast).named(format!("camera-{signal}"));
        let camera = bed.camera(&daemon, &camera)?;
        bed.answered(&camera, 30)?;
        bed.strike(bed.pid(&daemon)?, signal)?;
        bed.ended_well(&daemon)?;
        let account = bed.account(&daemon)?;
        let counts = bed.stop_camera(&camera)?;
        let answered = account.tasks.iter().map(|task| task.on_time).sum();
        bed.effect(answered, format!("frames in the report after SIG{signal}"));
        bed.effect(counts.gone, "frames that came while it drained");
    }
    Ok(())
}

fn stay(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let run = AttackRun::start(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    for signal in ["ALRM", "USR2", "USR1"] {
        bed.strike(run.pid, signal)?;
        bed.let_pass(0.3)?;
        run.serves(bed)?;
    }
    let report = run.daemon.report.clone();
    let written = bed.look_for(2, |bed| {
        let text = "test -s \"$1\" && echo there || true";
        let look = Script::new("look for the report", text).with([report.as_str()]);
        Ok((bed.run(&look)?.text() == "there").then_some(()))
    })?;
    written.ok_or(Failure::Missing {
        what: "SIGUSR1 makes the daemon write its report",
    })?;
    bed.effect(3, "signals that did not end it");
    run.finish(bed).map(drop)
}
