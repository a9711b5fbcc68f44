//! Files that go with the test that made them.

use std::path::PathBuf;

pub struct Scratch {
    pub path: PathBuf,
}

impl Scratch {
    /// A place for a file; no two tests may give it the same name.
    pub fn file(name: &str) -> Self {
        let name = format!("punctual-model-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        Self { path }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A test that failed may not have made it.
        let _ = std::fs::remove_file(&self.path);
    }
}
