//! What comes to the daemon's doors and is no client, or one for a moment.

use super::attack_run::{Attack, BESIDE, attacked, attacked_idly, case};
use crate::bed::TestBed;
use crate::case::Case;
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
    attacked(bed, &attacks, "clients for a moment").map(drop)
}

fn metrics(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let attack = Attack::of("metrics").with(100);
    attacked(bed, &[attack], "readers of the metrics that did not read").map(drop)
}
