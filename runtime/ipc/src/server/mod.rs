//! The daemon's side of one client's channel, in parts for different threads.

mod areas;
mod buffers;
mod fault;
mod payload;
mod results;
mod shared;
mod submissions;

use punctual_platform::atomics::AtomicU32;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use areas::OutputAreas;
pub(crate) use buffers::Buffer;
pub use buffers::Rows;
pub use fault::ChannelFault;
pub use payload::{PayloadError, PayloadReader};
pub use results::Results;
use shared::Shared;
pub(crate) use shared::free_slots;
pub use submissions::Submissions;

use punctual_platform::areas::Area;
use punctual_types::FrameMemory;

use crate::bell::ServerBell;
use crate::handshake::StreamTerms;
use crate::layout::{RequestLayout, ResultLayout};
use crate::region::Region;
use crate::slots::SlotTable;

/// An admitted client.
#[derive(Debug)]
pub struct ServerChannel {
    shared: Arc<Shared>,
    /// Until they are taken.
    areas: Vec<Area>,
    /// How many tasks its submissions can name.
    tasks: u16,
}

impl ServerChannel {
    /// Over memory that has the layout of these (checked) terms, in which the slots [are free](free_slots).
    pub(crate) fn new(
        terms: StreamTerms,
        socket: OwnedFd,
        bell: ServerBell,
        requests: Region,
        results: Region,
        buffers: Option<Box<[Buffer]>>,
        areas: Vec<Area>,
    ) -> Self {
        let shared = Shared {
            request_layout: RequestLayout::of(&terms, buffers.is_some()),
            result_layout: ResultLayout::of(&terms),
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
            tasks: 0,
        }
    }

    /// For a client whose submissions name one of this number of tasks.
    pub(crate) fn for_tasks(self, tasks: u16) -> Self {
        Self { tasks, ..self }
    }

    /// The areas for outputs, once, if the terms have any: a fourth part, for the thread that decides.
    pub fn areas(&mut self) -> Option<OutputAreas> {
        let areas = std::mem::take(&mut self.areas);
        (!areas.is_empty()).then(|| OutputAreas::new(Arc::clone(&self.shared), areas))
    }

    /// Where the client's frames lie, as far as that memory stays.
    #[must_use]
    pub fn frame_memory(&self) -> Vec<FrameMemory> {
        match &self.shared.buffers {
            Some(buffers) => buffers.iter().filter_map(Buffer::frame_memory).collect(),
            None => vec![self.shared.requests.held().into()],
        }
    }

    /// Its parts, each for a thread of its own. When all are dropped, the connection is closed.
    #[must_use]
    pub fn split(self) -> (Submissions, PayloadReader, Results) {
        (
            Submissions::new(Arc::clone(&self.shared), self.tasks),
            PayloadReader::new(Arc::clone(&self.shared)),
            Results::new(self.shared),
        )
    }

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
