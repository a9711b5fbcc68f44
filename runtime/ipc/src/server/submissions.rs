//! The ingress's part: descriptors in.

use punctual_platform::atomics::{Ordering, fence};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::{ChannelFault, Shared};
use crate::descriptor::{Descriptor, Expected};
use crate::ring::{Cell, RingReader};
use crate::slots::Unavailable;
use crate::socket::{self, HungUp};

/// What a client submits, validated. Never blocks, never allocates.
#[derive(Debug)]
pub struct Submissions {
    shared: Arc<Shared>,
    ring: RingReader,
    /// What the next descriptor is checked against.
    expected: Expected,
    /// How often the client has rung.
    rings: u64,
}

impl Submissions {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let terms = &shared.terms;
        let crop = (terms.crop_width, terms.crop_height);
        let ring = RingReader::new(shared.requests.clone(), shared.request_layout.submissions);
        Self {
            expected: Expected::first(terms.stream, terms.slots, &terms.frame, crop),
            ring,
            rings: 0,
            shared,
        }
    }

    /// The next submission; none once all were read and the doorbell is silent, so that sleeping
    /// on [`as_fd`](AsFd::as_fd) misses nothing. Its slot is taken until it is released by
    /// [`PayloadReader::release`](super::PayloadReader::release) or
    /// [`Results::push`](super::Results::push).
    ///
    /// One client must not keep the others waiting: it is safe to stop after a few, since
    /// [`as_fd`](AsFd::as_fd) stays readable as long as something is unread.
    ///
    /// # Errors
    /// If the client is gone or broke the protocol; then it has been hung up on, and this part is
    /// of no further use.
    pub fn poll(&mut self) -> Result<Option<Descriptor>, ChannelFault> {
        self.next().map_err(|fault| self.shared.disconnect(fault))
    }

    /// The next submission, as far as memory says: no system call, for an ingress that looks again and
    /// again and has [said so](Self::attend). A client's death goes unnoticed: [`poll`](Self::poll) now
    /// and then.
    ///
    /// # Errors
    /// As for [`poll`](Self::poll).
    pub fn look(&mut self) -> Result<Option<Descriptor>, ChannelFault> {
        let cell = self.ring.pop().map_err(ChannelFault::Submissions);
        cell.and_then(|cell| cell.map(|cell| self.accept(&cell)).transpose())
            .map_err(|fault| self.shared.disconnect(fault))
    }

    /// Tells the client whether the ingress looks by itself, so that it spares the ringing. Before
    /// sleeping on [`as_fd`](AsFd::as_fd): `attend(false)`, then [`poll`](Self::poll) until there is
    /// nothing; so no submission is missed.
    pub fn attend(&self, attentive: bool) {
        let word = self.shared.result_layout.attentive;
        let word = self.shared.results.word32(word);
        word.store(attentive.into(), Ordering::Relaxed);
        // Pairs with the fence in `ClientChannel::submit`: either it sees that nobody looks, and
        // rings, or the next poll sees its submission.
        fence(Ordering::SeqCst);
    }

    /// How many slots hold a submission that was not released yet.
    #[must_use]
    pub fn slots_in_use(&self) -> usize {
        self.shared.slots.in_use()
    }

    fn next(&mut self) -> Result<Option<Descriptor>, ChannelFault> {
        loop {
            if let Some(cell) = self.ring.pop().map_err(ChannelFault::Submissions)? {
                return self.accept(&cell).map(Some);
            }
            // One at a time and only now: the ring of what is unread stays in the socket.
            if !self.take_ring()? {
                return Ok(None);
            }
        }
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
        Ok(descriptor)
    }

    /// There must be room for this submission's result, so that the egress always has some.
    fn check_results_read(&self, sequence: u64) -> Result<(), ChannelFault> {
        let layout = &self.shared.request_layout;
        let read = self.shared.requests.word32(layout.results_taken);
        // Relaxed: a number that is checked, not a promise about other memory.
        let unread = (sequence as u32).wrapping_sub(read.load(Ordering::Relaxed));
        let capacity = self.shared.terms.results;
        if unread > capacity {
            return Err(ChannelFault::ResultsUnread { unread, capacity });
        }
        Ok(())
    }

    /// Takes one ring off the socket. Each must follow a submission of its own, or a client could
    /// keep this thread busy by ringing.
    fn take_ring(&mut self) -> Result<bool, ChannelFault> {
        let socket = self.shared.socket.as_fd();
        let rung = socket::take_ring(socket).map_err(|HungUp| ChannelFault::HungUp)?;
        if rung {
            self.rings += 1;
            let waiting = self.ring.waiting().map_err(ChannelFault::Submissions)?;
            let submissions = self.expected.sequence - 1 + u64::from(waiting);
            if self.rings > submissions {
                return Err(ChannelFault::Doorbell {
                    rings: self.rings,
                    submissions,
                });
            }
        }
        Ok(rung)
    }
}

impl AsFd for Submissions {
    /// Readable when the client has rung; hung up when it is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}
