//! Who may connect, with how many streams, and who may feed which task how fast.

use std::collections::BTreeMap;

use punctual_core::Nanos;
use punctual_diagnostics::{Problems, Rule, Spanned};
use serde::Serialize;
use thiserror::Error;

use crate::inputs::Accounts;
use crate::manifest::{Account, RawAccess, RawAdmission, RawEntry};

/// What is wrong with `allow`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessRule {
    /// A name that no account has.
    #[error("this machine has no {what} {name:?}")]
    UnknownAccount { what: &'static str, name: String },
    #[error("`allow` names no user and no group")]
    NobodyAllowed,
}

impl Rule for AccessRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::UnknownAccount { .. } => "users and groups are in /etc/passwd and /etc/group",
            Self::NobodyAllowed => "`allow` names at least one user or group",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::UnknownAccount { what, .. } => {
                format!("create the {what}, or give its number")
            }
            Self::NobodyAllowed => "name users or groups, or leave `allow` out".into(),
        }
    }
}

/// Which processes may connect: those of one of the users, or with one of the groups.
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
pub struct AdmissionPlan {
    /// Who may come in at all; none: any process that can open the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Access>,
    /// Streams that one process may have.
    pub streams_per_process: u16,
}

/// What a task's clients may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryPlan {
    /// Who may feed it, among those that the daemon admits; none: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Access>,
    /// Least time between two submissions of one client, in the long run; none: as fast as it has slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_period: Option<Nanos>,
    /// Whether they may bring buffers of their own.
    #[serde(rename = "own_buffers")]
    pub import_buffers: bool,
}

impl Access {
    fn resolve(raw: &RawAccess, accounts: &Accounts, problems: &mut Problems<'_>) -> Self {
        let users = numbers("user", raw.users.as_ref(), &accounts.users, problems);
        let groups = numbers("group", raw.groups.as_ref(), &accounts.groups, problems);
        let named = [&raw.users, &raw.groups].map(|list| list.iter().map(|at| at.value.len()));
        if named.into_iter().flatten().sum::<usize>() == 0 {
            problems.add(&raw.place, AccessRule::NobodyAllowed);
        }
        Self { users, groups }
    }
}

impl AdmissionPlan {
    pub(super) fn resolve(
        raw: &RawAdmission,
        accounts: &Accounts,
        problems: &mut Problems<'_>,
    ) -> Self {
        let allow = raw.allow.as_ref();
        Self {
            allow: allow.map(|allow| Access::resolve(allow, accounts, problems)),
            streams_per_process: raw.streams_per_process,
        }
    }
}

impl EntryPlan {
    pub(super) fn resolve(
        raw: &RawEntry,
        accounts: &Accounts,
        problems: &mut Problems<'_>,
    ) -> Self {
        let allow = raw.allow.as_ref();
        Self {
            allow: allow.map(|allow| Access::resolve(allow, accounts, problems)),
            submission_period: raw.submission_period.as_ref().map(|at| at.value),
            import_buffers: raw.import_buffers,
        }
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
                    let cause = AccessRule::UnknownAccount { what, name };
                    problems.add(place, cause);
                }
            },
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_or_any_of_its_groups_is_admitted() {
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
