//! What a client gets at each exit.

use punctual_model::{Exit, Network, OperatorKind, Output, ScoreForm, Stage};
use punctual_report::{Column, Table};
use punctual_types::{Decoder, Element};
use serde::Serialize;

/// An exit: its outputs, and how sure it can be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExitReport {
    /// The stage that ends in it.
    pub stage: usize,
    pub outputs: Vec<OutputReport>,
    /// `None`: it does not say how sure it is.
    pub confidence: Option<ConfidenceSource>,
    /// What its list of detections is limited to, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder: Option<Decoder>,
}

/// A tensor that a client can have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutputReport {
    pub name: String,
    /// As numpy names it.
    pub element: &'static str,
    /// Of bytes: what a step is worth, and the byte that stands for 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantisation: Option<(f32, i16)>,
    /// Without the batch. Empty for a single value.
    pub shape: Vec<u32>,
    /// Of one request.
    pub bytes: u64,
}

/// Where an exit's confidence comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfidenceSource {
    /// The network's own output `exit_K/confidence`.
    Author,
    /// The largest softmax of the scores.
    Softmax,
    /// The largest logistic function of the scores.
    Sigmoid,
    /// The largest score.
    Probability,
}

impl ConfidenceSource {
    fn of(exit: &Exit) -> Option<Self> {
        if exit.confidence.is_some() {
            return Some(Self::Author);
        }
        let form = exit.scores?.form;
        Some(match form {
            ScoreForm::Softmax => Self::Softmax,
            ScoreForm::Sigmoid => Self::Sigmoid,
            ScoreForm::Probability => Self::Probability,
        })
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Author => "the network's own output",
            Self::Softmax => "largest softmax",
            Self::Sigmoid => "largest sigmoid",
            Self::Probability => "largest score",
        }
    }
}

impl OutputReport {
    fn of(output: &Output) -> Self {
        Self {
            name: output.name.clone(),
            element: output.element.name(),
            quantisation: match output.element {
                Element::U8 { scale, zero } => Some((scale, zero.into())),
                Element::I8 { scale, zero } => Some((scale, zero.into())),
                Element::F32 | Element::I32 | Element::Bool => None,
            },
            shape: output.shape.clone(),
            bytes: output.bytes(),
        }
    }
}

pub(super) fn all(network: &Network) -> Vec<ExitReport> {
    let exits = network.stages.iter().enumerate();
    let exits = exits.filter_map(|(stage, found)| Some((stage, found.exit.as_ref()?)));
    let reports = exits.map(|(stage, exit)| ExitReport {
        stage,
        outputs: exit.outputs.iter().map(OutputReport::of).collect(),
        confidence: ConfidenceSource::of(exit),
        decoder: decoder(&network.stages[stage]),
    });
    reports.collect()
}

fn decoder(stage: &Stage) -> Option<Decoder> {
    let mut operators = stage.operators.iter();
    operators.find_map(|operator| match operator.kind {
        OperatorKind::Detections(list) => Some(list.decoder),
        _ => None,
    })
}

/// A row for each output; what describes the exit as a whole stands in its first.
pub(super) fn table(exits: &[ExitReport]) -> Table {
    let mut table = Table::of([
        Column::number("exit"),
        Column::number("stage"),
        Column::words("output"),
        Column::words("type"),
        Column::words("shape"),
        Column::number("size"),
        Column::words("confidence"),
    ]);
    for (at, exit) in exits.iter().enumerate() {
        let confidence = exit.confidence.map_or("none", ConfidenceSource::words);
        let mut of_exit = [
            at.to_string(),
            exit.stage.to_string(),
            confidence.to_owned(),
        ];
        for output in &exit.outputs {
            let shape: Vec<String> = output.shape.iter().map(u32::to_string).collect();
            let [exit, stage, confidence] = std::mem::take(&mut of_exit);
            table.row([
                exit,
                stage,
                output.name.clone(),
                output.element.to_owned(),
                if shape.is_empty() {
                    "one value".to_owned()
                } else {
                    shape.join("x")
                },
                size(output.bytes),
                confidence,
            ]);
        }
    }
    table
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => kibibytes(bytes),
    }
}

pub(super) fn kibibytes(bytes: u64) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}
