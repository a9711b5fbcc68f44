//! What people see of runs: tables, rows for machines, one page with pictures.

mod comparison;
mod gantt;
mod lending;
mod merged;
mod page;
mod plots;
mod row;

pub use comparison::{MEANING, comparison};
pub use gantt::{BARS_MAX, Bar, Record, Recorder};
pub use lending::{Home, Lending};
pub use merged::{Merged, merged};
pub use page::{AtLoad, Chart, Page, chart, page};
pub use plots::{accuracy_against_misses, latency_cdf, misses_against_load, what_became};
pub use row::{Group, Row, groups, span};
