//! What an author declares to be made of an exit's outputs on the device, so that a few kilobytes go to clients and not
//! whole maps.

use std::ops::Range;
use std::str::FromStr;

use punctual_diagnostics::{DeValue, FromToml, Invalid, Problems, Rule, Section};
use punctual_types::BoxForm;
use thiserror::Error;

/// An output that is replaced by where its best values are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// `mask` of `exit_0/mask`.
    pub output: String,
    pub kind: ReductionKind,
    /// The dimension that is reduced, as ONNX counts them: 0 is the batch, negative ones count from the end. By default
    /// that of the channels of an image, else the last.
    pub axis: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReductionKind {
    /// The position of the largest value: a byte if there are at most 256 positions.
    ArgMax,
    /// This number of largest values; their positions are one output more, which has `_index` behind its name.
    Largest(u32),
}

/// A bounded decoder of detections, by which the outputs that it reads are replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectionOptions {
    /// (batch, places, 4) or (batch, 4, places).
    pub boxes: OutputPart,
    /// (batch, places, classes) or (batch, classes, places).
    pub scores: OutputPart,
    /// One value a place, by which its scores are multiplied.
    pub objectness: Option<OutputPart>,
    pub form: BoxForm,
    pub unit: BoxUnit,
    pub values: ScoreValues,
    /// A class that is none.
    pub background: Option<Background>,
    /// A detection's score is above it.
    pub threshold: f32,
    /// Most detections.
    pub rows: u32,
    /// How many places are looked at; by default four times the rows.
    pub candidates: Option<u32>,
    /// A box that overlaps a better one by more than this share of their union is left out.
    pub overlap: Option<f32>,
    /// Whether boxes of different classes suppress each other, too.
    pub across_classes: bool,
    /// Confidence is the mean of this number of the best scores; by default there is none.
    pub confidence: Option<u32>,
}

/// An output, or some of the values of each place: `output[4:84]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPart {
    pub output: String,
    pub values: Option<Range<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxUnit {
    /// Of the network's input.
    Pixels,
    /// 1 is the whole width or height of the network's input.
    Fractions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreValues {
    /// 0 to 1 already.
    Probabilities,
    /// The logistic function of each is taken.
    Logits,
    /// A softmax goes over the classes of each place.
    Softmax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    First,
    Last,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeclarationError {
    #[error(
        "`{0}` is no reduction; write OUTPUT=argmax or OUTPUT=topk:COUNT, or either with :AXIS behind it, such as mask=argmax:1"
    )]
    Reduction(String),
    #[error("`{0}` is no key of detections and its value, such as rows=100")]
    Pair(String),
    #[error("`{key}` is no key of detections; they are {}", KEYS.join(", "))]
    Unknown { key: String },
    #[error("`{key}` is given twice")]
    Twice { key: String },
    #[error("detections need `{key}`: {expected}")]
    Missing {
        key: &'static str,
        expected: &'static str,
    },
    #[error("`{key}` of detections is `{value}`; it must be {expected}")]
    Value {
        key: &'static str,
        value: String,
        expected: &'static str,
    },
}

impl Rule for DeclarationError {
    fn rule(&self) -> &'static str {
        "a reduction names outputs of the network, and what is made of them"
    }

    fn help(&self) -> String {
        "`punctual compile --help` has examples".to_owned()
    }
}

const KEYS: [&str; 13] = [
    "boxes",
    "scores",
    "objectness",
    "form",
    "unit",
    "values",
    "background",
    "threshold",
    "rows",
    "candidates",
    "overlap",
    "across_classes",
    "confidence",
];

const FORM: &str = "xyxy (corners), xywh (corner and size) or cxcywh (centre and size)";
const UNIT: &str = "pixels (of the network's input) or fractions (of its width and height)";
const VALUES: &str = "probabilities, logits or softmax";
const PART: &str = "an output, or some of its values, such as output[4:84]";
const WHOLE: &str = "a whole number";
const SHARE: &str = "a number from 0 to 1";
const ROWS: u32 = 100;

impl FromStr for Reduction {
    type Err = DeclarationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || DeclarationError::Reduction(text.to_owned());
        let (output, reduction) = text.rsplit_once('=').ok_or_else(wrong)?;
        let mut words = reduction.split(':');
        let kind = match words.next() {
            Some("argmax") => Some(ReductionKind::ArgMax),
            Some("topk") => {
                let count = words.next().and_then(|count| count.parse().ok());
                count.filter(|&count| count > 0).map(ReductionKind::Largest)
            }
            _ => None,
        };
        let axis = words.next().map(|axis| axis.parse().map_err(|_| wrong()));
        let (Some(kind), None, false) = (kind, words.next(), output.is_empty()) else {
            return Err(wrong());
        };
        Ok(Self {
            output: output.to_owned(),
            kind,
            axis: axis.transpose()?,
        })
    }
}

