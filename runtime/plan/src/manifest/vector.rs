//! `[[task.vector]]`: numbers that come with each frame.

use punctual_diagnostics::{Problems, Section, Spanned};

#[derive(Clone)]
pub(crate) struct RawVector {
    /// That of the network's input.
    pub(crate) name: Spanned<String>,
    pub(crate) length: Spanned<u64>,
    /// The least and the most of each number.
    pub(crate) range: Spanned<Vec<f64>>,
}

impl RawVector {
    pub(super) fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let name = section.required("name", problems);
        let length = section.required("length", problems);
        let range = section.required("range", problems);
        section.finish(problems);
        Some(Self {
            name: name?,
            length: length?,
            range: range?,
        })
    }
}
