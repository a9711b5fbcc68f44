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

use std::path::{Path, PathBuf};

use punctual_diagnostics::{
    DeValue, Diagnostics, Document, FromToml, Invalid, Problems, Section, Spanned,
};
use punctual_model::{InputForm, InputSpec};

use crate::graph::Graph;

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
    /// What an input image is. Whether the input is one, or tokens, the ONNX file says: of tokens
    /// only the width counts, as many as there are.
    pub input: InputSpec,
    /// The network's outputs that are exits, from the first to the last. Empty: those named
    /// `exit_0`, `exit_1`, ..., or the only one.
    pub exits: Vec<String>,
    /// Names of the classes. Empty: `class_0`, `class_1`, ...
    pub classes: Vec<String>,
}

impl CompileOptions {
    /// Parses an options file; `path` is for messages. The values are checked by compiling.
    ///
    /// # Panics
    /// Never: options without problems are complete.
    pub fn from_toml(text: &str, path: &Path) -> Result<Self, Diagnostics> {
        let mut problems = Problems::new(path, text, "package");
        let options = Self::read(&mut problems);
        problems.into_result()?;
        Ok(options.expect("options without problems are complete"))
    }

    fn read(problems: &mut Problems<'_>) -> Option<Self> {
        let document = Document::parse(problems)?;
        let mut root = document.root();
        let name = root.required::<String>("name", problems);
        let onnx = root.required::<String>("onnx", problems);
        let calibration = root.optional::<String>("calibration", problems);
        root.missing("input", "a table with height, width, mean, std", problems);
        let input = root.table("input", problems);
        let input = input.and_then(|input| read_input(input, problems));
        let mut output = root.table_or_empty("output", problems);
        let exits = output.or("exits", Vec::new(), problems);
        let classes = output.or("classes", Vec::new(), problems);
        output.finish(problems);
        root.finish(problems);
        Some(Self {
            name: name?.value,
            onnx: onnx?.value.into(),
            calibration: calibration.map(|at| at.value.into()),
            input: input?,
            exits: exits.value,
            classes: classes.value,
        })
    }
}

fn read_input(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<InputSpec> {
    let height = section.required::<u64>("height", problems);
    let width = section.required::<u64>("width", problems);
    let mean = section.required::<Channels>("mean", problems);
    let std = section.required::<Channels>("std", problems);
    section.finish(problems);
    let mut side = |side: Spanned<u64>| {
        let side = side.within(0..=u64::from(u32::MAX), " pixels", problems);
        side.value as u32
    };
    Some(InputSpec {
        height: side(height?),
        width: side(width?),
        mean: mean?.value.0,
        std: std?.value.0,
        form: InputForm::Image,
    })
}

/// A number for red, green and blue each.
struct Channels([f32; 3]);

impl FromToml for Channels {
    const EXPECTED: &'static str = "three numbers, for red, green and blue";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let numbers = Vec::<f64>::from_toml(value)?;
        let numbers = <[f64; 3]>::try_from(numbers);
        let numbers = numbers.map_err(|_| Invalid::wrong_type(Self::EXPECTED, value))?;
        Ok(Self(numbers.map(|number| number as f32)))
    }
}

/// What a user says of a network on the command line: it replaces an options file, or takes precedence over one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The network's name; else that of the ONNX file.
    pub name: Option<String>,
    /// Rows and columns of the input; else what the ONNX file says. Tokens are one row.
    pub size: Option<(u32, u32)>,
    /// Subtracted a channel; else [`IMAGENET_MEAN`].
    pub mean: Option<[f32; 3]>,
    /// Divided by a channel; else [`IMAGENET_STD`].
    pub std: Option<[f32; 3]>,
    /// The outputs that are exits; else as [`CompileOptions::exits`].
    pub exits: Vec<String>,
    /// The calibration records, relative to the working directory; else none.
    pub calibration: Option<PathBuf>,
}

/// What torchvision subtracts from red, green and blue, in units of the full scale.
pub const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// What torchvision divides red, green and blue by, in units of the full scale.
pub const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

impl Overrides {
    /// Options for the ONNX file at `path`; sides that are not given are 0.
    pub(crate) fn complete(&self, path: &Path, graph: &Graph) -> CompileOptions {
        let side = |at: usize| {
            let declared = graph.input_dims.get(at).copied().flatten();
            declared.and_then(|side| u32::try_from(side).ok())
        };
        let declared = || match graph.form {
            InputForm::Image => (side(2).unwrap_or(0), side(3).unwrap_or(0)),
            InputForm::Tokens { .. } => (1, side(1).unwrap_or(0)),
        };
        let (height, width) = self.size.unwrap_or_else(declared);
        let stem = path.file_stem().unwrap_or_default();
        CompileOptions {
            name: self
                .name
                .clone()
                .unwrap_or_else(|| stem.to_string_lossy().into_owned()),
            onnx: path.to_owned(),
            calibration: self.calibration.clone(),
            input: InputSpec {
                height,
                width,
                mean: self.mean.unwrap_or(IMAGENET_MEAN),
                std: self.std.unwrap_or(IMAGENET_STD),
                form: graph.form,
            },
            exits: self.exits.clone(),
            classes: Vec::new(),
        }
    }

    /// Changes what an options file says.
    pub(crate) fn apply(&self, options: &mut CompileOptions) {
        if let Some(name) = &self.name {
            options.name.clone_from(name);
        }
        if let Some((height, width)) = self.size {
            (options.input.height, options.input.width) = (height, width);
        }
        options.input.mean = self.mean.unwrap_or(options.input.mean);
        options.input.std = self.std.unwrap_or(options.input.std);
        if !self.exits.is_empty() {
            options.exits.clone_from(&self.exits);
        }
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
        let options = CompileOptions::from_toml(&example, Path::new("x.toml")).unwrap();
        assert_eq!((options.input.height, options.exits.len()), (64, 2));
    }

    #[test]
    fn a_missing_or_unknown_key_is_named_with_its_line() {
        for (text, word) in [
            ("name = \"x\"", "`onnx` is missing"),
            (
                "name = \"x\"\nonnx = \"x\"\nbatch = 4",
                "unknown key `batch`",
            ),
            (
                "name = \"x\"\nonnx = \"x\"\n[input]\nheight = -1",
                "x.toml:4:1",
            ),
            (
                "name = \"x\"\nonnx = \"x\"\n[input]\nmean = [0.5, 0.5]",
                "expected three numbers",
            ),
        ] {
            let errors = CompileOptions::from_toml(text, Path::new("x.toml")).unwrap_err();
            let message = errors.to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
