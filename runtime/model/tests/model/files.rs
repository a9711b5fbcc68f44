//! Profiles and calibration records that were damaged: refused, or fit to be used.

use fastrand::Rng;
use punctual_fuzzed::{exercise_calibration, exercise_profile};

use crate::fixture::{self, package};

/// What takes the place of a number: other numbers, and what is none.
const OTHERS: [&str; 8] = [
    "0",
    "-1",
    "1",
    "65536",
    "18446744073709551616",
    "1e400",
    "null",
    "\"\"",
];

/// The text with one of its numbers exchanged, or else a byte of it.
fn damaged(random: &mut Rng, text: &str) -> Vec<u8> {
    let is_digit = |at: &usize| text.as_bytes()[*at].is_ascii_digit();
    let digits: Vec<usize> = (0..text.len()).filter(is_digit).collect();
    if random.bool() {
        let from = digits[random.usize(..digits.len())];
        let to = (from..text.len())
            .find(|at| !is_digit(at))
            .unwrap_or(text.len());
        let other = OTHERS[random.usize(..OTHERS.len())];
        return [&text[..from], other, &text[to..]].concat().into_bytes();
    }
    let mut bytes = text.as_bytes().to_vec();
    let at = random.usize(..bytes.len());
    bytes[at] = random.u8(..);
    bytes
}

/// How many of many damaged versions of `text` are taken.
fn taken(text: &str, exercise: impl Fn(&[u8]) -> bool) -> usize {
    assert!(exercise(text.as_bytes()), "the undamaged one is");
    let mut random = Rng::with_seed(0x5EED);
    let versions = (0..4_000).map(|_| damaged(&mut random, text));
    versions.filter(|version| exercise(version)).count()
}

#[test]
fn thousands_of_damaged_profiles_are_refused_or_can_be_used() {
    let mut profile = fixture::profile(&package());
    profile.beside = profile.stages.clone();
    let profile = profile.to_json();
    let taken = taken(&profile, exercise_profile);
    assert!((100..4_000).contains(&taken), "{taken} were taken");
}

#[test]
fn thousands_of_damaged_calibration_records_are_refused_or_can_be_used() {
    let calibration = package().calibration().to_json();
    let taken = taken(&calibration, exercise_calibration);
    assert!((100..4_000).contains(&taken), "{taken} were taken");
}
