//! Kinds of values: words, names, numbers in a range, spans of time.

use std::ops::RangeInclusive;

use punctual_core::Nanos;

use crate::invalid::Invalid;
use crate::place::Spanned;
use crate::problem::Problems;
use crate::section::Section;

/// The longest name.
pub const NAME_BYTES_MAX: usize = 64;

impl Section<'_, '_> {
    /// One word of a fixed list.
    pub fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        problems: &mut Problems<'_>,
    ) -> Option<T> {
        self.required::<String>(key, problems)?
            .one_of(words, problems)
    }

    /// One word of a fixed list, or none.
    pub fn optional_word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        problems: &mut Problems<'_>,
    ) -> Option<T> {
        self.optional::<String>(key, problems)?
            .one_of(words, problems)
    }

    /// The key `name`. A bad one is noted and still used, so that references to it resolve.
    pub fn name(&mut self, problems: &mut Problems<'_>) -> Option<Spanned<String>> {
        let name = self.required::<String>("name", problems)?;
        name.is_name(problems);
        Some(name)
    }

    /// A number in a range, or its default.
    pub fn number(
        &mut self,
        key: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
        unit: &'static str,
        problems: &mut Problems<'_>,
    ) -> f64 {
        let number = self.optional::<f64>(key, problems);
        number.map_or(default, |at| at.within(range, unit, problems).value)
    }

    /// A number in a range, which must be given; the least stands in for it if it is not.
    pub fn required_number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
        unit: &'static str,
        problems: &mut Problems<'_>,
    ) -> f64 {
        let least = *range.start();
        let number = self.required::<f64>(key, problems);
        number.map_or(least, |at| at.within(range, unit, problems).value)
    }

    /// A whole number in a range, or its default.
    pub fn whole(
        &mut self,
        key: &'static str,
        default: u64,
        range: RangeInclusive<u64>,
        problems: &mut Problems<'_>,
    ) -> Spanned<u64> {
        self.or(key, default, problems).within(range, "", problems)
    }

    /// A whole number in a range, which must be given; the least stands in for it if it is not.
    pub fn required_whole(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        problems: &mut Problems<'_>,
    ) -> u64 {
        let least = *range.start();
        let number = self.required::<u64>(key, problems);
        number.map_or(least, |at| at.within(range, "", problems).value)
    }

    /// A span given in microseconds, at most a second.
    pub fn microseconds(
        &mut self,
        key: &'static str,
        default: f64,
        problems: &mut Problems<'_>,
    ) -> Nanos {
        let us = self.number(key, default, 0.0..=1e6, " us", problems);
        Nanos::new((us * 1e3) as u64)
    }

    /// A span given in milliseconds.
    pub fn milliseconds(
        &mut self,
        key: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
        problems: &mut Problems<'_>,
    ) -> Nanos {
        let ms = self.number(key, default, range, " ms", problems);
        Nanos::new((ms * 1e6) as u64)
    }

    /// A span of time that has no default, said in some unit.
    pub fn span(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
        unit: &'static str,
        to_nanos: fn(f64) -> f64,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<Nanos>> {
        let number = self.optional::<f64>(key, problems)?;
        let number = number.within(range, unit, problems);
        Some(number.map(|number| Nanos::new(to_nanos(number) as u64)))
    }
}

impl Spanned<String> {
    /// The meaning of the word, if it is one of these.
    pub fn one_of<T: Copy>(self, words: &[(&str, T)], problems: &mut Problems<'_>) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == self.value);
        if found.is_none() {
            let allowed = words.iter().map(|(word, _)| (*word).to_owned()).collect();
            let value = self.value;
            problems.add(&self.place, Invalid::NotOneOf { value, allowed });
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// Whether it can be a name; if not, that is noted.
    pub fn is_name(&self, problems: &mut Problems<'_>) -> bool {
        let allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let good = self.value.len() <= NAME_BYTES_MAX
            && self.value.starts_with(|c: char| c.is_ascii_lowercase())
            && self.value.chars().all(allowed);
        if !good {
            let shown = self.value.chars().take(NAME_BYTES_MAX).collect();
            problems.add(&self.place, Invalid::BadName(shown));
        }
        good
    }

    /// The name, if something has it; else that is noted.
    pub fn resolve<'n>(
        &self,
        what: &'static str,
        known: impl Iterator<Item = &'n String>,
        problems: &mut Problems<'_>,
    ) -> Option<&'n String> {
        let mut known: Vec<&String> = known.collect();
        known.sort();
        known.dedup();
        if let Ok(found) = known.binary_search(&&self.value) {
            return Some(known[found]);
        }
        let cause = Invalid::Unresolved {
            what,
            name: self.value.clone(),
            known: known.into_iter().cloned().collect(),
        };
        problems.add(&self.place, cause);
        None
    }
}

impl Spanned<f64> {
    /// Notes a number outside `range`, and clamps it, so that what follows can go on.
    #[must_use]
    pub fn within(
        self,
        range: RangeInclusive<f64>,
        unit: &'static str,
        problems: &mut Problems<'_>,
    ) -> Self {
        let (least, most) = (*range.start(), *range.end());
        if !range.contains(&self.value) {
            let cause = Invalid::OutOfRange {
                value: self.value,
                least,
                most,
                unit,
            };
            problems.add(&self.place, cause);
        }
        // A number that is none is not clamped: the least stands in for it.
        self.map(|value| if value.is_nan() { least } else { value }.clamp(least, most))
    }
}

impl Spanned<u64> {
    /// Notes a number outside `range`, and clamps it, so that what follows can go on.
    #[must_use]
    pub fn within(
        self,
        range: RangeInclusive<u64>,
        unit: &'static str,
        problems: &mut Problems<'_>,
    ) -> Self {
        let (least, most) = (*range.start(), *range.end());
        if !range.contains(&self.value) {
            let cause = Invalid::OutOfRange {
                value: self.value as f64,
                least: least as f64,
                most: most as f64,
                unit,
            };
            problems.add(&self.place, cause);
        }
        self.map(|value| value.clamp(least, most))
    }
}

/// Notes names that are there twice.
pub fn unique<'n>(
    what: &'static str,
    names: impl Iterator<Item = &'n Spanned<String>>,
    problems: &mut Problems<'_>,
) {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(&name.value) {
            let cause = Invalid::Duplicate {
                what,
                name: name.value.clone(),
            };
            problems.add(&name.place, cause);
        }
    }
}
