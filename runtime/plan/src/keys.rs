//! Kinds of keys: words, names, numbers in a range, spans of time.

use std::ops::RangeInclusive;

use punctual_core::Nanos;

use crate::cause::Cause;
use crate::document::{Section, within, within_whole};
use crate::problem::{At, Problems};

const NAME_BYTES_MAX: usize = 64;

/// One word of a fixed list.
pub fn word<T: Copy>(
    section: &mut Section<'_, '_>,
    key: &'static str,
    words: &[(&str, T)],
    problems: &mut Problems<'_>,
) -> Option<T> {
    let at = section.required::<String>(key, problems)?;
    one_of(at, words, problems)
}

/// One word of a fixed list, or none.
pub fn optional_word<T: Copy>(
    section: &mut Section<'_, '_>,
    key: &'static str,
    words: &[(&str, T)],
    problems: &mut Problems<'_>,
) -> Option<T> {
    let at = section.optional::<String>(key, problems)?;
    one_of(at, words, problems)
}

fn one_of<T: Copy>(at: At<String>, words: &[(&str, T)], problems: &mut Problems<'_>) -> Option<T> {
    let found = words.iter().find(|(word, _)| *word == at.value);
    if found.is_none() {
        let allowed = words.iter().map(|(word, _)| (*word).to_owned()).collect();
        let value = at.value;
        problems.add(&at.place, Cause::NotOneOf { value, allowed });
    }
    found.map(|(_, meaning)| *meaning)
}

/// A task's, model's or partition's name. A bad one is noted and still used, so that references to it resolve.
pub fn name(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<At<String>> {
    let at = section.required::<String>("name", problems)?;
    checked_name(&at, problems);
    Some(at)
}

/// Notes what cannot be a name; whether it can.
pub fn checked_name(at: &At<String>, problems: &mut Problems<'_>) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let good = at.value.len() <= NAME_BYTES_MAX
        && at.value.starts_with(|c: char| c.is_ascii_lowercase())
        && at.value.chars().all(allowed);
    if !good {
        let value = at.value.chars().take(NAME_BYTES_MAX).collect();
        problems.add(&at.place, Cause::BadName(value));
    }
    good
}

/// Notes names that are there twice.
pub fn unique<'n>(
    what: &'static str,
    names: impl Iterator<Item = &'n At<String>>,
    problems: &mut Problems<'_>,
) {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(&name.value) {
            let name_text = name.value.clone();
            let cause = Cause::Duplicate {
                what,
                name: name_text,
            };
            problems.add(&name.place, cause);
        }
    }
}

/// A number in a range, or its default.
pub fn number(
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: f64,
    range: RangeInclusive<f64>,
    unit: &'static str,
    problems: &mut Problems<'_>,
) -> f64 {
    let at = section.or(key, default, problems);
    within(&at, range, unit, problems)
}

/// A whole number in a range, or its default.
pub fn whole(
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: u64,
    range: RangeInclusive<u64>,
    problems: &mut Problems<'_>,
) -> At<u64> {
    let at = section.or(key, default, problems);
    At {
        value: within_whole(&at, range, "", problems),
        place: at.place,
    }
}

/// A span given in microseconds, at most a second.
pub fn microseconds(
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: f64,
    problems: &mut Problems<'_>,
) -> Nanos {
    let us = number(section, key, default, 0.0..=1e6, " us", problems);
    Nanos::new((us * 1e3) as u64)
}

/// A span given in milliseconds.
pub fn milliseconds(
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: f64,
    range: RangeInclusive<f64>,
    problems: &mut Problems<'_>,
) -> Nanos {
    let ms = number(section, key, default, range, " ms", problems);
    Nanos::new((ms * 1e6) as u64)
}

/// A span of time that has no default, said in some unit.
pub fn span(
    section: &mut Section<'_, '_>,
    key: &'static str,
    range: RangeInclusive<f64>,
    unit: &'static str,
    to_nanos: fn(f64) -> f64,
    problems: &mut Problems<'_>,
) -> Option<At<Nanos>> {
    let at = section.optional::<f64>(key, problems)?;
    let number = within(&at, range, unit, problems);
    Some(At {
        value: Nanos::new(to_nanos(number) as u64),
        place: at.place,
    })
}
