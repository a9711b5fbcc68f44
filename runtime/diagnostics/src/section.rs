//! Reading a TOML file strictly: what is read is the schema, and whatever was not asked for is
//! refused. Unlike a derived deserialiser it goes on after a problem, so that all of them are
//! found at once, each with its place.

use std::ops::RangeInclusive;

use punctual_platform::read::Refused;
use serde::Deserialize as _;
use toml::de::{DeString, DeTable, DeValue, ValueDeserializer};

use crate::invalid::Invalid;
use crate::place::{Place, Spanned};
use crate::problem::Problems;
use crate::renamed::{RemovedKey, RenamedKey};

/// Ten thousand lines. A larger file was not written by hand, and is not read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file that is valid TOML.
pub struct Document<'t>(DeTable<'t>);

impl<'t> Document<'t> {
    /// Parses the text that `problems` is about. What is not valid TOML is reported by its first
    /// mistake alone: what follows from it would only mislead.
    pub fn parse(problems: &mut Problems<'t>) -> Option<Self> {
        let text = problems.text();
        if text.len() as u64 > FILE_BYTES_MAX {
            let refused = Refused::TooLarge {
                bytes: text.len() as u64,
                limit: FILE_BYTES_MAX,
            };
            let cause = Invalid::Refused(problems.file().to_owned(), refused);
            problems.add(&Place::default(), cause);
            return None;
        }
        let (table, errors) = DeTable::parse_recoverable(text);
        let first = errors
            .into_iter()
            .min_by_key(|error| error.span().map(|span| span.start));
        let Some(error) = first else {
            return Some(Self(table.into_inner()));
        };
        let place = Place {
            key: String::new(),
            span: error.span(),
        };
        problems.add(&place, Invalid::Syntax { error });
        None
    }

    #[must_use]
    pub fn root(&self) -> Section<'_, 't> {
        Section::new(Some(&self.0), Place::default())
    }
}

/// A key and its value, each with its place.
type Entry<'d, 't> = (
    &'d toml::Spanned<DeString<'t>>,
    &'d toml::Spanned<DeValue<'t>>,
);

/// One table of the file, being read. Keys that were not asked for are refused by
/// [`finish`](Self::finish).
pub struct Section<'d, 't> {
    /// None if the table is not given.
    table: Option<&'d DeTable<'t>>,
    place: Place,
    known: Vec<&'static str>,
    renamed: &'static [RenamedKey],
    removed: &'static [RemovedKey],
}

impl<'d, 't> Section<'d, 't> {
    const fn new(table: Option<&'d DeTable<'t>>, place: Place) -> Self {
        Self {
            table,
            place,
            known: Vec::new(),
            renamed: &[],
            removed: &[],
        }
    }

    /// Reads each of these keys under its former name as well. [`finish`](Self::finish) tells of
    /// those that the file has, and refuses both names of one key in one table.
    #[must_use]
    pub const fn with_renamed(mut self, keys: &'static [RenamedKey]) -> Self {
        self.renamed = keys;
        self
    }

