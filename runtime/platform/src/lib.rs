//! What Punctual needs of Linux (5.10 and later), with the `unsafe` kept in here.
//!
//! | module | what it gives |
//! |---|---|
//! | [`clock`] | the one clock: `CLOCK_MONOTONIC` in nanoseconds |
//! | [`doorbell`], [`futex`] | waking threads of this process; waiting on a word of shared memory |
//! | [`atomics`] | what those are made of, and what a model checker puts in their place |
//! | [`thread`], [`affinity`] | pinned, prioritised threads, and what was missing to make them so |
//! | [`memory`], [`shared_memory`] | locking, pre-faulting; sealed memory files and mappings |
//! | [`zeros`] | memory of this process for real-time threads |
//! | [`areas`], [`pinned`] | memory that this process writes and others only read; pages that no other process can have moved |
//! | [`paging`] | memory taken once and shown at the addresses where it is needed |
//! | [`allocator`] | the allocator that counts what must not happen after the ready signal |
//! | [`poll`], [`event`], [`timer`], [`signals`], [`service`] | epoll with a waker, events and times to wait for with it, signals, the service manager |
//! | [`interrupt`], [`timed`] | a bound on how long a call may sleep; streams that are read and written in a bounded time |
//! | [`logging`], [`rt_log`] | the log of ordinary threads, by the `log` facade; the log of real-time threads |
//! | [`journal`], [`line_writer`] | log entries with fields; lines for a descriptor whose reader may have stopped |
//! | [`files`], [`mapped_file`] | files that a reader never sees half of; files read without a copy |
//! | [`read`], [`output`] | files of a user's, of bounded size and regular; standard output that may end |
//! | [`v4l2`] | frames of a Video4Linux2 camera |
//! | [`faults`], [`stall`] | page faults, and stalls of the machine itself |
//! | [`capabilities`] | rights that only the start needs |
//! | [`limits`], [`control_group`] | what this process may have of memory and files |
//! | [`socket_path`] | paths of sockets, removed only by the process that made them |
//! | [`heartbeat`], [`running`] | how a thread shows that it lives; whether the machine runs it |
//! | [`rivals`] | real-time threads of other processes |
//! | [`idle`] | keeping cores from deep idle states |
//! | [`settings`] | governor, frequencies, boost and power mode, from the kernel's files |
//!
//! Times are nanoseconds of [`clock::now_ns`] everywhere; a time limit is always absolute.

pub mod affinity;
pub mod allocator;
pub mod areas;
pub mod atomics;
pub mod capabilities;
pub mod clock;
pub mod control_group;
pub mod dma_buf;
pub mod doorbell;
mod error;
pub mod event;
pub mod faults;
pub mod files;
#[cfg(not(loom))]
pub mod futex;
#[cfg(loom)]
#[path = "futex_model.rs"]
pub mod futex;
pub mod heartbeat;
pub mod idle;
pub mod interrupt;
pub mod journal;
pub mod limits;
pub mod line_writer;
pub mod logging;
pub mod mapped_file;
pub mod memory;
pub mod output;
pub mod paging;
pub mod peer;
pub mod pinned;
pub mod poll;
pub mod process_start;
pub mod read;
pub mod rivals;
pub mod rt_log;
pub mod running;
pub mod service;
pub mod settings;
pub mod shared_memory;
pub mod signals;
pub mod socket_path;
pub mod stall;
pub mod termination;
pub mod thread;
pub mod timed;
pub mod timer;
pub mod v4l2;
pub mod zeros;

pub use allocator::SealedAllocator;
pub use doorbell::Doorbell;
pub use error::{Missing, OsError};
pub use mapped_file::MappedFile;
