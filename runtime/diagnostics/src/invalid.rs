//! The rules that a file of any format can break.

use std::path::PathBuf;

use punctual_platform::read::Refused;
use thiserror::Error;
use toml::de::DeValue;

use crate::bytes::Bytes;
use crate::renamed::{RemovedKey, RenamedKey};
use crate::rule::Rule;
use crate::spelling::{list, nearest};

/// What is wrong with a file as such, with a key, or with a name in it.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Invalid {
    #[error("not valid TOML: {}", error.message())]
    Syntax { error: toml::de::Error },
    #[error("cannot read the file: {reason}")]
    Unreadable {
        /// What the system says.
        reason: String,
    },
    /// A file that is no regular file, or too large.
    #[error("{path} is not read: {1}", path = .0.display())]
    Refused(PathBuf, Refused),
    /// A key that means nothing here.
    #[error("unknown key `{key}`")]
    UnknownKey {
        key: String,
        /// The keys that mean something here.
        known: Vec<&'static str>,
    },
    /// A key that must be there.
    #[error("`{key}` is missing: expected {expected}")]
    MissingKey {
        key: &'static str,
        expected: &'static str,
    },
    #[error("expected {expected}, found {found}")]
    WrongType {
        expected: &'static str,
        found: &'static str,
    },
    #[error("expected {least} to {most}{unit}, found {value}")]
    OutOfRange {
        value: f64,
        least: f64,
        most: f64,
        /// With a leading space, or empty.
        unit: &'static str,
    },
    /// A word that is not in the list.
    #[error("{value:?} is not one of {}", list(allowed))]
    NotOneOf { value: String, allowed: Vec<String> },
    #[error("{0:?} is not a name")]
    BadName(String),
    #[error("the {what} {name:?} is defined twice")]
    Duplicate { what: &'static str, name: String },
    #[error("there is no [[{0}]]")]
    NoneGiven(&'static str),
    /// More than there is room for.
    #[error("{count} {what}, more than {limit}")]
    TooMany {
        what: &'static str,
        count: u64,
        limit: u64,
    },
    /// A name that stands for nothing.
    #[error("there is no {what} {name:?}, only {}", list(known))]
    Unresolved {
        what: &'static str,
        name: String,
        known: Vec<String>,
    },
    /// Two keys of which one must be given.
    #[error("`{one}` and `{other}` are both {}", if *both { "given" } else { "missing" })]
    ExactlyOne {
        one: &'static str,
        other: &'static str,
        /// Whether both are there, or neither.
        both: bool,
    },
    #[error("`{former}` and `{now}` are one key, and both are given", former = .0.former, now = .0.now)]
    BothNames(RenamedKey),
    #[error("`{}` means nothing any more", .0.key)]
    Removed(RemovedKey),
}

impl Invalid {
    #[must_use]
    pub fn wrong_type(expected: &'static str, found: &DeValue<'_>) -> Self {
        Self::WrongType {
            expected,
            found: found.type_str(),
        }
    }
}

impl Rule for Invalid {
    fn rule(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "the file is TOML 1.1",
            Self::Unreadable { .. } => "the file and every file that it names can be read",
            Self::Refused(..) => {
                "files are regular and of bounded size: others may have no end, or be waited for \
                 for ever"
            }
            Self::UnknownKey { .. } => "a key that means nothing is refused: it may be misspelt",
            Self::MissingKey { .. } => "this key has no default",
            Self::WrongType { .. } => "a value has its key's type",
            Self::OutOfRange { .. } => "a number lies in its key's range",
            Self::NotOneOf { .. } => "this key takes one word of a fixed list",
            Self::BadName(_) => "a name is 1 to 64 of a-z, 0-9, - and _, a letter first",
            Self::Duplicate { .. } => "names are unique among their kind",
            Self::NoneGiven(_) => "at least one of these is needed",
            Self::TooMany { .. } => "all tables have fixed limits",
            Self::Unresolved { .. } => "a name refers to something that the file defines",
            Self::ExactlyOne { .. } => "exactly one of the two keys is given",
            Self::BothNames(_) => "a key is given once, under one name",
            Self::Removed(_) => "a key that means nothing is refused: the file relies on it",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Syntax { .. } => "correct the marked place".into(),
            Self::Unreadable { .. } => "check its path and its permissions".into(),
            Self::Refused(_, Refused::TooLarge { limit, .. }) => {
                format!("reduce it to {}", Bytes(*limit))
            }
            Self::Refused(_, Refused::NotRegular { .. }) => "name a regular file".into(),
            Self::UnknownKey { key, known } => match nearest(key, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("remove it; known here are {}", list(known)),
            },
            Self::MissingKey { .. } => "add the key".into(),
            Self::WrongType { expected, .. } => format!("write {expected}"),
            Self::OutOfRange {
                least, most, unit, ..
            } => format!("choose {least} to {most}{unit}"),
            Self::NotOneOf { value, allowed } => one_of(value, allowed),
            Self::BadName(_) => "choose another name".into(),
            Self::Duplicate { what, .. } => format!("rename or remove one {what}"),
            Self::NoneGiven(what) => format!("add a [[{what}]] table"),
            Self::TooMany { limit, .. } => format!("reduce to {limit}"),
            Self::Unresolved { name, known, .. } => one_of(name, known),
            Self::ExactlyOne { one, other, both } => {
                let verb = if *both { "remove" } else { "add" };
                format!("{verb} `{one}` or `{other}`")
            }
            Self::BothNames(renamed) => format!("remove `{}`, its former name", renamed.former),
            Self::Removed(removed) => removed.instead.into(),
        }
    }

    fn is_about_a_file(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Refused(..))
    }
}

fn one_of(word: &str, known: &[String]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None if known.is_empty() => "define it".into(),
        None if known.len() == 1 => format!("choose {}", list(known)),
        None => format!("choose one of {}", list(known)),
    }
}
