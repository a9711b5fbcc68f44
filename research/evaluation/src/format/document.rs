//! Reading a TOML file strictly: what is asked for is the schema, whatever was not asked for is
//! refused. A wrong value is noted and stands in for itself with one that is right, so that
//! reading goes on and all problems are found at once.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Cause, Problem};
use crate::nearest::nearest;

#[derive(Debug)]
pub(super) struct Problems<'t> {
    text: &'t str,
    found: RefCell<Vec<Problem>>,
}

impl<'t> Problems<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self {
            text,
            found: RefCell::new(Vec::new()),
        }
    }

    pub(super) fn add(&self, key: String, span: Option<Range<usize>>, cause: Cause) {
        let line = span.map(|span| {
            let before = self.text.get(..span.start).unwrap_or(self.text);
            before.matches('\n').count() as u32 + 1
        });
        self.found.borrow_mut().push(Problem { line, key, cause });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// By place in the file; those of the whole file first.
    pub(super) fn into_sorted(self) -> Vec<Problem> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|problem| problem.line);
        found
    }
}

/// One table, being read. Dropped without [`Section::end`], unknown keys would go unnoticed.
#[derive(Debug)]
pub(super) struct Section<'d> {
    table: &'d DeTable<'d>,
    key: String,
    span: Option<Range<usize>>,
    problems: &'d Problems<'d>,
    known: RefCell<Vec<&'static str>>,
}

impl<'d> Section<'d> {
    pub(super) fn root(table: &'d DeTable<'d>, problems: &'d Problems<'d>) -> Self {
        Self {
            table,
            key: String::new(),
            span: None,
            problems,
            known: RefCell::new(Vec::new()),
        }
    }

    pub(super) const fn problems(&self) -> &'d Problems<'d> {
        self.problems
    }

    fn path(&self, key: &str) -> String {
        match self.key.as_str() {
            "" => key.into(),
            parent => format!("{parent}.{key}"),
        }
    }

    fn get(&self, key: &'static str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.known.borrow_mut().push(key);
        let (_, value) = self.table.get_key_value(key)?;
        Some(value)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Notes what concerns the whole table.
    pub(super) fn note(&self, cause: Cause) {
        self.problems
            .add(self.key.clone(), self.span.clone(), cause);
    }

    /// Notes that the value of `key` is not what it must be.
    pub(super) fn wrong(&self, key: &str, rule: &str) {
        let value = self.table.get(key);
        let found = value.map_or_else(|| "missing".into(), |value| shown(value.get_ref()));
        let span = value.map(Spanned::span).or_else(|| self.span.clone());
        let rule = rule.into();
        self.problems
            .add(self.path(key), span, Cause::Value { found, rule });
    }

    /// A text; `default` if it is not given, or must be if there is none.
    pub(super) fn text(&self, key: &'static str, default: Option<&str>) -> String {
        match (self.get(key).map(Spanned::get_ref), default) {
            (Some(DeValue::String(text)), _) => text.to_string(),
            (None, Some(default)) => default.into(),
            _ => {
                self.wrong(key, "a text in quotes");
                String::new()
            }
        }
    }

    /// A number within `range`, as [`text`](Self::text).
    pub(super) fn number(
        &self,
        key: &'static str,
        range: RangeInclusive<f64>,
        default: Option<f64>,
    ) -> f64 {
        let value = self.get(key).map(|value| number(value.get_ref()));
        match (value, default) {
            (Some(Some(number)), _) if range.contains(&number) => number,
            (None, Some(default)) => default,
            _ => {
                let rule = format!("a number from {} to {}", range.start(), range.end());
                self.wrong(key, &rule);
                *range.start()
            }
        }
    }

    /// A whole number, as [`number`](Self::number).
    pub(super) fn whole(
        &self,
        key: &'static str,
        range: RangeInclusive<u32>,
        default: Option<u32>,
    ) -> u32 {
        let (least, most) = (f64::from(*range.start()), f64::from(*range.end()));
        let found = self.number(key, least..=most, default.map(f64::from));
        if found.fract() != 0.0 {
            self.wrong(key, "a whole number");
        }
        found as u32
    }

    pub(super) fn flag(&self, key: &'static str, default: bool) -> bool {
        match self.get(key).map(Spanned::get_ref) {
            None => default,
            Some(DeValue::Boolean(flag)) => *flag,
            Some(_) => {
                self.wrong(key, "true or false");
                default
            }
        }
    }

    /// The position in `names` of the text that `key` has; the first if it is none of them.
    pub(super) fn one_of<S: AsRef<str>>(&self, key: &'static str, names: &[S]) -> usize {
        let found = match self.get(key).map(Spanned::get_ref) {
            Some(DeValue::String(text)) => names.iter().position(|name| name.as_ref() == text),
            _ => None,
        };
        found.unwrap_or_else(|| {
            self.wrong(key, &one_of(names));
            0
        })
    }

    /// The positions in `names` of the texts in a list.
    pub(super) fn some_of<S: AsRef<str>>(&self, key: &'static str, names: &[S]) -> Vec<usize> {
        let rule = || format!("a list, each {}", one_of(names));
        let Some(DeValue::Array(list)) = self.get(key).map(Spanned::get_ref) else {
            self.wrong(key, &rule());
            return Vec::new();
        };
        let place = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
            DeValue::String(text) => names.iter().position(|name| name.as_ref() == text),
            _ => None,
        };
        let places: Option<Vec<usize>> = list.iter().map(place).collect();
        places.unwrap_or_else(|| {
            self.wrong(key, &rule());
            Vec::new()
        })
    }

