//! The part that takes descriptors in.

use std::os::fd::AsFd;
use std::sync::Arc;

use punctual_platform::atomics::{Ordering, fence};

use super::fault::ChannelFault;
use super::shared::Shared;
use crate::descriptor::{Descriptor, Expected, FIRST_SEQUENCE};
use crate::ring::{Cell, RingReader};
use crate::slots::Unavailable;
use crate::socket;

/// Rings that a client may owe its submissions. It rings after each, and rings that came while the daemon did not
/// listen become one. So when all was read, at most one ring is being handled, one is queued and one has yet to
/// come; the bound is above these three.
const RINGS_OWED_MAX: i64 = 8;

/// What a client submits, validated. Never blocks, never allocates. Dropping it closes the connection,
/// and is for a thread that no other waits for.
#[derive(Debug)]
pub struct Submissions {
    shared: Arc<Shared>,
    ring: RingReader,
    /// What the next descriptor is checked against.
    expected: Expected,
    /// Submissions that were read less rings that were heard, but not more than the bound above: a client
    /// earns no right to ring for nothing.
    rings_owed: i64,
}

impl Submissions {
    pub(super) fn new(shared: Arc<Shared>, tasks: u16) -> Self {
        let terms = &shared.terms;
        let ring = RingReader::new(shared.requests.clone(), shared.request_layout.submissions);
        let (format, crop_max) = (terms.frame.format, terms.crop_max());
        Self {
            expected: Expected {
                tasks,
                ..Expected::first(terms.stream, terms.slots, format, crop_max)
            },
            ring,
            // The first, which says that the client has mapped its memory.
            rings_owed: 1,
            shared,
        }
    }

    /// The next submission; none once all were read. Its slot is taken until it is released by
    /// [`PayloadReader::release`](super::PayloadReader::release) or
    /// [`Results::push`](super::Results::push).
    ///
    /// Each time that the client rings, all of them must be read: the ring is not repeated. A caller that stops
    /// after a few, so that one client does not delay the others, comes back by itself.
    ///
    /// # Errors
    /// If the client broke the protocol; then this part is of no further use, and to be dropped.
    pub fn poll(&mut self) -> Result<Option<Descriptor>, ChannelFault> {
        let cell = self.ring.pop().map_err(ChannelFault::Submissions)?;
        cell.map(|cell| self.accept(&cell)).transpose()
    }

    /// The client has rung, as the poller says. Each ring must follow a submission of its own, or a
    /// client could keep this thread busy by ringing.
    ///
    /// # Errors
    /// If it rings for nothing; as for [`poll`](Self::poll).
    pub fn rung(&mut self) -> Result<(), ChannelFault> {
        self.rings_owed -= 1;
        let waiting = self.ring.waiting().map_err(ChannelFault::Submissions)?;
        match self.rings_owed + i64::from(waiting) {
            0.. => Ok(()),
            _ => Err(ChannelFault::Doorbell),
        }
    }

    /// Whether there was ever a valid submission.
    #[must_use]
    pub fn has_submitted(&self) -> bool {
        self.expected.sequence > FIRST_SEQUENCE
    }

    /// Tells the client whether this thread looks by itself, so that it spares the ringing. Before sleeping:
    /// `attend(false)`, then [`poll`](Self::poll) until there is nothing; so no submission is missed.
    pub fn attend(&self, attentive: bool) {
        let word = self.shared.result_layout.attentive;
        let word = self.shared.results.word32(word);
        // Relaxed: partner of the load in `ClientChannel::is_daemon_attentive`; the fences order both.
        word.store(attentive.into(), Ordering::Relaxed);
        // Pairs with the fence in `ClientChannel::submit`: either it sees that the daemon does not poll, and
        // rings, or the next poll sees its submission.
        fence(Ordering::SeqCst);
    }

    /// Notes which areas the client has released; each [`poll`](Self::poll) that takes a submission does.
    #[doc(hidden)]
    pub fn see_released(&self) {
        self.shared.see_released();
    }

    /// How many slots hold a submission that was not released yet.
    #[must_use]
    pub fn slots_in_use(&self) -> usize {
        self.shared.slots.in_use()
    }

    fn accept(&mut self, cell: &Cell) -> Result<Descriptor, ChannelFault> {
        let (descriptor, generation) = Descriptor::decode(cell, &self.expected)?;
        let slot = descriptor.slot;
        self.check_results_read(descriptor.sequence)?;
        let taken = self.shared.slots.take(&descriptor, generation);
        taken.map_err(|unavailable| match unavailable {
            Unavailable::InUse => ChannelFault::SlotInUse { slot },
            Unavailable::Stale { current } => ChannelFault::StaleSlot {
                slot,
                found: generation,
                current,
            },
        })?;
        self.expected.sequence += 1;
        // Before the scheduler's thread reserves an area for this submission.
        self.shared.see_released();
        self.rings_owed = (self.rings_owed + 1).min(RINGS_OWED_MAX);
        Ok(descriptor)
    }

    /// There must be room for this submission's records.
    fn check_results_read(&self, sequence: u64) -> Result<(), ChannelFault> {
        let layout = &self.shared.request_layout;
        let read = self.shared.requests.word32(layout.verdicts_taken);
        // Relaxed: a number that is checked, not a promise about other memory.
        let unread = (sequence as u32).wrapping_sub(read.load(Ordering::Relaxed));
        let capacity = self.shared.terms.results;
        if unread > capacity {
            return Err(ChannelFault::ResultsUnread { unread, capacity });
        }
        Ok(())
    }

    #[cfg(all(loom, test))]
    pub(crate) fn wait_for_ring(&self) {
        self.shared.bell.wait();
    }
}

#[cfg(not(loom))]
impl Submissions {
    /// Has `poller` report as `token`: readable each time that the client [rings](Self::rung), hung
    /// up once it is gone.
    ///
    /// # Errors
    /// When out of kernel memory; then it is not watched at all.
    pub fn watch(
        &self,
        poller: &punctual_platform::poll::Poller,
        token: u64,
    ) -> Result<(), punctual_platform::OsError> {
        poller.add_hang_up(self.shared.socket.as_fd(), token)?;
        // By edges, which need no reading: a read of the event could block or wake the client's threads.
        let added = poller.add_edge(self.shared.bell.as_fd(), token);
        if added.is_err() {
            self.unwatch(poller);
        }
        added
    }

    /// Ends [`watch`](Self::watch), if it was watched.
    pub fn unwatch(&self, poller: &punctual_platform::poll::Poller) {
        // They fail only for what was not watched.
        let _ = poller.remove(self.shared.bell.as_fd());
        let _ = poller.remove(self.shared.socket.as_fd());
    }
}

impl Drop for Submissions {
    fn drop(&mut self) {
        socket::hang_up(self.shared.socket.as_fd());
    }
}
