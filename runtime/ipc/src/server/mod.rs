//! The daemon's side of one client's channel, in parts for different threads.

mod areas;
mod buffers;
mod fault;
mod payload;
mod results;
mod submissions;

use punctual_platform::atomics::{AtomicU32, Ordering};
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use areas::OutputAreas;
pub(crate) use buffers::Buffer;
pub use fault::ChannelFault;
pub use payload::{PayloadError, PayloadReader, Rows};
pub use results::Results;
pub use submissions::Submissions;

use punctual_platform::areas::Area;

use crate::bell::ServerBell;
use crate::handshake::StreamTerms;
use crate::layout::{RequestLayout, ResultLayout};
use crate::region::Region;
use crate::slots::{FIRST_GENERATION, SlotTable};

/// An admitted client.
#[derive(Debug)]
pub struct ServerChannel {
    shared: Arc<Shared>,
    /// Until they are taken.
    areas: Vec<Area>,
}

/// What the parts have in common. Dropping a part closes the connection, and wakes whatever the client
/// has made wait for that. The thread that drops the last one unmaps the memory, which takes milliseconds:
/// hand the parts back to a thread that no other waits for.
#[derive(Debug)]
struct Shared {
    terms: StreamTerms,
    /// Nothing can be in its queue.
    socket: OwnedFd,
    bell: ServerBell,
    /// One entry an area: which generation the client has released, as its port has last seen it. The scheduler's thread
    /// reads this instead of the client's memory.
    released: Box<[AtomicU32]>,
    slots: SlotTable,
    /// Mapped read-only; the client writes.
    requests: Region,
    request_layout: RequestLayout,
    /// Mapped read-write; the client reads.
    results: Region,
    result_layout: ResultLayout,
    /// The client's own, one a slot; none: the payload is in `requests`.
    buffers: Option<Box<[Buffer]>>,
}

impl ServerChannel {
    /// Over memory that has the layout of these (checked) terms, in which the slots [are free](free_slots).
    pub(crate) fn new(
        terms: StreamTerms,
        (socket, bell): (OwnedFd, ServerBell),
        (requests, results): (Region, Region),
        buffers: Option<Box<[Buffer]>>,
        areas: Vec<Area>,
    ) -> Self {
        let shared = Shared {
            request_layout: RequestLayout::of(&terms, buffers.is_some()),
            result_layout: ResultLayout::new(terms.slots, terms.results),
            slots: SlotTable::new(terms.slots),
            terms,
            socket,
            bell,
            released: areas.iter().map(|_| AtomicU32::new(0)).collect(),
            requests,
            results,
            buffers,
        };
        Self {
            shared: Arc::new(shared),
            areas,
        }
    }

    /// The areas for outputs, once, if the terms have any: a fourth part, for the thread that decides.
    pub fn areas(&mut self) -> Option<OutputAreas> {
        let areas = std::mem::take(&mut self.areas);
        (!areas.is_empty()).then(|| OutputAreas::new(Arc::clone(&self.shared), areas))
    }

    /// Its parts, each for a thread of its own. When all are dropped, the connection is closed.
    #[must_use]
    pub fn split(self) -> (Submissions, PayloadReader, Results) {
        (
            Submissions::new(Arc::clone(&self.shared)),
            PayloadReader::new(Arc::clone(&self.shared)),
            Results::new(self.shared),
        )
    }

    /// What was agreed.
    #[must_use]
    pub fn terms(&self) -> &StreamTerms {
        &self.shared.terms
    }

    /// For a daemon that means harm to its client, in tests.
    #[cfg(not(loom))]
    pub(crate) fn results_memory(&self) -> Region {
        self.shared.results.clone()
    }
}

/// Publishes the first generation of each slot, before the client sees the memory.
pub(crate) fn free_slots(terms: &StreamTerms, results: &Region) {
    let layout = ResultLayout::new(terms.slots, terms.results);
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
    fn see_released(&self) {
        for (area, seen) in (0..).zip(&self.released) {
            let word = self.requests.word32(self.request_layout.released(area));
            // Acquire pairs with the Release in `Outputs::drop`; Release with the Acquire in `OutputAreas::released`.
            seen.store(word.load(Ordering::Acquire), Ordering::Release);
        }
    }

    /// Gives a slot back to the client, if it (still) holds this submission.
    fn release(&self, slot: u16, sequence: u64) -> bool {
        let released = self.slots.release(slot, sequence);
        if let Some(generation) = released {
            publish(&self.results, &self.result_layout, slot, generation);
        }
        released.is_some()
    }
}