impl FromStr for OutputPart {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let whole = || Self {
            output: text.to_owned(),
            values: None,
        };
        let Some((output, range)) = text
            .strip_suffix(']')
            .and_then(|text| text.rsplit_once('['))
        else {
            return if text.is_empty() {
                Err(())
            } else {
                Ok(whole())
            };
        };
        let (start, end) = range.split_once(':').ok_or(())?;
        let (start, end) = (start.parse().map_err(|_| ())?, end.parse().map_err(|_| ())?);
        if output.is_empty() || start >= end {
            return Err(());
        }
        Ok(Self {
            output: output.to_owned(),
            values: Some(start..end),
        })
    }
}

impl FromStr for DetectionOptions {
    type Err = DeclarationError;

    /// `key=value,key=value`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pair = |pair: &str| match pair.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => Err(DeclarationError::Pair(pair.to_owned())),
        };
        let pairs = text.split(',').map(pair);
        Self::of(pairs.collect::<Result<_, _>>()?)
    }
}

impl DetectionOptions {
    fn of(pairs: Vec<(String, String)>) -> Result<Self, DeclarationError> {
        for (at, (key, _)) in pairs.iter().enumerate() {
            let key = key.clone();
            if !KEYS.contains(&key.as_str()) {
                return Err(DeclarationError::Unknown { key });
            }
            if pairs[..at].iter().any(|(other, _)| *other == key) {
                return Err(DeclarationError::Twice { key });
            }
        }
        let given = Given(pairs);
        let part = |key, default: &str| match given.parsed(key, PART)? {
            Some(part) => Ok(part),
            None => Ok(OutputPart {
                output: default.to_owned(),
                values: None,
            }),
        };
        let options = Self {
            boxes: part("boxes", "boxes")?,
            scores: part("scores", "scores")?,
            objectness: given.parsed("objectness", PART)?,
            form: given.required_word(
                "form",
                FORM,
                &[
                    ("xyxy", BoxForm::Corners),
                    ("xywh", BoxForm::CornerAndSize),
                    ("cxcywh", BoxForm::CentreAndSize),
                ],
            )?,
            unit: given.required_word(
                "unit",
                UNIT,
                &[
                    ("pixels", BoxUnit::Pixels),
                    ("fractions", BoxUnit::Fractions),
                ],
            )?,
            values: given.required_word(
                "values",
                VALUES,
                &[
                    ("probabilities", ScoreValues::Probabilities),
                    ("logits", ScoreValues::Logits),
                    ("softmax", ScoreValues::Softmax),
                ],
            )?,
            background: given.word(
                "background",
                "first or last",
                &[("first", Background::First), ("last", Background::Last)],
            )?,
            threshold: given
                .parsed("threshold", SHARE)?
                .ok_or(DeclarationError::Missing {
                    key: "threshold",
                    expected: "a detection's score is above it, 0 to below 1",
                })?,
            rows: given.parsed("rows", WHOLE)?.unwrap_or(ROWS),
            candidates: given.parsed("candidates", WHOLE)?,
            overlap: given.parsed("overlap", SHARE)?,
            across_classes: given
                .parsed("across_classes", "true or false")?
                .unwrap_or(false),
            confidence: given.parsed("confidence", WHOLE)?,
        };
        Ok(options)
    }

    /// The table `[output.detections]`.
    pub(super) fn read(output: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let table = output.table("detections", problems)?;
        let pairs = table.entries::<Word>(problems).into_iter();
        let pairs = pairs.map(|(key, word)| (key, word.value.0)).collect();
        match Self::of(pairs) {
            Ok(options) => Some(options),
            Err(problem) => {
                problems.add(table.place(), problem);
                None
            }
        }
    }
}

/// What is given for keys.
struct Given(Vec<(String, String)>);

