//! Which pictures there are, and which class or labels each has: folders named like classes, or a list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use punctual_platform::read;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
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
        path: PathBuf,
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
        class: String,
        classes: Vec<String>,
    },
    #[error("{path}:{line}: expected `picture,class`, found `{found}`", path = path.display())]
    Line {
        path: PathBuf,
        line: usize,
        found: String,
    },
    #[error(
        "{path} has no pictures (.png, .jpg, .jpeg, .ppm, .pgm, .bmp): give a folder with one folder \
         a class, or with pictures named by their class, or a list of lines `picture,class`",
        path = path.display()
    )]
    None { path: PathBuf },
}

/// The first few classes, for a message.
pub fn listed(classes: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = classes.iter().take(SHOWN).map(String::as_str);
    let rest = if classes.len() > SHOWN { ", ..." } else { "" };
    format!("{}{rest}", shown.collect::<Vec<_>>().join(", "))
}

const LIST_BYTES_MAX: u64 = 256 << 20;

/// Endings of files that are taken for pictures.
const ENDINGS: [&str; 6] = ["png", "jpg", "jpeg", "ppm", "pgm", "bmp"];

/// The samples at `path`, in the order of their names: a folder with one folder a class, or with
/// pictures that are named by their class; or a file of lines `picture,class`, pictures relative to
/// the file. A class is the network's name for it or its number.
pub fn find(path: &Path, classes: &[String]) -> Result<Vec<Sample>, SamplesError> {
    let labels = Labels::new(classes);
    let samples = if path.is_dir() {
        let (folders, files): (Vec<_>, Vec<_>) =
            entries(path)?.into_iter().partition(|e| e.is_dir());
        let mut samples = in_folders(&folders, &labels)?;
        samples.extend(by_name(files, &labels)?);
        samples
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

    fn known(&self, class: &str) -> Option<usize> {
        let number = || {
            class
                .parse()
                .ok()
                .filter(|&label| label < self.classes.len())
        };
        self.by_name.get(class).copied().or_else(number)
    }

    fn unknown(&self, class: &str, place: String) -> SamplesError {
        SamplesError::UnknownClass {
            place,
            class: class.to_owned(),
            classes: self.classes.to_vec(),
        }
    }

    /// Whether the compiler made the names up: the ONNX file has none.
    fn made_up(&self) -> bool {
        let names = self.classes.iter().enumerate();
        names
            .into_iter()
            .all(|(label, name)| *name == format!("class_{label}"))
    }

    /// The class that a picture's name begins with: `give way.png`, `give way-17.png`. Numbers are not
    /// taken for classes here: pictures are often numbered.
    fn beginning(&self, stem: &str) -> Option<usize> {
        let begins = |class: &str| {
            let rest = stem.strip_prefix(class)?;
            (!rest.starts_with(char::is_alphanumeric)).then_some(class.len())
        };
        let fitting = self
            .by_name
            .iter()
            .filter_map(|(class, label)| Some((begins(class)?, *label)));
        // The longest: there may be `limit 8` and `limit 80`, or `stop` and `stop sign`.
        fitting.max().map(|(_, label)| label)
    }
}

/// Pictures in one folder a class.
fn in_folders(folders: &[PathBuf], labels: &Labels<'_>) -> Result<Vec<Sample>, SamplesError> {
    let name = |folder: &PathBuf| {
        folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    // Classes without names have the order of their folders, as in torchvision's ImageFolder, by which such networks are
    // trained.
    let in_order = labels.made_up()
        && folders.len() == labels.classes.len()
        && folders
            .iter()
            .all(|folder| labels.known(&name(folder)).is_none());
    let mut samples = Vec::new();
    for (at, folder) in folders.iter().enumerate() {
        let class = name(folder);
        let label = if in_order {
            Some(at)
        } else {
            labels.known(&class)
        };
        let label = label.ok_or_else(|| labels.unknown(&class, folder.display().to_string()))?;
        let pictures = entries(folder)?.into_iter().filter(|file| is_picture(file));
        samples.extend(pictures.map(|path| Sample { path, label }));
    }
    Ok(samples)
}

/// Pictures that are named by their class.
fn by_name(files: Vec<PathBuf>, labels: &Labels<'_>) -> Result<Vec<Sample>, SamplesError> {
    let pictures = files.into_iter().filter(|file| is_picture(file));
    pictures
        .map(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let label = labels.beginning(&stem);
            let label = label.ok_or_else(|| labels.unknown(&stem, path.display().to_string()))?;
            Ok(Sample { path, label })
        })
        .collect()
}

fn in_list(path: &Path, labels: &Labels<'_>) -> Result<Vec<Sample>, SamplesError> {
    let lines = lines(path)?.into_iter();
    let sample = |line: Line| {
        let label = labels.known(&line.class);
        let label = label.ok_or_else(|| labels.unknown(&line.class, line.place))?;
        let path = line.picture;
        Ok(Sample { path, label })
    };
    lines.map(sample).collect()
}

/// The samples of a list of lines `picture,label;label`, and for each of the network's labels whether a picture has it.
pub fn with_labels(
    path: &Path,
    classes: &[String],
) -> Result<Vec<(PathBuf, Vec<bool>)>, SamplesError> {
    let labels = Labels::new(classes);
    let sample = |line: Line| {
        let mut has = vec![false; classes.len()];
        let names = line.class.split(';').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            let label = labels.known(name);
            has[label.ok_or_else(|| labels.unknown(name, line.place.clone()))?] = true;
        }
        Ok((line.picture, has))
    };
    lines(path)?.into_iter().map(sample).collect()
}

/// The pictures of a folder, by name.
pub fn pictures(folder: &Path) -> Result<Vec<PathBuf>, SamplesError> {
    let mut pictures = entries(folder)?;
    pictures.retain(|file| is_picture(file));
    if pictures.is_empty() {
        Err(SamplesError::None {
            path: folder.to_owned(),
        })
    } else {
        Ok(pictures)
    }
}

struct Line {
    picture: PathBuf,
    class: String,
    place: String,
}

fn lines(path: &Path) -> Result<Vec<Line>, SamplesError> {
    let text = read::text(path, LIST_BYTES_MAX).map_err(|source| SamplesError::Read {
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
            Ok(Line {
                picture: folder.join(picture.trim()),
                class: class.trim().to_owned(),
                place: format!("{}:{}", path.display(), at + 1),
            })
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
