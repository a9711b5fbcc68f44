//! A real-time task beside others that do their worst.

use crate::book::{self, Book, Mischief};
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::scene::{CameraPlan, Daemon, DaemonPlan, Scene};
use crate::target::process::Started;

/// How long the real-time camera captures beside them.
const CAPTURE_S: f64 = 6.0;

/// Best-effort clients that ask as fast as they are answered.
const FLOODERS: usize = 4;

pub const CASES: &[Case] = &[
    Case {
        suite: "isolation",
        name: "flooded",
        about: "Best-effort clients that send as fast as they are answered cost a real-time task nothing.",
        needs: &[Need::Cores(2)],
        limit_s: 90,
        measures: &[("flooded_missed_share", "")],
        body: flooded,
    },
    Case {
        suite: "isolation",
        name: "besieged",
        about: "A client that says nonsense and writes all over its memory loses its connection, and others nothing.",
        needs: &[Need::Cores(2)],
        limit_s: 90,
        measures: &[("besieged_missed_share", "")],
        body: besieged,
    },
    Case {
        suite: "isolation",
        name: "hogged",
        about: "Ordinary processes that take processor, memory and disk cost a real-time task nothing.",
        needs: &[Need::Cores(2), Need::Has(crate::facts::Thing::RealTime)],
        limit_s: 90,
        measures: &[("hogged_missed_share", "")],
        body: hogged,
    },
];

fn flooded(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let mut flood = Vec::new();
    for number in 0..FLOODERS {
        let plan = CameraPlan::of(Task::Watch).named(format!("flood-{number}"));
        let plan = CameraPlan {
            fps: Some(2000.0),
            ..plan
        };
        flood.push(scene.camera(&daemon, &plan.for_seconds(CAPTURE_S + 2.0))?);
    }
    let fast = fast_camera(scene, &daemon)?;
    let flood: Vec<Book> = flood
        .iter()
        .map(|camera| scene.finish(camera))
        .collect::<Result<_, _>>()?;
    let account = scene.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&fast])?;
    account.agrees_with("watch", &flood.iter().collect::<Vec<_>>())?;
    scene.measure("flooded_missed_share", account.missed_share(&fast));
    let sum = |count: fn(&Book) -> u64| flood.iter().map(count).sum::<u64>();
    scene.effect(
        sum(|book| book.on_time + book.late),
        "best-effort frames answered in what was left",
    );
    scene.effect(
        sum(Book::rejected_total),
        "best-effort frames refused: there was no room",
    );
    scene.effect(
        sum(|book| book.skipped),
        "best-effort frames held back by their clients: all slots in flight",
    );
    Ok(())
}

fn besieged(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let seed = scene.seed.to_string();
    let hostile = [
        "agent",
        "attack",
        "--kind",
        "mixed",
        "--socket",
        &daemon.socket,
        "--task",
        "watch",
        "--seed",
        &seed,
    ];
    let hostile = scene.start("hostile", &[], agent(scene, &hostile))?;
    let fast = fast_camera(scene, &daemon)?;
    scene.stop("the hostile client", hostile)?;
    let account = scene.stop_daemon(&daemon)?;
    let done: Option<Mischief> = book::last(&scene.read("hostile.out")?);
    let done = done.filter(|done| done.finished && done.let_in > 0);
    let done = done.ok_or(Failure::Missing {
        what: "the hostile client wrote over its memory",
    })?;
    account.agrees_with("fast", &[&fast])?;
    if account.channel_faults == 0 {
        return Err(Failure::Missing {
            what: "the daemon noticed the hostile client's writing",
        });
    }
    scene.measure("besieged_missed_share", account.missed_share(&fast));
    scene.effect(
        done.acts - done.let_in,
        "openings of random bytes, and connections that said nothing",
    );
    scene.effect(
        done.let_in,
        "connections whose memory was written over at random",
    );
    scene.effect(account.clients.refused, "openings refused by the daemon");
    scene.effect(
        account.channel_faults,
        "connections ended by the daemon: their client wrote what no client writes",
    );
    Ok(())
}

fn hogged(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast]))?;
    let mut hogs = Vec::new();
    for core in 0..scene.facts.cores {
        hogs.push(hog(scene, &format!("processor-{core}"), "processor")?);
    }
    hogs.push(hog(scene, "memory", "memory")?);
    hogs.push(hog(scene, "disk", "disk")?);
    let fast = fast_camera(scene, &daemon)?;
    for hog in &hogs {
        scene.stop("a hog", *hog)?;
    }
    let account = scene.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&fast])?;
    scene.measure("hogged_missed_share", account.missed_share(&fast));
    scene.effect(
        hogs.len() as u64,
        "processes took processor, memory (256 MiB) and disk (64 MiB, synchronised)",
    );
    Ok(())
}

fn agent(scene: &Scene<'_>, arguments: &[&str]) -> Vec<String> {
    let words = [scene.stage.agent.as_str()]
        .into_iter()
        .chain(arguments.iter().copied());
    words.map(str::to_owned).collect()
}

fn hog(scene: &mut Scene<'_>, name: &str, take: &str) -> Result<Started, Failure> {
    let mib = if take == "memory" { "256" } else { "64" };
    let file = format!("{name}.hog");
    let command = agent(
        scene,
        &[
            "agent", "hog", "--take", take, "--mib", mib, "--file", &file,
        ],
    );
    Ok(scene.start(name, &[], command)?)
}

/// The camera that must not suffer, from beginning to end.
fn fast_camera(scene: &mut Scene<'_>, daemon: &Daemon) -> Result<Book, Failure> {
    let camera = scene.camera(daemon, &CameraPlan::of(Task::Fast).for_seconds(CAPTURE_S))?;
    let book = scene.finish(&camera)?;
    scene.picture("fast", &book.latency_us);
    Ok(book)
}
