//! Who may connect and submit, as written.

use punctual_core::Nanos;
use punctual_diagnostics::{DeValue, FromToml, Invalid, Place, Problems, Section, Spanned};

use super::limits::CLIENT_SLOTS_MAX;

/// An account as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    Name(String),
    Number(u32),
}

impl FromToml for Account {
    const EXPECTED: &'static str = "a name or a number";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let number = || u64::from_toml(value).ok()?.try_into().ok();
        match value {
            DeValue::String(name) => Ok(Self::Name(name.to_string())),
            _ => number()
                .map(Self::Number)
                .ok_or_else(|| Invalid::wrong_type(Self::EXPECTED, value)),
        }
    }
}

/// `allow = { users = [...], groups = [...] }`, as written.
#[derive(Clone, Debug)]
pub(crate) struct RawAccess {
    pub(crate) users: Option<Spanned<Vec<Account>>>,
    pub(crate) groups: Option<Spanned<Vec<Account>>>,
    pub(crate) place: Place,
}

impl RawAccess {
    fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let mut allow = section.table("allow", problems)?;
        let access = Self {
            users: allow.optional("users", problems),
            groups: allow.optional("groups", problems),
            place: allow.place().clone(),
        };
        allow.finish(problems);
        Some(access)
    }
}

/// Who may connect, by `[daemon]`.
#[derive(Debug)]
pub(crate) struct RawAdmission {
    pub(crate) allow: Option<RawAccess>,
    pub(crate) streams_per_process: u16,
}

impl RawAdmission {
    pub(super) fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Self {
        let most = CLIENT_SLOTS_MAX as u64;
        Self {
            allow: RawAccess::read(section, problems),
            streams_per_process: section
                .whole("streams_per_process", most, 1..=most, problems)
                .value as u16,
        }
    }
}

/// Who may feed a task, and how fast, by `[[task]]`.
#[derive(Clone, Debug)]
pub(crate) struct RawEntry {
    pub(crate) allow: Option<RawAccess>,
    pub(crate) submission_period: Option<Spanned<Nanos>>,
    pub(crate) import_buffers: bool,
}

impl RawEntry {
    pub(super) fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Self {
        Self {
            allow: RawAccess::read(section, problems),
            submission_period: section.span(
                "rate_max_hz",
                0.01..=100_000.0,
                " Hz",
                |hz| 1e9 / hz,
                problems,
            ),
            import_buffers: section.or("import_buffers", false, problems).value,
        }
    }
}