impl Given {
    fn text(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other == key);
        found.map(|(_, value)| value.as_str())
    }

    fn parsed<T: FromStr>(
        &self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, DeclarationError> {
        let parse = |value: &str| {
            value.parse().map_err(|_| DeclarationError::Value {
                key,
                value: value.to_owned(),
                expected,
            })
        };
        self.text(key).map(parse).transpose()
    }

    fn word<T: Copy>(
        &self,
        key: &'static str,
        expected: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, DeclarationError> {
        let meaning = |value: &str| match words.iter().find(|(word, _)| *word == value) {
            Some((_, meaning)) => Ok(*meaning),
            None => Err(DeclarationError::Value {
                key,
                value: value.to_owned(),
                expected,
            }),
        };
        self.text(key).map(meaning).transpose()
    }

    fn required_word<T: Copy>(
        &self,
        key: &'static str,
        expected: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, DeclarationError> {
        let word = self.word(key, expected, words)?;
        word.ok_or(DeclarationError::Missing { key, expected })
    }
}

/// A string, a number or a truth, as it would be written on the command line.
struct Word(String);

impl FromToml for Word {
    const EXPECTED: &'static str = "a string, a number, true or false";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        match value {
            DeValue::String(text) => Ok(Self(text.to_string())),
            DeValue::Boolean(truth) => Ok(Self(truth.to_string())),
            DeValue::Integer(_) | DeValue::Float(_) => {
                f64::from_toml(value).map(|n| Self(n.to_string()))
            }
            other => Err(Invalid::wrong_type(Self::EXPECTED, other)),
        }
    }
}

/// Such as `mask=argmax`.
pub(super) struct Declared(pub Reduction);

impl FromToml for Declared {
    const EXPECTED: &'static str =
        "OUTPUT=argmax or OUTPUT=topk:COUNT, or either with :AXIS behind it";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let reduction = String::from_toml(value)?.parse();
        reduction
            .map(Self)
            .map_err(|_| Invalid::wrong_type(Self::EXPECTED, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduction_names_an_output_and_perhaps_an_axis() {
        let reduction = |text: &str| text.parse::<Reduction>();
        let found = |output: &str, kind, axis| {
            let output = output.to_owned();
            Ok(Reduction { output, kind, axis })
        };
        assert_eq!(
            reduction("mask=argmax"),
            found("mask", ReductionKind::ArgMax, None)
        );
        assert_eq!(
            reduction("a=b=topk:10:-1"),
            found("a=b", ReductionKind::Largest(10), Some(-1))
        );
        for wrong in [
            "mask",
            "=argmax",
            "mask=",
            "mask=max",
            "mask=topk",
            "mask=topk:0",
            "mask=topk:x",
            "mask=argmax:x",
            "mask=argmax:1:1",
        ] {
            let problem = reduction(wrong).unwrap_err();
            assert_eq!(problem, DeclarationError::Reduction(wrong.to_owned()));
        }
    }

    const LEAST: &str = "form=xyxy,unit=pixels,values=logits,threshold=0.25";

    #[test]
    fn what_is_not_said_of_detections_has_a_default() {
        let least: DetectionOptions = LEAST.parse().unwrap();
        let boxes = (&least.boxes.output[..], &least.boxes.values);
        assert_eq!(boxes, ("boxes", &None));
        assert_eq!((least.rows, least.threshold), (100, 0.25));
        assert_eq!((least.overlap, least.background), (None, None));
        let joined = format!("{LEAST},boxes=output[0:4],overlap=0.5,across_classes=true");
        let joined: DetectionOptions = joined.parse().unwrap();
        assert_eq!(joined.boxes.values, Some(0..4));
        assert!(joined.across_classes && joined.overlap == Some(0.5));
    }

    #[test]
    fn a_wrong_key_or_value_of_detections_is_named() {
        for (more, word) in [
            ("rows", "`rows` is no key of detections and its value"),
            (
                "row=3",
                "`row` is no key of detections; they are boxes, scores",
            ),
            ("form=xyxy", "`form` is given twice"),
            (
                "rows=many",
                "`rows` of detections is `many`; it must be a whole number",
            ),
            ("background=7", "it must be first or last"),
            ("boxes=a[4:4]", "such as output[4:84]"),
        ] {
            let text = format!("{LEAST},{more}");
            let problem = text.parse::<DetectionOptions>().unwrap_err().to_string();
            assert!(problem.contains(word), "{problem}");
        }
        for (key, less) in [
            ("form", "unit=pixels,values=logits,threshold=0.25"),
            ("threshold", "form=xyxy,unit=pixels,values=logits"),
        ] {
            let problem = less.parse::<DetectionOptions>().unwrap_err().to_string();
            assert!(problem.contains(&format!("need `{key}`")), "{problem}");
        }
    }
}
