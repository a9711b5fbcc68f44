use std::ops::Range;

/// Where a value stands: its key, and the bytes of the file that say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The key, as a path from the file's root, e.g. `task[1].deadline_ms`; empty for the whole file.
    pub key: String,
    /// None where the file does not say it.
    pub span: Option<Range<usize>>,
}

impl Place {
    /// The place of a key that the file does not give.
    #[must_use]
    pub fn of_key(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            span: None,
        }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    pub value: T,
    pub place: Place,
}

impl<T> Spanned<T> {
    /// Another value at the same place.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned {
            value: convert(self.value),
            place: self.place,
        }
    }
}
