//! Descriptors that are slow to close, and unwanted ones, at each point of the protocol.

use super::attack_run::{ATTACK_S, Attack, AttackRun, BESIDE, attacked, case, note};
use crate::bed::{DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::{Feature, Need};
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::target::Script;

const ROOT: &[Need] = &[Need::Cores(2), Need::Has(Feature::Root)];
const FUSE: &[Need] = &[
    Need::Cores(2),
    Need::Has(Feature::Root),
    Need::Has(Feature::Mount),
    Need::Has(Feature::Fuse),
];

pub const CASES: &[Case] = &[
    case(
        "slow-descriptors-before-opening",
        "Sockets whose close blocks for 20 s come instead of an opening, 253 a message.",
        BESIDE,
        before,
    ),
    case(
        "slow-descriptors-with-opening",
        "They come with an opening that announces none.",
        BESIDE,
        unannounced,
    ),
    case(
        "slow-descriptors-announced",
        "They come with an opening that announces them, to a task that takes no buffers.",
        BESIDE,
        announced,
    ),
    case(
        "slow-descriptors-wanted",
        "They come as buffers, to a task that takes buffers.",
        BESIDE,
        wanted,
    ),
    case(
        "slow-descriptors-behind-opening",
        "They come in messages behind the opening, before its answer.",
        BESIDE,
        behind,
    ),
    case(
        "slow-descriptors-after-welcome",
        "They come in messages after the welcome.",
        BESIDE,
        after,
    ),
    case(
        "slow-descriptors-at-metrics",
        "They come to the metrics socket.",
        BESIDE,
        at_metrics,
    ),
    case(
        "slow-descriptors-excluded-user",
        "They come from a user that the daemon's `allow` does not name.",
        ROOT,
        excluded,
    ),
    case(
        "slow-descriptors-in-backlog",
        "They are in connections that are not accepted yet when the daemon is asked to end.",
        BESIDE,
        in_backlog,
    ),
    case(
        "slow-descriptors-fuse",
        "Files of a user-space file system that no longer answers come as buffers.",
        FUSE,
        fuse,
    ),
    case(
        "foreign-descriptors",
        "Buffers that are none: wrong kinds, sizes and numbers, and the connection itself.",
        BESIDE,
        foreign,
    ),
];

/// Ordinary users have other numbers than this one.
pub const NOBODY: u32 = 65_534;

const WORDS: &str = "connections with descriptors that are slow to close";

fn before(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    attacked(bed, &[Attack::of("baggage-before")], WORDS).map(drop)
}

fn unannounced(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    attacked(bed, &[Attack::of("baggage-unannounced")], WORDS).map(drop)
}

fn announced(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    attacked(bed, &[Attack::of("baggage-announced")], WORDS).map(drop)
}

fn wanted(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("baggage-announced").on(Task::Own);
    attacked(bed, &[attack], WORDS).map(drop)
}

fn behind(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    attacked(bed, &[Attack::of("baggage-behind")], WORDS).map(drop)
}

fn after(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    attacked(bed, &[Attack::of("baggage-after")], WORDS).map(drop)
}

fn at_metrics(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    attacked(bed, &[Attack::of("baggage-metrics")], WORDS).map(drop)
}

/// Lets other users than the rig's connect.
pub fn open_to_everybody(bed: &mut TestBed<'_>, run: &AttackRun) -> Result<(), Failure> {
    let open = Script::new("open the socket to everybody", "chmod 666 \"$1\"");
    bed.run(&open.with([run.daemon.socket.as_str()]))?;
    Ok(())
}

fn excluded(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let plan = DaemonPlan {
        keys: "allow = { users = [0] }\n",
        ..DaemonPlan::serving(&Task::ATTACKED)
    };
    let mut run = AttackRun::start(bed, &plan)?;
    open_to_everybody(bed, &run)?;
    for kind in ["baggage-before", "baggage-unannounced", "baggage-behind"] {
        run.attack(bed, &Attack::of(kind).by_user(NOBODY))?;
    }
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, WORDS)?;
    run.finish(bed).map(drop)
}

/// The daemon is stopped for a moment, so that the connections wait in its queue, and asked to end.
fn in_backlog(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let mut run = AttackRun::start(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    // They stay until the daemon has ended: their end would end what blocks.
    let staying = ATTACK_S + 20.0;
    for kind in ["baggage-before", "baggage-unannounced", "baggage-metrics"] {
        run.attack(bed, &Attack::of(kind).for_seconds(staying))?;
    }
    bed.let_pass(0.2)?;
    // What is answered until here counts; frames of a stopped daemon do not.
    let outcome = run.answers(bed, |run, bed| {
        bed.strike(run.pid, "STOP")?;
        bed.let_pass(1.0)?;
        let asked_ns = bed.strike(run.daemon.service.pid, "TERM")?;
        bed.strike(run.pid, "CONT")?;
        let ended_ns = bed.ended_well(&run.daemon)?;
        bed.measure("stop_ms", ended_ns.saturating_sub(asked_ns) as f64 / 1e6);
        bed.account(&run.daemon)
    });
    run.end_attackers(bed)?;
    outcome.map(drop)
}

fn fuse(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("baggage-fuse").on(Task::Own).with(4);
    attacked(
        bed,
        &[attack],
        "connections with files of a silent file system",
    )
    .map(drop)
}

fn foreign(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("buffers").on(Task::Own);
    attacked(bed, &[attack], "openings with buffers that were none").map(drop)
}
