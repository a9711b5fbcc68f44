//! A real-time task at the same time as others that do their worst.

use crate::bed::{CameraPlan, Daemon, DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::records::{self, AttackCounts, CameraCounts};
use crate::target::process::Started;

/// How long the real-time camera captures while they run.
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
        name: "attacked",
        about: "A client that says nonsense and writes all over its memory loses its connection, and others nothing.",
        needs: &[Need::Cores(2)],
        limit_s: 90,
        measures: &[("besieged_missed_share", "")],
        body: attacked,
    },
    Case {
        suite: "isolation",
        name: "hogged",
        about: "Ordinary processes that take processor, memory and disk cost a real-time task nothing.",
        needs: &[Need::Cores(2), Need::Has(crate::facts::Feature::RealTime)],
        limit_s: 90,
        measures: &[("hogged_missed_share", "")],
        body: hogged,
    },
];

fn flooded(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let mut flood = Vec::new();
    for number in 0..FLOODERS {
        let plan = CameraPlan::of(Task::Watch).named(format!("flood-{number}"));
        let plan = CameraPlan {
            fps: Some(2000.0),
            ..plan
        };
        flood.push(bed.camera(&daemon, &plan.for_seconds(CAPTURE_S + 2.0))?);
    }
    let fast = fast_camera(bed, &daemon)?;
    let flood: Vec<CameraCounts> = flood
        .iter()
        .map(|camera| bed.finish(camera))
        .collect::<Result<_, _>>()?;
    let account = bed.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&fast])?;
    account.agrees_with("watch", &flood.iter().collect::<Vec<_>>())?;
    bed.measure("flooded_missed_share", account.missed_share(&fast));
    let sum = |count: fn(&CameraCounts) -> u64| flood.iter().map(count).sum::<u64>();
    bed.effect(
        sum(|counts| counts.on_time + counts.late),
        "best-effort frames answered in what was left",
    );
    bed.effect(
        sum(CameraCounts::rejected_total),
        "best-effort frames refused: there was no room",
    );
    bed.effect(
        sum(|counts| counts.skipped),
        "best-effort frames held back by their clients: all slots in flight",
    );
    Ok(())
}

fn attacked(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast, Task::Watch]))?;
    let seed = bed.seed.to_string();
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
    let hostile = bed.start("hostile", &[], agent(bed, &hostile))?;
    let fast = fast_camera(bed, &daemon)?;
    bed.stop("the hostile client", hostile)?;
    let account = bed.stop_daemon(&daemon)?;
    let done: Option<AttackCounts> = records::last(&bed.read("hostile.out")?);
    let done = done.filter(|done| done.finished && done.admitted > 0);
    let done = done.ok_or(Failure::Missing {
        what: "the hostile client wrote over its memory",
    })?;
    account.agrees_with("fast", &[&fast])?;
    if account.channel_faults == 0 {
        return Err(Failure::Missing {
            what: "the daemon noticed the hostile client's writing",
        });
    }
    bed.measure("besieged_missed_share", account.missed_share(&fast));
    bed.effect(
        done.acts - done.admitted,
        "openings of random bytes, and connections that said nothing",
    );
    bed.effect(
        done.admitted,
        "connections whose memory was written over at random",
    );
    bed.effect(account.clients.refused, "openings refused by the daemon");
    bed.effect(
        account.channel_faults,
        "connections ended by the daemon: their client wrote what no client writes",
    );
    Ok(())
}

fn hogged(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast]))?;
    let mut hogs = Vec::new();
    for core in 0..bed.facts.cores {
        hogs.push(hog(bed, &format!("processor-{core}"), "processor")?);
    }
    hogs.push(hog(bed, "memory", "memory")?);
    hogs.push(hog(bed, "disk", "disk")?);
    let fast = fast_camera(bed, &daemon)?;
    for hog in &hogs {
        bed.stop("a hog", *hog)?;
    }
    let account = bed.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&fast])?;
    bed.measure("hogged_missed_share", account.missed_share(&fast));
    bed.effect(
        hogs.len() as u64,
        "processes took processor, memory (256 MiB) and disk (64 MiB, synchronised)",
    );
    Ok(())
}

fn agent(bed: &TestBed<'_>, arguments: &[&str]) -> Vec<String> {
    let words = [bed.stage.agent.as_str()]
        .into_iter()
        .chain(arguments.iter().copied());
    words.map(str::to_owned).collect()
}

fn hog(bed: &mut TestBed<'_>, name: &str, take: &str) -> Result<Started, Failure> {
    let mib = if take == "memory" { "256" } else { "64" };
    let file = format!("{name}.hog");
    let command = agent(
        bed,
        &[
            "agent", "hog", "--take", take, "--mib", mib, "--file", &file,
        ],
    );
    Ok(bed.start(name, &[], command)?)
}

/// The camera that must not suffer, from beginning to end.
fn fast_camera(bed: &mut TestBed<'_>, daemon: &Daemon) -> Result<CameraCounts, Failure> {
    let camera = bed.camera(daemon, &CameraPlan::of(Task::Fast).for_seconds(CAPTURE_S))?;
    let counts = bed.finish(&camera)?;
    bed.picture("fast", &counts.latency_us);
    Ok(counts)
}
