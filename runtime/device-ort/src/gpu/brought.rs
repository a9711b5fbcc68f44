//! Engines of TensorRT that the user has built (`trtexec`), by the stages that they were built from.
//!
//! A stage's ONNX file at a batch size has a name that ends in the hash of its content, and an engine keeps that name. So an engine
//! of other weights is not found.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use punctual_compile::{batch_to_onnx, engine_to_onnx};
use punctual_model::{ContentHash, Network};
use punctual_platform::read;
use thiserror::Error;

use crate::error::StartError;

/// The folder of a manifest, as it was read.
#[derive(Clone, Debug)]
pub struct BroughtEngines {
    folder: PathBuf,
    /// By the hash in their names.
    files: BTreeMap<String, PathBuf>,
    /// Names the content of all of them.
    hash: String,
}

/// A folder of engines that cannot be read.
#[derive(Debug, Error)]
#[error("cannot read engines from {path}: {source}", path = path.display())]
pub struct BroughtError {
    pub path: PathBuf,
    pub source: std::io::Error,
}

/// A stage's file for batches of one size, to build an engine from.
pub struct StageToBuild {
    /// `signs.stage0.batch1.0123456789abcdef`, without an ending.
    pub name: String,
    pub onnx: Vec<u8>,
}

/// An ONNX file, which holds the engine, is smaller than 2 GiB.
const ENGINE_BYTES_MAX: u64 = (2 << 30) - (1 << 20);

/// Digits of a hash in a name.
const DIGITS: usize = 16;

fn short(hash: ContentHash) -> String {
    let mut digits = hash.to_string();
    digits.truncate(DIGITS);
    digits
}

impl StageToBuild {
    /// Of stage `stage` of a network.
    ///
    /// # Errors
    /// If an operator of it has no form in ONNX.
    pub fn new(network: &Network, stage: usize, batch: u8) -> Result<Self, StartError> {
        let onnx = batch_to_onnx(network, stage, batch)?.onnx;
        let hash = short(ContentHash::of(&onnx));
        let name = format!("{}.stage{stage}.batch{batch}.{hash}", network.name);
        Ok(Self { name, onnx })
    }
}

impl BroughtEngines {
    /// Those in a folder: files that end in `.engine` or `.plan`.
    ///
    /// # Errors
    /// If the folder or one of them cannot be read.
    pub fn read(folder: &Path) -> Result<Self, BroughtError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| BroughtError { path, source }
        };
        let mut files = BTreeMap::new();
        let mut contents = String::new();
        for entry in fs::read_dir(folder).map_err(failed(folder))? {
            let path = entry.map_err(failed(folder))?.path();
            let ends = path.extension().and_then(|end| end.to_str());
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let hash = stem.and_then(|stem| stem.rsplit('.').next());
            if let (Some("engine" | "plan"), Some(hash)) = (ends, hash) {
                files.insert(hash.to_owned(), path.clone());
            }
        }
        for (name, path) in &files {
            let content =
                ContentHash::of(&read::bytes(path, ENGINE_BYTES_MAX).map_err(failed(path))?);
            contents.push_str(&format!("{name} {content}\n"));
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
            hash: short(ContentHash::of(contents.as_bytes())),
        })
    }

    /// What names them in the key of a profile.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// # Errors
    /// If there is none for a stage at a batch size.
    pub(super) fn check(
        &self,
        network: &Network,
        stage: usize,
        batch: u8,
    ) -> Result<(), StartError> {
        self.file(&StageToBuild::new(network, stage, batch)?)
            .map(drop)
    }

    /// The ONNX file of a stage whose only node is its engine.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub(super) fn onnx(
        &self,
        network: &Network,
        stage: usize,
        batch: u8,
    ) -> Result<Vec<u8>, StartError> {
        let path = self.file(&StageToBuild::new(network, stage, batch)?)?;
        let engine = read::bytes(path, ENGINE_BYTES_MAX).map_err(|source| BroughtError {
            path: path.clone(),
            source,
        })?;
        Ok(engine_to_onnx(network, stage, batch, engine)?)
    }

    fn file(&self, stage: &StageToBuild) -> Result<&PathBuf, StartError> {
        let hash = stage.name.rsplit('.').next().unwrap_or_default();
        self.files.get(hash).ok_or_else(|| StartError::NoEngine {
            file: self.folder.join(format!("{}.engine", stage.name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use punctual_conformance::networks;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("punctual-engines-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn an_engine_is_found_by_the_stage_that_it_was_built_from() {
        let (network, other) = (networks::residual(3), networks::residual(4));
        let folder = folder("found");
        let stage = StageToBuild::new(&network, 0, 2).expect("it can be written");
        let path = folder.join(format!("{}.engine", stage.name));
        fs::write(&path, b"an engine").expect("a file");
        let brought = BroughtEngines::read(&folder).expect("a folder");
        let onnx = brought.onnx(&network, 0, 2).expect("it is there");
        let engine = engine_to_onnx(&network, 0, 2, b"an engine".to_vec());
        assert_eq!(onnx, engine.expect("it can be written"));
        for (network, batch) in [(&network, 1), (&other, 2)] {
            let missing = brought.check(network, 0, batch);
            let expected = StageToBuild::new(network, 0, batch).expect("it can be written");
            let Err(StartError::NoEngine { file }) = missing else {
                panic!("an engine of something else");
            };
            assert_eq!(file, folder.join(format!("{}.engine", expected.name)));
        }
    }

    #[test]
    fn other_engines_have_another_hash() {
        let folder = folder("hash");
        let read = || {
            let brought = BroughtEngines::read(&folder).expect("a folder");
            brought.hash().to_owned()
        };
        let none = read();
        fs::write(folder.join("a.0123456789abcdef.plan"), b"one").expect("a file");
        let one = read();
        fs::write(folder.join("a.0123456789abcdef.plan"), b"two").expect("a file");
        let two = read();
        fs::write(folder.join("notes.txt"), b"no engine").expect("a file");
        assert_eq!(two, read());
        assert!(none != one && one != two && none != two);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = BroughtEngines::read(Path::new("/nowhere/engines")).expect_err("none");
        assert!(error.to_string().contains("/nowhere/engines"), "{error}");
    }
}
