//! What the scheduler was told and decided, in [MCAP](https://mcap.dev) files, and its replay.
//!
//! The scheduler is a pure state machine: a plan, a state and the events since then say all that it does. A recording has, on
//! the channel [`CHANNEL`], *segments*: a state, and each step from there with its event and its actions. Each segment is a chunk
//! of the file, so what was written before a power cut is read. A black box begins with any segment.
//!
//! | to find | look at |
//! |---|---|
//! | what is in a recording | [`Entry`] |
//! | writing one | [`Writer`] |
//! | reading one | [`Recording`] |
//! | whether the scheduler decides the same again | [`replay`](replay::replay) |
#![forbid(unsafe_code)]

mod entry;
mod read;
pub mod replay;
mod write;

pub use entry::{CHANNEL, Entry, SCHEMA, Step};
pub use read::{End, Entries, ReadError, Recording};
pub use write::{WriteError, Writer};
