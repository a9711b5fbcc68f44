//! Reports: what was measured next to what must be reached, and what first light found.
//!
//! | module | contents |
//! |---|---|
//! | `results` | the results of a folder, each figure judged by its bound |
//! | `page`, `text`, `card` | them as a page of HTML, for a terminal, and as a page about the card in Markdown |
//! | `verdict` | what a step found, judged by its claim and by the clocks |
//! | `first_light` | the report of first light, for a person and as a file |

mod card;
pub mod first_light;
mod page;
mod results;
mod text;
pub mod verdict;

pub use card::card;
pub use page::page;
pub use results::Report;
pub use text::text;
