//! The threads that do for housekeeping what a client can make slow.

use punctual_core::ClientId;
use punctual_device::frames::FramesCopied;
use punctual_ipc::{AdmitError, ServerChannel};
use punctual_platform::poll::Waker;

use crate::StartupError;
use crate::blocking::BlockingPool;

/// Connections that are not clients (yet): in their handshake, or with the pools.
pub const STRANGERS_MAX: usize = 96;

/// Readers of metrics that are answered, beyond those.
pub const READERS_MAX: usize = 4;

const STRANGERS: u16 = punctual_plan::STRANGER_THREADS as u16;

/// What a pool has done that others wait for.
pub enum Done {
    /// A client was admitted, or not.
    Admitted {
        client: ClientId,
        pid: i32,
        channel: Result<ServerChannel, AdmitError>,
        /// Why the GPU does not read its frames where they lie.
        copied: Option<FramesCopied>,
    },
    /// A piece of a client that is gone was dropped.
    Dropped(ClientId),
}

/// Two pools, so that connections that are no clients delay no client.
pub struct Pools {
    /// Close and refuse connections: in their queues there may be descriptors of any process, and thousands may wait for them.
    pub strangers: BlockingPool<Done>,
    /// Make the memory of clients that come, receive the buffers that they bring, and unmap the memory of those that are gone.
    /// One thread for each place of the plan, and a place has one client at a time: a client that blocks a thread occupies its
    /// own place meanwhile, and enough threads are left for all others.
    pub places: BlockingPool<Done>,
    /// How many connections there may be that are not clients: descriptors are needed elsewhere, too.
    strangers_max: usize,
}

impl Pools {
    /// Starts them, for `places` places and `strangers_max` connections that are not clients; `waker` wakes housekeeping.
    pub fn start(waker: &Waker, places: u16, strangers_max: usize) -> Result<Self, StartupError> {
        let limit = strangers_max + READERS_MAX;
        Ok(Self {
            strangers: BlockingPool::start("strangers", STRANGERS, limit, waker)?,
            places: BlockingPool::start("places", places, usize::MAX, waker)?,
            strangers_max,
        })
    }

    /// Whether there may be another connection in addition to those `in_handshake`.
    pub fn have_room_beside(&self, in_handshake: usize) -> bool {
        in_handshake + self.strangers.pending() < self.strangers_max
    }

    /// Results of jobs that are not collected yet.
    pub fn done(&mut self) -> Option<Done> {
        let done = self.places.outcome();
        done.or_else(|| self.strangers.outcome())
    }
}
