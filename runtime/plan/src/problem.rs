//! Everything that is wrong with a manifest, at once: where, what, by which rule, and what to do.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::cause::Cause;

/// All problems of one attempt to make a plan; never empty. Sorted by place in the file.
#[derive(Clone, Debug)]
pub struct PlanErrors {
    problems: Vec<Problem>,
}

impl PlanErrors {
    /// The problems, by rising place.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        match self.problems.len() {
            1 => write!(f, "1 problem, no plan"),
            n => write!(f, "{n} problems, no plan"),
        }
    }
}

impl std::error::Error for PlanErrors {}

impl Serialize for PlanErrors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.problems.serialize(serializer)
    }
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The file to change.
    pub file: PathBuf,
    /// The key, as a path from the file's root, e.g. `task[1].deadline_ms`; empty for the whole
    /// file.
    pub key: String,
    /// The place in the file, when the key is there.
    pub place: Option<Excerpt>,
    /// What is wrong, with the value and the limit.
    pub cause: Cause,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Line number from 1.
    pub line: u32,
    /// Character in the line from 1.
    pub column: u32,
    /// Characters to mark.
    pub width: u32,
    /// The line's text.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.cause)?;
        let file = self.file.display();
        match &self.place {
            Some(at) => {
                let gutter = at.line.to_string().len();
                writeln!(f, "{:gutter$}--> {file}:{}:{}", "", at.line, at.column)?;
                writeln!(f, "{:gutter$} |", "")?;
                writeln!(f, "{} | {}", at.line, at.text)?;
                let indent = at.column as usize - 1;
                writeln!(
                    f,
                    "{:gutter$} | {:indent$}{}",
                    "",
                    "",
                    "^".repeat(at.width as usize)
                )?;
                if !self.key.is_empty() {
                    writeln!(f, "{:gutter$} = key: {}", "", self.key)?;
                }
                writeln!(f, "{:gutter$} = rule: {}", "", self.cause.rule())?;
                writeln!(f, "{:gutter$} = to do: {}", "", self.cause.remedy())
            }
            None => {
                writeln!(f, " --> {file}")?;
                if !self.key.is_empty() {
                    writeln!(f, "  = key: {}", self.key)?;
                }
                writeln!(f, "  = rule: {}", self.cause.rule())?;
                writeln!(f, "  = to do: {}", self.cause.remedy())
            }
        }
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Problem", 7)?;
        object.serialize_field("file", &self.file.display().to_string())?;
        object.serialize_field("line", &self.place.as_ref().map(|at| at.line))?;
        object.serialize_field("column", &self.place.as_ref().map(|at| at.column))?;
        object.serialize_field("key", &self.key)?;
        object.serialize_field("problem", &self.cause.to_string())?;
        object.serialize_field("rule", self.cause.rule())?;
        object.serialize_field("to_do", &self.cause.remedy())?;
        object.end()
    }
}

/// Where a value stands: its key, and the bytes of the file that say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: String,
    pub(crate) span: Option<Range<usize>>,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// Collects the problems of one file.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    file: &'a Path,
    text: &'a str,
    found: Vec<(usize, Problem)>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Self {
        Self {
            file,
            text,
            found: Vec::new(),
        }
    }

    /// Notes a problem.
    pub(crate) fn add(&mut self, place: &Place, cause: Cause) {
        let position = place.span.as_ref().map_or(usize::MAX, |span| span.start);
        let problem = Problem {
            file: self.file.to_owned(),
            key: place.key.clone(),
            place: place
                .span
                .as_ref()
                .map(|span| excerpt(self.text, span.clone())),
            cause,
        };
        self.found.push((position, problem));
    }

    /// How many there are so far.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// All problems, or `Ok` if there are none.
    pub(crate) fn into_result(self) -> Result<(), PlanErrors> {
        if self.found.is_empty() {
            return Ok(());
        }
        Err(self.into_errors())
    }

    /// All problems.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn into_errors(mut self) -> PlanErrors {
        assert!(!self.found.is_empty(), "a failure without a problem");
        self.found.sort_by_key(|(position, _)| *position);
        PlanErrors {
            problems: self.found.into_iter().map(|(_, problem)| problem).collect(),
        }
    }
}

/// The first line of `span`. Spans come from a parser; one that does not lie on character
/// boundaries is moved there rather than trusted.
fn excerpt(text: &str, span: Range<usize>) -> Excerpt {
    let start = boundary(text, span.start);
    let end = boundary(text, span.end.max(start));
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[start..]
        .find('\n')
        .map_or(text.len(), |newline| start + newline);
    let shown = text[line_start..line_end].trim_end();
    let marked = text[start..end.min(line_end)].trim_end().chars().count();
    Excerpt {
        line: text[..start].matches('\n').count() as u32 + 1,
        column: text[line_start..start].chars().count() as u32 + 1,
        width: marked.max(1) as u32,
        // A tab would move the marker; the text is for people, not for parsing.
        text: shown.replace('\t', " "),
    }
}

fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_counts_characters_not_bytes() {
        let text = "a = 1\nü = \"ä\" # x\n";
        let at = text.find("\"ä\"").unwrap();
        let found = excerpt(text, at..at + "\"ä\"".len());
        assert_eq!((found.line, found.column, found.width), (2, 5, 3));
        assert_eq!(found.text, "ü = \"ä\" # x");
    }

    #[test]
    fn spans_off_the_text_are_moved_onto_it() {
        let found = excerpt("ü", 1..900);
        assert_eq!((found.line, found.column), (1, 1));
        assert_eq!(excerpt("", Range { start: 5, end: 2 }).line, 1);
    }
}
