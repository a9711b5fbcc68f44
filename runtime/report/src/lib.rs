//! What people see of figures: tables, charts, drawings, pages of HTML that need no other file.
//!
//! | module | what it is |
//! |---|---|
//! | `timeline` | [`Timeline`]: what happened when, in rows, to be zoomed and moved |
//! | `table` | [`Table`]: one table for a terminal, a page and a document |
//! | `fold` | how a table keeps to the width of a terminal |
//! | `page` | [`Page`] and its [`Figure`]s |
//! | `svg` | [`Drawing`]: what no chart shows; [`Svg`]: a picture |
//! | `charts`, `shares` | `Lines`, `Bars` and `Shares` of any numbers, with the feature `charts` |
//! | `picture` | `picture`: charts that stand alone |
//! | `ticks` | [`Ticks`]: which values of an axis have a label |
//! | `palette` | [`Colour`]s of series and exits |
//! | `text` | [`Text`]: good, bad or of less weight |
//!
//! Markup is written by `maud`, and charts by `plotters`; both escape what they are given.
//!
//! ```
//! let mut table = punctual_report::Table::new(&["camera", "on time"], 1);
//! table.row(["front".to_owned(), punctual_report::percent(0.999)]);
//! assert_eq!(table.to_string(), "camera  on time\nfront    99.90%\n");
//!
//! let mut page = punctual_report::Page::new("Cameras <all>");
//! page.table(&table);
//! assert!(page.html().contains("<h1>Cameras &lt;all&gt;</h1>"));
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "charts")]
mod charts;
mod fold;
mod page;
mod palette;
#[cfg(feature = "charts")]
mod picture;
#[cfg(feature = "charts")]
mod plot;
#[cfg(feature = "charts")]
mod shares;
mod svg;
mod table;
mod text;
mod ticks;
mod timeline;

#[cfg(feature = "charts")]
pub use charts::{Axis, Bars, Lines, Series};
pub use page::{Figure, Mark, Page};
pub use palette::Colour;
#[cfg(feature = "charts")]
pub use picture::picture;
#[cfg(feature = "charts")]
pub use shares::Shares;
pub use svg::{Anchor, Drawing, Style, Svg};
pub use table::{Column, Table, WIDTH, percent};
pub use text::{Text, printable};
pub use ticks::Ticks;
pub use timeline::{Bar, Row, Shape, Timeline, VIEWPORT};
