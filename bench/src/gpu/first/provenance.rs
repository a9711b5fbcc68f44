//! Which program made a report: what it was built from, and what it is.

use std::io::{self, Read as _};
use std::path::Path;

use punctual_cuda_kernels::images;
use punctual_platform::read;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub version: String,
    /// Of the sources, as it was when this was built.
    pub commit: String,
    pub target: String,
    /// Built with optimisation, as releases are.
    pub release: bool,
    pub images: Vec<Image>,
    /// The files that run: this program, and the one that tries mechanisms.
    pub programs: Vec<Program>,
}

/// An archive of kernels in this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub name: String,
    /// BLAKE3 of what is in this program now.
    pub hash: String,
    /// It is what was in the sources when this was built.
    pub as_built: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub name: String,
    /// BLAKE3 of the file; none if it cannot be read.
    pub hash: Option<String>,
}

impl Provenance {
    pub fn of_this() -> Self {
        let this = std::env::current_exe().ok();
        let beside = this.as_ref().map(|path| path.with_file_name("punctual"));
        let programs = [this, beside].into_iter().flatten();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("PUNCTUAL_COMMIT").to_owned(),
            target: env!("PUNCTUAL_TARGET").to_owned(),
            release: !cfg!(debug_assertions),
            images: images(env!("PUNCTUAL_IMAGES")),
            programs: programs.map(|path| program(&path)).collect(),
        }
    }

    /// An image that is not what was built, if there is one.
    pub fn altered(&self) -> Option<&Image> {
        self.images.iter().find(|image| !image.as_built)
    }
}

/// `built`: `name:hash` of each archive in the sources.
fn images(built: &str) -> Vec<Image> {
    let image = |archive: &images::Archive| {
        let hash = blake3::hash(archive.bytes()).to_hex().to_string();
        let mut pairs = built.split(' ').filter_map(|pair| pair.split_once(':'));
        Image {
            name: archive.name().to_owned(),
            as_built: pairs.any(|pair| pair == (archive.name(), &hash)),
            hash,
        }
    };
    images::archives().iter().map(image).collect()
}

fn program(path: &Path) -> Program {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Program {
        name: name.into_owned(),
        hash: hash_of(path).ok(),
    }
}

/// Piece by piece: a program with its debugging information has a hundred megabytes.
fn hash_of(path: &Path) -> io::Result<String> {
    let mut file = read::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            count => hasher.update(&piece[..count]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_the_images_that_it_was_built_with_and_a_hash_of_its_own() {
        let provenance = Provenance::of_this();
        assert_eq!(provenance.altered(), None);
        assert!(provenance.images.len() > 10);
        assert!(provenance.target.contains(std::env::consts::ARCH));
        assert!(provenance.commit.len() >= "unknown".len());
        let hash = provenance.programs[0].hash.as_ref().expect("its own file");
        assert_eq!(hash.len(), 64);
    }

    #[test]
    fn an_image_that_was_not_built_so_is_noticed() {
        let built = format!("sm_87:{} sm_90:{}", "0".repeat(64), "1".repeat(64));
        assert!(images(&built).iter().all(|image| !image.as_built));
    }
}
