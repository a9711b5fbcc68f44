//! Compiles programs against the header and the libraries that cargo has just built.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// C99.
    C,
    /// The same source as C++11.
    Cpp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linking {
    None,
    /// libpunctual.so
    Shared,
    /// libpunctual.a
    Static,
}

/// Where cargo put the libraries: next to this test's program.
pub fn libraries() -> PathBuf {
    let program = std::env::current_exe().expect("a path");
    program.parent().expect("a folder").to_owned()
}

/// The folder of the crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Compiler {
    /// The program made of `tests/c/SOURCE`; none, saying so, if there is no compiler.
    pub fn build(self, source: &str, linking: Linking) -> Option<PathBuf> {
        self.build_file(&here().join("tests/c").join(source), linking)
    }

    /// The program made of `source`.
    ///
    /// # Panics
    /// If the compiler has anything to say.
    pub fn build_file(self, source: &Path, linking: Linking) -> Option<PathBuf> {
        let (variable, usual, arguments): (_, _, &[&str]) = match self {
            Self::C => ("CC", "cc", &["-std=c99"]),
            Self::Cpp => ("CXX", "c++", &["-x", "c++", "-std=c++11"]),
        };
        let command = std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
        let stem = source.file_stem().expect("a name").to_string_lossy();
        let to = libraries().join(format!(
            "{stem}-{self:?}-{linking:?}-{}",
            std::process::id()
        ));
        let mut compile = Command::new(&command);
        compile
            .args(arguments)
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
            .arg(here().join("include"))
            .arg(source)
            .args(["-x", "none", "-o"])
            .arg(&to);
        match linking {
            Linking::None => {}
            Linking::Shared => {
                let library = libraries().join("libpunctual.so");
                // What the program is going to look for. It may be there already.
                let _ = symlink(&library, libraries().join("libpunctual.so.0"));
                compile.arg(library);
            }
            Linking::Static => {
                compile.arg(static_library());
                compile.args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]);
            }
        }
        match compile.output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{command}: {said}");
                Some(to)
            }
            Err(error) => {
                println!("skipped: {command}: {error}");
                None
            }
        }
    }
}

/// The newest: cargo may put a hash into the name, and leave older ones.
fn static_library() -> PathBuf {
    let folder = std::fs::read_dir(libraries()).expect("a folder");
    let is_it = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        let rest = name
            .strip_prefix("libpunctual")
            .and_then(|n| n.strip_suffix(".a"));
        rest.is_some_and(|rest| {
            rest.is_empty()
                || rest.strip_prefix('-').is_some_and(|hash| {
                    hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                })
        })
    };
    folder
        .map(|entry| entry.expect("an entry").path())
        .filter(is_it)
        .max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
        .expect("cargo builds the static library with the tests")
}
