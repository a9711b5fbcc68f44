//! onnxruntime on the ONNX file itself: what says whether the compiler and the interpreter are right.

use std::path::Path;

use ort::logging::LogLevel;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor, TensorElementType, ValueType};
use punctual_compile::Note;
use punctual_device_ort::{Library, LibraryError};
use punctual_model::reference::Exited;
use punctual_model::{Exit, ONLY_OUTPUT, Output};

use super::run::{Answers, OnnxruntimeError, Run, RunError, Subject, exits};
use crate::draw::{self, Drawn};
use crate::requests::Request;

pub struct Onnxruntime<'a> {
    session: Session,
    subject: &'a Subject<'a>,
    /// `[exit]` the names of its outputs in the file, then that of its confidence.
    names: Vec<(Vec<String>, Option<String>)>,
}

/// Loads the library, once a process.
///
/// # Errors
/// [`LibraryError`], when there is none.
pub fn load(path: Option<&Path>) -> Result<Library, LibraryError> {
    Library::load(path)
}

/// A session that computes what the file says, one operator after the other.
///
/// # Errors
/// [`OnnxruntimeError`].
pub(crate) fn session(drawn: &Drawn) -> Result<Session, OnnxruntimeError> {
    let library = load(None)?;
    let session = Session::builder(library.environment())?
        .with_intra_threads(1)
        .map_err(ort::Error::from)?
        // It also returns what it would print.
        .with_log_level(LogLevel::Fatal)
        .map_err(ort::Error::from)?
        .with_optimization_level(GraphOptimizationLevel::Disable)
        .map_err(ort::Error::from)?
        // It would leave out the bytes in the middle of two conversions, and what they cannot hold.
        .with_config_entry("session.disable_double_qdq_remover", "1")
        .map_err(ort::Error::from)?
        .commit_from_memory(&drawn.bytes())?;
    Ok(session)
}

impl<'a> Onnxruntime<'a> {
    /// # Errors
    /// [`OnnxruntimeError`].
    pub fn start(subject: &'a Subject<'a>) -> Result<Self, OnnxruntimeError> {
        let session = session(subject.drawn)?;
        let all: Vec<String> = session
            .outputs()
            .iter()
            .map(|output| output.name().to_owned())
            .collect();
        let mut names = Vec::new();
        for (exit_name, exit) in exits(subject.compiled) {
            let outputs = exit
                .outputs
                .iter()
                .map(|output| found(&all, exit_name, &output.name));
            let outputs = outputs.collect::<Result<_, _>>()?;
            let confidence = exit
                .confidence
                .map(|_| found(&all, exit_name, "confidence"));
            names.push((outputs, confidence.transpose()?));
        }
        Ok(Self {
            session,
            subject,
            names,
        })
    }

    fn run_some(&mut self, requests: &[&Request]) -> Result<Answers, OnnxruntimeError> {
        let inputs = input_values(self.subject.drawn, requests)?;
        let results = self.session.run(inputs)?;
        let mut answers = vec![Vec::new(); requests.len()];
        for (names, confidence) in &self.names {
            let mut exited = vec![Exited::default(); requests.len()];
            for name in names {
                let Numbers { values, .. } = numbers(name, &results[name.as_str()])?;
                let each = values.len() / requests.len();
                for (exited, values) in exited.iter_mut().zip(values.chunks_exact(each.max(1))) {
                    exited.outputs.push(values.to_vec());
                }
            }
            if let Some(name) = confidence {
                let Numbers { values, .. } = numbers(name, &results[name.as_str()])?;
                for (exited, value) in exited.iter_mut().zip(values) {
                    exited.confidence = Some(value);
                }
            }
            for (answers, exited) in answers.iter_mut().zip(exited) {
                answers.push(exited);
            }
        }
        Ok(answers)
    }
}

