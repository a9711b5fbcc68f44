//! What the compiler must know of a network beyond its ONNX file: a small TOML file next to it.
//!
//! ```toml
//! name = "signs"
//! onnx = "signs.onnx"                # relative to this file
//! calibration = "calibration.json"   # optional
//!
//! [input]
//! kind = "picture"                   # or "prepared"; optional: else 1, 3 or 4 channels are a picture
//! height = 64                        # optional where the ONNX file says it
//! width = 64
//! mean = [0.45, 0.45, 0.45]          # of a picture each value becomes (pixel / full scale - mean) / std
//! std = [0.25, 0.25, 0.25]
//!
//! [output]
//! exits = ["exit_0", "exit_1"]       # optional: else all outputs named exit_0, exit_0/boxes, exit_1, ...
//! answer = "classes"                 # or "labels", "detections", "none"
//! classes = ["stop", "give way"]     # optional: else class_0, class_1, ...
//! reduce = ["mask=argmax"]           # optional: where the best values of an output are, instead of it
//!
//! [output.detections]                # optional: a bounded list of objects instead of boxes and scores
//! boxes = "boxes"                    # (places, 4) or (4, places); "output[0:4]" for some of the values of each place
//! scores = "scores"                  # (places, classes) or (classes, places)
//! form = "cxcywh"                    # or "xyxy", "xywh"
//! unit = "fractions"                 # of the input's width and height; or its "pixels"
//! values = "softmax"                 # or "logits", "probabilities"
//! background = "last"                # or "first"; optional: a class that is none
//! threshold = 0.3
//! rows = 50                          # optional: at most this number; else 100
//! overlap = 0.5                      # optional: else no box is left out for overlapping a better one of its class
//! ```

mod reductions;

use std::path::{Path, PathBuf};

use punctual_diagnostics::{
    DeValue, Diagnostics, Document, FromToml, Invalid, Problems, Section, Spanned,
};
use punctual_model::AnswerKind;

use reductions::Declared;
pub use reductions::{
    Background, BoxUnit, DeclarationError, DetectionOptions, OutputPart, Reduction, ReductionKind,
    ScoreValues,
};

#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    pub name: String,
    /// The ONNX file, as written: relative to the options file. Only [`compile_file`] reads it.
    ///
    /// [`compile_file`]: crate::compile_file
    pub onnx: PathBuf,
    /// The calibration records, as written: relative to the options file. Only
    /// [`compile_file`](crate::compile_file) reads them.
    pub calibration: Option<PathBuf>,
    pub input: InputOptions,
    /// The network's outputs that are exits of one tensor each, from the first to the last. Empty: those named
    /// `exit_0`, `exit_0/boxes`, `exit_1`, ..., or all outputs as one exit.
    pub exits: Vec<String>,
    /// What an answer is. None: only what is beyond doubt.
    pub answer: Option<AnswerKind>,
    /// Names of the classes or labels. Empty: `class_0`, `class_1`, ...
    pub classes: Vec<String>,
    /// Outputs that are replaced by where their best values are.
    pub reductions: Vec<Reduction>,
    /// Boxes and scores that are replaced by a list of detections.
    pub detections: Option<DetectionOptions>,
}

/// What the options give for a network's first input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputOptions {
    /// Whether the client prepares it; else 1, 3 or 4 channels are a picture.
    pub prepared: Option<bool>,
    /// Rows and columns; else what the ONNX file says. Tokens are one row.
    pub size: Option<(u32, u32)>,
    /// Subtracted a channel, in units of the full scale.
    pub mean: Option<Vec<f32>>,
    /// Divided by a channel, in units of the full scale.
    pub std: Option<Vec<f32>>,
}

impl CompileOptions {
    /// Options for the ONNX file at `path`, of which nothing else is said.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let stem = path.file_stem().unwrap_or_default();
        Self {
            name: stem.to_string_lossy().into_owned(),
            onnx: path.to_owned(),
            calibration: None,
            input: InputOptions::default(),
            exits: Vec::new(),
            answer: None,
            classes: Vec::new(),
            reductions: Vec::new(),
            detections: None,
        }
    }

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
        let mut input = root.table_or_empty("input", problems);
        let input_options = read_input(&mut input, problems);
        input.finish(problems);
        let mut output = root.table_or_empty("output", problems);
        let exits = output.or("exits", Vec::new(), problems);
        let answer = output.optional::<Answer>("answer", problems);
        let classes = output.or("classes", Vec::new(), problems);
        let reductions = output.or::<Vec<Declared>>("reduce", Vec::new(), problems);
        let detections = DetectionOptions::read(&mut output, problems);
        output.finish(problems);
        root.finish(problems);
        Some(Self {
            name: name?.value,
            onnx: onnx?.value.into(),
            calibration: calibration.map(|at| at.value.into()),
            input: input_options,
            exits: exits.value,
            answer: answer.map(|answer| answer.value.0),
            classes: classes.value,
            reductions: reductions.value.into_iter().map(|one| one.0).collect(),
            detections,
        })
    }
}

