//! What happens in the daemon that an operator might search for. Each event is declared once, in `list.rs`: its name,
//! its fields with their units, its sentence, its level, the thread that writes it, the id of its journal entries and the
//! figure of the report that counts it. All else comes from there:
//!
//! | what | from |
//! |---|---|
//! | the value that a real-time thread writes into its ring: `Copy`, without words | [`RtEvent`] |
//! | the value that an ordinary thread says at once | [`DaemonEvent`] |
//! | the line of the log, and the fields of the journal | [`say`], [`say_later`] |
//! | the message of a recording's notes, and its JSON Schema | [`Note::to_json`], [`schema`] |
//! | the page `docs/events.md`, the check of `systemd/catalog` | `tests/` |
//!
//! ```
//! use punctual_events::{DaemonEvent, Declared};
//!
//! let event = DaemonEvent::WeightsNotLoaded { model: "signs".into(), reason: "it is gone".into() };
//! assert_eq!(event.declaration().name, "weights-not-loaded");
//! assert_eq!(event.text(&()), "weights of model \"signs\" were not loaded: it is gone");
//! ```
#![forbid(unsafe_code)]

mod declaration;
mod field;
mod list;
mod note;
mod say;

pub use declaration::{Declaration, Declared, FieldDeclaration, Writer};
pub use field::{Field, Kind, Names, Thousandths, Value};
pub use list::{DaemonEvent, RtEvent, declarations, message_ids};
pub use note::{Note, schema};
pub use say::{listen, recent, say, say_later};