    /// Has [`finish`](Self::finish) say of each of these keys what to do instead.
    #[must_use]
    pub const fn with_removed(mut self, keys: &'static [RemovedKey]) -> Self {
        self.removed = keys;
        self
    }

    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Whether `key` is given, whatever its value.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.given(key).is_some()
    }

    /// Whether a table is given at `key`.
    #[must_use]
    pub fn has_table(&self, key: &str) -> bool {
        let value = self.given(key).map(|(_, value)| value.get_ref());
        value.is_some_and(|value| value.as_table().is_some())
    }

    /// The entry of `key`, under its former name if the file has that one.
    fn given(&self, key: &str) -> Option<Entry<'d, 't>> {
        let table = self.table?;
        let mut former = self.renamed.iter().filter(|renamed| renamed.now == key);
        table
            .get_key_value(key)
            .or_else(|| former.find_map(|renamed| table.get_key_value(renamed.former)))
    }

    /// Those of these keys that are not given.
    pub fn without<const N: usize>(&self, keys: [&'static str; N]) -> Vec<&'static str> {
        keys.into_iter().filter(|key| !self.has(key)).collect()
    }

    /// Notes that `key` is missing, unless it is there and was found wrong already.
    pub fn missing(&self, key: &'static str, expected: &'static str, problems: &mut Problems<'_>) {
        if !self.has(key) {
            problems.add(&self.absent(key), Invalid::MissingKey { key, expected });
        }
    }

    fn path(&self, key: &str) -> String {
        if self.place.key.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.place.key)
        }
    }

    /// Where `key` would stand if it were given: marked at the table itself.
    #[must_use]
    pub fn absent(&self, key: &str) -> Place {
        Place {
            key: self.path(key),
            span: self.place.span.clone(),
        }
    }

    /// Where `key` stands, or would if it were given.
    #[must_use]
    pub fn place_of(&self, key: &str) -> Place {
        match self.given(key) {
            Some((name, value)) => Place {
                key: self.path(name.get_ref()),
                span: Some(name.span().start..value.span().end),
            },
            None => self.absent(key),
        }
    }

    fn find(&mut self, key: &'static str) -> Option<(Place, &'d DeValue<'t>)> {
        self.known.push(key);
        let (_, value) = self.given(key)?;
        Some((self.place_of(key), value.get_ref()))
    }

    /// The value of `key`, if it is given and of its type.
    pub fn optional<T: FromToml>(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<T>> {
        let (place, value) = self.find(key)?;
        match T::from_toml(value) {
            Ok(value) => Some(Spanned { value, place }),
            Err(cause) => {
                problems.add(&place, cause);
                None
            }
        }
    }

    /// The value of `key`, which must be given.
    pub fn required<T: FromToml>(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<T>> {
        if !self.has(key) {
            self.known.push(key);
            self.missing(key, T::EXPECTED, problems);
            return None;
        }
        self.optional(key, problems)
    }

    /// The value of `key`, or the default, which also stands in for a value of the wrong type (that is noted).
    pub fn or<T: FromToml>(
        &mut self,
        key: &'static str,
        default: T,
        problems: &mut Problems<'_>,
    ) -> Spanned<T> {
        let place = self.absent(key);
        self.optional(key, problems).unwrap_or(Spanned {
            value: default,
            place,
        })
    }

    pub fn table(&mut self, key: &'static str, problems: &mut Problems<'_>) -> Option<Self> {
        let (place, value) = self.find(key)?;
        let table = value.as_table();
        if table.is_none() {
            problems.add(&place, Invalid::wrong_type("a table", value));
        }
        Some(Self::new(Some(table?), place))
    }

    /// The table at `key`, or one without keys.
    pub fn table_or_empty(&mut self, key: &'static str, problems: &mut Problems<'_>) -> Self {
        let empty = Self::new(None, Place::of_key(&self.path(key)));
        self.table(key, problems).unwrap_or(empty)
    }

    /// The tables of a table whose keys are names, in the file's order. What is no table is noted.
    pub fn tables_by_name(&self, problems: &mut Problems<'_>) -> Vec<(String, Self)> {
        let mut tables = Vec::new();
        for (name, value) in self.table.into_iter().flatten() {
            let place = self.place_of(name.get_ref());
            match value.get_ref().as_table() {
                Some(table) => {
                    let section = Self::new(Some(table), place);
                    tables.push((name.get_ref().to_string(), section));
                }
                None => problems.add(&place, Invalid::wrong_type("a table", value.get_ref())),
            }
        }
        tables.sort_by_key(|(_, section)| section.place.span.as_ref().map(|span| span.start));
        tables
    }

    /// What `read` makes of the tables of `[[key]]`, whose number must lie within `count`. Those beyond the
    /// most are not read: the work on a file is bounded.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        count: RangeInclusive<usize>,
        problems: &mut Problems<'_>,
        mut read: impl FnMut(Self, &mut Problems<'_>) -> Option<T>,
    ) -> Vec<T> {
        let tables = self.tables(key, problems);
        let place = self.absent(key);
        if tables.len() < *count.start() {
            problems.add(&place, Invalid::NoneGiven(key));
        } else if tables.len() > *count.end() {
            let cause = Invalid::TooMany {
                what: key,
                count: tables.len() as u64,
                limit: *count.end() as u64,
            };
            problems.add(&place, cause);
        }
        let tables = tables.into_iter().take(*count.end());
        tables.filter_map(|table| read(table, problems)).collect()
    }

    fn tables(&mut self, key: &'static str, problems: &mut Problems<'_>) -> Vec<Self> {
        let Some((place, value)) = self.find(key) else {
            return Vec::new();
        };
        let Some(array) = value.as_array() else {
            problems.add(&place, Invalid::wrong_type("an array of tables", value));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (position, value) in array.iter().enumerate() {
            let place = Place {
                key: format!("{}[{position}]", place.key),
                span: Some(value.span()),
            };
            match value.get_ref().as_table() {
                Some(table) => sections.push(Self::new(Some(table), place)),
                None => problems.add(&place, Invalid::wrong_type("a table", value.get_ref())),
            }
        }
        sections
    }

    /// All keys with their values, for tables whose keys are names.
    pub fn entries<T: FromToml>(&self, problems: &mut Problems<'_>) -> Vec<(String, Spanned<T>)> {
        let mut entries = Vec::new();
        for (name, value) in self.table.into_iter().flatten() {
            let name = name.get_ref();
            let place = self.place_of(name);
            match T::from_toml(value.get_ref()) {
                Ok(value) => entries.push((name.to_string(), Spanned { value, place })),
                Err(cause) => problems.add(&place, cause),
            }
        }
        entries
    }

    /// Refuses whatever was not asked for.
    pub fn finish(self, problems: &mut Problems<'_>) {
        for (name, _) in self.table.into_iter().flatten() {
            let key = name.get_ref();
            if self.known.contains(&key.as_ref()) {
                continue;
            }
            let place = Place {
                key: self.path(key),
                span: Some(name.span()),
            };
            let mut renamed = self.renamed.iter();
            if let Some(&renamed) = renamed.find(|renamed| renamed.former == *key) {
                if self
                    .table
                    .is_some_and(|table| table.contains_key(renamed.now))
                {
                    problems.add(&place, Invalid::BothNames(renamed));
                } else {
                    problems.add_renamed(renamed);
                }
                continue;
            }
            let mut removed = self.removed.iter();
            let cause = match removed.find(|removed| removed.key == *key) {
                Some(&removed) => Invalid::Removed(removed),
                None => Invalid::UnknownKey {
                    key: key.to_string(),
                    known: self.known.clone(),
                },
            };
            problems.add(&place, cause);
        }
    }
}

/// A type that a TOML value can be read as.
pub trait FromToml: Sized {
    const EXPECTED: &'static str;

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid>;
}

impl FromToml for String {
    const EXPECTED: &'static str = "a string";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        match value {
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(Invalid::wrong_type(Self::EXPECTED, other)),
        }
    }
}