    /// Pairs of numbers, such as `[[0.5, 0.8], [1.0, 1.0]]`; none if the key is not given.
    pub(super) fn pairs(&self, key: &'static str) -> Vec<(f64, f64)> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let pair = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
            DeValue::Array(pair) if pair.len() == 2 => {
                Some((number(pair[0].get_ref())?, number(pair[1].get_ref())?))
            }
            _ => None,
        };
        let pairs: Option<Vec<(f64, f64)>> = match value.get_ref() {
            DeValue::Array(list) => list.iter().map(pair).collect(),
            _ => None,
        };
        pairs.unwrap_or_else(|| {
            self.wrong(
                key,
                "a list of pairs of numbers, such as [[0.5, 0.8], [1.0, 1.0]]",
            );
            Vec::new()
        })
    }

    /// The table `key`, if it is given.
    pub(super) fn section(&self, key: &'static str) -> Option<Self> {
        let value = self.get(key)?;
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(key, "a table");
            return None;
        };
        Some(self.child(table, self.path(key), value.span()))
    }

    /// The tables `[[key]]`.
    pub(super) fn sections(&self, key: &'static str) -> Vec<Self> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Array(list) = value.get_ref() else {
            self.wrong(key, "a list of tables");
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (index, value) in list.iter().enumerate() {
            match value.get_ref() {
                DeValue::Table(table) => {
                    let key = format!("{}[{index}]", self.path(key));
                    sections.push(self.child(table, key, value.span()));
                }
                _ => self.wrong(key, "a list of tables"),
            }
        }
        sections
    }

    fn child(&self, table: &'d DeTable<'d>, key: String, span: Range<usize>) -> Self {
        Self {
            table,
            key,
            span: Some(span),
            problems: self.problems,
            known: RefCell::new(Vec::new()),
        }
    }

    /// Notes the keys that nobody asked for.
    pub(super) fn end(self) {
        let known = self.known.into_inner();
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let path = match self.key.as_str() {
                "" => name.to_owned(),
                parent => format!("{parent}.{name}"),
            };
            let cause = Cause::UnknownKey {
                nearest: nearest(name, &known).map(str::to_owned),
                known: known.join(", "),
            };
            self.problems.add(path, Some(key.span()), cause);
        }
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number as f64),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

fn one_of<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    format!("one of {}", names.join(", "))
}

/// A value as it stands in a message.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", text.chars().take(60).collect::<String>()),
        DeValue::Integer(number) => number.as_str().into(),
        DeValue::Float(number) => number.as_str().into(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(list) => format!("a list of {}", list.len()),
        DeValue::Table(_) => "a table".into(),
    }
}
