//! More than was promised: answers get shallower, what does not fit is refused at once, and nothing is late or lost.

use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::records::CameraCounts;

const CAPTURE_S: f64 = 5.0;

const ABOUT: &str = "All cameras at a multiple of their promised rates: every frame has its verdict, and answers are on time.";

const fn case(
    name: &'static str,
    measures: &'static [(&'static str, &'static str)],
    body: fn(&mut TestBed<'_>) -> Result<(), Failure>,
) -> Case {
    Case {
        suite: "overload",
        name,
        about: ABOUT,
        needs: &[Need::Cores(2)],
        limit_s: 90,
        measures,
        body,
    }
}

pub const CASES: &[Case] = &[
    case("1x", &[("late_share_1x", "")], |bed| {
        overload(bed, 1.0, "late_share_1x")
    }),
    case("2x", &[("late_share_2x", "")], |bed| {
        overload(bed, 2.0, "late_share_2x")
    }),
    case("4x", &[("late_share_4x", "")], |bed| {
        overload(bed, 4.0, "late_share_4x")
    }),
    case("16x", &[("late_share_16x", "")], |bed| {
        overload(bed, 16.0, "late_share_16x")
    }),
];

fn overload(bed: &mut TestBed<'_>, factor: f64, key: &'static str) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&Task::ALL))?;
    let mut cameras = Vec::new();
    for task in Task::ALL {
        let plan = CameraPlan::of(task).for_seconds(CAPTURE_S);
        let plan = CameraPlan {
            fps: task.fps().map(|fps| fps * factor),
            ..plan
        };
        cameras.push(bed.camera(&daemon, &plan)?);
    }
    let counts: Vec<CameraCounts> = cameras
        .iter()
        .map(|camera| bed.finish(camera))
        .collect::<Result<_, _>>()?;
    let account = bed.stop_daemon(&daemon)?;
    let mut late_share: f64 = 0.0;
    for (task, counts) in Task::ALL.into_iter().zip(&counts) {
        account.agrees_with(task.name(), &[counts])?;
        bed.picture(task.name(), &counts.latency_us);
        if task.fps().is_some() {
            late_share =
                late_share.max(account.unexcused(counts) as f64 / counts.submitted.max(1) as f64);
        }
        let name = task.name();
        bed.effect(
            counts.on_time,
            format!("frames of {name} answered on time, of {}", counts.submitted),
        );
        for (reason, count) in &counts.rejected {
            bed.effect(
                *count,
                format!("frames of {name} refused when they arrived: {reason}"),
            );
        }
        if counts.skipped > 0 {
            bed.effect(
                counts.skipped,
                format!("frames of {name} dropped by the camera: all slots in flight"),
            );
        }
    }
    bed.measure(key, late_share);
    Ok(())
}
