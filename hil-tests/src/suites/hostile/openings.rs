//! What comes to the daemon's doors and is no client, or one for a moment.

use super::attack_run::{
    ATTACK_S, Attack, AttackRun, BESIDE, attacked, attacked_idly, case, note, survived,
};
use super::descriptors::{NOBODY, open_to_everybody};
use crate::bed::{DaemonPlan, TestBed};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;

pub const CASES: &[Case] = &[
    case(
        "openings-garbage",
        "Openings of random bytes, too long, cut off, or right up to some byte.",
        BESIDE,
        garbage,
    ),
    case(
        "openings-slow",
        "Thirty openings at a time come when the daemon's patience is nearly over.",
        BESIDE,
        slow,
    ),
    case(
        "silent-40",
        "Forty connections say nothing, and are replaced when they are closed: they cost nothing.",
        BESIDE,
        silent_40,
    ),
    case(
        "silent-400",
        "Four hundred connections say nothing: more than the daemon's queue holds, and they cost nothing.",
        BESIDE,
        silent_400,
    ),
    case(
        "connections-storm",
        "Two processes connect and disconnect as fast as possible.",
        BESIDE,
        storm,
    ),
    case(
        "clients-storm",
        "Two processes are admitted as clients and disconnect at once, as fast as possible.",
        BESIDE,
        visits,
    ),
    case(
        "openings-deserted",
        "Two processes send openings and are gone before the answer, as fast as possible.",
        BESIDE,
        deserted,
    ),
    case(
        "openings-deserted-large",
        "Two processes of another user do so, and one is admitted and leaves, each for a client with 220 MB.",
        BESIDE,
        deserted_large,
    ),
    case(
        "clients-hooked",
        "Each event of a client's descriptors is a signal to a group of 400 processes, and it leases and locks them.",
        BESIDE,
        hooked,
    ),
    case(
        "metrics-abused",
        "Readers of the metrics write, shut down one direction, or stay without reading.",
        BESIDE,
        metrics,
    ),
];

fn garbage(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    attacked(bed, &[Attack::of("garbage")], "openings that were none").map(drop)
}

fn slow(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("slow").with(30).for_seconds(4.0);
    attacked_idly(bed, &[attack], "openings after nearly two seconds").map(drop)
}

fn silent_40(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("silent").with(40);
    attacked_idly(bed, &[attack], "silent connections").map(drop)
}

fn silent_400(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("silent").with(400);
    attacked_idly(bed, &[attack], "silent connections").map(drop)
}

fn storm(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attacks = [Attack::of("storm"), Attack::of("storm")];
    attacked(bed, &attacks, "connections, closed at once").map(drop)
}

fn visits(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attacks = [Attack::of("visits"), Attack::of("visits")];
    let (run, done) = survived(bed, &attacks, "clients for a moment")?;
    bed.measure("admitted_hz", done.admitted as f64 / ATTACK_S);
    run.finish(bed).map(drop)
}

fn deserted(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attacks = [Attack::of("deserters"), Attack::of("deserters")];
    attacked(bed, &attacks, "openings without anybody behind them").map(drop)
}

fn deserted_large(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let stranger = |kind| {
        Attack::of(kind)
            .on(Task::Large)
            .by_user(NOBODY)
            .for_seconds(6.0)
    };
    let attacks = [
        stranger("deserters"),
        stranger("deserters"),
        stranger("visits"),
    ];
    let tasks = [Task::Front, Task::Fast, Task::Guest, Task::Large];
    let mut run = AttackRun::start(bed, &DaemonPlan::serving(&tasks))?;
    open_to_everybody(bed, &run)?;
    for attack in &attacks {
        run.attack(bed, attack)?;
    }
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, "openings for clients with 220 MB")?;
    run.finish(bed).map(drop)
}

fn hooked(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("hooks").with(400).for_seconds(6.0);
    attacked(bed, &[attack], "clients whose descriptors have hooks").map(drop)
}

fn metrics(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("metrics").with(100);
    attacked(bed, &[attack], "readers of the metrics that did not read").map(drop)
}