fn read_input(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> InputOptions {
    let kind = section.optional::<Kind>("kind", problems);
    let height = section.optional::<u64>("height", problems);
    let width = section.optional::<u64>("width", problems);
    let mean = section.optional::<Channels>("mean", problems);
    let std = section.optional::<Channels>("std", problems);
    let mut side = |side: Spanned<u64>| {
        let side = side.within(1..=u64::from(u32::MAX), " pixels", problems);
        side.value as u32
    };
    InputOptions {
        prepared: kind.map(|kind| kind.value.0),
        size: height.map(&mut side).zip(width.map(&mut side)),
        mean: mean.map(|mean| mean.value.0),
        std: std.map(|std| std.value.0),
    }
}

/// A number for each channel.
struct Channels(Vec<f32>);

impl FromToml for Channels {
    const EXPECTED: &'static str =
        "a number for each channel: one for grey, three for red, green and blue";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let numbers = Vec::<f64>::from_toml(value)?;
        if !matches!(numbers.len(), 1 | 3 | 4) {
            return Err(Invalid::wrong_type(Self::EXPECTED, value));
        }
        Ok(Self(numbers.iter().map(|&number| number as f32).collect()))
    }
}

struct Answer(AnswerKind);

impl FromToml for Answer {
    const EXPECTED: &'static str = "`classes`, `labels`, `detections` or `none`";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let kind = AnswerKind::named(&String::from_toml(value)?);
        kind.map(Self)
            .ok_or_else(|| Invalid::wrong_type(Self::EXPECTED, value))
    }
}

/// Whether the client prepares the input.
struct Kind(bool);

impl FromToml for Kind {
    const EXPECTED: &'static str = "`picture` or `prepared`";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        match String::from_toml(value)?.as_str() {
            "picture" => Ok(Self(false)),
            "prepared" => Ok(Self(true)),
            _ => Err(Invalid::wrong_type(Self::EXPECTED, value)),
        }
    }
}

/// What a user says about a network on the command line: it replaces an options file, or takes precedence over one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The network's name; else that of the ONNX file.
    pub name: Option<String>,
    pub input: InputOptions,
    /// The outputs that are exits; else as [`CompileOptions::exits`].
    pub exits: Vec<String>,
    pub answer: Option<AnswerKind>,
    /// A file of class names, one a line, relative to the working directory.
    pub classes: Option<PathBuf>,
    /// In the place of all [`CompileOptions::reductions`], unless there are none.
    pub reductions: Vec<Reduction>,
    pub detections: Option<DetectionOptions>,
    /// The calibration records, relative to the working directory; else none.
    pub calibration: Option<PathBuf>,
}

/// What torchvision subtracts from red, green and blue, in units of the full scale.
pub const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// What torchvision divides red, green and blue by, in units of the full scale.
pub const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Subtracted from a picture whose values the network reads as bytes, 0 to 255, in units of the full scale.
pub const BYTES_MEAN: [f32; 1] = [0.0];
/// What such a picture's values are divided by, in units of the full scale.
pub const BYTES_STD: [f32; 1] = [1.0 / 255.0];

impl Overrides {
    /// For networks of prepared tensors, whose answers are tensors too.
    #[must_use]
    pub fn of_tensors() -> Self {
        Self {
            input: InputOptions {
                prepared: Some(true),
                ..InputOptions::default()
            },
            answer: Some(AnswerKind::None),
            ..Self::default()
        }
    }

    /// For classifiers as torchvision trains them: one of several classes, pictures normalised as in ImageNet.
    #[must_use]
    pub fn imagenet() -> Self {
        Self {
            input: InputOptions {
                mean: Some(IMAGENET_MEAN.to_vec()),
                std: Some(IMAGENET_STD.to_vec()),
                ..InputOptions::default()
            },
            answer: Some(AnswerKind::Classes),
            ..Self::default()
        }
    }

    /// Changes what is known; `classes` are the lines of the file of class names.
    pub(crate) fn apply(&self, options: &mut CompileOptions, classes: Option<String>) {
        if let Some(name) = &self.name {
            options.name.clone_from(name);
        }
        let (input, over) = (&mut options.input, self.input.clone());
        input.prepared = over.prepared.or(input.prepared);
        input.size = over.size.or(input.size);
        input.mean = over.mean.or(input.mean.take());
        input.std = over.std.or(input.std.take());
        if !self.exits.is_empty() {
            options.exits.clone_from(&self.exits);
        }
        options.answer = self.answer.or(options.answer);
        if !self.reductions.is_empty() {
            options.reductions.clone_from(&self.reductions);
        }
        if self.detections.is_some() {
            options.detections.clone_from(&self.detections);
        }
        if let Some(classes) = classes {
            let lines = classes.lines().map(str::trim_end);
            options.classes = lines.map(str::to_owned).collect();
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
        assert_eq!(
            (options.input.size, options.exits.len()),
            (Some((64, 64)), 2)
        );
        assert_eq!(options.answer, Some(AnswerKind::Classes));
        assert_eq!(options.reductions.len(), 1);
        let detections = options.detections.unwrap();
        assert_eq!((detections.rows, detections.overlap), (50, Some(0.5)));
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
                "expected a number for each channel",
            ),
        ] {
            let errors = CompileOptions::from_toml(text, Path::new("x.toml")).unwrap_err();
            let message = errors.to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
