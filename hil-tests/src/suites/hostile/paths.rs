//! The paths of the daemon's sockets: too long, taken by another, handed on to a successor.

use super::siege::{BESIDE, Siege, Start, case, refusal, start};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::scene::{CameraPlan, Daemon, DaemonPlan, Scene};
use crate::target::Script;

pub const CASES: &[Case] = &[
    case(
        "paths-too-long",
        "`check` lets pass exactly those socket paths that a daemon starts with, up to the system's limit for both sockets.",
        &[],
        too_long,
    ),
    case(
        "successor-on-its-path",
        "A daemon whose sockets were moved away ends, and leaves those that its successor made there.",
        BESIDE,
        moved,
    ),
    case(
        "successor-while-it-drains",
        "A successor starts on the path of a daemon that drains, or is refused by name: its sockets are there when that one has ended.",
        BESIDE,
        draining,
    ),
    case(
        "metrics-path-taken",
        "Another program listens where the metrics should be: its socket is left alone.",
        &[],
        taken,
    ),
];

/// Around the length that leaves no room for `.metrics`, and the system's own limit.
const LENGTHS: [usize; 6] = [98, 99, 100, 104, 107, 108];

fn too_long(scene: &mut Scene<'_>) -> Result<(), Failure> {
    for length in LENGTHS {
        let folder = scene.path("");
        let path = format!("{folder}{}", "s".repeat(length - folder.len()));
        let keys = format!("socket = \"{path}\"\n");
        let name = format!("long-{length}");
        scene.write(
            &format!("{name}.toml"),
            &scene.stage.manifest(&[Task::Fast], &keys),
        )?;
        let command = scene.stage.command.clone();
        let manifest = format!("{name}.toml");
        let check = scene.try_command("check a manifest", 20, &[&command, "check", &manifest])?;
        let plan = DaemonPlan {
            name: &name,
            keys: &keys,
            socket: Some(path),
            ..DaemonPlan::serving(&[Task::Fast])
        };
        let daemon = scene.launch(&plan)?;
        let starts = match scene.ready(&daemon, 1) {
            Ok(_) => true,
            Err(Failure::NotReady { .. }) => false,
            Err(failure) => return Err(failure),
        };
        if starts {
            scene.end_daemon(&daemon)?;
        }
        if starts != (check.code == Some(0)) {
            return Err(Failure::Ending {
                who: format!("`punctual check` of a socket path of {length} bytes"),
                found: format!("code {:?}", check.code),
                wanted: "what a daemon makes of it",
                words: scene.last_words(&daemon)?,
            });
        }
        let word = if starts { "taken" } else { "refused" };
        scene.effect(1, format!("path of {length} bytes {word} by both"));
    }
    Ok(())
}

/// Both sockets of a successor are there and answer.
fn answers(scene: &mut Scene<'_>, daemon: &Daemon) -> Result<(), Failure> {
    scene.live(daemon)?;
    let plan = CameraPlan::of(Task::Fast).named("late-camera");
    let camera = scene.camera(daemon, &plan.for_seconds(0.5))?;
    let book = scene.finish(&camera)?;
    scene.effect(book.on_time, "frames answered by the successor afterwards");
    if book.on_time == 0 {
        return Err(Failure::Missing {
            what: "the successor is found at its path",
        });
    }
    Ok(())
}

fn successor() -> DaemonPlan<'static> {
    DaemonPlan {
        name: "successor",
        ..DaemonPlan::serving(&Task::ATTACKED)
    }
}

fn moved(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let first = scene.daemon(&DaemonPlan::serving(&Task::ATTACKED))?;
    let text = "mv \"$1\" \"$1.away\" && mv \"$1.metrics\" \"$1.away.metrics\"";
    let away = Script::new("move the sockets away", text).with([first.socket.as_str()]);
    scene.run(&away)?;
    let second = scene.daemon(&successor())?;
    let siege = Siege::around(scene, second.clone())?;
    scene.end_daemon(&first)?;
    answers(scene, &second)?;
    siege.lifted(scene).map(drop)
}

fn draining(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let first = scene.daemon(&DaemonPlan::serving(&Task::ATTACKED))?;
    let mut flood = Vec::new();
    for number in 0..4 {
        // Frames that are open when it is asked to end, so that the drain takes its time.
        let plan = CameraPlan::of(Task::Watch).named(format!("flood-{number}"));
        flood.push(scene.camera(&first, &plan.at(2000.0))?);
    }
    scene.answered(&flood[0], 30)?;
    // Held in its drain, until the successor is ready.
    let text =
        "kill -TERM \"$1\" && while [ -e \"$2\" ]; do :; done; kill -STOP \"$1\" && echo held";
    let pid = scene.pid(&first)?;
    let hold = Script::new("hold a daemon in its drain", text);
    scene.run(&hold.with([pid.to_string().as_str(), &first.socket]))?;
    for camera in &flood {
        // They would go over to the successor.
        scene.strike(camera.process.pid, "KILL")?;
    }
    // A refusal that says who is in the way is as good: its service manager comes again.
    let early = match start(scene, &successor())? {
        Start::Ready(second) => Some(second),
        Start::Ended(_, words, _) if words.contains("listening") => None,
        Start::Ended(end, _, daemon) => {
            return Err(scene.bad_end(&daemon, Some(end), "a refusal that says why"));
        }
    };
    scene.strike(pid, "CONT")?;
    // Its clients are gone and its drain took long, through no fault of its own.
    scene.ended(&first.name, first.service, 15)?;
    let second = match early {
        Some(second) => second,
        None => {
            scene.effect(1, "successor refused until its predecessor had ended");
            scene.daemon(&successor())?
        }
    };
    let siege = Siege::around(scene, second.clone())?;
    answers(scene, &second)?;
    siege.lifted(scene).map(drop)
}

fn taken(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let path = scene.path("socket.metrics");
    let mut command = vec![scene.stage.agent.clone()];
    command.extend(["agent", "listen", "--path", &path].map(str::to_owned));
    let other = scene.start("other", &[], command)?;
    let number = |scene: &Scene<'_>| -> Result<Option<String>, Failure> {
        let text = "test -S \"$1\" && stat -c %d:%i \"$1\" || true";
        let look = Script::new("look at the other's socket", text).with([path.as_str()]);
        Ok(Some(scene.run(&look)?.text()).filter(|number| !number.is_empty()))
    };
    let before = scene.look_for(5, number)?;
    let daemon = scene.launch(&DaemonPlan::serving(&[Task::Fast]))?;
    match scene.ready(&daemon, 1) {
        Ok(_) => scene.end_daemon(&daemon)?,
        Err(Failure::NotReady { .. }) => {
            scene.ended("the daemon", daemon.service, 15)?;
            refusal(scene, &daemon)?;
        }
        Err(failure) => return Err(failure),
    }
    let after = number(scene)?;
    scene.stop("the other program", other)?;
    match before.is_some() && before == after {
        true => Ok(()),
        false => Err(Failure::Missing {
            what: "the other program's socket was left alone",
        }),
    }
}
