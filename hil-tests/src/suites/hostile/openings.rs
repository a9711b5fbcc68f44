//! What comes to the daemon's doors and is no client, or one for a moment.

use super::siege::{Attack, BESIDE, besieged, case, idly_besieged};
use crate::case::Case;
use crate::outcome::Failure;
use crate::scene::Scene;

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
        "Two processes connect and hang up as fast as it goes.",
        BESIDE,
        storm,
    ),
    case(
        "clients-storm",
        "Two processes are let in as clients and leave at once, as fast as it goes.",
        BESIDE,
        visits,
    ),
    case(
        "metrics-abused",
        "Readers of the metrics write, hang up half, or stay without reading.",
        BESIDE,
        metrics,
    ),
];

fn garbage(scene: &mut Scene<'_>) -> Result<(), Failure> {
    besieged(scene, &[Attack::of("garbage")], "openings that were none").map(drop)
}

fn slow(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let attack = Attack::of("slow").with(30).for_seconds(4.0);
    idly_besieged(scene, &[attack], "openings after nearly two seconds").map(drop)
}

fn silent_40(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let attack = Attack::of("silent").with(40);
    idly_besieged(scene, &[attack], "silent connections").map(drop)
}

fn silent_400(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let attack = Attack::of("silent").with(400);
    idly_besieged(scene, &[attack], "silent connections").map(drop)
}

fn storm(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let attacks = [Attack::of("storm"), Attack::of("storm")];
    besieged(scene, &attacks, "connections, closed at once").map(drop)
}

fn visits(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let attacks = [Attack::of("visits"), Attack::of("visits")];
    besieged(scene, &attacks, "clients for a moment").map(drop)
}

fn metrics(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let attack = Attack::of("metrics").with(100);
    besieged(scene, &[attack], "readers of the metrics that did not read").map(drop)
}
