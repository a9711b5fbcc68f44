//! What the scheduler was told and decided, in [MCAP](https://mcap.dev) files, and its replay.
//!
//! The scheduler is a pure state machine: a plan, a state and the events since then say all that it does. A recording has, on
//! the channel [`CHANNEL`], *segments*: a state, and each step from there with its event and its actions. Each segment is a chunk
//! of the file, so what was written before a power cut is read. A black box begins with any segment.
//!
//! | to find | look at |
//! |---|---|
//! | what is in a recording | [`Entry`] |
//! | what its scheduler was made from | [`Setting`] |
//! | writing one | [`Writer`] |
//! | reading one | [`Recording`] |
//! | what became of its frames and stages | [`frames`] |
//! | the same in JSON, which plots show | [`messages`] |
//! | whether the scheduler decides the same again | [`replay`](replay::replay) |
#![forbid(unsafe_code)]

mod entry;
pub mod frames;
pub mod messages;
mod read;
pub mod replay;
mod seconds;
mod setting;
mod write;

pub use entry::{CHANNEL, Entry, SCHEMA, Sent, Step};
pub use read::{End, Entries, ReadError, Recording};
pub use setting::{Names, SETTING, Setting};
pub use write::{WriteError, Writer};
