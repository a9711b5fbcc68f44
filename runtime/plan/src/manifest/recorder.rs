//! What is recorded of what the daemon does: the table `[recorder]`.

use std::path::PathBuf;

use punctual_core::Nanos;
use punctual_diagnostics::{Problems, Rule, Section};
use serde::Serialize;
use thiserror::Error;

/// When recordings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecorderMode {
    /// The newest seconds are kept in memory, and written when something is wrong, or on request.
    #[default]
    BlackBox,
    /// Everything, at once.
    All,
    Off,
}

/// The words of `[recorder] mode`.
const MODES: [(&str, RecorderMode); 3] = [
    ("black-box", RecorderMode::BlackBox),
    ("all", RecorderMode::All),
    ("off", RecorderMode::Off),
];

/// Which pictures are recorded of the frames that are prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payloads {
    #[default]
    None,
    /// What the network sees of a frame, before it is resized.
    Crops,
    Frames,
}

impl Payloads {
    #[must_use]
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// The words of `[recorder] payloads`.
const PAYLOADS: [(&str, Payloads); 3] = [
    ("none", Payloads::None),
    ("crops", Payloads::Crops),
    ("frames", Payloads::Frames),
];

/// How the daemon records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecorderPlan {
    pub mode: RecorderMode,
    /// Where recordings are written; none: the state directory that the service manager gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// What a black box holds, if its memory is enough.
    pub length: Nanos,
    /// What recordings take of the disk: the oldest make room for new ones.
    pub budget_bytes: u64,
    #[serde(skip_serializing_if = "Payloads::is_none")]
    pub payloads: Payloads,
}

/// What is wrong with the recorder that a manifest asks for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecorderRule {
    #[error("the directory {directory:?} is relative, and a daemon has no folder of its own")]
    Relative { directory: String },
}

impl Rule for RecorderRule {
    fn rule(&self) -> &'static str {
        "recordings are written into a folder that is named from the root"
    }

    fn help(&self) -> String {
        "write the whole path, such as \"/var/lib/punctual/recordings\"; or leave the key out: the unit's state \
         directory is used"
            .into()
    }
}

impl RecorderPlan {
    pub(super) fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Self {
        let mode = section.optional_word("mode", &MODES, problems);
        let directory = section.optional::<String>("directory", problems);
        if let Some(named) = &directory
            && !named.value.starts_with('/')
        {
            let directory = named.value.clone();
            problems.add(&named.place, RecorderRule::Relative { directory });
        }
        let seconds = section.whole("seconds", 30, 1..=600, problems).value;
        let budget = section.whole("budget_mb", 256, 1..=1_000_000, problems);
        let payloads = section.optional_word("payloads", &PAYLOADS, problems);
        section.finish(problems);
        Self {
            mode: mode.unwrap_or_default(),
            directory: directory.map(|named| named.value.into()),
            length: Nanos::from_millis(1_000 * seconds),
            budget_bytes: budget.value * 1_000_000,
            payloads: payloads.unwrap_or_default(),
        }
    }
}
