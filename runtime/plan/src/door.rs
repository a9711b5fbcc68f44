//! Who may come in, with how much: the keys of the daemon's door.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use punctual_core::Nanos;
use punctual_diagnostics::{FromToml, Invalid, Place, Problems, Rule, Section, Spanned};
use serde::Serialize;
use thiserror::Error;
use toml::de::DeValue;

use crate::manifest::CLIENT_SLOTS_MAX;

/// What is wrong with the keys of the door.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DoorRule {
    /// A socket path that the kernel cannot hold, or not with the metrics' suffix.
    #[error("the socket path has {bytes} bytes, more than {limit}")]
    SocketPathTooLong { bytes: usize, limit: usize },
    /// Not a path that a socket can have.
    #[error("{0:?} is no path of a socket")]
    NoSocketPath(String),
    /// A name that no account has.
    #[error("this machine has no {what} {name:?}")]
    UnknownAccount { what: &'static str, name: String },
    #[error("`allow` names nobody")]
    NobodyAllowed,
}

/// What the path of the metrics' socket has behind that of the clients'.
pub const METRICS_SUFFIX: &str = ".metrics";

/// A path's bytes in the kernel's `sockaddr_un`, without the zero behind them.
const SOCKET_PATH_BYTES_MAX: usize = 107;

impl DoorRule {
    /// What is wrong with a path for the clients' socket.
    #[must_use]
    pub fn of_socket(path: &Path) -> Option<Self> {
        let bytes = path.as_os_str().as_bytes();
        let limit = SOCKET_PATH_BYTES_MAX - METRICS_SUFFIX.len();
        if bytes.is_empty() || bytes.contains(&0) {
            return Some(Self::NoSocketPath(path.display().to_string()));
        }
        let bytes = bytes.len();
        (bytes > limit).then_some(Self::SocketPathTooLong { bytes, limit })
    }
}

impl Rule for DoorRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::SocketPathTooLong { .. } => {
                "a socket's path has at most 107 bytes, and the metrics' is the clients' with \
                 `.metrics` behind it"
            }
            Self::NoSocketPath(_) => "a socket has a path of at least one byte, none of them zero",
            Self::UnknownAccount { .. } => "names stand in /etc/passwd or /etc/group",
            Self::NobodyAllowed => "a task is there for somebody",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::SocketPathTooLong { .. } => "choose a shorter path, e.g. under /run".into(),
            Self::NoSocketPath(_) => "name a file, e.g. /run/punctual/socket".into(),
            Self::UnknownAccount { what, .. } => {
                format!("create the {what}, or give its number")
            }
            Self::NobodyAllowed => "name users or groups, or leave `allow` out".into(),
        }
    }
}

/// Names of users and groups with their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    pub users: BTreeMap<String, u32>,
    pub groups: BTreeMap<String, u32>,
}

impl Accounts {
    /// From the text of `/etc/passwd` and `/etc/group`; lines that make no sense are left out.
    #[must_use]
    pub fn from_files(passwd: &str, group: &str) -> Self {
        // Both have the name first and the number third.
        let entry = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            Some((name.to_owned(), fields.nth(1)?.parse().ok()?))
        };
        Self {
            users: passwd.lines().filter_map(entry).collect(),
            groups: group.lines().filter_map(entry).collect(),
        }
    }
}

/// Who may come in: a process of one of the users, or with one of the groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    pub users: Vec<u32>,
    pub groups: Vec<u32>,
}

impl Access {
    /// Whether a process of this user and these groups may.
    #[must_use]
    pub fn admits(&self, user: u32, groups: &[u32]) -> bool {
        self.users.contains(&user) || groups.iter().any(|group| self.groups.contains(group))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoorPlan {
    /// Who may come in at all; none: whoever can open the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Access>,
    /// Streams that one process may have.
    pub streams_per_process: u16,
}

/// What a task's clients may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryPlan {
    /// Who may feed it, among those whom the daemon lets in; none: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Access>,
    /// Least time between two submissions of one client, in the long run; none: as fast as it has slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_period: Option<Nanos>,
    /// Whether they may bring buffers of their own.
    pub own_buffers: bool,
}

/// An account as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Account {
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
#[derive(Debug)]
pub(crate) struct RawAccess {
    users: Option<Spanned<Vec<Account>>>,
    groups: Option<Spanned<Vec<Account>>>,
    place: Place,
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

