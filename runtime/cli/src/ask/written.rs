//! Where drawings and tensors of answers are written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use image::{ImageError, ImageFormat, RgbImage};
use punctual_client::Outputs;
use punctual_platform::files;

use super::npy;

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{path} cannot be written: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} cannot be drawn: {source}", path = path.display())]
    Encode { path: PathBuf, source: ImageError },
    #[error("--draw {path} names one picture, and there are {files} files: name a folder", path = path.display())]
    OneForMany { path: PathBuf, files: usize },
    #[error("--draw {path} is the picture that is asked about: name another file", path = path.display())]
    Itself { path: PathBuf },
}

/// What drawings may end in.
const ENDINGS: [&str; 3] = ["png", "jpg", "jpeg"];

#[derive(Clone, Debug)]
enum Drawings {
    File(PathBuf),
    Folder(PathBuf),
}

/// The files that are written of each answer. Their names come from those of the files that are asked about.
#[derive(Debug, Default)]
pub struct Written {
    drawings: Option<Drawings>,
    tensors: Option<PathBuf>,
    /// How often each name was given: files in several folders may have the same.
    names: BTreeMap<String, usize>,
}

impl Written {
    /// Makes the folders.
    pub fn new(
        draw: Option<&Path>,
        npy: Option<&Path>,
        files: &[PathBuf],
    ) -> Result<Self, WriteError> {
        let drawings = draw.map(|path| drawings(path, files)).transpose()?;
        let of_drawings = match &drawings {
            Some(Drawings::Folder(folder)) => Some(folder.as_path()),
            _ => None,
        };
        for folder in of_drawings.into_iter().chain(npy) {
            fs::create_dir_all(folder).map_err(|source| WriteError::Io {
                path: folder.to_owned(),
                source,
            })?;
        }
        Ok(Self {
            drawings,
            tensors: npy.map(Path::to_owned),
            names: BTreeMap::new(),
        })
    }

    pub const fn draws(&self) -> bool {
        self.drawings.is_some()
    }

    /// What everything about this file is called: its own name without its ending, with a number if there was one of that name.
    pub fn name(&mut self, file: &Path) -> String {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let mut name = stem.to_string();
        while let Some(count) = self.names.get_mut(&name) {
            *count += 1;
            name = format!("{name}-{count}");
        }
        self.names.insert(name.clone(), 1);
        name
    }

    pub fn drawing(&self, name: &str, drawing: &RgbImage) -> Result<(), WriteError> {
        let path = match &self.drawings {
            None => return Ok(()),
            Some(Drawings::File(path)) => path.clone(),
            Some(Drawings::Folder(folder)) => folder.join(format!("{name}.answer.png")),
        };
        let format = ImageFormat::from_path(&path).unwrap_or(ImageFormat::Png);
        let mut bytes = Cursor::new(Vec::new());
        let encoded = drawing.write_to(&mut bytes, format);
        encoded.map_err(|source| WriteError::Encode {
            path: path.clone(),
            source,
        })?;
        let written = files::write_whole(&path, bytes.get_ref());
        written.map_err(|source| WriteError::Io { path, source })
    }

    pub fn tensors(&self, name: &str, outputs: Option<&Outputs>) -> Result<(), WriteError> {
        let (Some(folder), Some(outputs)) = (&self.tensors, outputs) else {
            return Ok(());
        };
        for tensor in outputs.iter() {
            let path = folder.join(format!("{name}.{}.npy", plain(tensor.name())));
            npy::save(&path, &tensor).map_err(|source| WriteError::Io { path, source })?;
        }
        Ok(())
    }
}

fn drawings(path: &Path, files: &[PathBuf]) -> Result<Drawings, WriteError> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let names_picture =
        ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()));
    if !names_picture || path.is_dir() {
        return Ok(Drawings::Folder(path.to_owned()));
    }
    let path = path.to_owned();
    let file = match files {
        [file] => fs::canonicalize(file),
        files => {
            let files = files.len();
            return Err(WriteError::OneForMany { path, files });
        }
    };
    match (file, fs::canonicalize(&path)) {
        (Ok(file), Ok(drawing)) if file == drawing => Err(WriteError::Itself { path }),
        _ => Ok(Drawings::File(path)),
    }
}

/// A tensor's name as a part of a file's: networks have slashes in theirs.
fn plain(name: &str) -> String {
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => character,
        _ => '_',
    };
    name.chars().take(100).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_same_name_do_not_overwrite_each_other() {
        let mut written = Written::default();
        let names = ["a/1.png", "b/1.png", "b/1-2.jpg", "c/1.bmp"];
        let names = names.map(|file| written.name(Path::new(file)));
        assert_eq!(names, ["1", "1-2", "1-2-2", "1-3"]);
    }

    #[test]
    fn a_tensors_name_leads_nowhere() {
        assert_eq!(plain("../exit_0/mask"), "___exit_0_mask");
        assert_eq!(plain(&"x".repeat(1000)).len(), 100);
    }

    #[test]
    fn one_drawing_is_for_one_picture_that_stays() {
        let two = ["a.png".into(), "b.png".into()];
        let refused = Written::new(Some(Path::new("out.png")), None, &two);
        assert!(matches!(
            refused,
            Err(WriteError::OneForMany { files: 2, .. })
        ));
        let own = PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/street.jpg"
        ));
        let refused = Written::new(Some(&own), None, std::slice::from_ref(&own));
        assert!(matches!(refused, Err(WriteError::Itself { .. })));
    }
}
