//! What people see of figures: tables, plots, pages of HTML that need no other file.
//!
//! | module | what it is |
//! |---|---|
//! | `table` | [`Table`]: one table for a terminal, a page and a document |
//! | `charts` | [`Lines`] and [`Bars`] of any numbers |
//! | [`drawing`], [`palette`] | what plots are made of, for those who make their own |
//! | `picture` | [`picture`]: a plot that stands alone |
//! | `html` | [`document`], [`escape`] |
//!
//! ```
//! let mut table = punctual_report::Table::new(&["camera", "on time"], 1);
//! table.row(["front".to_owned(), punctual_report::percent(0.999)]);
//! assert!(table.text().contains("front"));
//! assert!(table.html().starts_with("<table"));
//! ```
#![forbid(unsafe_code)]

mod charts;
pub mod drawing;
mod html;
pub mod palette;
mod picture;
mod table;

pub use charts::{Axis, Bars, Lines, Series, key};
pub use html::{document, escape};
pub use picture::picture;
pub use table::{Table, percent};
