//! What people see of runs: tables, rows for machines, one page with pictures.

mod charts;
mod gantt;
mod merged;
mod page;
mod palette;
mod picture;
mod plots;
mod row;
mod terminal;

pub use charts::{Axis, Bars, Lines, Series, key};
pub use gantt::{BARS_MAX, Bar, Recorder};
pub use merged::{Merged, merged};
pub use page::{AtLoad, Chart, Page, chart, document, escape, page};
pub use picture::picture;
pub use plots::{accuracy_against_misses, latency_cdf, misses_against_load, what_became};
pub use row::{Group, Row, groups, span};
pub use terminal::{Table, comparison, percent};
