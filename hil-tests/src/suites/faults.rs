//! Faults that a vehicle has: each is survived, and leaves a count that says what it cost. The
//! machine's own are in [`super::machine`].

use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::records::Outage;
use crate::suites::{drawn, torture};

const CLIENT_KILLS: u64 = 10;

/// Times that the daemon is killed.
const DAEMON_KILLS: usize = 5;

pub const CASES: &[Case] = &[
    Case {
        suite: "faults",
        name: "client-killed",
        about: "Clients are killed at random moments: their places are free again, and another task notices nothing.",
        needs: &[Need::Cores(2)],
        limit_s: 120,
        measures: &[("client_killed_missed_share", "")],
        body: client_killed,
    },
    Case {
        suite: "faults",
        name: "client-stopped",
        about: "A client is stopped for two seconds and continued: its frames have their verdicts, and another task notices nothing.",
        needs: &[Need::Cores(2)],
        limit_s: 90,
        measures: &[("client_stopped_missed_share", "")],
        body: client_stopped,
    },
    Case {
        suite: "faults",
        name: "daemon-killed",
        about: "The daemon is killed at random moments and started again: clients that are not restarted soon have answers on time.",
        needs: &[Need::Cores(2)],
        limit_s: 180,
        measures: &[
            ("recovery_ms_max", "ms"),
            ("recovery_ms_median", "ms"),
            ("start_ms_max", "ms"),
        ],
        body: daemon_killed,
    },
    Case {
        suite: "faults",
        name: "daemon-stopped",
        about: "The daemon is stopped as a whole: its service manager's watchdog ends it, and its successor answers the same clients.",
        needs: &[Need::Cores(2)],
        limit_s: 120,
        measures: &[("stopped_recovery_ms", "ms")],
        body: daemon_stopped,
    },
    Case {
        suite: "faults",
        name: "channel-tortured",
        about: "`channel-torture` kills and stops clients of a best-effort task by the dozen, some of them hostile: it finds nothing, and a real-time task notices nothing.",
        needs: &[Need::Cores(2), Need::Torture],
        limit_s: 180,
        measures: &[("tortured_missed_share", "")],
        body: torture::for_seconds,
    },
];

fn client_killed(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let fast = bed.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    for turn in 0..CLIENT_KILLS {
        let plan = CameraPlan::of(Task::Watch).named(format!("victim-{turn}"));
        let victim = bed.camera(&daemon, &plan)?;
        bed.answered(&victim, 1)?;
        bed.let_pass(drawn(bed.seed, turn, 200) as f64 / 1e3)?;
        bed.strike(victim.process.pid, "KILL")?;
        bed.ended("a killed client", victim.process, 5)?;
    }
    let free = bed.look_for(5, |bed| {
        Ok(Some(bed.live(&daemon)?.clients).filter(|clients| clients.in_use == 1))
    })?;
    let clients = free.ok_or(Failure::Missing {
        what: "the places of killed clients are free again",
    })?;
    let counts = bed.stop_camera(&fast)?;
    let account = bed.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&counts])?;
    bed.measure("client_killed_missed_share", account.missed_share(&counts));
    bed.effect(
        clients.gone,
        format!("clients gone, {CLIENT_KILLS} of them killed in the midst of their work"),
    );
    let watch = account.tasks.iter().find(|task| task.name == "watch");
    let settled = watch.map_or(0, |task| task.submitted);
    bed.effect(
        settled,
        "frames of clients that were killed; the daemon gave each its verdict",
    );
    Ok(())
}

fn client_stopped(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let fast = bed.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    let sleeper = bed.camera(&daemon, &CameraPlan::of(Task::Watch).named("sleeper"))?;
    bed.answered(&sleeper, 10)?;
    bed.strike(sleeper.process.pid, "STOP")?;
    bed.let_pass(2.0)?;
    let asleep = bed
        .counts_of(&sleeper)?
        .map_or(0, |counts| counts.submitted);
    bed.strike(sleeper.process.pid, "CONT")?;
    bed.answered(&sleeper, asleep + 10)?;
    let (sleeper, counts) = (bed.stop_camera(&sleeper)?, bed.stop_camera(&fast)?);
    let account = bed.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&counts])?;
    account.agrees_with("watch", &[&sleeper])?;
    bed.measure("client_stopped_missed_share", account.missed_share(&counts));
    bed.effect(1, "client stopped for two seconds; its open frames were answered, and it went on with the same connection");
    Ok(())
}