impl Run for Onnxruntime<'_> {
    fn run(&mut self, requests: &[&Request]) -> Result<Answers, RunError> {
        let together = self.subject.drawn.images().unwrap_or(requests.len());
        let mut answers = Vec::new();
        for requests in requests.chunks(together.max(1)) {
            answers.extend(self.run_some(requests)?);
        }
        Ok(answers)
    }
}

/// The name that an exit's output has in the file.
fn found(all: &[String], exit: &str, output: &str) -> Result<String, OnnxruntimeError> {
    let name = match output {
        ONLY_OUTPUT if all.iter().any(|name| name == exit) => exit.to_owned(),
        ONLY_OUTPUT if all.len() == 1 => all[0].clone(),
        _ => format!("{exit}/{output}"),
    };
    let names = [name, output.to_owned()];
    let in_file = names.iter().find(|name| all.contains(name));
    in_file.cloned().ok_or_else(|| {
        let [name, _] = names.clone();
        OnnxruntimeError::NoOutput { name }
    })
}

/// The requests' inputs, side by side.
pub(crate) fn input_values<'r>(
    drawn: &Drawn,
    requests: &[&Request],
) -> Result<Vec<(String, SessionInputValue<'r>)>, ort::Error> {
    let mut inputs = Vec::new();
    for (at, input) in drawn.inputs.iter().enumerate() {
        let shape: Vec<i64> = [requests.len() as i64]
            .into_iter()
            .chain(input.dims.iter().copied())
            .collect();
        let values = requests
            .iter()
            .flat_map(|request| request[at].iter().copied());
        let value: SessionInputValue<'r> = match input.numbers {
            draw::Numbers::Picture(picture) if picture.bytes => {
                let values: Vec<u8> = values.map(|value| value as u8).collect();
                Tensor::from_array((shape, values))?.into()
            }
            draw::Numbers::Floats | draw::Numbers::Picture(_) => {
                Tensor::from_array((shape, values.collect::<Vec<f32>>()))?.into()
            }
            draw::Numbers::Tokens(_) => {
                let values: Vec<i64> = values.map(|value| value as i64).collect();
                Tensor::from_array((shape, values))?.into()
            }
        };
        inputs.push((input.name.clone(), value));
    }
    Ok(inputs)
}

/// What a tensor of onnxruntime holds.
pub(crate) struct Numbers {
    pub values: Vec<f32>,
    /// Whether they are integers or booleans.
    pub exact: bool,
}

pub(crate) fn numbers(name: &str, value: &DynValue) -> Result<Numbers, OnnxruntimeError> {
    let unknown = || OnnxruntimeError::Type {
        name: name.to_owned(),
        found: format!("{:?}", value.dtype()),
    };
    let ValueType::Tensor { ty, .. } = value.dtype() else {
        return Err(unknown());
    };
    let values = match ty {
        TensorElementType::Float32 => value.try_extract_tensor::<f32>()?.1.to_vec(),
        TensorElementType::Int64 => {
            let (_, values) = value.try_extract_tensor::<i64>()?;
            values.iter().map(|&value| value as f32).collect()
        }
        TensorElementType::Int32 => {
            let (_, values) = value.try_extract_tensor::<i32>()?;
            values.iter().map(|&value| value as f32).collect()
        }
        TensorElementType::Bool => {
            let (_, values) = value.try_extract_tensor::<bool>()?;
            values.iter().map(|&value| f32::from(value)).collect()
        }
        _ => return Err(unknown()),
    };
    let exact = *ty != TensorElementType::Float32;
    Ok(Numbers { values, exact })
}

/// Whether the file ends an output with a softmax that the compiler left out.
pub(crate) fn lacks_softmax(
    subject: &Subject<'_>,
    exit_name: &str,
    exit: &Exit,
    output: &Output,
) -> bool {
    let exit_name = exit_name.to_owned();
    let dropped = Note::SoftmaxDropped { exit: exit_name };
    exit.scores
        .is_some_and(|scores| scores.tensor == output.tensor)
        && subject.compiled.report.notes.contains(&dropped)
}
