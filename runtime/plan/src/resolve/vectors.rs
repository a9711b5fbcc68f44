//! The vectors that come with a task's frames: those of its network, with the ranges that the manifest gives.

use punctual_diagnostics::{Problems, Rule};
use punctual_model::{Network, VectorSpec};
use serde::Serialize;
use thiserror::Error;

use super::models::Model;
use crate::manifest::{RawTask, RawVector};

/// Numbers that come with each frame.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VectorPlan {
    pub name: String,
    pub length: u32,
    /// The least that a number can be.
    pub low: f32,
    /// The most.
    pub high: f32,
}

/// What is wrong with the vectors of a task.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum VectorRule {
    #[error(
        "the network of model {model:?} takes vector {name:?} of {length} numbers with each frame"
    )]
    Missing {
        model: String,
        name: String,
        length: u32,
    },
    #[error("the network of model {model:?} takes no vector {name:?}, it takes {known}")]
    Unknown {
        model: String,
        name: String,
        known: String,
    },
    #[error("vector {name:?} has {length} numbers, not {found}")]
    Length {
        name: String,
        found: u64,
        length: u32,
    },
    #[error("{0:?} is no range")]
    Range(Vec<f64>),
    #[error("vector {0:?} is there twice")]
    Twice(String),
}

impl Rule for VectorRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::Range(_) => "each number of a vector has a least and a most value",
            _ => "a task gives its network each of its vectors",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Missing { name, length, .. } => format!(
                "add [[task.vector]] with name = {name:?}, length = {length} and range = [low, high]"
            ),
            Self::Unknown { .. } | Self::Twice(_) => "remove it, or correct its name".into(),
            Self::Length { length, .. } => format!("set length = {length}"),
            Self::Range(_) => "write [low, high], two finite numbers, the lower first".into(),
        }
    }
}

/// The vectors of a task in the network's order; none if something is wrong with them.
pub(super) fn resolve(
    raw: &RawTask,
    model: &Model<'_>,
    problems: &mut Problems<'_>,
) -> Option<Vec<VectorPlan>> {
    let (network, before) = (model.package.network(), problems.count());
    for (at, given) in raw.vectors.iter().enumerate() {
        let name = &given.name.value;
        let same = |other: &RawVector| other.name.value == *name;
        if raw.vectors[..at].iter().any(same) {
            problems.add(&given.name.place, VectorRule::Twice(name.clone()));
        } else if network.vectors.iter().all(|spec| spec.name != *name) {
            let (model, name, known) = (model.name.clone(), name.clone(), all_of(network));
            let cause = VectorRule::Unknown { model, name, known };
            problems.add(&given.name.place, cause);
        }
    }
    let plans = network.vectors.iter().map(|spec| {
        let mut given = raw.vectors.iter();
        match given.find(|given| given.name.value == spec.name) {
            Some(given) => one(given, spec, problems),
            None => {
                let cause = VectorRule::Missing {
                    model: model.name.clone(),
                    name: spec.name.clone(),
                    length: spec.length,
                };
                problems.add(&raw.place, cause);
                None
            }
        }
    });
    let plans: Vec<Option<VectorPlan>> = plans.collect();
    let plans = plans.into_iter().collect();
    if problems.count() == before {
        plans
    } else {
        None
    }
}

fn one(raw: &RawVector, spec: &VectorSpec, problems: &mut Problems<'_>) -> Option<VectorPlan> {
    if raw.length.value != u64::from(spec.length) {
        let cause = VectorRule::Length {
            name: spec.name.clone(),
            found: raw.length.value,
            length: spec.length,
        };
        problems.add(&raw.length.place, cause);
    }
    // As f32, in which the daemon compares.
    let range: Vec<f32> = raw.range.value.iter().map(|&end| end as f32).collect();
    match range[..] {
        [low, high] if low.is_finite() && high.is_finite() && low <= high => Some(VectorPlan {
            name: spec.name.clone(),
            length: spec.length,
            low,
            high,
        }),
        _ => {
            let cause = VectorRule::Range(raw.range.value.clone());
            problems.add(&raw.range.place, cause);
            None
        }
    }
}

fn all_of(network: &Network) -> String {
    let words = network.vectors.iter();
    let words = words.map(|spec| format!("{} ({} numbers)", spec.name, spec.length));
    let words = words.collect::<Vec<_>>().join(", ");
    if words.is_empty() {
        "none".to_owned()
    } else {
        words
    }
}
