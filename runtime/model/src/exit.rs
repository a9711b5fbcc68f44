//! What a network gives back at an exit: named tensors, a class, and how sure it is.

use punctual_types::{Element, View};
use serde::{Deserialize, Serialize};

use crate::TensorId;

/// The name of an exit's output that has none of its own: that of an ONNX output `exit_0`.
pub const ONLY_OUTPUT: &str = "output";

/// Where a stage ends in an exit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// The tensors that a client can have, in the order of the ONNX file.
    pub outputs: Vec<Output>,
    /// Where the class comes from; there if the network's answers have one.
    pub scores: Option<Scores>,
    /// One value in 0..1 that the network itself computes. It takes precedence over the scores.
    pub confidence: Option<TensorId>,
}

impl Exit {
    /// One vector of class scores before softmax, which is also its only output.
    #[must_use]
    pub fn of_scores(tensor: TensorId, classes: u32) -> Self {
        let output = Output {
            name: ONLY_OUTPUT.to_owned(),
            tensor,
            shape: vec![classes],
            view: View::plain([classes, 1, 1]),
            element: Element::F32,
        };
        let form = ScoreForm::Softmax;
        Self {
            outputs: vec![output],
            scores: Some(Scores { tensor, form }),
            confidence: None,
        }
    }

    /// The tensors that it reads, with repetitions.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        let outputs = self.outputs.iter().map(|output| output.tensor);
        outputs.chain(self.answers())
    }

    /// The tensors that the answer itself is made of: class scores and confidence.
    pub fn answers(&self) -> impl Iterator<Item = TensorId> + use<> {
        let scores = self.scores.map(|scores| scores.tensor);
        scores.into_iter().chain(self.confidence)
    }

    /// As [`reads`](Self::reads), to rename them.
    pub fn reads_mut(&mut self) -> impl Iterator<Item = &mut TensorId> + '_ {
        let outputs = self.outputs.iter_mut().map(|output| &mut output.tensor);
        let scores = self.scores.as_mut().map(|scores| &mut scores.tensor);
        outputs.chain(scores).chain(self.confidence.as_mut())
    }

    /// Whether an answer of this exit says how sure it is. If not, depth depends on time alone.
    #[must_use]
    pub const fn has_confidence(&self) -> bool {
        self.confidence.is_some() || self.scores.is_some()
    }
}

/// A score for each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scores {
    /// A vector, one element a class.
    pub tensor: TensorId,
    pub form: ScoreForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoreForm {
    /// Confidence is the softmax of the largest.
    Softmax,
    /// Confidence is the logistic function of the largest.
    Sigmoid,
    /// Confidence is the largest.
    Probability,
}

/// A tensor that goes back to the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// `boxes` of `exit_0/boxes`. Unique at its exit.
    pub name: String,
    pub tensor: TensorId,
    /// The dimensions that the client sees, without the batch. Empty for a single value.
    pub shape: Vec<u32>,
    /// In which order its elements are taken from the tensor.
    pub view: View,
    pub element: Element,
}

impl Output {
    /// Elements of one image's output.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.view.elements()
    }

    /// Bytes of one image's output.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.element.bytes())
    }
}
