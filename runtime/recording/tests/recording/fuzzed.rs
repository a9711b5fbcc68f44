//! The fuzzer's entry without the fuzzer: damaged recordings are refused, or replayed as far as they are one.

#[path = "../../../../testing/fuzz/recording/entry.rs"]
mod entry;

use entry::{Outcome, Part};
use punctual_core::Config;
use punctual_recording::{Entry, Names, Setting};
use punctual_types::Random;

use super::run;

/// What takes the place of a number of the plan.
const NUMBERS: [&str; 9] = [
    "0",
    "1",
    "2",
    "255",
    "65535",
    "16777216",
    "3600000000000",
    "18446744073709551615",
    "-1",
];

/// The parts of a short recording with its plan.
fn parts(config: &Config, entries: &[Entry]) -> Vec<Part> {
    let setting = Setting {
        config: config.clone(),
        policy: serde_json::json!({ "punctual": {} }),
        names: Names::default(),
    };
    let json = serde_json::to_vec(&setting).expect("plain data");
    let mut parts = vec![Part::Setting(json)];
    for entry in entries {
        if matches!(entry, Entry::Segment { .. }) {
            parts.push(Part::Chunk);
        }
        let data = postcard::to_allocvec(entry).expect("plain data");
        parts.push(Part::Entry(data));
    }
    parts
}

/// Short recordings of small plans.
fn honest() -> Vec<Vec<Part>> {
    let runs = (0..).filter_map(run);
    let small = runs.filter(|(config, _)| config.partitions.len() <= 4);
    let parts = small.map(|(config, entries)| parts(&config, &entries[..120]));
    parts.take(4).collect()
}

fn other_number(random: &mut Random, json: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(json).into_owned();
    let digits: Vec<usize> = (0..text.len())
        .filter(|at| text.as_bytes()[*at].is_ascii_digit())
        .collect();
    let from = digits[random.below(digits.len() as u64) as usize];
    let to = (from..text.len()).find(|at| !text.as_bytes()[*at].is_ascii_digit());
    let number = NUMBERS[random.below(NUMBERS.len() as u64) as usize];
    let rest = &text[to.unwrap_or(text.len())..];
    *json = [&text[..from], number, rest].concat().into_bytes();
}

fn damage_part(random: &mut Random, part: &mut Part) {
    match part {
        Part::Setting(json) => other_number(random, json),
        Part::Entry(data) | Part::Foreign(data) if !data.is_empty() => {
            let at = random.below(data.len() as u64) as usize;
            match random.below(4) {
                0 => data.truncate(at),
                1 => data.insert(at, random.next_u64() as u8),
                _ => data[at] = random.next_u64() as u8,
            }
        }
        Part::Entry(_) | Part::Foreign(_) | Part::Chunk => {}
    }
}

/// Exchanges parts, leaves some out, says some twice, and damages some.
fn damage(random: &mut Random, parts: &mut Vec<Part>) {
    let pick = |random: &mut Random, parts: &[Part]| random.below(parts.len() as u64) as usize;
    for _ in 0..random.within(1, 4) {
        let at = pick(random, parts);
        match random.below(8) {
            0 => {
                let other = pick(random, parts);
                parts.swap(at, other);
            }
            1 if parts.len() > 1 => drop(parts.remove(at)),
            2 => {
                let again = parts[at].clone();
                let other = pick(random, parts);
                parts.insert(other, again);
            }
            3 => damage_part(random, &mut parts[0]),
            _ => damage_part(random, &mut parts[at]),
        }
    }
}

/// Overwrites lengths and other numbers of the file itself.
fn damage_file(random: &mut Random, file: &mut Vec<u8>) {
    for _ in 0..random.within(1, 3) {
        let at = random.below(file.len() as u64) as usize;
        match random.below(4) {
            0 => file.truncate(at.max(8)),
            1 => {
                let value = 1u64 << random.below(64);
                let end = (at + 8).min(file.len());
                file[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            _ => file[at] = random.next_u64() as u8,
        }
    }
}

/// The most memory that this process had so far, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") / 1024
}

/// Replay guards itself against panics of a scheduler that was told nonsense: they are no news.
fn say_only_own_panics() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or("", |location| location.file());
        if place.contains("recording") {
            say(panic);
        }
    }));
}

#[test]
fn damaged_recordings_are_refused_or_replayed_as_far_as_they_are_one() {
    say_only_own_panics();
    let mut random = Random::new(0x5EED).stream("recordings", 0);
    let honest = honest();
    for parts in &honest {
        let whole = entry::recording(&entry::file(parts));
        assert!(matches!(whole, Outcome::Replayed(_)), "{whole:?}");
    }
    let before = peak_mib();
    let (mut refused, mut begun, mut replayed) = (0, 0, 0);
    for round in 0..1_600 {
        let mut parts = honest[round % honest.len()].clone();
        let mut file = if round % 4 == 0 {
            entry::file(&parts)
        } else {
            damage(&mut random, &mut parts);
            entry::file(&parts)
        };
        if round % 4 == 0 {
            damage_file(&mut random, &mut file);
        }
        match entry::recording(&file) {
            Outcome::Refused => refused += 1,
            Outcome::Begun => begun += 1,
            Outcome::Replayed(_) => replayed += 1,
        }
    }
    let grown = peak_mib() - before;
    assert!(grown < 512, "{grown} MiB more");
    assert!(
        refused > 80 && begun > 80 && replayed > 80,
        "{refused} {begun} {replayed}"
    );
}

#[test]
fn a_length_that_the_file_does_not_have_takes_no_memory() {
    let honest = entry::file(&honest()[0]);
    let before = peak_mib();
    // Behind the magic: a record of any kind that claims to be long.
    for opcode in 0..=u8::MAX {
        for length in [1u64 << 30, 1 << 40, u64::MAX - 9, u64::MAX] {
            let head = [&honest[..8], &[opcode], &length.to_le_bytes(), &honest[8..]];
            assert_eq!(entry::recording(&head.concat()), Outcome::Refused);
        }
    }
    assert!(peak_mib() - before < 64);
}
