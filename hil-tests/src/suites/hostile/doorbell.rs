//! What wakes the daemon and its clients, mistreated.

use super::attack_run::{Attack, AttackRun, BESIDE, attacked, attacked_idly, case, note};
use crate::bed::{DaemonPlan, TestBed};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;

pub const CASES: &[Case] = &[
    case(
        "doorbell-mistreated",
        "A client empties its doorbell, fills it to its maximum, and makes it blocking.",
        BESIDE,
        mistreated,
    ),
    case(
        "doorbell-watched",
        "Four thousand watches and five hundred threads wait for one doorbell.",
        BESIDE,
        watched,
    ),
    case(
        "doorbell-rung",
        "A client rings without end and submits nothing: that stays bounded.",
        BESIDE,
        rung,
    ),
    case(
        "doorbell-polled",
        "Rings of io_uring wait 65,536 times for a client's doorbell and socket, without threads.",
        BESIDE,
        polled,
    ),
    case(
        "bell-of-results-awaited",
        "Two thousand threads wait for the verdicts of one client: to wake them is not the daemon's work.",
        BESIDE,
        awaited,
    ),
    case(
        "bell-of-results-crowded",
        "A client puts 100,000 waiters of its own into the kernel's queue of its bell: it is disconnected for slow wake-ups.",
        BESIDE,
        crowded,
    ),
    case(
        "bell-of-results-crowded-by-thousands",
        "The same with a million waiters: the first walk past them holds up a core for tens of milliseconds, and there are two at most.",
        BESIDE,
        crowded_by_thousands,
    ),
];

fn mistreated(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attacks = [Attack::of("bell-mistreated"), Attack::of("bell-mistreated")];
    attacked(bed, &attacks, "clients that misused their doorbell").map(drop)
}

fn watched(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("bell-watched").with(500);
    attacked_idly(bed, &[attack], "clients whose doorbell was watched").map(drop)
}

fn rung(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let mut run = AttackRun::start(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    run.attack(bed, &Attack::of("bell-rung"))?;
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, "rings for nothing")?;
    bed.measure("rung_cpu_share", run.attack_shares().0);
    match run.finish(bed)?.channel_faults {
        0 => Err(Failure::Missing {
            what: "the daemon ended a client that rang for nothing",
        }),
        _ => Ok(()),
    }
}

fn polled(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("bell-polled").with(8);
    attacked(bed, &[attack], "clients whose descriptors were polled").map(drop)
}

fn awaited(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let mut run = AttackRun::start(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    run.attack(bed, &Attack::of("waiters").with(2000))?;
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, "frames of a client with a crowd")?;
    // Its frames are work like others'; what the crowd costs is the waking.
    let (_, ports) = run.attack_shares();
    bed.measure("ports_cpu_share", ports);
    match run.finish(bed)?.channel_faults {
        // Waking takes too long only for a thread that wakes all of them.
        0 => Ok(()),
        _ => Err(Failure::Missing {
            what: "the daemon woke two of those who waited",
        }),
    }
}

fn crowded(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    crowd(bed, Attack::of("bucket").with(800).for_seconds(8.0))
}

fn crowded_by_thousands(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    crowd(bed, Attack::of("bucket").with(8000).for_seconds(24.0))
}

fn crowd(bed: &mut TestBed<'_>, attack: Attack) -> Result<(), Failure> {
    let account = attacked(
        bed,
        &[attack],
        "frames of a client with a crowd beside its bell",
    )?;
    if account.channel_faults == 0 {
        return Err(Failure::Missing {
            what: "the daemon ended a client whose wakes take long",
        });
    }
    Ok(())
}
