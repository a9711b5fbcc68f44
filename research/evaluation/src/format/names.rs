//! References from one table of a workload file to another, as positions.

use punctual_diagnostics::{Problems, Section, Spanned};

/// The position in `names` of the one that `key` gives; that of the first stands in for one that
/// is not there, which is noted.
pub(super) fn index(
    section: &mut Section<'_, '_>,
    key: &'static str,
    what: &'static str,
    names: &[String],
    problems: &mut Problems<'_>,
) -> usize {
    let name = section.required::<String>(key, problems);
    let found = name.and_then(|name| position(&name, what, names, problems));
    found.unwrap_or(0)
}

/// The positions of those in a list, without any that are not there, which are noted.
pub(super) fn indices(
    section: &mut Section<'_, '_>,
    key: &'static str,
    what: &'static str,
    names: &[String],
    problems: &mut Problems<'_>,
) -> Vec<usize> {
    let Some(listed) = section.required::<Vec<String>>(key, problems) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for value in listed.value {
        let place = listed.place.clone();
        found.extend(position(&Spanned { value, place }, what, names, problems));
    }
    found
}

fn position(
    name: &Spanned<String>,
    what: &'static str,
    names: &[String],
    problems: &mut Problems<'_>,
) -> Option<usize> {
    name.resolve(what, names.iter(), problems)?;
    names.iter().position(|known| *known == name.value)
}
