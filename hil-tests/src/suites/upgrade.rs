//! A new version in the place of the old one, with clients attached that are not restarted.

use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::target::Script;

pub const CASES: &[Case] = &[Case {
    suite: "upgrade",
    name: "under-clients",
    about: "The old daemon drains and ends, the new one takes its place, and the same clients are answered on time again.",
    needs: &[Need::OldBinaries],
    limit_s: 120,
    measures: &[("gap_ms", "ms")],
    body: under_clients,
}];

fn under_clients(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let current = bed.path("current");
    let link = "ln -sfn \"$(command -v \"$2\")\" \"$1.next\" && mv -fT \"$1.next\" \"$1\"";
    let old = bed.stage.old_daemon.clone().unwrap_or_default();
    bed.run(&Script::new("install the old version", link).with([current.as_str(), &old]))?;
    let plan = DaemonPlan {
        program: Some(&current),
        ..DaemonPlan::serving(&[Task::Front, Task::Fast])
    };
    let daemon = bed.daemon(&plan.restarted())?;
    let mut cameras = Vec::new();
    for task in [Task::Front, Task::Fast] {
        cameras.push(bed.camera(&daemon, &CameraPlan::of(task))?);
    }
    for camera in &cameras {
        bed.answered(camera, 30)?;
    }
    let before = bed.live(&daemon)?;

    let new = bed.stage.daemon.clone();
    bed.run(&Script::new("install the new version", link).with([current.as_str(), &new]))?;
    let told_ns = bed.strike(bed.pid(&daemon)?, "TERM")?;
    bed.ready(&daemon, 2)?;
    let mut gap_ns = 0;
    for camera in &cameras {
        let again = bed.look_for(10, |bed| {
            let outage = bed
                .counts_of(camera)?
                .and_then(|counts| counts.outages.first().copied());
            Ok(outage.filter(|outage| outage.on_time_ns > 0))
        })?;
        let again = again.ok_or(Failure::Missing {
            what: "the new daemon answers the old one's clients on time",
        })?;
        gap_ns = gap_ns.max(again.on_time_ns.saturating_sub(told_ns));
    }
    let after = bed.live(&daemon)?;
    bed.measure("gap_ms", gap_ns as f64 / 1e6);
    for camera in &cameras {
        let counts = bed.stop_camera(camera)?;
        let refused: u64 = counts.rejected_total();
        bed.effect(
            refused,
            format!(
                "frames of {} refused with a reason, draining among them",
                counts.task
            ),
        );
        bed.effect(
            counts.gone,
            format!(
                "frames of {} without a verdict when the old daemon went",
                counts.task
            ),
        );
    }
    bed.stop_daemon(&daemon)?;
    bed.effect(
        1,
        format!("upgrade from {} to {}", before.version, after.version),
    );
    Ok(())
}
