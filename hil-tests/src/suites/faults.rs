//! Faults that a vehicle has: each is survived, and leaves a count that says what it cost. The
//! machine's own are in [`super::machine`].

use std::collections::BTreeMap;

use crate::book::Outage;
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::scene::{CameraPlan, DaemonPlan, Scene};
use crate::suites::drawn;

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
        about: "A client is stopped for two seconds and goes on: its frames have their verdicts, and another task notices nothing.",
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
        body: channel_tortured,
    },
];

fn client_killed(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let fast = scene.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    for turn in 0..CLIENT_KILLS {
        let plan = CameraPlan::of(Task::Watch).named(format!("victim-{turn}"));
        let victim = scene.camera(&daemon, &plan)?;
        scene.answered(&victim, 1)?;
        scene.let_pass(drawn(scene.seed, turn, 200) as f64 / 1e3)?;
        scene.strike(victim.process.pid, "KILL")?;
        scene.ended("a killed client", victim.process, 5)?;
    }
    let free = scene.look_for(5, |scene| {
        Ok(Some(scene.live(&daemon)?.clients).filter(|clients| clients.in_use == 1))
    })?;
    let clients = free.ok_or(Failure::Missing {
        what: "the places of killed clients are free again",
    })?;
    let book = scene.stop_camera(&fast)?;
    let account = scene.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&book])?;
    scene.measure("client_killed_missed_share", account.missed_share(&book));
    scene.effect(
        clients.gone,
        format!("clients gone, {CLIENT_KILLS} of them killed in the midst of their work"),
    );
    let watch = account.tasks.iter().find(|task| task.name == "watch");
    let settled = watch.map_or(0, |task| task.submitted);
    scene.effect(
        settled,
        "frames of clients that were killed; the daemon gave each its verdict",
    );
    Ok(())
}

fn client_stopped(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let fast = scene.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    let sleeper = scene.camera(&daemon, &CameraPlan::of(Task::Watch).named("sleeper"))?;
    scene.answered(&sleeper, 10)?;
    scene.strike(sleeper.process.pid, "STOP")?;
    scene.let_pass(2.0)?;
    let asleep = scene.book(&sleeper)?.map_or(0, |book| book.submitted);
    scene.strike(sleeper.process.pid, "CONT")?;
    scene.answered(&sleeper, asleep + 10)?;
    let (sleeper, book) = (scene.stop_camera(&sleeper)?, scene.stop_camera(&fast)?);
    let account = scene.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&book])?;
    account.agrees_with("watch", &[&sleeper])?;
    scene.measure("client_stopped_missed_share", account.missed_share(&book));
    scene.effect(1, "client stopped for two seconds; its open frames were answered, and it went on with the same connection");
    Ok(())
}

fn daemon_killed(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Front, Task::Fast]).restarted())?;
    let cameras = [
        scene.camera(&daemon, &CameraPlan::of(Task::Front))?,
        scene.camera(&daemon, &CameraPlan::of(Task::Fast))?,
    ];
    let mut recoveries_ms = Vec::new();
    let mut start_ms: f64 = 0.0;
    for turn in 0..DAEMON_KILLS {
        for camera in &cameras {
            let on_time = scene.book(camera)?.map_or(0, |book| book.on_time);
            scene.answered(camera, on_time + 10)?;
        }
        scene.let_pass(drawn(scene.seed, turn as u64, 100) as f64 / 1e3)?;
        let killed_ns = scene.strike(scene.pid(&daemon)?, "KILL")?;
        let ready_ns = scene.ready(&daemon, turn + 2)?;
        start_ms = start_ms.max(ready_ns.saturating_sub(killed_ns) as f64 / 1e6);
        for camera in &cameras {
            let outage = recovered(scene, camera, turn)?;
            recoveries_ms.push(outage.on_time_ns.saturating_sub(killed_ns) as f64 / 1e6);
        }
    }
    // The part that is the daemon's: from its death to its successor's readiness.
    scene.measure("start_ms_max", start_ms);
    recoveries_ms.sort_by(f64::total_cmp);
    scene.measure(
        "recovery_ms_max",
        recoveries_ms.last().copied().unwrap_or(f64::NAN),
    );
    scene.measure("recovery_ms_median", recoveries_ms[recoveries_ms.len() / 2]);
    for camera in &cameras {
        let book = scene.stop_camera(camera)?;
        let task = &book.task;
        scene.effect(
            book.outages.len() as u64,
            format!(
                "outages of {task}, each ended by answers on time, without restarting the camera"
            ),
        );
        scene.effect(
            book.gone,
            format!("frames of {task} in flight when the daemon was killed: told gone, not lost"),
        );
        scene.effect(
            book.offline,
            format!("frames of {task} not captured while there was no daemon"),
        );
    }
    scene.stop_daemon(&daemon)?;
    Ok(())
}