fn daemon_killed(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Front, Task::Fast]).restarted())?;
    let cameras = [
        bed.camera(&daemon, &CameraPlan::of(Task::Front))?,
        bed.camera(&daemon, &CameraPlan::of(Task::Fast))?,
    ];
    let mut recoveries_ms = Vec::new();
    let mut start_ms: f64 = 0.0;
    for turn in 0..DAEMON_KILLS {
        for camera in &cameras {
            let on_time = bed.counts_of(camera)?.map_or(0, |counts| counts.on_time);
            bed.answered(camera, on_time + 10)?;
        }
        bed.let_pass(drawn(bed.seed, turn as u64, 100) as f64 / 1e3)?;
        let killed_ns = bed.strike(bed.pid(&daemon)?, "KILL")?;
        let ready_ns = bed.ready(&daemon, turn + 2)?;
        start_ms = start_ms.max(ready_ns.saturating_sub(killed_ns) as f64 / 1e6);
        for camera in &cameras {
            let outage = recovered(bed, camera, turn)?;
            recoveries_ms.push(outage.on_time_ns.saturating_sub(killed_ns) as f64 / 1e6);
        }
    }
    // The part that is the daemon's: from its death to its successor's readiness.
    bed.measure("start_ms_max", start_ms);
    recoveries_ms.sort_by(f64::total_cmp);
    bed.measure(
        "recovery_ms_max",
        recoveries_ms.last().copied().unwrap_or(f64::NAN),
    );
    bed.measure("recovery_ms_median", recoveries_ms[recoveries_ms.len() / 2]);
    for camera in &cameras {
        let counts = bed.stop_camera(camera)?;
        let task = &counts.task;
        bed.effect(
            counts.outages.len() as u64,
            format!(
                "outages of {task}, each ended by answers on time, without restarting the camera"
            ),
        );
        bed.effect(
            counts.gone,
            format!("frames of {task} in flight when the daemon was killed: told gone, not lost"),
        );
        bed.effect(
            counts.offline,
            format!("frames of {task} not captured while there was no daemon"),
        );
    }
    bed.stop_daemon(&daemon)?;
    Ok(())
}

/// The camera's outage of this number, once it is over.
fn recovered(
    bed: &TestBed<'_>,
    camera: &crate::bed::Camera,
    number: usize,
) -> Result<Outage, Failure> {
    let over = bed.look_for(10, |bed| {
        let outage = bed
            .counts_of(camera)?
            .and_then(|counts| counts.outages.get(number).copied());
        Ok(outage.filter(|outage| outage.on_time_ns > 0))
    })?;
    over.ok_or(Failure::Missing {
        what: "a killed daemon's clients are answered on time again",
    })
}

/// As a unit's `WatchdogSec=`, in ms.
const WATCHDOG_MS: u64 = 1000;

fn daemon_stopped(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let plan = DaemonPlan {
        watchdog_ms: Some(WATCHDOG_MS),
        ..DaemonPlan::serving(&[Task::Fast])
    };
    let daemon = bed.daemon(&plan.restarted())?;
    let camera = bed.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    bed.answered(&camera, 30)?;
    // A daemon that is well is left alone, for longer than the watchdog's patience.
    bed.let_pass(2.0 * WATCHDOG_MS as f64 / 1e3)?;
    if bed
        .counts_of(&camera)?
        .is_some_and(|counts| !counts.outages.is_empty())
    {
        return Err(Failure::Missing {
            what: "a healthy daemon feeds its service manager's watchdog",
        });
    }
    let stopped_ns = bed.strike(bed.pid(&daemon)?, "STOP")?;
    bed.ready(&daemon, 2)?;
    let outage = recovered(bed, &camera, 0)?;
    let recovery_ms = outage.on_time_ns.saturating_sub(stopped_ns) as f64 / 1e6;
    bed.measure("stopped_recovery_ms", recovery_ms);
    let counts = bed.stop_camera(&camera)?;
    bed.stop_daemon(&daemon)?;
    bed.effect(1, format!("daemon ended by its service manager after {WATCHDOG_MS} ms of silence, and started again"));
    bed.effect(
        counts.gone,
        "frames in flight when it was ended: told gone, not lost",
    );
    bed.effect(
        counts.skipped + counts.offline,
        "frames dropped by the camera while nothing was answered",
    );
    Ok(())
}
