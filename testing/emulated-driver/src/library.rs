//! The library as a file: where it is, and copies of it that lack some calls.
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::Config;

/// The library cannot be found or loaded.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error(
        "{}: not there; the crate of the test needs punctual-emulated-driver as a dependency of its tests",
        .path.display()
    )]
    Missing { path: PathBuf },
    #[error("{}: {source}", .path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {source}", .path.display())]
    Load {
        path: PathBuf,
        source: libloading::Error,
    },
    /// The process loaded another variant before; a library cannot be unloaded.
    #[error(
        "this process has a library that lacks {loaded:?}, not {wanted:?}: tests that hide other calls, or have a \
         driver of another age, need a process of their own"
    )]
    Loaded {
        loaded: Vec<&'static str>,
        wanted: Vec<&'static str>,
    },
}

/// The file name in cargo's folders.
const FILE: &str = "libemulated_cuda.so";

/// The library next to the executable of a test, or where cargo puts it for a binary.
pub(crate) fn built() -> Result<PathBuf, LibraryError> {
    let executable = std::env::current_exe().map_err(|source| LibraryError::File {
        path: PathBuf::from("the running executable"),
        source,
    })?;
    let folder = executable.parent().unwrap_or(Path::new("."));
    let places = [folder.join(FILE), folder.join("deps").join(FILE)];
    let found = places.iter().find(|path| path.exists()).cloned();
    let [path, _] = places;
    found.ok_or(LibraryError::Missing { path })
}

/// Calls that a library of this configuration does not export.
pub(crate) fn lacking(config: &Config) -> Vec<&'static str> {
    crate::exported_calls()
        .filter(|name| config.lacks(name))
        .collect()
}

/// The library without the names of some calls: nothing finds them.
pub(crate) fn without(mut library: Vec<u8>, names: &[&str]) -> Vec<u8> {
    // In the tables of names each ends in a zero. With another first letter it is not found: the loader looks
    // a name up by its hash, and then compares.
    for text in library.split_mut(|&byte| byte == 0) {
        if text.starts_with(b"cu") && names.iter().any(|name| name.as_bytes() == text) {
            text[0] = b'_';
        }
    }
    library
}

/// A number for a set of calls, by FNV-1a.
fn variant(names: &[&str]) -> u64 {
    let bytes = names.iter().flat_map(|name| name.bytes().chain([b' ']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Tells what is written at the same time apart.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Makes the library of a configuration, under the names that programs ask for, in a folder next to the one that
/// was built.
pub(crate) fn write(config: &Config) -> Result<PathBuf, LibraryError> {
    let fails = |path: &Path| {
        let path = path.to_path_buf();
        move |source| LibraryError::File { path, source }
    };
    let built = built()?;
    let lacking = lacking(config);
    let folder = built.with_file_name(format!("emulated-driver-{:016x}", variant(&lacking)));
    fs::create_dir_all(&folder).map_err(fails(&folder))?;
    let bytes = fs::read(&built).map_err(fails(&built))?;
    let path = folder.join("libcuda.so.1");
    // Another process may have the same one open, or write it now: replace it, do not overwrite it.
    let count = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let new = folder.join(format!("new-{}-{count}", std::process::id()));
    fs::write(&new, without(bytes, &lacking)).map_err(fails(&new))?;
    fs::rename(&new, &path).map_err(fails(&path))?;
    let link = folder.join("libcuda.so");
    match std::os::unix::fs::symlink("libcuda.so.1", &link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(fails(&link)(error)),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_out_wherever_it_stands_alone() {
        let library = b"\0cuInit\0cuInitAll\0x\0cuInit\0cuInit\0";
        assert_eq!(
            without(library.to_vec(), &["cuInit", "cuNothing"]),
            b"\0_uInit\0cuInitAll\0x\0_uInit\0_uInit\0"
        );
    }
}
