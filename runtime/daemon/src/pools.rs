//! The threads that do for housekeeping what a client can make slow.

use punctual_core::ClientId;
use punctual_ipc::{AdmitError, ServerChannel};
use punctual_platform::poll::Waker;

use crate::StartupError;
use crate::blocking::BlockingPool;

/// Connections that are not clients (yet): in their handshake, or with the pools.
pub const STRANGERS_MAX: usize = 96;

/// Readers of metrics that are answered, beyond those.
pub const READERS_MAX: usize = 4;

/// Clients that bring buffers of their own at a time.
const BUFFERS_MAX: usize = 8;

const STRANGERS: u16 = 2;
const OPENINGS: u16 = 1;
const BUFFERS: u16 = 2;
const LEAVING: u16 = 1;

// The plan counts the memory of each thread, so both numbers must be the same.
const _: () = assert!(
    punctual_plan::BLOCKING_THREADS == (STRANGERS + OPENINGS + BUFFERS + LEAVING) as u64,
    "a plan counts every thread"
);

/// What a pool has done that others wait for.
pub enum Done {
    /// A client was admitted, or not.
    Admitted {
        client: ClientId,
        pid: i32,
        channel: Result<ServerChannel, AdmitError>,
    },
    /// A piece of a client that is gone was dropped.
    Dropped(ClientId),
}

/// They are apart so that a client can block only those of its own kind: one that may bring no
/// buffers cannot keep those that may from being admitted, and neither keeps the memory of clients
/// that are gone from being freed.
pub struct Pools {
    /// Close and refuse connections in whose queues there may be descriptors of any process.
    pub strangers: BlockingPool<Done>,
    /// Make the memory of clients that come, which takes a while where frames are large. Each holds a place of the plan, so
    /// they are few.
    pub openings: BlockingPool<Done>,
    /// The same for clients that bring buffers of their own, and receive those.
    pub buffers: BlockingPool<Done>,
    /// Unmap the memory of clients that are gone. What a client can make slow is never in it.
    pub leaving: BlockingPool<Done>,
    /// How many connections there may be that are not clients: descriptors are needed elsewhere, too.
    strangers_max: usize,
}

impl Pools {
    /// Starts them, for so many connections that are not clients; `waker` wakes housekeeping.
    pub fn start(waker: &Waker, strangers_max: usize) -> Result<Self, StartupError> {
        let limit = strangers_max + READERS_MAX;
        Ok(Self {
            strangers: BlockingPool::start("strangers", STRANGERS, limit, waker)?,
            openings: BlockingPool::start("openings", OPENINGS, usize::MAX, waker)?,
            buffers: BlockingPool::start("buffers", BUFFERS, BUFFERS_MAX, waker)?,
            leaving: BlockingPool::start("leaving", LEAVING, usize::MAX, waker)?,
            strangers_max,
        })
    }

    /// Whether there may be another connection beside those `in_handshake`.
    pub fn have_room_beside(&self, in_handshake: usize) -> bool {
        in_handshake + self.strangers.pending() < self.strangers_max
    }

    /// Results of jobs that are not collected yet.
    pub fn done(&mut self) -> Option<Done> {
        let done = self.leaving.outcome().or_else(|| self.openings.outcome());
        let done = done.or_else(|| self.buffers.outcome());
        done.or_else(|| self.strangers.outcome())
    }
}
