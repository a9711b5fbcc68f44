//! Why a client was not let in.

use serde::{Deserialize, Serialize};

use crate::frame::{FrameError, PixelFormat};

/// Why a client was not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The manifest has no such task.
    #[error("the manifest has no task {task:?}")]
    UnknownTask {
        /// What the client asked for.
        task: String,
    },
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
    LayoutTooLarge {
        /// What it takes.
        bytes: u64,
        /// What there is.
        limit: u64,
    },
    /// The manifest does not name this user, nor a group of its.
    #[error("user {uid}, group {gid} may not feed this task (`allow` in the manifest)")]
    NotAllowed {
        /// The peer's user.
        uid: u32,
        /// The peer's group.
        gid: u32,
    },
    /// The client's process has as many streams as one may have.
    #[error("this process has {limit} streams already (`streams_per_process` in the manifest)")]
    StreamsOfProcess {
        /// The most.
        limit: u16,
    },
    /// Every place is taken.
    #[error("all {clients} places of this task are taken (`clients` in the manifest)")]
    Full {
        /// How many the manifest has.
        clients: u16,
    },
    /// The daemon is shutting down.
    #[error("the daemon is shutting down")]
    Draining,
    /// Memory or descriptors could not be had.
    #[error("the daemon is out of memory or file descriptors")]
    Resources,
    /// The opening could not be read.
    #[error("the daemon could not read the client's opening message")]
    Malformed,
}
