//! How leaders of partitions of the GPU work: `leader_cores` and `leader_wait` of `[daemon]`.

use punctual_diagnostics::{Place, Problems, Section, Spanned};
use serde::Serialize;

/// How a leader waits while stages run on the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaderWait {
    /// It looks all the time, and uses its core up.
    #[default]
    Spin,
    /// It looks every 50 us. Stages end later by that, and its core is free for others in between.
    Sleep,
}

/// The words of `[daemon] leader_wait`.
const WAITS: [(&str, LeaderWait); 2] = [("spin", LeaderWait::Spin), ("sleep", LeaderWait::Sleep)];

pub(crate) struct RawLeaders {
    /// Cores of leaders, in addition to those that partitions name.
    pub(crate) cores: Option<Spanned<Vec<u64>>>,
    pub(crate) wait: LeaderWait,
    /// The key `leader_wait`, if it says sleep.
    pub(crate) sleep: Option<Place>,
}

impl RawLeaders {
    pub(super) fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Self {
        let cores = section.optional("leader_cores", problems);
        let wait = section.optional_word("leader_wait", &WAITS, problems);
        let sleeps = wait == Some(LeaderWait::Sleep);
        Self {
            cores,
            wait: wait.unwrap_or_default(),
            sleep: sleeps.then(|| section.place_of("leader_wait")),
        }
    }
}
