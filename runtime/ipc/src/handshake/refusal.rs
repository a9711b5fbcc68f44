//! Why the daemon refused a client.

use serde::{Deserialize, Serialize};

use crate::frame::{FrameError, PixelFormat};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The manifest has no such task.
    #[error("the manifest has no task {task:?}")]
    UnknownTask { task: String },
    /// The task looks at parts of frames that are submitted to another.
    #[error(
        "task {task:?} looks at crops of frames that are submitted to {first:?}: connect to that"
    )]
    NotSubmittedTo { task: String, first: String },
    /// The client would send frames in another format than the manifest says.
    #[error("this task takes {expected:?} frames")]
    Format {
        /// The manifest's.
        expected: PixelFormat,
    },
    /// The client's own layout cannot be.
    #[error("the client's layout: {0}")]
    Layout(FrameError),
    /// The client's own layout takes more memory than the manifest gives a slot.
    #[error(
        "a frame of {bytes} bytes in the client's layout, a slot has {limit} (`stride` in the manifest)"
    )]
    LayoutTooLarge { bytes: u64, limit: u64 },
    /// The client's buffers cannot be imported.
    #[error("the client's buffers: {0}")]
    Buffers(BufferRefusal),
    /// The manifest does not name this user, nor a group of its.
    #[error("user {uid}, group {gid} may not feed this task (`allow` in the manifest)")]
    NotAllowed { uid: u32, gid: u32 },
    /// The client's process has as many streams as one may have.
    #[error("this process has {limit} streams already (`streams_per_process` in the manifest)")]
    StreamsOfProcess { limit: u16 },
    /// Every place is taken.
    #[error("all {clients} places of this task are taken (`clients` in the manifest)")]
    Full {
        /// How many the manifest has.
        clients: u16,
    },
    /// The daemon is shutting down.
    #[error("the daemon is shutting down")]
    Draining,
    /// Memory or descriptors are unavailable.
    #[error("the daemon is out of memory or file descriptors")]
    Resources,
    /// The opening could not be read.
    #[error("the daemon could not read the client's opening message")]
    Malformed,
    /// Too much memory was made for clients of this user that came to nothing.
    #[error(
        "clients of user {uid} that were gone before they had submitted a frame took {limit_mib} MiB within a second: wait for a second"
    )]
    Unfinished {
        uid: u32,
        /// How much it may be in a second, in MiB.
        limit_mib: u32,
    },
}

/// Why buffers of a client cannot be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum BufferRefusal {
    /// The manifest does not want them.
    #[error("this task does not import client buffers (`import_buffers` in the manifest)")]
    NotWanted,
    /// More than there can be slots.
    #[error("{given} of them, this task has {slots} slots (`slots` in the manifest)")]
    TooMany {
        given: u16,
        /// The most.
        slots: u16,
    },
    /// Another number came than was announced, or the daemon has no descriptors left.
    #[error("{announced} were announced and {attached} received")]
    Count {
        /// As the opening says.
        announced: u16,
        /// As received.
        attached: u16,
    },
    /// Something else than memory.
    #[error("number {buffer} is neither a memory file nor a DMA-BUF")]
    Kind { buffer: u16 },
    /// A memory file that its owner could shorten.
    #[error("number {buffer} is a memory file without F_SEAL_SHRINK")]
    Unsealed { buffer: u16 },
    /// It cannot be read or mapped by the daemon.
    #[error("number {buffer} cannot be read by the daemon")]
    Unreadable { buffer: u16 },
    /// A frame does not fit.
    #[error("number {buffer} has {bytes} bytes, a frame takes {needed}")]
    TooSmall {
        buffer: u16,
        bytes: u64,
        /// What the frame's layout takes.
        needed: u64,
    },
}
