//! Shared memory and frames, misused.

use super::attack_run::{ATTACK_S, Attack, AttackRun, BESIDE, attacked, case, survived};
use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;

pub const CASES: &[Case] = &[
    case(
        "memory-scribbled",
        "Clients write random words all over the memory that they share with the daemon.",
        BESIDE,
        scribbled,
    ),
    case(
        "memory-punched",
        "Clients punch holes in the daemon's memory files and in buffers of their own, and try to seal and cut them.",
        BESIDE,
        punched,
    ),
    case(
        "memory-punched-slowly",
        "Clients map their memory 200 times, and an idle thread punches holes into it while the daemon admits and serves them.",
        BESIDE,
        punched_slowly,
    ),
    case(
        "memory-punched-for-seconds",
        "The same with 3000 mappings: one punch takes seconds.",
        BESIDE,
        punched_for_seconds,
    ),
    case(
        "memory-collapsed",
        "An idle thread on a busy core collapses what a client shares with the daemon into huge pages.",
        BESIDE,
        collapsed,
    ),
    case(
        "memory-advised",
        "A client has the kernel page out, free, remove, lock, sync and map what it shares with the daemon, all the time.",
        BESIDE,
        advised,
    ),
    case(
        "memory-rewritten",
        "Clients rewrite pixels and descriptors while the daemon reads them.",
        BESIDE,
        rewritten,
    ),
    case(
        "flooded-with-refusals",
        "Two clients submit what their ports refuse, as fast as the rings allow, and never wait.",
        BESIDE,
        flooded_with_refusals,
    ),
    case(
        "flooded",
        "Four best-effort clients send 2000 frames a second each.",
        BESIDE,
        flooded,
    ),
];

fn scribbled(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let account = attacked(bed, &[Attack::of("scribble")], "clients that scribbled")?;
    if account.channel_faults == 0 {
        return Err(Failure::Missing {
            what: "the daemon noticed the scribbling",
        });
    }
    Ok(())
}

fn punched(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    attacked(bed, &[Attack::of("holes")], "clients that punched holes").map(drop)
}

fn punched_slowly(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attacks = [
        Attack::of("slow-holes").with(200),
        Attack::of("slow-holes").with(200),
    ];
    punch(bed, &attacks, "turns of clients that punched slowly")
}

fn punched_for_seconds(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("slow-holes").with(3000).for_seconds(8.0);
    punch(bed, &[attack], "turns of a client that punched for seconds")
}

fn punch(bed: &mut TestBed<'_>, attacks: &[Attack], words: &str) -> Result<(), Failure> {
    let (run, done) = survived(bed, attacks, words)?;
    bed.measure("holes_in_use", done.holes as f64);
    run.finish(bed).map(drop)
}

fn collapsed(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    // Workers write what this one gets.
    let attack = Attack::of("collapse").on(Task::Guest).for_seconds(8.0);
    let words = "frames of a client that collapsed its memory";
    let (run, done) = survived(bed, &[attack], words)?;
    bed.measure("collapsed_outputs", done.outputs as f64);
    run.finish(bed).map(drop)
}

fn advised(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("advise").on(Task::Guest).for_seconds(8.0);
    let words = "frames of a client that had the kernel work on its memory";
    attacked(bed, &[attack], words).map(drop)
}

fn rewritten(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attacks = [Attack::of("rewrite"), Attack::of("rewrite")];
    attacked(bed, &attacks, "clients that rewrote").map(drop)
}

fn flooded_with_refusals(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = || Attack::of("refused").for_seconds(6.0);
    let words = "submissions that are refused at once";
    let (run, _) = survived(bed, &[attack(), attack()], words)?;
    bed.measure("refusals_cpu_share", run.attack_shares().0);
    run.finish(bed).map(drop)
}

fn flooded(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let mut run = AttackRun::start(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    let mut flood = Vec::new();
    for number in 0..4 {
        let plan = CameraPlan::of(Task::Watch).named(format!("flood-{number}"));
        flood.push(bed.camera(&run.daemon, &plan.at(2000.0).for_seconds(ATTACK_S))?);
    }
    run.wait_for_attackers(bed)?;
    for camera in &flood {
        let counts = bed.finish(camera)?;
        bed.effect(counts.submitted, "best-effort frames of one that floods");
    }
    run.serves(bed)?;
    run.finish(bed).map(drop)
}
