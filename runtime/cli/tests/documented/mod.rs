//! The commands that the documents and the help texts show, as they would be typed.

use std::fs;
use std::path::{Path, PathBuf};

/// A command, and where it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documented {
    /// A file, or a help text.
    pub place: String,
    /// The program, then its arguments. What follows a pipe is not ours.
    pub words: Vec<String>,
}

/// The programs that are meant; other lines are the shell's.
const PROGRAMS: [&str; 4] = ["punctual", "punctuald", "punctual-v4l2", "punctual-hil"];

/// Pages whose commands follow one another: they are typed in their order, by tests of their own.
#[allow(dead_code, reason = "not every test that reads documents runs them")]
pub const TYPED_IN_ORDER: [&str; 2] = ["docs/tutorial.md", "examples/README.md"];

pub fn root() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut roots = folders.filter(|folder| folder.join("Cargo.lock").exists());
    roots.next().expect("the tree has a root").to_owned()
}

/// Those of the shell's blocks in all documents, and those of `punctual-v4l2` in tables.
pub fn in_files() -> Vec<Documented> {
    let mut files: Vec<PathBuf> = ["README.md", "hil-tests/README.md", "packaging/README.md"]
        .map(|file| root().join(file))
        .into();
    for folder in ["docs", "models/signs", "models/zoo", "examples"] {
        let entries = fs::read_dir(root().join(folder)).expect("a folder of the tree");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        files.extend(
            paths.filter(|path| path.extension().is_some_and(|e| e == "md" || e == "toml")),
        );
    }
    files.sort();
    let found = files.iter().flat_map(|file| {
        let text = fs::read_to_string(file).expect("text");
        let place = file
            .strip_prefix(root())
            .expect("below it")
            .display()
            .to_string();
        let code = if place.ends_with(".md") {
            blocks(&text)
        } else {
            // Comments of an example.
            let lines = text.lines().filter_map(|line| line.strip_prefix("#   "));
            lines.map(|line| format!("{line}\n")).collect()
        };
        in_text(&place, &code)
    });
    found.collect()
}

/// Shell code of a document in Markdown, and code in its sentences that begins with an option of a camera.
pub fn blocks(text: &str) -> String {
    let mut code = String::new();
    let mut inside = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(language), None) => inside = Some(matches!(language, "sh" | "")),
            (Some(_), Some(_)) => inside = None,
            (None, Some(true)) => code.push_str(&format!("{line}\n")),
            (None, Some(false)) => {}
            (None, None) => {
                let spans = line.split('`').skip(1).step_by(2);
                let typed = spans.filter(|span| span.starts_with("punctual-v4l2 --"));
                typed.for_each(|span| code.push_str(&format!("{span}\n")));
            }
        }
    }
    code
}

/// Those in the lines of a text.
pub fn in_text(place: &str, text: &str) -> Vec<Documented> {
    let joined = text.replace("\\\n", " ");
    let commands = joined.lines().filter_map(words);
    commands
        .map(|words| Documented {
            place: place.to_owned(),
            words,
        })
        .collect()
}

/// The words of a line that starts one of our programs, and leaves nothing to be filled in.
fn words(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let line = line.replace("cargo run --release -- ", "punctual ");
    let line = line.replace("cargo run --release -p punctual-lab -- ", "punctual ");
    let line = line.strip_prefix("target/release/").unwrap_or(&line);
    let typed = line.split("  ").next().unwrap_or_default();
    let typed = if line.starts_with("punctual-hil") {
        line
    } else {
        typed
    };
    let typed = typed
        .split(" # ")
        .next()
        .unwrap_or_default()
        .split(" | ")
        .next()
        .unwrap_or_default();
    let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
    let ours = PROGRAMS.contains(&words.first()?.as_str());
    let whole = !words.iter().any(|word| word.contains("..."));
    (ours && whole && words.len() > 1).then_some(words)
}
