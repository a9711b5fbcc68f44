//! The paths of the daemon's sockets: too long, taken by another, handed on to a successor.

use super::attack_run::{AttackRun, BESIDE, Start, case, refusal, start};
use crate::bed::{CameraPlan, Daemon, DaemonPlan, TestBed};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;
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

fn too_long(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    for length in LENGTHS {
        let folder = bed.path("");
        let path = format!("{folder}{}", "s".repeat(length - folder.len()));
        let keys = format!("socket = \"{path}\"\n");
        let name = format!("long-{length}");
        bed.write(
            &format!("{name}.toml"),
            &bed.stage.manifest(&[Task::Fast], &keys),
        )?;
        let command = bed.stage.command.clone();
        let manifest = format!("{name}.toml");
        let check = bed.try_command("check a manifest", 20, &[&command, "check", &manifest])?;
        let plan = DaemonPlan {
            name: &name,
            keys: &keys,
            socket: Some(path),
            ..DaemonPlan::serving(&[Task::Fast])
        };
        let daemon = bed.launch(&plan)?;
        let starts = match bed.ready(&daemon, 1) {
            Ok(_) => true,
            Err(Failure::NotReady { .. }) => false,
            Err(failure) => return Err(failure),
        };
        if starts {
            bed.end_daemon(&daemon)?;
        }
        if starts != (check.code == Some(0)) {
            return Err(Failure::Ending {
                who: format!("`punctual check` of a socket path of {length} bytes"),
                found: format!("code {:?}", check.code),
                wanted: "what a daemon makes of it",
                words: bed.last_words(&daemon)?,
            });
        }
        let word = if starts { "taken" } else { "refused" };
        bed.effect(1, format!("path of {length} bytes {word} by both"));
    }
    Ok(())
}

/// Both sockets of a successor are there and answer.
fn answers(bed: &mut TestBed<'_>, daemon: &Daemon) -> Result<(), Failure> {
    bed.live(daemon)?;
    let plan = CameraPlan::of(Task::Fast).named("late-camera");
    let camera = bed.camera(daemon, &plan.for_seconds(0.5))?;
    let counts = bed.finish(&camera)?;
    bed.effect(
        counts.on_time,
        "frames answered by the successor afterwards",
    );
    if counts.on_time == 0 {
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

fn moved(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let first = bed.daemon(&DaemonPlan::serving(&Task::ATTACKED))?;
    let text = "mv \"$1\" \"$1.away\" && mv \"$1.metrics\" \"$1.away.metrics\"";
    let away = Script::new("move the sockets away", text).with([first.socket.as_str()]);
    bed.run(&away)?;
    let second = bed.daemon(&successor())?;
    let run = AttackRun::with_daemon(bed, second.clone())?;
    bed.end_daemon(&first)?;
    answers(bed, &second)?;
    run.finish(bed).map(drop)
}

fn draining(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let first = bed.daemon(&DaemonPlan::serving(&Task::ATTACKED))?;
    let mut flood = Vec::new();
    for number in 0..4 {
        // Frames that are open when it is asked to end, so that the drain takes its time.
        let plan = CameraPlan::of(Task::Watch).named(format!("flood-{number}"));
        flood.push(bed.camera(&first, &plan.at(2000.0))?);
    }
    bed.answered(&flood[0], 30)?;
    // Held in its drain, until the successor is ready.
    let text =
        "kill -TERM \"$1\" && while [ -e \"$2\" ]; do :; done; kill -STOP \"$1\" && echo held";
    let pid = bed.pid(&first)?;
    let hold = Script::new("hold a daemon in its drain", text);
    bed.run(&hold.with([pid.to_string().as_str(), &first.socket]))?;
    for camera in &flood {
        // They would go over to the successor.
        bed.strike(camera.process.pid, "KILL")?;
    }
    // A refusal that says who is in the way is as good: its service manager comes again.
    let early = match start(bed, &successor())? {
        Start::Ready(second) => Some(second),
        Start::Ended(_, words, _) if words.contains("listening") => None,
        Start::Ended(end, _, daemon) => {
            return Err(bed.bad_end(&daemon, Some(end), "a refusal that says why"));
        }
    };
    bed.strike(pid, "CONT")?;
    // Its clients are gone and its drain took long, through no fault of its own.
    bed.ended(&first.name, first.service, 15)?;
    let second = match early {
        Some(second) => second,
        None => {
            bed.effect(1, "successor refused until its predecessor had ended");
            bed.daemon(&successor())?
        }
    };
    let run = AttackRun::with_daemon(bed, second.clone())?;
    answers(bed, &second)?;
    run.finish(bed).map(drop)
}

fn taken(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let path = bed.path("socket.metrics");
    let mut command = vec![bed.stage.agent.clone()];
    command.extend(["agent", "listen", "--path", &path].map(str::to_owned));
    let other = bed.start("other", &[], command)?;
    let number = |bed: &TestBed<'_>| -> Result<Option<String>, Failure> {
        let text = "test -S \"$1\" && stat -c %d:%i \"$1\" || true";
        let look = Script::new("look at the other's socket", text).with([path.as_str()]);
        Ok(Some(bed.run(&look)?.text()).filter(|number| !number.is_empty()))
    };
    let before = bed.look_for(5, number)?;
    let daemon = bed.launch(&DaemonPlan::serving(&[Task::Fast]))?;
    match bed.ready(&daemon, 1) {
        Ok(_) => bed.end_daemon(&daemon)?,
        Err(Failure::NotReady { .. }) => {
            bed.ended("the daemon", daemon.service, 15)?;
            refusal(bed, &daemon)?;
        }
        Err(failure) => return Err(failure),
    }
    let after = number(bed)?;
    bed.stop("the other program", other)?;
    if before.is_some() && before == after {
        Ok(())
    } else {
        Err(Failure::Missing {
            what: "the other program's socket was left alone",
        })
    }
}
