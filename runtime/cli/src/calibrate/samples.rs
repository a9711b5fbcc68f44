//! Which pictures there are, and what each shows: folders named like classes, or a list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A picture and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The picture's file.
    pub path: PathBuf,
    /// Position of its class in the network's classes.
    pub label: usize,
}

/// Why the samples cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// The folder or list cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A folder or a line of the list names no class of the network.
    #[error(
        "{place}: the network has no class `{class}`; its {} classes are {}: name one of them, or its number",
        classes.len(), listed(classes)
    )]
    UnknownClass {
        /// The folder, or the list and its line.
        place: String,
        /// The name given.
        class: String,
        /// The network's.
        classes: Vec<String>,
    },
    /// A line without a comma.
    #[error("{path}:{line}: expected `picture,class`, found `{found}`", path = path.display())]
    Line {
        /// The list.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// As it stands there.
        found: String,
    },
    /// Nothing there.
    #[error(
        "{path} has no pictures (.png, .jpg, .jpeg, .ppm, .pgm, .bmp): give a folder with one folder \
         a class, or a list of lines `picture,class`",
        path = path.display()
    )]
    None {
        /// Where it was looked.
        path: PathBuf,
    },
}

/// The first few classes, for a message.
fn listed(classes: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = classes.iter().take(SHOWN).map(String::as_str);
    let rest = if classes.len() > SHOWN { ", ..." } else { "" };
    format!("{}{rest}", shown.collect::<Vec<_>>().join(", "))
}

/// Endings of files that are taken for pictures.
const ENDINGS: [&str; 6] = ["png", "jpg", "jpeg", "ppm", "pgm", "bmp"];

/// The samples at `path`, in the order of their names: a folder with one folder a class, or a file of
/// lines `picture,class`, pictures relative to the file. A class is the network's name for it or its
/// number.
///
/// # Errors
/// [`SamplesError`]; no sample is left out in silence.
pub fn find(path: &Path, classes: &[String]) -> Result<Vec<Sample>, SamplesError> {
    let labels = Labels::new(classes);
    let samples = if path.is_dir() {
        in_folders(path, &labels)?
    } else {
        in_list(path, &labels)?
    };
    if samples.is_empty() {
        let path = path.to_owned();
        return Err(SamplesError::None { path });
    }
    Ok(samples)
}

struct Labels<'c> {
    classes: &'c [String],
    by_name: BTreeMap<&'c str, usize>,
}

impl<'c> Labels<'c> {
    fn new(classes: &'c [String]) -> Self {
        let by_name = classes.iter().enumerate();
        Self {
            classes,
            by_name: by_name
                .map(|(label, name)| (name.as_str(), label))
                .collect(),
        }
    }

    fn of(&self, class: &str, place: impl FnOnce() -> String) -> Result<usize, SamplesError> {
        let number = || {
            class
                .parse()
                .ok()
                .filter(|&label| label < self.classes.len())
        };
        let label = self.by_name.get(class).copied().or_else(number);
        label.ok_or_else(|| SamplesError::UnknownClass {
            place: place(),
            class: class.to_owned(),
            classes: self.classes.to_vec(),
        })
    }
}

fn in_folders(path: &Path, labels: &Labels<'_>) -> Result<Vec<Sample>, SamplesError> {
    let mut samples = Vec::new();
    for folder in entries(path)?.into_iter().filter(|entry| entry.is_dir()) {
        let class = folder.file_name().unwrap_or_default().to_string_lossy();
        let label = labels.of(&class, || folder.display().to_string())?;
        let pictures = entries(&folder)?
            .into_iter()
            .filter(|file| is_picture(file));
        samples.extend(pictures.map(|path| Sample { path, label }));
    }
    Ok(samples)
}

fn in_list(path: &Path, labels: &Labels<'_>) -> Result<Vec<Sample>, SamplesError> {
    let text = std::fs::read_to_string(path).map_err(|source| SamplesError::Read {
        path: path.to_owned(),
        source,
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            // The last comma: a file's name may have some.
            let (picture, class) = line.rsplit_once(',').ok_or_else(|| SamplesError::Line {
                path: path.to_owned(),
                line: at + 1,
                found: line.to_owned(),
            })?;
            let label = labels.of(class.trim(), || format!("{}:{}", path.display(), at + 1))?;
            let path = folder.join(picture.trim());
            Ok(Sample { path, label })
        })
        .collect()
}

/// What a folder holds, by name.
fn entries(path: &Path) -> Result<Vec<PathBuf>, SamplesError> {
    let failed = |source| SamplesError::Read {
        path: path.to_owned(),
        source,
    };
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    paths.sort();
    Ok(paths)
}

fn is_picture(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| {
        ENDINGS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(ending))
    })
}
