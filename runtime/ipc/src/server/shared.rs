//! What the parts of a channel have in common.

use std::os::fd::OwnedFd;

use punctual_platform::atomics::{AtomicU32, Ordering};

use super::buffers::Buffer;
use crate::bell::ServerBell;
use crate::handshake::StreamTerms;
use crate::layout::{RequestLayout, ResultLayout};
use crate::region::Region;
use crate::slots::{FIRST_GENERATION, SlotTable};

/// What the parts have in common. Dropping a part closes the connection, and wakes whatever the client
/// has made wait for that. The thread that drops the last one unmaps the memory, which takes milliseconds:
/// hand the parts back to a thread that no other waits for.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) terms: StreamTerms,
    /// Nothing can be in its queue.
    pub(super) socket: OwnedFd,
    pub(super) bell: ServerBell,
    /// One entry an area: which generation the client has released, as its port has last seen it. The scheduler's thread
    /// reads this instead of the client's memory.
    pub(super) released: Box<[AtomicU32]>,
    pub(super) slots: SlotTable,
    /// Mapped read-only; the client writes.
    pub(super) requests: Region,
    pub(super) request_layout: RequestLayout,
    /// Mapped read-write; the client reads.
    pub(super) results: Region,
    pub(super) result_layout: ResultLayout,
    /// The client's own, one a slot; none: the payload is in `requests`.
    pub(super) buffers: Option<Box<[Buffer]>>,
}

/// Publishes the first generation of each slot, before the client sees the memory.
pub(crate) fn free_slots(terms: &StreamTerms, results: &Region) {
    let layout = ResultLayout::of(terms);
    for slot in 0..terms.slots {
        publish(results, &layout, slot, FIRST_GENERATION);
    }
}

fn publish(results: &Region, layout: &ResultLayout, slot: u16, generation: u32) {
    let word = results.word32(layout.generation(slot));
    // Release pairs with the Acquire in `ClientChannel::reclaim`: our reading of the payload is over before the client
    // writes the next.
    word.store(generation, Ordering::Release);
}

impl Shared {
    /// Notes which areas the client has released.
    pub(super) fn see_released(&self) {
        for (area, seen) in (0..).zip(&self.released) {
            let word = self.requests.word32(self.request_layout.released(area));
            // Acquire pairs with the Release in `Outputs::drop`; Release with the Acquire in `OutputAreas::released`.
            seen.store(word.load(Ordering::Acquire), Ordering::Release);
        }
    }

    /// Gives a slot back to the client, if it (still) holds this submission.
    pub(super) fn release(&self, slot: u16, sequence: u64) -> bool {
        let released = self.slots.release(slot, sequence);
        if let Some(generation) = released {
            publish(&self.results, &self.result_layout, slot, generation);
        }
        released.is_some()
    }
}
