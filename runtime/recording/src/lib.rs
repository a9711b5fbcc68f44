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
//! | from a real-time thread to segments | [`ring`], [`Collector`] |
//! | the newest seconds, in memory | [`BlackBox`] |
//! | writing one | [`Writer`] |
//! | reading one | [`Recording`] |
//! | what became of its frames and stages | [`frames`] |
//! | the same in JSON, which plots show | [`messages`] |
//! | pictures, and what was seen on them | [`pictures`] |
//! | whether the scheduler decides the same again | [`replay`](replay::replay) |
#![forbid(unsafe_code)]

mod black_box;
mod collector;
mod entry;
pub mod frames;
mod image;
pub mod messages;
pub mod pictures;
mod read;
pub mod replay;
pub mod ring;
mod seconds;
mod segment;
mod setting;
mod write;

pub use black_box::BlackBox;
pub use collector::{Collector, SEGMENT};
pub use entry::{CHANNEL, Entry, NOTES, Note, SCHEMA, Sent, Step};
pub use image::CompressedImage;
pub use pictures::{Boxes, ExitLabels, Labels, Picture, SeenBox};
pub use read::{BYTES_MAX, End, Entries, ReadError, Recording};
pub use segment::Segment;
pub use setting::{Names, SETTING, Setting};
pub use write::{WriteError, Writer};
