//! The files that a command line names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Most files of a command: names are kept in memory.
const FILES_MAX: usize = 100_000;

/// What the command cannot begin with.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("the folder {folder} cannot be read: {source}", folder = folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error(
        "the folder {folder} has no file that ends in {}",
        ENDINGS.join(", "),
        folder = folder.display()
    )]
    Empty { folder: PathBuf },
    #[error("more than {FILES_MAX} files: ask about fewer at a time")]
    TooMany,
}

/// Of pictures and arrays.
const ENDINGS: [&str; 9] = [
    "bmp", "jpeg", "jpg", "npy", "pbm", "pgm", "png", "pnm", "ppm",
];

/// Those that are named, and in the place of a folder its pictures and arrays, sorted by name.
pub fn listed(named: &[PathBuf]) -> Result<Vec<PathBuf>, FilesError> {
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            add_folder(path, &mut files)?;
        } else {
            files.push(path.clone());
        }
        if files.len() > FILES_MAX {
            return Err(FilesError::TooMany);
        }
    }
    Ok(files)
}

fn add_folder(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), FilesError> {
    let failed = |source| FilesError::Folder {
        folder: folder.to_owned(),
        source,
    };
    let before = files.len();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if has_ending(&path) {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(FilesError::TooMany);
        }
    }
    if files.len() == before {
        return Err(FilesError::Empty {
            folder: folder.to_owned(),
        });
    }
    files[before..].sort();
    Ok(())
}

fn has_ending(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_pictures_in_the_order_of_their_names() {
        let folder = std::env::temp_dir().join(format!("ask-files-{}", std::process::id()));
        fs::create_dir(&folder).expect("a fresh folder");
        let empty = listed(std::slice::from_ref(&folder)).expect_err("no pictures");
        assert!(empty.to_string().contains("png"), "{empty}");
        for name in ["b.PNG", "a.jpg", "notes.txt", "c.npy", "noending"] {
            fs::write(folder.join(name), "").expect("written");
        }
        let named = ["first.png".into(), folder.clone()];
        let files = listed(&named).expect("a folder");
        let expected = ["a.jpg", "b.PNG", "c.npy"].map(|name| folder.join(name));
        assert_eq!(
            files[0],
            Path::new("first.png"),
            "missing: said when it is read"
        );
        assert_eq!(files[1..], expected);
        fs::remove_dir_all(&folder).expect("it was there");
    }
}
