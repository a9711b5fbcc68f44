//! Reading a TOML file strictly: what is read is the schema, and whatever was not asked for is
//! refused. Unlike a derived deserialiser it goes on after a problem, so that all of them are
//! found at once, each with its place.

use std::ops::RangeInclusive;

use punctual_platform::read::Refused;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::cause::Cause;
use crate::problem::{At, Place, Problems};

/// Ten thousand lines. A file beyond it is not what somebody wrote, and is not looked into.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Parses `text`; what could be understood comes back together with the noted syntax errors.
pub fn parse<'t>(text: &'t str, problems: &mut Problems<'_>) -> Spanned<DeTable<'t>> {
    if text.len() as u64 > FILE_BYTES_MAX {
        let refused = Refused::TooLarge {
            bytes: text.len() as u64,
            limit: FILE_BYTES_MAX,
        };
        problems.add(
            &Place::default(),
            Cause::Refused(problems.file().to_owned(), refused),
        );
        return Spanned::new(0..0, DeTable::new());
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let place = Place {
            key: String::new(),
            span: error.span(),
        };
        problems.add(&place, Cause::Syntax { error });
    }
    table
}

/// One table of the file, being read.
pub struct Section<'d, 't> {
    table: &'d DeTable<'t>,
    place: Place,
    known: Vec<&'static str>,
}

impl<'d, 't> Section<'d, 't> {
    pub fn root(table: &'d Spanned<DeTable<'t>>) -> Self {
        Self {
            table: table.get_ref(),
            place: Place::default(),
            known: Vec::new(),
        }
    }

    /// An empty section, for a table that is not there.
    pub fn named(table: &'d Spanned<DeTable<'t>>, key: &str) -> Self {
        Self {
            table: table.get_ref(),
            place: Place {
                key: key.to_owned(),
                span: None,
            },
            known: Vec::new(),
        }
    }