impl FromToml for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        value
            .as_bool()
            .ok_or_else(|| Invalid::wrong_type(Self::EXPECTED, value))
    }
}

impl FromToml for u64 {
    const EXPECTED: &'static str = "a whole number, not negative";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        value
            .as_integer()
            .and_then(|number| Self::from_str_radix(number.as_str(), number.radix()).ok())
            .ok_or_else(|| Invalid::wrong_type(Self::EXPECTED, value))
    }
}

impl FromToml for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let number = match value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(|number| number as Self),
            _ => None,
        };
        number.ok_or_else(|| Invalid::wrong_type(Self::EXPECTED, value))
    }
}

impl<T: FromToml> FromToml for Vec<T> {
    const EXPECTED: &'static str = "an array";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let array = value
            .as_array()
            .ok_or_else(|| Invalid::wrong_type(Self::EXPECTED, value))?;
        array
            .iter()
            .map(|element| T::from_toml(element.get_ref()))
            .collect()
    }
}

impl FromToml for toml::Value {
    const EXPECTED: &'static str = "numbers of 64 bits";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let spanned = toml::Spanned::new(0..0, value.clone());
        Self::deserialize(ValueDeserializer::from(spanned))
            .map_err(|_| Invalid::wrong_type(Self::EXPECTED, value))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thiserror::Error;

    use super::*;
    use crate::problem::Diagnostics;
    use crate::rule::Rule;

