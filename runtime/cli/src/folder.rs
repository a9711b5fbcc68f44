//! A command's own folder for the time that it runs.

use std::io;
use std::path::{Path, PathBuf};

/// Gone with this value.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn create(command: &str) -> io::Result<Self> {
        let name = format!("punctual-{command}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file here.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, content)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed from a temporary folder is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
