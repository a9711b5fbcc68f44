//! What a client sends with each request.

use std::fmt;

use punctual_model::{InputForm, InputSpec, Tensor};
use serde::Serialize;

/// A network's first input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputReport {
    /// `picture`, `prepared` or `tokens`.
    pub kind: &'static str,
    pub channels: u32,
    pub height: u32,
    pub width: u32,
    /// Of each channel of a picture, in units of the full scale; else empty.
    pub mean: Vec<f32>,
    /// As `mean`.
    pub std: Vec<f32>,
}

impl InputReport {
    pub(super) fn of(input: &InputSpec) -> Self {
        let (kind, normalised) = match input.form {
            InputForm::Image { .. } => ("picture", input.channels as usize),
            InputForm::Prepared => ("prepared", 0),
            InputForm::Tokens { .. } => ("tokens", 0),
        };
        let (mean, std) = input.form.normalisation();
        Self {
            kind,
            channels: input.channels,
            height: input.height,
            width: input.width,
            mean: mean[..normalised].to_vec(),
            std: std[..normalised].to_vec(),
        }
    }

    pub(super) const fn shape(&self) -> Tensor {
        Tensor {
            channels: self.channels,
            height: self.height,
            width: self.width,
        }
    }
}

impl fmt::Display for InputReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &[f32]| {
            let numbers: Vec<String> = numbers.iter().map(f32::to_string).collect();
            numbers.join(", ")
        };
        match (self.kind, self.channels) {
            ("tokens", 1) => write!(f, "{} tokens", self.width),
            ("tokens", _) => write!(f, "{} tokens and their mask", self.width),
            ("prepared", _) => write!(f, "prepared tensor of {}, as it is", self.shape()),
            _ => write!(
                f,
                "picture of {}, (value / full scale - mean) / std with mean {} and std {}",
                self.shape(),
                list(&self.mean),
                list(&self.std)
            ),
        }
    }
}