    /// What reading `text` as `read` does finds wrong.
    fn wrong(text: &str, read: impl Fn(&mut Section<'_, '_>, &mut Problems<'_>)) -> Diagnostics {
        let mut problems = Problems::new(Path::new("x.toml"), text, "table");
        if let Some(document) = Document::parse(&mut problems) {
            let mut root = document.root();
            read(&mut root, &mut problems);
            root.finish(&mut problems);
        }
        problems.into_errors()
    }

    #[test]
    fn what_is_not_toml_is_said_once_and_nothing_else_with_it() {
        let text = "a = \"open\nb = 3 4\n[c\nunknown = 1";
        let errors = wrong(text, |root, problems| {
            root.required::<u64>("missing", problems);
        });
        let [problem] = errors.problems() else {
            panic!("{errors}");
        };
        assert!(matches!(problem.cause(), Some(Invalid::Syntax { .. })));
        assert_eq!(problem.place.as_ref().map(|place| place.line), Some(1));
    }

    #[test]
    fn all_problems_of_a_file_come_at_once_by_their_place() {
        let text = "speed = \"fast\"\nunits = 99\nuints = 3\n";
        let errors = wrong(text, |root, problems| {
            root.whole("units", 1, 1..=8, problems);
            root.number("speed", 1.0, 0.0..=1.0, " m/s", problems);
            root.required::<String>("name", problems);
        });
        let keys: Vec<&str> = errors.problems().iter().map(|p| &p.key[..]).collect();
        assert_eq!(keys, ["name", "speed", "units", "uints"]);
        let text = errors.to_string();
        assert!(text.contains("did you mean `units`?"), "{text}");
        assert!(text.ends_with("4 problems, no table"), "{text}");
    }

    #[test]
    fn a_list_has_its_least_and_its_most_and_no_more_are_read() {
        let count = |text: &str| {
            let read = std::cell::Cell::new(0);
            let errors = wrong(text, |root, problems| {
                root.list("row", 1..=2, problems, |row, problems| {
                    read.set(read.get() + 1);
                    row.finish(problems);
                    Some(())
                });
                // So that there is a problem at all.
                root.missing("end", "the end", problems);
            });
            let causes = errors.problems().iter().filter_map(|p| p.cause());
            let about_rows = causes.filter(|cause: &&Invalid| {
                matches!(cause, Invalid::NoneGiven("row") | Invalid::TooMany { .. })
            });
            (read.get(), about_rows.count())
        };
        assert_eq!(count(""), (0, 1));
        assert_eq!(count("[[row]]\n[[row]]"), (2, 0));
        assert_eq!(count("[[row]]\n[[row]]\n[[row]]"), (2, 1));
    }

    #[test]
    fn tables_by_name_come_in_the_files_order_and_what_is_none_is_noted() {
        let text = "wide = { w = 1 }\nodd = 3\n[narrow]\nw = 2\n[a]\nw = 3";
        let names = std::cell::RefCell::new(Vec::new());
        let errors = wrong(text, |root, problems| {
            let tables = root.tables_by_name(problems).into_iter();
            names.borrow_mut().extend(tables.map(|(name, _)| name));
            assert!(root.has_table("wide") && !root.has_table("odd"));
        });
        assert_eq!(names.into_inner(), ["wide", "narrow", "a"]);
        let text = errors.to_string();
        assert!(text.contains("key: odd"), "{text}");
    }

    #[test]
    fn a_rule_of_another_format_is_shown_like_one_of_ours() {
        #[derive(Clone, Debug, PartialEq, Eq, Error)]
        #[error("{count} wheels")]
        struct Wheels {
            count: u64,
        }

        impl Rule for Wheels {
            fn rule(&self) -> &'static str {
                "a cart has two wheels"
            }

            fn help(&self) -> String {
                "add one".into()
            }
        }

        let errors = wrong("[cart]\nwheels = 1", |root, problems| {
            let mut cart = root.table_or_empty("cart", problems);
            let wheels = cart.or("wheels", 2, problems);
            let count = wheels.value;
            problems.add(&wheels.place, Wheels { count });
            cart.finish(problems);
        });
        let expected = "error: 1 wheels\n --> x.toml:2:1\n  |\n2 | wheels = 1\n  | ^^^^^^^^^^\n  \
                        = key: cart.wheels\n  = rule: a cart has two wheels\n  = to do: add one\n\n\
                        1 problem, no table";
        assert_eq!(errors.to_string(), expected);
        let problem = &errors.problems()[0];
        assert_eq!(problem.cause(), Some(&Wheels { count: 1 }));
        assert!(problem.cause::<Invalid>().is_none());
        assert!(!errors.is_about_files_only());
    }
}
