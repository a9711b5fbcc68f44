//! The part that gives results out.

use std::os::fd::AsFd;
use std::sync::Arc;

use punctual_platform::atomics::{Ordering, fence};
use punctual_platform::futex::{self, Scope};

use super::fault::ChannelFault;
use super::shared::Shared;
use crate::client::{ASLEEP_FOR_VERDICTS, AWAKE};
use crate::result::ResultRecord;
use crate::ring::{PositionError, RingWriter};
use crate::socket;

/// The most threads of a client that the daemon wakes: the one that takes results, and the one behind its
/// descriptor. A hostile client can have thousands of waiters, and a thread that wakes them would spend its time on it.
const WAITERS_MAX: u32 = 2;

/// What a client is told. Never blocks, never allocates. Dropping it closes the connection,
/// which can still read what was pushed, and is for a thread that no other waits for.
#[derive(Debug)]
pub struct Results {
    shared: Arc<Shared>,
    ring: RingWriter,
    /// How often the client was rung, modulo 2^32.
    bell: u32,
}

impl Results {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let ring = RingWriter::new(shared.results.clone(), shared.result_layout.results);
        Self {
            shared,
            ring,
            bell: 0,
        }
    }

    /// Gives the submission's slot back with its verdict, if that was not done before, and tells the client what
    /// becomes of it. There is room: [`Submissions::poll`](super::Submissions::poll) takes nothing
    /// for whose result there is none.
    ///
    /// # Errors
    /// If the client's position is impossible: the result goes nowhere, and the client must be ended. The slot is given
    /// back all the same.
    pub fn push(&mut self, record: &ResultRecord) -> Result<(), ChannelFault> {
        // First: a client that has seen the verdict finds the slot free.
        if record.is_final {
            self.shared.release(record.slot, record.sequence);
        }
        let taken = self.shared.request_layout.results_taken;
        // Acquire pairs with the Release in `ClientChannel::take`: it has read the cells before.
        let taken = self.shared.requests.word32(taken).load(Ordering::Acquire);
        match self.ring.push(&record.encode(), taken) {
            Ok(true) => {
                self.ring_bell(record.is_final);
                Ok(())
            }
            Ok(false) => Err(self.full(taken)),
            Err(error) => Err(ChannelFault::Results(error)),
        }
    }

    /// Its position went backwards, or it would have room.
    fn full(&self, taken: u32) -> ChannelFault {
        let capacity = self.shared.terms.result_cells();
        ChannelFault::Results(PositionError {
            theirs: taken,
            ours: taken.wrapping_add(capacity),
            capacity,
        })
    }

    fn ring_bell(&mut self, for_verdict: bool) {
        self.bell = self.bell.wrapping_add(1);
        let bell = self.shared.results.word32(self.shared.result_layout.bell);
        // Release pairs with the Acquire in `ClientChannel::bell`: the result is there.
        bell.store(self.bell, Ordering::Release);
        // Pairs with the fence in `ClientChannel::set_asleep`: either its flag is seen here, or it (or the kernel)
        // sees the new count.
        fence(Ordering::SeqCst);
        let sleeping = self.shared.request_layout.sleeping;
        let sleeping = self.shared.requests.word32(sleeping);
        // Relaxed: partner of the store in `ClientChannel::set_asleep`; the fences order both.
        let waits = match sleeping.load(Ordering::Relaxed) {
            AWAKE => false,
            ASLEEP_FOR_VERDICTS => for_verdict,
            _ => true,
        };
        if waits {
            futex::wake(std::ptr::from_ref(bell), WAITERS_MAX, Scope::Machine);
        }
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        socket::hang_up(self.shared.socket.as_fd());
        self.ring_bell(true);
    }
}
