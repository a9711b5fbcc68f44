//! Signals: those that end the daemon as SIGTERM does, and those that do not end it.

use super::siege::{BESIDE, Siege, case};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::scene::{CameraPlan, DaemonPlan, Scene};
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

fn drain(scene: &mut Scene<'_>) -> Result<(), Failure> {
    for signal in ["HUP", "QUIT"] {
        let plan = DaemonPlan {
            name: signal,
            ..DaemonPlan::serving(&[Task::Front, Task::Fast])
        };
        let daemon = scene.daemon(&plan)?;
        let camera = CameraPlan::of(Task::Fast).named(format!("camera-{signal}"));
        let camera = scene.camera(&daemon, &camera)?;
        scene.answered(&camera, 30)?;
        scene.strike(scene.pid(&daemon)?, signal)?;
        scene.ended_well(&daemon)?;
        let account = scene.account(&daemon)?;
        let book = scene.stop_camera(&camera)?;
        let answered = account.tasks.iter().map(|task| task.on_time).sum();
        scene.effect(answered, format!("frames in the report after SIG{signal}"));
        scene.effect(book.gone, "frames that came while it drained");
    }
    Ok(())
}

fn stay(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let siege = Siege::laid(scene, &DaemonPlan::serving(&Task::ATTACKED))?;
    for signal in ["ALRM", "USR2", "USR1"] {
        scene.strike(siege.pid, signal)?;
        scene.let_pass(0.3)?;
        siege.serves(scene)?;
    }
    let report = siege.daemon.report.clone();
    let written = scene.look_for(2, |scene| {
        let text = "test -s \"$1\" && echo there || true";
        let look = Script::new("look for the report", text).with([report.as_str()]);
        Ok((scene.run(&look)?.text() == "there").then_some(()))
    })?;
    written.ok_or(Failure::Missing {
        what: "SIGUSR1 makes the daemon write its report",
    })?;
    scene.effect(3, "signals that did not end it");
    siege.lifted(scene).map(drop)
}
