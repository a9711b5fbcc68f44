//! More than was promised: answers get shallower, what does not fit is refused at once, and nothing is late or lost.

use crate::book::Book;
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::scene::{CameraPlan, DaemonPlan, Scene};

const CAPTURE_S: f64 = 5.0;

const ABOUT: &str = "All cameras at a multiple of their promised rates: every frame has its verdict, and answers are on time.";

const fn case(
    name: &'static str,
    measures: &'static [(&'static str, &'static str)],
    body: fn(&mut Scene<'_>) -> Result<(), Failure>,
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
    case("1x", &[("late_share_1x", "")], |scene| {
        overload(scene, 1.0, "late_share_1x")
    }),
    case("2x", &[("late_share_2x", "")], |scene| {
        overload(scene, 2.0, "late_share_2x")
    }),
    case("4x", &[("late_share_4x", "")], |scene| {
        overload(scene, 4.0, "late_share_4x")
    }),
    case("16x", &[("late_share_16x", "")], |scene| {
        overload(scene, 16.0, "late_share_16x")
    }),
];

fn overload(scene: &mut Scene<'_>, factor: f64, key: &'static str) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&Task::ALL))?;
    let mut cameras = Vec::new();
    for task in Task::ALL {
        let plan = CameraPlan::of(task).for_seconds(CAPTURE_S);
        let plan = CameraPlan {
            fps: task.fps().map(|fps| fps * factor),
            ..plan
        };
        cameras.push(scene.camera(&daemon, &plan)?);
    }
    let books: Vec<Book> = cameras
        .iter()
        .map(|camera| scene.finish(camera))
        .collect::<Result<_, _>>()?;
    let account = scene.stop_daemon(&daemon)?;
    let mut late_share: f64 = 0.0;
    for (task, book) in Task::ALL.into_iter().zip(&books) {
        account.agrees_with(task.name(), &[book])?;
        scene.picture(task.name(), &book.latency_us);
        if task.fps().is_some() {
            late_share =
                late_share.max(account.unexcused(book) as f64 / book.submitted.max(1) as f64);
        }
        let name = task.name();
        scene.effect(
            book.on_time,
            format!("frames of {name} answered on time, of {}", book.submitted),
        );
        for (reason, count) in &book.rejected {
            scene.effect(
                *count,
                format!("frames of {name} refused when they arrived: {reason}"),
            );
        }
        if book.skipped > 0 {
            scene.effect(
                book.skipped,
                format!("frames of {name} dropped by the camera: all slots in flight"),
            );
        }
    }
    scene.measure(key, late_share);
    Ok(())
}
