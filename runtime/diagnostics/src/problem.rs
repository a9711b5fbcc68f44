//! Everything that is wrong with a file, at once: where, what, by which rule, and what to do.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::place::Place;
use crate::renamed::RenamedKey;
use crate::rule::Rule;

/// A reader needs no more, and a file of garbage has one a byte.
const PROBLEMS_MAX: usize = 100;

/// All problems of one attempt to make something of a file; never empty. Sorted by place in the file.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnostics {
    problems: Vec<Problem>,
    /// Further ones, after the first hundred.
    more: usize,
    /// What was not made of the file.
    #[serde(skip)]
    aim: &'static str,
}

impl Diagnostics {
    /// The one problem of a file that has no text to point at.
    pub fn of_file(file: &Path, aim: &'static str, cause: impl Rule) -> Self {
        let mut problems = Problems::new(file, "", aim);
        problems.add(&Place::default(), cause);
        problems.into_errors()
    }

    /// The problems, by rising place; at most a hundred.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether all that is wrong is that files are missing, unreadable or damaged.
    #[must_use]
    pub fn is_about_files_only(&self) -> bool {
        self.problems
            .iter()
            .all(|problem| problem.cause.is_about_a_file())
    }

    /// All of them, for machines: `{"problems": [{file, line, column, key, problem, rule, to_do}], "more": 0}`.
    ///
    /// # Panics
    /// Never: all of it is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("plain data always serialises");
        json.push('\n');
        json
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        let aim = self.aim;
        match self.problems.len() + self.more {
            n if self.more > 0 => {
                write!(f, "{n} problems, the first {PROBLEMS_MAX} shown, no {aim}")
            }
            1 => write!(f, "1 problem, no {aim}"),
            n => write!(f, "{n} problems, no {aim}"),
        }
    }
}

impl std::error::Error for Diagnostics {}

#[derive(Clone, Debug)]
pub struct Problem {
    pub file: PathBuf,
    /// The key, as a path from the file's root, e.g. `task[1].deadline_ms`; empty for the whole file.
    pub key: String,
    /// The place in the file, when the key is there.
    pub place: Option<Excerpt>,
    /// What is wrong, with the value and the limit.
    pub cause: Arc<dyn Rule>,
}

impl Problem {
    /// The cause as the rule that it is, if that is a `T`.
    #[must_use]
    pub fn cause<T: Rule>(&self) -> Option<&T> {
        let cause: &dyn Any = &*self.cause;
        cause.downcast_ref()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// Line number from 1.
    pub line: u32,
    /// Character in the line from 1.
    pub column: u32,
    pub width: u32,
    /// The line's text; of a long line the part around the mark.
    pub text: String,
    /// Characters of `text` before the mark.
    pub indent: u32,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, help) = (self.cause.to_string(), self.cause.help());
        writeln!(f, "error: {}", printable(&cause))?;
        let file = self.file.display();
        let gutter = match &self.place {
            Some(at) => {
                let gutter = at.line.to_string().len();
                let (indent, width) = (at.indent as usize, at.width as usize);
                writeln!(f, "{:gutter$}--> {file}:{}:{}", "", at.line, at.column)?;
                writeln!(f, "{:gutter$} |", "")?;
                writeln!(f, "{} | {}", at.line, at.text)?;
                writeln!(f, "{:gutter$} | {:indent$}{}", "", "", "^".repeat(width))?;
                gutter
            }
            None => {
                writeln!(f, " --> {file}")?;
                1
            }
        };
        if !self.key.is_empty() {
            writeln!(f, "{:gutter$} = key: {}", "", printable(&self.key))?;
        }
        writeln!(f, "{:gutter$} = rule: {}", "", self.cause.rule())?;
        writeln!(f, "{:gutter$} = to do: {}", "", printable(&help))
    }
}

/// Text of a file must not reach a terminal as control codes.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
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
        object.serialize_field("to_do", &self.cause.help())?;
        object.end()
    }
}

/// Collects the problems of one file.
#[derive(Debug)]
pub struct Problems<'a> {
    file: &'a Path,
    text: &'a str,
    aim: &'static str,
    found: Vec<(Place, Arc<dyn Rule>)>,
    renamed: Vec<RenamedKey>,
}

impl<'a> Problems<'a> {
    /// `aim` is what the file should become, in a word or two: `plan`.
    pub fn new(file: &'a Path, text: &'a str, aim: &'static str) -> Self {
        Self {
            file,
            text,
            aim,
            found: Vec::new(),
            renamed: Vec::new(),
        }
    }

