//! How the daemon wakes a client: by futex, or over the socket for one that waits on descriptors.

use punctual_platform::atomics::{Ordering, fence};
use std::os::fd::AsFd;

use super::{ClientChannel, Disconnected};
use crate::socket::{self, HungUp};

/// What the client's word `sleeping` says: it looks for results by itself.
pub(crate) const AWAKE: u32 = 0;
/// It sleeps on the bell: wake it by futex.
pub(crate) const ASLEEP_ON_BELL: u32 = 1;
/// It waits on descriptors: send it a byte over the socket.
pub(crate) const ASLEEP_ON_SOCKET: u32 = 2;

impl ClientChannel {
    /// Asks the daemon to ring over the socket when there is a result, so that the channel's
    /// descriptor becomes readable. `seen` is the [bell](Self::bell) before results were last
    /// looked for; false if it has rung since, so that there may be more already.
    ///
    /// # Errors
    /// If the daemon is gone. Results that it pushed before can still be taken.
    pub fn arm(&self, seen: u32) -> Result<bool, Disconnected> {
        // Old rings would make the descriptor readable for nothing.
        while socket::take_ring(self.socket.as_fd()).map_err(|HungUp| Disconnected::HungUp)? {}
        let sleeping = self.requests.word32(self.request_layout.sleeping);
        let bell = self.results.word32(self.result_layout.bell);
        sleeping.store(ASLEEP_ON_SOCKET, Ordering::Relaxed);
        // Pairs with the fence in `Results::ring_bell`, as in `wait`.
        fence(Ordering::SeqCst);
        if bell.load(Ordering::Acquire) == seen {
            return Ok(true);
        }
        self.disarm();
        Ok(false)
    }

    /// The client looks for results by itself again: spares the daemon the ringing.
    pub fn disarm(&self) {
        let sleeping = self.requests.word32(self.request_layout.sleeping);
        // Relaxed: a ring too many does no harm.
        sleeping.store(AWAKE, Ordering::Relaxed);
    }
}
