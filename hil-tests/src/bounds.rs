//! What a board must keep: versioned files, one a board, in `hil-tests/bounds`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use punctual_platform::read;
use serde::{Deserialize, Serialize};

const BUILT_IN: &[(&str, &str)] = &[
    ("host", include_str!("../bounds/host.toml")),
    (
        "jetson-orin-nano-8gb",
        include_str!("../bounds/jetson-orin-nano-8gb.toml"),
    ),
];

/// Bounds of one board. Keys are `SUITE.MEASURE`, as the suites declare them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The file, for a person who has to look there.
    pub file: String,
    /// What it was measured on, in words.
    pub about: String,
    bounds: BTreeMap<String, BTreeMap<String, Bound>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The measure may not be above it.
    #[serde(default)]
    pub max: Option<f64>,
    #[serde(default)]
    pub min: Option<f64>,
    pub why: String,
}

// Whatever else is at the top must be a suite, and its keys are checked below.
#[derive(Debug, Deserialize)]
struct File {
    about: String,
    #[serde(flatten)]
    suites: BTreeMap<String, BTreeMap<String, Bound>>,
}

#[derive(Debug, thiserror::Error)]
pub enum BoundsError {
    #[error(
        "no bounds for board `{board}`: write {board}.toml after the example of host.toml and give it by --bounds; known are {}",
        known()
    )]
    Unknown { board: String },
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{file}: {source}")]
    Toml {
        file: String,
        source: toml::de::Error,
    },
    #[error("{file}: no case measures `{key}`; correct or remove it")]
    Key { file: String, key: String },
    #[error("{file}: `{key}` has neither `max` nor `min`")]
    Empty { file: String, key: String },
}

fn known() -> String {
    let names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

impl Bounds {
    /// Those of a board, from the tree.
    pub fn of_board(board: &str, measures: &[String]) -> Result<Self, BoundsError> {
        let found = BUILT_IN.iter().find(|(name, _)| *name == board);
        let (name, text) = found.ok_or_else(|| BoundsError::Unknown {
            board: board.to_owned(),
        })?;
        Self::parse(&format!("hil-tests/bounds/{name}.toml"), text, measures)
    }

    pub fn of_file(path: &Path, measures: &[String]) -> Result<Self, BoundsError> {
        let text = read::text(path, read::TEXT_BYTES_MAX).map_err(|source| BoundsError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text, measures)
    }

    fn parse(file: &str, text: &str, measures: &[String]) -> Result<Self, BoundsError> {
        let file = file.to_owned();
        let parsed: File = toml::from_str(text).map_err(|source| BoundsError::Toml {
            file: file.clone(),
            source,
        })?;
        for (suite, bounds) in &parsed.suites {
            for (measure, bound) in bounds {
                let key = format!("{suite}.{measure}");
                if !measures.contains(&key) {
                    return Err(BoundsError::Key { file, key });
                }
                if bound.max.is_none() && bound.min.is_none() {
                    return Err(BoundsError::Empty { file, key });
                }
            }
        }
        Ok(Self {
            file,
            about: parsed.about,
            bounds: parsed.suites,
        })
    }

    /// The bound of a measure, if the board has one.
    #[must_use]
    pub fn get(&self, suite: &str, measure: &str) -> Option<&Bound> {
        self.bounds.get(suite)?.get(measure)
    }
}

impl Bound {
    /// Whether a value keeps it. What is no number keeps nothing.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.max.is_none_or(|max| value <= max) && self.min.is_none_or(|min| value >= min)
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(formatter, "{min} to {max}"),
            (Some(min), None) => write!(formatter, "at least {min}"),
            (None, Some(max)) => write!(formatter, "at most {max}"),
            (None, None) => formatter.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites;

    #[test]
    fn every_file_of_the_tree_bounds_what_is_measured() {
        for (name, _) in BUILT_IN {
            let bounds = Bounds::of_board(name, &suites::measures()).expect("a good file");
            assert!(!bounds.about.is_empty());
        }
    }

    #[test]
    fn a_misspelt_key_is_refused_by_its_name() {
        let text = "about = ''\n[latency]\np99 = { max = 1, why = 'x' }";
        let error = Bounds::parse("f", text, &["latency.p50".to_owned()]).unwrap_err();
        assert!(matches!(error, BoundsError::Key { key, .. } if key == "latency.p99"));
    }

    #[test]
    fn a_bound_without_a_limit_is_refused() {
        let text = "about = ''\n[latency]\np99 = { why = 'x' }";
        let error = Bounds::parse("f", text, &["latency.p99".to_owned()]).unwrap_err();
        assert!(matches!(error, BoundsError::Empty { .. }));
    }

    #[test]
    fn both_ends_hold_and_no_number_holds_nowhere() {
        let bound = Bound {
            max: Some(2.0),
            min: Some(1.0),
            why: String::new(),
        };
        assert!(bound.holds(1.0) && bound.holds(2.0));
        assert!(!bound.holds(0.9) && !bound.holds(2.1) && !bound.holds(f64::NAN));
    }
}
