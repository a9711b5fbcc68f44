//! The library itself, found when the program runs: nothing of it is linked or shipped.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ort::environment::Environment;
use thiserror::Error;

use crate::gpu::GpuEngine;

/// Names the library's file, when no other path is given.
pub const PATH_VARIABLE: &str = "ORT_DYLIB_PATH";

/// Why ONNX Runtime cannot be used.
#[derive(Debug, Error)]
pub enum LibraryError {
    #[error(
        "no ONNX Runtime: set {PATH_VARIABLE} to libonnxruntime.so (the PyPI wheel `onnxruntime` has one \
         in its folder `capi`)"
    )]
    NotNamed,
    /// No such file, or not a library of a version that fits.
    #[error("cannot load ONNX Runtime from {path}: {reason}", path = path.display())]
    Load { path: PathBuf, reason: String },
    #[error("ONNX Runtime does not start: {0}")]
    Start(#[from] ort::Error),
}

/// ONNX Runtime, loaded. A process has one, and keeps it.
#[derive(Clone, Copy)]
pub struct Library {
    pub(crate) environment: &'static Environment,
}

impl Library {
    /// Loads the library at `path`, by default the one that [`PATH_VARIABLE`] names. If one is
    /// loaded already, that one is meant, whatever the path.
    pub fn load(path: Option<&Path>) -> Result<Self, LibraryError> {
        static LOADED: OnceLock<Environment> = OnceLock::new();
        if let Some(environment) = LOADED.get() {
            return Ok(Self { environment });
        }
        let named = path
            .map(Path::to_owned)
            .or_else(named)
            .ok_or(LibraryError::NotNamed)?;
        let loaded = ort::init_from(&named).map_err(|error| LibraryError::Load {
            path: named,
            reason: error.to_string(),
        })?;
        let environment = loaded.with_name("punctual").with_telemetry(false).build()?;
        Ok(Self {
            environment: LOADED.get_or_init(|| environment),
        })
    }
}

impl Library {
    /// What sessions are made in.
    #[must_use]
    pub fn environment(self) -> &'static Environment {
        self.environment
    }

    /// Its name, its release and the commit that it was built from, as far as it tells: `onnxruntime 1.31.1 (26250ae)`.
    #[must_use]
    pub fn version(self) -> String {
        version(ort::info())
    }
}

/// From what the library says about its build: `..., git-branch=rel-1.31.1, git-commit-id=26250ae, ...`.
fn version(build: &str) -> String {
    let said = |key: &str| {
        let words = build.split([',', ' ']);
        words
            .filter_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            .next()
    };
    // A build of no release has no branch of one.
    let release = said("git-branch").and_then(|branch| branch.strip_prefix("rel-"));
    match (release, said("git-commit-id")) {
        (Some(release), Some(commit)) => format!("onnxruntime {release} ({commit})"),
        (Some(name), None) | (None, Some(name)) => format!("onnxruntime {name}"),
        (None, None) => "onnxruntime of an unknown version".to_owned(),
    }
}

/// The path that the environment names.
pub fn named() -> Option<PathBuf> {
    std::env::var_os(PATH_VARIABLE)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Bytes of its file, and of those that it loads for an engine on the GPU. The vendor's libraries are wherever they were
/// installed, and do not count.
#[must_use]
pub fn file_bytes(engine: Option<GpuEngine>) -> u64 {
    let Some(library) = named() else {
        return 0;
    };
    let providers: &[&str] = match engine {
        None => return bytes_of(&library),
        Some(GpuEngine::Cuda) => &["shared", "cuda"],
        Some(GpuEngine::Tensorrt) => &["shared", "cuda", "tensorrt"],
    };
    let files = providers
        .iter()
        .map(|name| library.with_file_name(format!("libonnxruntime_providers_{name}.so")));
    bytes_of(&library) + files.map(|file| bytes_of(&file)).sum::<u64>()
}

fn bytes_of(file: &Path) -> u64 {
    file.metadata().map_or(0, |file| file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_branch_and_the_commit_of_the_build() {
        let build =
            "ORT Build Info: git-branch=rel-1.31.1, git-commit-id=26250ae, build type=Release";
        assert_eq!(version(build), "onnxruntime 1.31.1 (26250ae)");
        let wheel = "ORT Build Info: git-branch=HEAD, git-commit-id=6af1a93, build type=Release";
        assert_eq!(version(wheel), "onnxruntime 6af1a93");
        assert_eq!(version(""), "onnxruntime of an unknown version");
    }
}
