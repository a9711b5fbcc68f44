//! The areas for outputs: which are free, and which are the client's.

use std::sync::Arc;

use punctual_platform::areas::Area;
use punctual_platform::atomics::Ordering;

use super::shared::Shared;
use crate::result::HandedOver;

/// The areas of one client, for the thread that decides. Never blocks, never allocates. Dropping it unmaps memory, and is
/// for a thread that no other waits for.
///
/// An area goes the way [`reserve`](Self::reserve), [`lend`](Self::lend), [`hand_over`](Self::hand_over), and
/// [`put_back`](Self::put_back) before or after that. It is free once it is back and the client has released it.
#[derive(Debug)]
pub struct OutputAreas {
    shared: Arc<Shared>,
    places: Box<[Place]>,
}

#[derive(Debug)]
struct Place {
    /// None while it is lent.
    area: Option<Area>,
    /// For a submission that was not answered yet.
    reserved: bool,
    /// How often it was handed over, modulo 2^32.
    generation: u32,
    /// Whether it ever was: before that, the client has nothing to release.
    handed_over: bool,
}

impl OutputAreas {
    pub(super) fn new(shared: Arc<Shared>, areas: Vec<Area>) -> Self {
        let place = |area| Place {
            area: Some(area),
            reserved: false,
            generation: 0,
            handed_over: false,
        };
        Self {
            shared,
            places: areas.into_iter().map(place).collect(),
        }
    }

    /// A free area for a submission; none if the client holds all.
    pub fn reserve(&mut self) -> Option<u16> {
        let free = (0..self.places.len()).find(|&at| self.is_free(at))?;
        self.places[free].reserved = true;
        Some(free as u16)
    }

    /// Whatever a client writes can only free an area of its own too early.
    fn is_free(&self, at: usize) -> bool {
        let place = &self.places[at];
        place.area.is_some()
            && !place.reserved
            && (!place.handed_over || self.released(at as u16) == place.generation)
    }

    fn released(&self, area: u16) -> u32 {
        // Acquire pairs with the Release in `Submissions::see_released`: the client has read the area before it is written
        // again.
        self.shared.released[usize::from(area)].load(Ordering::Acquire)
    }

    /// The memory of a reserved area, for a request buffer; none if it is lent already.
    pub fn lend(&mut self, area: u16) -> Option<Area> {
        self.places[usize::from(area)].area.take()
    }

    /// Its memory is here again.
    pub fn put_back(&mut self, area: u16, memory: Area) {
        self.places[usize::from(area)].area = Some(memory);
    }

    /// The submission is over without outputs: the area is free once it is back.
    pub fn cancel(&mut self, area: u16) {
        self.places[usize::from(area)].reserved = false;
    }

    /// The submission is over, and the area is the client's until it releases it.
    pub fn hand_over(&mut self, area: u16) -> HandedOver {
        let place = &mut self.places[usize::from(area)];
        place.reserved = false;
        place.handed_over = true;
        place.generation = place.generation.wrapping_add(1);
        HandedOver {
            area,
            generation: place.generation,
        }
    }

    #[must_use]
    pub fn are_all_back(&self) -> bool {
        self.places.iter().all(|place| place.area.is_some())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::internals::{Fields, pair_with_outputs};

    #[test]
    fn an_area_goes_round_and_waits_for_its_client() {
        let (mut server, client) = pair_with_outputs();
        let shared = Arc::clone(&server.shared);
        let mut areas = server.areas().expect("the terms have areas");
        assert!(server.areas().is_none(), "once");
        let all: Vec<u16> = std::iter::from_fn(|| areas.reserve()).collect();
        assert_eq!(all, [0, 1, 2, 3]);
        areas.cancel(2);
        assert_eq!(areas.reserve(), Some(2));
        let memory = areas.lend(0).expect("here");
        assert!(areas.lend(0).is_none() && !areas.are_all_back());
        let handed = areas.hand_over(0);
        assert_eq!((handed.area, handed.generation), (0, 1));
        let fields = Fields::of(&client);
        let release = |generation| {
            let word = fields.requests.word32(fields.released);
            word.store(generation, Ordering::Release);
            shared.see_released();
        };
        release(1);
        assert_eq!(areas.reserve(), None, "a stage still writes to it");
        areas.put_back(0, memory);
        for other in [0, 2, u32::MAX] {
            release(other);
            assert_eq!(areas.reserve(), None, "{other}");
        }
        release(1);
        assert_eq!(areas.reserve(), Some(0));
        assert_eq!(areas.reserve(), None);
        assert!(areas.are_all_back());
    }
}
