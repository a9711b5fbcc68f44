//! What the compiler must know of a network beyond its ONNX file: a small TOML file beside it.
//!
//! ```toml
//! name = "signs"
//! onnx = "signs.onnx"                # relative to this file
//! calibration = "calibration.json"   # optional
//!
//! [input]
//! height = 64
//! width = 64
//! mean = [0.45, 0.45, 0.45]          # each value becomes (pixel / 255 - mean) / std
//! std = [0.25, 0.25, 0.25]
//!
//! [output]
//! exits = ["exit_0", "exit_1"]       # optional: else all outputs named exit_0, exit_1, ...
//! classes = ["stop", "give way"]     # optional: else class_0, class_1, ...
//! ```

use std::path::PathBuf;

use punctual_model::InputSpec;
use serde::Deserialize;
use thiserror::Error;

/// The options of one network.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// The network's name.
    pub name: String,
    /// The ONNX file, as written: relative to the options file. Only [`compile_file`] reads it.
    ///
    /// [`compile_file`]: crate::compile_file
    pub onnx: PathBuf,
    /// The calibration records, as written: relative to the options file. Only
    /// [`compile_file`](crate::compile_file) reads them.
    pub calibration: Option<PathBuf>,
    /// What an input image is.
    pub input: InputSpec,
    /// The network's outputs that are exits, from the first to the last. Empty: those named
    /// `exit_0`, `exit_1`, ...
    pub exits: Vec<String>,
    /// Names of the classes. Empty: `class_0`, `class_1`, ...
    pub classes: Vec<String>,
}

/// The options file cannot be read as such.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("the compile options are malformed: {0}")]
pub struct OptionsError(#[from] toml::de::Error);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOptions {
    name: String,
    onnx: PathBuf,
    calibration: Option<PathBuf>,
    input: RawInput,
    #[serde(default)]
    output: RawOutput,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInput {
    height: u32,
    width: u32,
    mean: [f32; 3],
    std: [f32; 3],
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutput {
    #[serde(default)]
    exits: Vec<String>,
    #[serde(default)]
    classes: Vec<String>,
}

impl CompileOptions {
    /// Parses an options file. The values are checked by compiling.
    ///
    /// # Errors
    /// On malformed TOML, unknown keys and missing keys, with the line.
    pub fn from_toml(text: &str) -> Result<Self, OptionsError> {
        let raw: RawOptions = toml::from_str(text)?;
        let RawInput {
            height,
            width,
            mean,
            std,
        } = raw.input;
        Ok(Self {
            name: raw.name,
            onnx: raw.onnx,
            calibration: raw.calibration,
            input: InputSpec {
                height,
                width,
                mean,
                std,
            },
            exits: raw.output.exits,
            classes: raw.output.classes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_one() {
        let example: String = include_str!("options.rs")
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .skip_while(|line| !line.contains("```toml"))
            .skip(1)
            .take_while(|line| !line.contains("```"))
            .flat_map(|line| [line, "\n"])
            .collect();
        let options = CompileOptions::from_toml(&example).unwrap();
        assert_eq!((options.input.height, options.exits.len()), (64, 2));
    }

    #[test]
    fn a_missing_or_unknown_key_is_named_with_its_line() {
        for (text, word) in [
            ("name = \"x\"", "missing field `onnx`"),
            (
                "name = \"x\"\nonnx = \"x\"\nbatch = 4",
                "unknown field `batch`",
            ),
            ("name = \"x\"\nonnx = \"x\"\n[input]\nheight = -1", "line 4"),
        ] {
            let message = CompileOptions::from_toml(text).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
