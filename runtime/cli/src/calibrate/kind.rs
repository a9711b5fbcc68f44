//! A kind of truth: how an answer is compared with it, and what many comparisons say.

use std::path::PathBuf;

use punctual_device_cpu::ExitResult;
use punctual_model::{Exit, Network, Output};
use serde::{Serialize, Serializer};

use super::pictures::Placement;

/// What one exit answers to one sample.
pub struct Answered<'a> {
    pub sample: usize,
    pub exit: usize,
    pub result: &'a ExitResult,
    pub placement: Placement,
}

/// The truth of all samples, of one kind.
pub trait Kind {
    /// One answer, compared with the truth.
    type Judged;

    fn terms(&self) -> Terms;

    /// The vectors that come with a sample.
    fn vectors(&self, _sample: usize) -> Vec<&[f32]> {
        Vec::new()
    }

    fn judge(&mut self, answered: &Answered<'_>) -> Result<Self::Judged, TruthError>;

    /// Called once, with the answers of the last exit to all samples, before any quality is asked for.
    fn settle(&mut self, _last: &[Self::Judged]) {}

    /// 0 to 1.
    fn quality(&self, judged: &Self::Judged) -> f64;

    /// The usual figures of a set of answers, one for each sample; the same figures for any set.
    fn figures(&self, answers: &[&Self::Judged]) -> Vec<Figure>;

    /// The figures of each class, where answers have parts of several classes.
    fn by_class(&self, _answers: &[&Self::Judged]) -> Vec<ClassFigures> {
        Vec::new()
    }
}

/// What figures of a kind are called.
#[derive(Clone, Debug)]
pub struct Terms {
    /// `detections`.
    pub kind: &'static str,
    /// The heading of quality.
    pub quality: &'static str,
    /// What quality is, as a sentence.
    pub meaning: String,
    /// What `by_class` counts.
    pub counted: &'static str,
}

/// One figure of a set of answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    /// Whether it is 0 to 1, and more is better.
    pub is_share: bool,
}

impl Figure {
    pub const fn share(name: &'static str, value: f64) -> Self {
        Self {
            name,
            value,
            is_share: true,
        }
    }

    pub const fn error(name: &'static str, value: f64) -> Self {
        Self {
            name,
            value,
            is_share: false,
        }
    }

    /// A dash where there is none: the mean average precision of frames without objects.
    pub fn text(&self) -> String {
        if self.value.is_finite() {
            format!("{:.3}", self.value)
        } else {
            "-".to_owned()
        }
    }
}

/// Figures as an object: their values by their names.
pub fn by_name<S: Serializer>(figures: &[Figure], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(figures.iter().map(|figure| (figure.name, figure.value)))
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassFigures {
    pub class: String,
    /// Objects, or pixels, that are of it.
    pub count: u64,
    #[serde(serialize_with = "by_name")]
    pub figures: Vec<Figure>,
}

/// Why an answer cannot be compared with its truth, or a file of truths cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TruthError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {source}", path = path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("cannot read the mask {path}: {source}", path = path.display())]
    Mask {
        path: PathBuf,
        source: image::ImageError,
    },
    /// What a file says cannot be.
    #[error("{place}: {problem}")]
    Invalid {
        /// The file, and where in it.
        place: String,
        /// What was found, and what to do.
        problem: String,
    },
    /// The network does not answer with what the truth is of.
    #[error("the network {network} {problem}")]
    Network { network: String, problem: String },
}

impl TruthError {
    pub fn invalid(place: impl ToString, problem: impl Into<String>) -> Self {
        Self::Invalid {
            place: place.to_string(),
            problem: problem.into(),
        }
    }
}

/// An output of each exit, by its name; without one, the only output.
pub fn output<'n>(
    network: &'n Network,
    name: Option<&str>,
) -> Result<(usize, Vec<&'n Output>), TruthError> {
    let failed = |problem| TruthError::Network {
        network: network.name.clone(),
        problem,
    };
    let names: Vec<&str> = network.output_names().collect();
    let position = match name {
        Some(name) => names.iter().position(|known| *known == name),
        None => (names.len() == 1).then_some(0),
    };
    let position = position.ok_or_else(|| {
        let listed = names.join("`, `");
        failed(match name {
            Some(name) => format!("has no output `{name}`: name one of `{listed}`"),
            None => format!("has the outputs `{listed}`: name one by --tensor"),
        })
    })?;
    let exits = network.exits();
    let outputs = exits.filter_map(|(_, exit): (_, &Exit)| exit.outputs.get(position));
    Ok((position, outputs.collect()))
}
