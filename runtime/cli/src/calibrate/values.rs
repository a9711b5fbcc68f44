//! Numbers: lines of `picture,value,...`.

use std::path::{Path, PathBuf};

use punctual_model::Network;
use punctual_platform::read;
use punctual_quality::Errors;
use punctual_types::Element;

use super::kind::{self, Answered, Figure, Kind, Terms, TruthError};

const BYTES_MAX: u64 = 256 << 20;
/// Most numbers of an answer: more are a map.
const NUMBERS_MAX: u64 = 1024;

pub struct Values {
    samples: Vec<Numbers>,
    /// How far a number may be from the truth.
    tolerance: Vec<f64>,
    output: usize,
    elements: Vec<Element>,
}

/// What a line gives for its picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// What comes with the picture.
    vectors: Vec<Vec<f32>>,
    truth: Vec<f64>,
}

pub struct JudgedNumbers {
    errors: Errors,
    within: bool,
}

impl Values {
    /// How many numbers an answer has.
    fn count(network: &Network, output: Option<&str>) -> Result<usize, TruthError> {
        let (_, outputs) = kind::output(network, output)?;
        let counts: Vec<u64> = outputs.iter().map(|output| output.elements()).collect();
        let even = counts
            .iter()
            .all(|&count| count == counts[0] && count <= NUMBERS_MAX);
        even.then_some(counts[0] as usize).ok_or_else(|| {
            let problem = format!(
                "has {counts:?} numbers at its exits in the output `{}`: answers of as many numbers at each exit, at most \
                 {NUMBERS_MAX}, can be compared; name another output by --tensor",
                outputs[0].name
            );
            let network = network.name.clone();
            TruthError::Network { network, problem }
        })
    }

    pub fn new(
        network: &Network,
        samples: Vec<Numbers>,
        tolerance: &[f64],
        output: Option<&str>,
    ) -> Result<Self, TruthError> {
        let count = Self::count(network, output)?;
        let (position, outputs) = kind::output(network, output)?;
        let tolerance = match tolerance {
            [all] => vec![*all; count],
            each if each.len() == count => each.to_vec(),
            each => {
                let problem = format!(
                    "answers with {count} numbers, and --tolerance has {}: give one for all, or one for each",
                    each.len()
                );
                let network = network.name.clone();
                return Err(TruthError::Network { network, problem });
            }
        };
        Ok(Self {
            samples,
            tolerance,
            output: position,
            elements: outputs.iter().map(|output| output.element).collect(),
        })
    }
}

/// The samples of a file of lines `picture,number,...`: the numbers of the network's vectors, if it takes any, then those of
/// the truth. Pictures are relative to `folder`. A first line without numbers is a heading.
pub fn read(
    path: &Path,
    folder: &Path,
    network: &Network,
    output: Option<&str>,
) -> Result<Vec<(PathBuf, Numbers)>, TruthError> {
    let text = read::text(path, BYTES_MAX).map_err(|source| TruthError::Read {
        path: path.to_owned(),
        source,
    })?;
    let vectors: Vec<usize> = network.vectors.iter().map(|v| v.length as usize).collect();
    let truth = Values::count(network, output)?;
    let count = vectors.iter().sum::<usize>() + truth;
    let mut samples = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.rsplitn(count + 1, ',').collect();
        let (picture, numbers) = fields.split_last().expect("a line has a field");
        let parsed: Vec<Option<f64>> = numbers.iter().rev().map(|field| number(field)).collect();
        if at == 0 && parsed.iter().all(Option::is_none) {
            continue;
        }
        let numbers: Option<Vec<f64>> = parsed.into_iter().collect();
        let Some(mut numbers) = numbers.filter(|numbers| numbers.len() == count) else {
            let place = format!("{}:{}", path.display(), at + 1);
            let problem = format!("expected a picture and {count} finite numbers, found `{line}`");
            return Err(TruthError::invalid(place, problem));
        };
        let truth = numbers.split_off(count - truth);
        let mut rest = numbers.into_iter().map(|number| number as f32);
        let vectors = vectors
            .iter()
            .map(|&length| rest.by_ref().take(length).collect());
        let vectors = vectors.collect();
        samples.push((folder.join(picture.trim()), Numbers { vectors, truth }));
    }
    if samples.is_empty() {
        Err(TruthError::invalid(
            path.display(),
            "it has no lines `picture,value,...`",
        ))
    } else {
        Ok(samples)
    }
}

fn number(field: &str) -> Option<f64> {
    let number = field.trim().parse().ok()?;
    f64::is_finite(number).then_some(number)
}

impl Kind for Values {
    type Judged = JudgedNumbers;

    fn terms(&self) -> Terms {
        let tolerance: Vec<String> = self.tolerance.iter().map(f64::to_string).collect();
        Terms {
            kind: "values",
            quality: "within tolerance",
            meaning: format!(
                "An answer's quality is 1 if each of its numbers is within {} of the truth (--tolerance), otherwise 0.",
                tolerance.join(", ")
            ),
            counted: "",
        }
    }

    fn vectors(&self, sample: usize) -> Vec<&[f32]> {
        let vectors = self.samples[sample].vectors.iter();
        vectors.map(Vec::as_slice).collect()
    }

    fn judge(&mut self, answered: &Answered<'_>) -> Result<JudgedNumbers, TruthError> {
        let bytes = &answered.result.outputs[self.output];
        let truth = self.samples[answered.sample].truth.iter().copied();
        let pairs = truth.zip(self.elements[answered.exit].values(bytes));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let mut each = pairs.iter().zip(&self.tolerance);
        Ok(JudgedNumbers {
            within: each.all(|((truth, answer), tolerance)| (truth - answer).abs() <= *tolerance),
            errors: Errors::of(pairs),
        })
    }

    fn quality(&self, judged: &JudgedNumbers) -> f64 {
        f64::from(u8::from(judged.within))
    }

    fn figures(&self, answers: &[&JudgedNumbers]) -> Vec<Figure> {
        let mut all = Errors::default();
        answers.iter().for_each(|answer| all.add(&answer.errors));
        vec![
            Figure::error("mean error", all.mean_absolute()),
            Figure::error("RMS error", all.root_mean_square()),
        ]
    }
}
