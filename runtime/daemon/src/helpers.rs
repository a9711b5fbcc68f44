//! The threads that do for housekeeping what a client can make slow.

use punctual_core::ClientId;
use punctual_ipc::{AdmitError, ServerChannel};
use punctual_platform::poll::Waker;

use crate::StartupError;
use crate::blocking::BlockingPool;

/// Threads of each pool, and jobs that it may have at a time.
const STRANGERS: (u16, usize) = (2, 64);
const BUFFERS: (u16, usize) = (2, 8);
const LEAVING: (u16, usize) = (1, usize::MAX);

// What the plan counts is what is started.
const _: () = assert!(
    punctual_plan::BLOCKING_THREADS == (STRANGERS.0 + BUFFERS.0 + LEAVING.0) as u64,
    "a plan counts every thread"
);

/// What a helper has done that others wait for.
pub enum Done {
    /// A client with buffers of its own was let in, or not.
    Admitted {
        client: ClientId,
        pid: i32,
        channel: Result<ServerChannel, AdmitError>,
    },
    /// A piece of a client that is gone was dropped.
    Dropped(ClientId),
}

/// They are apart so that a client can block only those of its own kind: one that may bring no
/// buffers cannot keep those that may from being let in, and neither keeps the memory of clients
/// that are gone from being freed.
pub struct Helpers {
    /// Close and refuse connections in whose queues there may be descriptors of anybody's.
    pub strangers: BlockingPool<Done>,
    /// Receive clients' own buffers.
    pub buffers: BlockingPool<Done>,
    /// Unmap the memory of clients that are gone. What a client can make slow is never in it.
    pub leaving: BlockingPool<Done>,
}

impl Helpers {
    /// Starts them; `waker` wakes housekeeping.
    ///
    /// # Errors
    /// If a thread cannot be had.
    pub fn start(waker: &Waker) -> Result<Self, StartupError> {
        let start = |name, (threads, limit)| BlockingPool::start(name, threads, limit, waker);
        Ok(Self {
            strangers: start("strangers", STRANGERS)?,
            buffers: start("buffers", BUFFERS)?,
            leaving: start("leaving", LEAVING)?,
        })
    }

    /// What was done and not heard of yet.
    pub fn done(&mut self) -> Option<Done> {
        let done = self.leaving.outcome().or_else(|| self.buffers.outcome());
        done.or_else(|| self.strangers.outcome())
    }
}