    /// Those of these keys that are not given.
    pub fn without<const N: usize>(&self, keys: [&'static str; N]) -> Vec<&'static str> {
        let absent = |key: &&str| !self.table.contains_key(*key);
        keys.into_iter().filter(absent).collect()
    }

    /// Notes that `key` is missing, unless it is there and was found wrong already.
    pub fn missing(&self, key: &'static str, expected: &'static str, problems: &mut Problems<'_>) {
        if !self.table.contains_key(key) {
            problems.add(&self.absent(key), Cause::MissingKey { key, expected });
        }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    fn path(&self, key: &str) -> String {
        if self.place.key.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.place.key)
        }
    }

    /// Where `key` would stand if it were given: marked at the table itself.
    pub fn absent(&self, key: &str) -> Place {
        Place {
            key: self.path(key),
            span: self.place.span.clone(),
        }
    }

    fn find(&mut self, key: &'static str) -> Option<(Place, &'d DeValue<'t>)> {
        self.known.push(key);
        let (name, value) = self.table.get_key_value(key)?;
        let place = Place {
            key: self.path(key),
            span: Some(name.span().start..value.span().end),
        };
        Some((place, value.get_ref()))
    }

    /// The value of `key`, if it is given and of its type.
    pub fn optional<T: FromToml>(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<At<T>> {
        let (place, value) = self.find(key)?;
        match T::from_toml(value) {
            Ok(value) => Some(At { value, place }),
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
    ) -> Option<At<T>> {
        if !self.table.contains_key(key) {
            self.known.push(key);
            let cause = Cause::MissingKey {
                key,
                expected: T::EXPECTED,
            };
            problems.add(&self.absent(key), cause);
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
    ) -> At<T> {
        let place = self.absent(key);
        self.optional(key, problems).unwrap_or(At {
            value: default,
            place,
        })
    }

    /// The table at `key`.
    pub fn table(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Section<'d, 't>> {
        let (place, value) = self.find(key)?;
        let Some(table) = value.as_table() else {
            problems.add(&place, wrong_type("a table", value));
            return None;
        };
        Some(Section {
            table,
            place,
            known: Vec::new(),
        })
    }

    /// The tables of `[[key]]`.
    pub fn tables(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Vec<Section<'d, 't>> {
        let Some((place, value)) = self.find(key) else {
            return Vec::new();
        };
        let Some(array) = value.as_array() else {
            problems.add(&place, wrong_type("an array of tables", value));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (position, value) in array.iter().enumerate() {
            let place = Place {
                key: format!("{}[{position}]", place.key),
                span: Some(value.span()),
            };
            match value.get_ref().as_table() {
                Some(table) => sections.push(Section {
                    table,
                    place,
                    known: Vec::new(),
                }),
                None => problems.add(&place, wrong_type("a table", value.get_ref())),
            }
        }
        sections
    }

    /// All keys with their values, for tables whose keys are names.
    pub fn entries<T: FromToml>(&self, problems: &mut Problems<'_>) -> Vec<(String, At<T>)> {
        let mut entries = Vec::new();
        for (name, value) in self.table {
            let place = Place {
                key: self.path(name.get_ref()),
                span: Some(name.span().start..value.span().end),
            };
            match T::from_toml(value.get_ref()) {
                Ok(value) => entries.push((name.get_ref().to_string(), At { value, place })),
                Err(cause) => problems.add(&place, cause),
            }
        }
        entries
    }

    /// Refuses whatever was not asked for.
    pub fn finish(self, problems: &mut Problems<'_>) {
        for (name, value) in self.table {
            if self.known.contains(&name.get_ref().as_ref()) {
                continue;
            }
            let place = Place {
                key: self.path(name.get_ref()),
                span: Some(name.span().start..name.span().end.max(value.span().start)),
            };
            let cause = Cause::UnknownKey {
                key: name.get_ref().to_string(),
                known: self.known.clone(),
            };
            problems.add(
                &Place {
                    span: Some(name.span()),
                    ..place
                },
                cause,
            );
        }
    }
}

/// Notes a number outside `range`; returns it clamped, so that what follows can go on.
pub fn within(
    number: &At<f64>,
    range: RangeInclusive<f64>,
    unit: &'static str,
    problems: &mut Problems<'_>,
) -> f64 {
    if range.contains(&number.value) {
        return number.value;
    }
    let cause = Cause::OutOfRange {
        value: number.value,
        least: *range.start(),
        most: *range.end(),
        unit,
    };
    problems.add(&number.place, cause);
    if number.value.is_nan() {
        return *range.start();
    }
    number.value.clamp(*range.start(), *range.end())
}

/// As [`within`], for whole numbers.
pub fn within_whole(
    number: &At<u64>,
    range: RangeInclusive<u64>,
    unit: &'static str,
    problems: &mut Problems<'_>,
) -> u64 {
    if !range.contains(&number.value) {
        let cause = Cause::OutOfRange {
            value: number.value as f64,
            least: *range.start() as f64,
            most: *range.end() as f64,
            unit,
        };
        problems.add(&number.place, cause);
    }
    number.value.clamp(*range.start(), *range.end())
}

pub fn wrong_type(expected: &'static str, found: &DeValue<'_>) -> Cause {
    Cause::WrongType {
        expected,
        found: found.type_str(),
    }
}

/// A type that a TOML value can be read as.
pub trait FromToml: Sized {
    const EXPECTED: &'static str;

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Cause>;
}

impl FromToml for String {
    const EXPECTED: &'static str = "a string";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Cause> {
        match value {
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(wrong_type(Self::EXPECTED, other)),
        }
    }
}

impl FromToml for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Cause> {
        value
            .as_bool()
            .ok_or_else(|| wrong_type(Self::EXPECTED, value))
    }
}

impl FromToml for u64 {
    const EXPECTED: &'static str = "a whole number, not negative";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Cause> {
        value
            .as_integer()
            .and_then(|number| Self::from_str_radix(number.as_str(), number.radix()).ok())
            .ok_or_else(|| wrong_type(Self::EXPECTED, value))
    }
}

impl FromToml for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Cause> {
        let number = match value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(|number| number as Self),
            _ => None,
        };
        number.ok_or_else(|| wrong_type(Self::EXPECTED, value))
    }
}

impl<T: FromToml> FromToml for Vec<T> {
    const EXPECTED: &'static str = "an array";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Cause> {
        let array = value
            .as_array()
            .ok_or_else(|| wrong_type(Self::EXPECTED, value))?;
        array
            .iter()
            .map(|element| T::from_toml(element.get_ref()))
            .collect()
    }
}