    fn resolve(&self, accounts: &Accounts, problems: &mut Problems<'_>) -> Access {
        let users = numbers("user", self.users.as_ref(), &accounts.users, problems);
        let groups = numbers("group", self.groups.as_ref(), &accounts.groups, problems);
        let named = [&self.users, &self.groups].map(|list| list.iter().map(|at| at.value.len()));
        if named.into_iter().flatten().sum::<usize>() == 0 {
            problems.add(&self.place, DoorRule::NobodyAllowed);
        }
        Access { users, groups }
    }
}

fn numbers(
    what: &'static str,
    listed: Option<&Spanned<Vec<Account>>>,
    known: &BTreeMap<String, u32>,
    problems: &mut Problems<'_>,
) -> Vec<u32> {
    let Some(Spanned { value, place }) = listed else {
        return Vec::new();
    };
    let mut numbers = Vec::new();
    for account in value {
        match account {
            Account::Number(number) => numbers.push(*number),
            Account::Name(name) => match known.get(name) {
                Some(number) => numbers.push(*number),
                None => {
                    let name = name.clone();
                    let cause = DoorRule::UnknownAccount { what, name };
                    problems.add(place, cause);
                }
            },
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The door's keys in `[daemon]`.
#[derive(Debug)]
pub(crate) struct RawDoor {
    allow: Option<RawAccess>,
    streams_per_process: u16,
}

impl RawDoor {
    pub(crate) fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Self {
        let most = CLIENT_SLOTS_MAX as u64;
        Self {
            allow: RawAccess::read(section, problems),
            streams_per_process: section
                .whole("streams_per_process", most, 1..=most, problems)
                .value as u16,
        }
    }

    pub(crate) fn resolve(&self, accounts: &Accounts, problems: &mut Problems<'_>) -> DoorPlan {
        let allow = self.allow.as_ref();
        DoorPlan {
            allow: allow.map(|allow| allow.resolve(accounts, problems)),
            streams_per_process: self.streams_per_process,
        }
    }
}

/// The door's keys in `[[task]]`.
#[derive(Debug)]
pub(crate) struct RawEntry {
    allow: Option<RawAccess>,
    submission_period: Option<Spanned<Nanos>>,
    own_buffers: bool,
}

impl RawEntry {
    pub(crate) fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Self {
        Self {
            allow: RawAccess::read(section, problems),
            submission_period: section.span(
                "rate_max_hz",
                0.01..=100_000.0,
                " Hz",
                |hz| 1e9 / hz,
                problems,
            ),
            own_buffers: section.or("own_buffers", false, problems).value,
        }
    }

    pub(crate) fn resolve(&self, accounts: &Accounts, problems: &mut Problems<'_>) -> EntryPlan {
        let allow = self.allow.as_ref();
        EntryPlan {
            allow: allow.map(|allow| allow.resolve(accounts, problems)),
            submission_period: self.submission_period.as_ref().map(|at| at.value),
            own_buffers: self.own_buffers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_from_the_systems_files_and_nonsense_is_left_out() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\ncamera:x:990:990::/:/bin/false\n\n:x:7:7\nx\n";
        let group = "video:x:44:camera,root\nbad:x:minus\n";
        let accounts = Accounts::from_files(passwd, group);
        assert_eq!(accounts.users.len(), 2);
        assert_eq!(accounts.users["camera"], 990);
        assert_eq!(accounts.groups.len(), 1);
        assert_eq!(accounts.groups["video"], 44);
    }

    #[test]
    fn a_user_or_any_of_its_groups_opens_the_door() {
        let access = Access {
            users: vec![990],
            groups: vec![44],
        };
        assert!(access.admits(990, &[]));
        assert!(access.admits(1000, &[1000, 44]));
        assert!(!access.admits(1000, &[1000]));
        assert!(!access.admits(0, &[0]), "not even root");
    }
}
