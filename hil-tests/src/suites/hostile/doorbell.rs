//! What wakes the daemon and its clients, mistreated.

use super::siege::{Attack, BESIDE, Siege, besieged, case, idly_besieged, note};
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
        "bell-of-results-awaited",
        "Two thousand threads wait for the verdicts of one client: to wake them is not the daemon's work.",
        BESIDE,
        awaited,
    ),
];

fn mistreated(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attacks = [Attack::of("bell-mistreated"), Attack::of("bell-mistreated")];
    besieged(bed, &attacks, "clients with a doorbell of their own mind").map(drop)
}

fn watched(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("bell-watched").with(500);
    idly_besieged(bed, &[attack], "clients whose doorbell was watched").map(drop)
}

fn rung(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let mut siege = Siege::laid(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    siege.attack(bed, &Attack::of("bell-rung"))?;
    let done = siege.withstand(bed)?;
    note(bed, &done, "rings for nothing")?;
    bed.measure("rung_cpu_share", siege.attack_shares().0);
    siege.lifted(bed).map(drop)
}

fn awaited(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let mut siege = Siege::laid(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    siege.attack(bed, &Attack::of("waiters").with(2000))?;
    let done = siege.withstand(bed)?;
    note(bed, &done, "frames of a client with a crowd")?;
    // Its frames are work like others'; what the crowd costs is the waking.
    let (_, egress) = siege.attack_shares();
    bed.measure("egress_cpu_share", egress);
    siege.lifted(bed).map(drop)
}
