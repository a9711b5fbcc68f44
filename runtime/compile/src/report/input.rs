//! What a client sends with each request.

use std::fmt;

use punctual_model::{InputForm, InputSpec, Origin, Tensor};
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
    /// What it is in the ONNX file.
    pub in_file: Origin,
}

impl InputReport {
    pub(super) fn of(input: &InputSpec, in_file: Origin) -> Self {
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
            in_file,
        }
    }

    /// How the ONNX file has it otherwise.
    fn in_file_words(&self) -> String {
        let Origin {
            bytes,
            channels_last,
            unbatched,
        } = self.in_file;
        let words = [
            (bytes, "in bytes (uint8)"),
            (channels_last, "with its channels last (NHWC)"),
            (unbatched, "without a batch"),
        ];
        let words = words.into_iter().filter(|(is_so, _)| *is_so);
        words.map(|(_, words)| words).collect::<Vec<_>>().join(", ")
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
        }?;
        let words = self.in_file_words();
        if words.is_empty() {
            return Ok(());
        }
        write!(f, "; in the ONNX file {words}")
    }
}
