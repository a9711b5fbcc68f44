//! TOML files that people write, read strictly.
//!
//! All problems of a file are found in one attempt. Each is shown like a compiler's: what is wrong,
//! where, by which rule, and what to do. [`Document::parse`] gives the file's root [`Section`], and
//! what is asked of a section is its schema. Values come with their place ([`Spanned`]), so that
//! code that checks them later can still point at them.
//!
//! The rules that any file can break are here ([`Invalid`]); a format brings its own ([`Rule`]),
//! and they stand next to the code that checks them.
#![forbid(unsafe_code)]

mod bytes;
mod invalid;
mod keys;
mod place;
mod problem;
mod renamed;
mod rule;
mod section;
mod spelling;
mod text;

pub use bytes::Bytes;
pub use invalid::Invalid;
pub use keys::{NAME_BYTES_MAX, unique};
pub use place::{Place, Spanned};
pub use problem::{Diagnostics, Excerpt, Problem, Problems};
pub use renamed::{RemovedKey, RenamedKey};
pub use rule::Rule;
pub use section::{Document, FILE_BYTES_MAX, FromToml, Section};
pub use spelling::{and_more, list, nearest, numbers};
pub use text::read_text;
pub use toml::de::DeValue;
