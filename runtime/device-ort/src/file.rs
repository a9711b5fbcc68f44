//! An ONNX file as it is, run whole: what a user of ONNX Runtime would measure.

use std::path::{Path, PathBuf};

use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::TensorRef;
use thiserror::Error;

use crate::library::Library;
use crate::threads::PinnedThreads;

/// A session for a whole file with one input of images.
pub struct OnnxFile {
    session: Session,
    outputs: Vec<String>,
}

/// Why a file cannot be run whole.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("ONNX Runtime cannot run {path}: {source}", path = path.display())]
    Session { path: PathBuf, source: ort::Error },
    /// It has other inputs than one.
    #[error("{path} has {found} inputs; one, of images, can be compared", path = path.display())]
    Inputs { path: PathBuf, found: usize },
    /// It does not have that output.
    #[error("{path} has no output `{name}`", path = path.display())]
    NoOutput { path: PathBuf, name: String },
}

impl OnnxFile {
    /// A session on the calling thread and, for further cores, a thread on each; of its outputs,
    /// those named are reported.
    pub fn open(
        library: Library,
        path: &Path,
        cores: &[usize],
        outputs: &[String],
    ) -> Result<Self, FileError> {
        let failed = |source: ort::Error| FileError::Session {
            path: path.to_owned(),
            source,
        };
        let session = session(library, path, cores).map_err(failed)?;
        let found = session.inputs().len();
        if found != 1 {
            let path = path.to_owned();
            return Err(FileError::Inputs { path, found });
        }
        let there = |name: &&String| {
            session
                .outputs()
                .iter()
                .any(|output| output.name() == name.as_str())
        };
        if let Some(name) = outputs.iter().find(|name| !there(name)) {
            return Err(FileError::NoOutput {
                path: path.to_owned(),
                name: name.clone(),
            });
        }
        Ok(Self {
            session,
            outputs: outputs.to_vec(),
        })
    }

    /// Runs images of `shape` (batch, channels, rows, columns).
    pub fn run(&mut self, shape: [usize; 4], images: &[f32]) -> Result<Vec<Vec<f32>>, ort::Error> {
        let view = TensorRef::from_array_view((shape, images))?;
        let results = self.session.run(ort::inputs![view])?;
        let scores = |name: &String| {
            let (_, scores) = results[name.as_str()].try_extract_tensor::<f32>()?;
            Ok(scores.to_vec())
        };
        self.outputs.iter().map(scores).collect()
    }
}

fn session(library: Library, path: &Path, cores: &[usize]) -> ort::Result<Session> {
    let mut builder = Session::builder(library.environment)?
        .with_intra_threads(cores.len().max(1))?
        .with_optimization_level(GraphOptimizationLevel::All)?
        // It may spin while it runs, as by default, but not while the other side is measured.
        .with_config_entry("session.force_spinning_stop", "1")?;
    if cores.len() > 1 {
        builder = builder.with_thread_manager(PinnedThreads::new("onnxruntime", cores, None))?;
    }
    builder.commit_from_file(path)
}