/// The camera's outage of this number, once it is over.
fn recovered(
    scene: &Scene<'_>,
    camera: &crate::scene::Camera,
    number: usize,
) -> Result<Outage, Failure> {
    let over = scene.look_for(10, |scene| {
        let outage = scene
            .book(camera)?
            .and_then(|book| book.outages.get(number).copied());
        Ok(outage.filter(|outage| outage.on_time_ns > 0))
    })?;
    over.ok_or(Failure::Missing {
        what: "a killed daemon's clients are answered on time again",
    })
}

/// As a unit's `WatchdogSec=`, in ms.
const WATCHDOG_MS: u64 = 1000;

fn daemon_stopped(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let plan = DaemonPlan {
        watchdog_ms: Some(WATCHDOG_MS),
        ..DaemonPlan::serving(&[Task::Fast])
    };
    let daemon = scene.daemon(&plan.restarted())?;
    let camera = scene.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    scene.answered(&camera, 30)?;
    // A daemon that is well is left alone, for longer than the watchdog's patience.
    scene.let_pass(2.0 * WATCHDOG_MS as f64 / 1e3)?;
    if scene
        .book(&camera)?
        .is_some_and(|book| !book.outages.is_empty())
    {
        return Err(Failure::Missing {
            what: "a healthy daemon feeds its service manager's watchdog",
        });
    }
    let stopped_ns = scene.strike(scene.pid(&daemon)?, "STOP")?;
    scene.ready(&daemon, 2)?;
    let outage = recovered(scene, &camera, 0)?;
    let recovery_ms = outage.on_time_ns.saturating_sub(stopped_ns) as f64 / 1e6;
    scene.measure("stopped_recovery_ms", recovery_ms);
    let book = scene.stop_camera(&camera)?;
    scene.stop_daemon(&daemon)?;
    scene.effect(1, format!("daemon ended by its service manager after {WATCHDOG_MS} ms of silence, and started again"));
    scene.effect(
        book.gone,
        "frames in flight when it was ended: told gone, not lost",
    );
    scene.effect(
        book.skipped + book.offline,
        "frames dropped by the camera while nothing was answered",
    );
    Ok(())
}

/// What the torturer says of itself, as far as it is read here.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Torture {
    submitted: u64,
    kills: u64,
    findings: BTreeMap<String, serde_json::Value>,
}

fn channel_tortured(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let fast = scene.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    let program = scene.stage.torture.clone().unwrap_or_default();
    let seed = scene.seed.to_string();
    let command = [
        program.as_str(),
        "--socket",
        &daemon.socket,
        "--task",
        Task::Watch.name(),
        "--clients",
        "4",
        "--hostile",
        "1",
        "--kills",
        "40",
        "--frames",
        "4000",
        "--seed",
        &seed,
        "--json",
    ];
    let output = scene.try_command("torture the channel", 120, &command)?;
    let said: Torture = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if output.code != Some(0) {
        let findings = said.findings.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(Failure::Ending {
            who: "channel-torture".to_owned(),
            found: format!("{:?} ({findings})", output.code),
            wanted: "code 0",
            words: output.stderr,
        });
    }
    let book = scene.stop_camera(&fast)?;
    let account = scene.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&book])?;
    scene.measure("tortured_missed_share", account.missed_share(&book));
    scene.effect(
        said.submitted,
        "frames of tortured clients, each with one verdict",
    );
    scene.effect(said.kills, "clients killed");
    scene.effect(
        account.channel_faults,
        "connections ended by the daemon: their client wrote what no client writes",
    );
    Ok(())
}