    #[must_use]
    pub fn file(&self) -> &'a Path {
        self.file
    }

    #[must_use]
    pub fn text(&self) -> &'a str {
        self.text
    }

    pub fn add(&mut self, place: &Place, cause: impl Rule) {
        self.found.push((place.clone(), Arc::new(cause)));
    }

    /// Notes a former name that the file has; it is no problem, and told once however often it is there.
    pub(crate) fn add_renamed(&mut self, key: RenamedKey) {
        if !self.renamed.contains(&key) {
            self.renamed.push(key);
        }
    }

    /// The keys that the file has under their former names, each once.
    #[must_use]
    pub fn renamed(&self) -> &[RenamedKey] {
        &self.renamed
    }

    /// How many there are so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// All problems, or `Ok` if there are none.
    pub fn into_result(self) -> Result<(), Diagnostics> {
        if self.found.is_empty() {
            return Ok(());
        }
        Err(self.into_errors())
    }

    /// All problems.
    ///
    /// # Panics
    /// If there are none.
    pub fn into_errors(mut self) -> Diagnostics {
        assert!(!self.found.is_empty(), "a failure without a problem");
        // What concerns the whole file comes first.
        self.found
            .sort_by_key(|(place, _)| place.span.as_ref().map(|span| span.start));
        // A table that stands for several tasks has the same problem for each.
        let mut told = std::collections::BTreeSet::new();
        self.found
            .retain(|(place, cause)| told.insert((place.key.clone(), cause.to_string())));
        let more = self.found.len().saturating_sub(PROBLEMS_MAX);
        self.found.truncate(PROBLEMS_MAX);
        let problem = |(place, cause): (Place, Arc<dyn Rule>)| Problem {
            file: self.file.to_owned(),
            key: place.key,
            place: place.span.map(|span| excerpt(self.text, span)),
            cause,
        };
        Diagnostics {
            problems: self.found.into_iter().map(problem).collect(),
            more,
            aim: self.aim,
        }
    }
}

/// The first line of `span`. Spans come from a parser; one that does not lie on character
/// boundaries is moved there rather than trusted.
fn excerpt(text: &str, span: Range<usize>) -> Excerpt {
    const BEFORE_MARK: usize = 60;
    const SHOWN: usize = 160;
    let start = boundary(text, span.start);
    let end = boundary(text, span.end.max(start));
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[start..]
        .find('\n')
        .map_or(text.len(), |newline| start + newline);
    let line = text[line_start..line_end].trim_end();
    let before = text[line_start..start].chars().count();
    let marked = text[start..end.min(line_end)].trim_end().chars().count();
    // Most lines are short and shown whole.
    let skipped = if before + marked.max(1) <= SHOWN {
        0
    } else {
        before.saturating_sub(BEFORE_MARK)
    };
    let indent = before - skipped;
    Excerpt {
        line: text[..start].matches('\n').count() as u32 + 1,
        column: before as u32 + 1,
        width: marked.clamp(1, SHOWN - indent) as u32,
        // A tab would move the mark, other control codes the terminal's cursor.
        text: line
            .chars()
            .skip(skipped)
            .take(SHOWN)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect(),
        indent: indent as u32,
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
    use crate::invalid::Invalid;

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

    #[test]
    fn of_a_long_line_the_part_around_the_mark_is_shown() {
        let text = format!("a = [{} 7 ]", "0, ".repeat(10_000));
        let at = text.find('7').unwrap();
        let found = excerpt(&text, at..at + 1);
        assert_eq!(found.column as usize, at + 1);
        assert!(found.text.len() < 200, "{}", found.text);
        assert_eq!(found.text.chars().nth(found.indent as usize), Some('7'));
    }

    #[test]
    fn a_mark_at_any_column_of_a_long_line_has_a_width_and_lies_in_what_is_shown() {
        let text = "x".repeat(400);
        for at in 0..=text.len() {
            for marked in [0, 1, 3, 200] {
                let found = excerpt(&text, at..at + marked);
                assert!(found.width >= 1, "{at}: {found:?}");
                assert!(found.indent + found.width <= 160, "{at}: {found:?}");
            }
        }
    }

    #[test]
    fn control_codes_of_a_file_are_not_passed_on() {
        let text = "\u{1b}[2J";
        let mut problems = Problems::new(Path::new("m.toml"), text, "plan");
        let cause = Invalid::UnknownKey {
            key: text.to_owned(),
            known: vec![],
        };
        let place = Place {
            key: text.to_owned(),
            span: Some(0..text.len()),
        };
        problems.add(&place, cause);
        let said = problems.into_errors().to_string();
        assert!(!said.contains('\u{1b}'), "{said}");
    }
}
