//! Where things lie in a client's three memory files. Both sides compute it from the same terms, so
//! the client takes no offset on faith, and the daemon none at all.

use punctual_platform::areas::AREA_ALIGNMENT;

use crate::handshake::{OutputTerms, StreamTerms};
use crate::ring::{CELL_BYTES, RingSpec};

/// What the other side changes often lies on cache lines of its own.
const LINE: usize = 64;
/// Payloads begin at multiples of this: with pages of 4 KiB, none shares a page with the rings or another slot.
#[cfg(not(loom))]
const PAGE: usize = 4096;
/// Models touch no payload, and each word costs them.
#[cfg(loom)]
const PAGE: usize = LINE;

/// The file that the client writes: ring positions, submissions, payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLayout {
    pub(crate) submissions: RingSpec,
    /// Where the client says how many records it has taken.
    pub(crate) results_taken: usize,
    /// Where it says how many of them were verdicts.
    pub(crate) verdicts_taken: usize,
    /// Where the client says that it sleeps on the result ring; a hint.
    pub(crate) sleeping: usize,
    released: usize,
    vectors: usize,
    /// From the vectors of a slot to those of the next.
    vector_stride: usize,
    payload: usize,
    pub(crate) slot_bytes: usize,
    pub(crate) slot_stride: usize,
    pub(crate) bytes: usize,
}

/// The file that the daemon writes and the client only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResultLayout {
    pub(crate) results: RingSpec,
    /// Where the daemon counts how often it rang; what the client sleeps on.
    pub(crate) bell: usize,
    /// Where the daemon says that it polls the submissions, so that clients need not ring.
    pub(crate) attentive: usize,
    generations: usize,
    pub(crate) bytes: usize,
}

impl RequestLayout {
    /// As these terms want it; a client that imports buffers has no payload here.
    pub(crate) fn of(terms: &StreamTerms, import_buffers: bool) -> Self {
        let slots = usize::from(terms.slots);
        let submissions = RingSpec {
            tail: 0,
            cells: 3 * LINE,
            // A slot is in the ring at most once, so the ring is never full.
            capacity: u32::from(terms.slots).next_power_of_two(),
        };
        let released = submissions.end();
        let words = 4 * usize::from(terms.outputs.areas);
        let vectors = (released + words).next_multiple_of(LINE);
        let vector_stride = (4 * usize::from(terms.vectors)).next_multiple_of(LINE);
        let payload = (vectors + vector_stride * slots).next_multiple_of(PAGE);
        let slot_bytes = if import_buffers {
            0
        } else {
            usize::try_from(terms.frame.bytes()).expect("FrameSpec::check limits it")
        };
        let slot_stride = slot_bytes.next_multiple_of(PAGE);
        Self {
            submissions,
            results_taken: LINE,
            verdicts_taken: LINE + 4,
            sleeping: 2 * LINE,
            released,
            vectors,
            vector_stride,
            payload,
            slot_bytes,
            slot_stride,
            bytes: payload + slot_stride * slots,
        }
    }

    /// Where the client says which generation of an area it has released.
    pub(crate) fn released(&self, area: u16) -> usize {
        self.released + 4 * usize::from(area)
    }

    /// Where the numbers of a slot's vectors begin.
    pub(crate) fn vectors(&self, slot: u16) -> usize {
        self.vectors + self.vector_stride * usize::from(slot)
    }

    /// Where a slot's payload begins.
    pub(crate) fn slot(&self, slot: u16) -> usize {
        self.payload + self.slot_stride * usize::from(slot)
    }
}

/// The file that only the daemon's workers write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputLayout {
    first: usize,
    stride: usize,
    pub(crate) bytes: usize,
}

impl OutputLayout {
    /// As `punctual_platform::areas::shared` lays it out.
    pub(crate) fn of(terms: &StreamTerms) -> Self {
        let OutputTerms {
            description_bytes,
            areas,
            area_bytes,
        } = terms.outputs;
        let first = (description_bytes as usize).next_multiple_of(AREA_ALIGNMENT);
        let stride = (area_bytes as usize).next_multiple_of(AREA_ALIGNMENT);
        Self {
            first,
            stride,
            bytes: (first + stride * usize::from(areas)).max(AREA_ALIGNMENT),
        }
    }

    /// Where an area begins.
    pub(crate) fn area(&self, area: u16) -> usize {
        self.first + self.stride * usize::from(area)
    }
}

impl ResultLayout {
    /// As these terms want it.
    pub(crate) fn of(terms: &StreamTerms) -> Self {
        let generations = 2 * LINE;
        let cells = (generations + 4 * usize::from(terms.slots)).next_multiple_of(LINE);
        let results = RingSpec {
            tail: 0,
            cells,
            capacity: terms.result_cells(),
        };
        Self {
            results,
            bell: LINE,
            // Written when the daemon falls asleep or wakes, and then it rings soon.
            attentive: LINE + 4,
            generations,
            bytes: results.end().next_multiple_of(PAGE),
        }
    }

    /// Where a slot's generation stands: it goes up when the slot is released.
    pub(crate) fn generation(&self, slot: u16) -> usize {
        self.generations + 4 * usize::from(slot)
    }
}

const _: () = assert!(CELL_BYTES == LINE, "a cell is a cache line");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{SLOTS_MAX, terms};

    #[test]
    fn nothing_overlaps() {
        for (slots, areas, vectors) in [
            (1, 0, 0),
            (2, 2, 1),
            (3, 3, 16_384),
            (64, 64, 16),
            (SLOTS_MAX, SLOTS_MAX, 17),
        ] {
            let terms = StreamTerms {
                slots,
                vectors,
                outputs: OutputTerms {
                    areas,
                    area_bytes: 64 * u32::from(areas > 0),
                    description_bytes: 5000,
                },
                ..terms()
            };
            let requests = RequestLayout::of(&terms, false);
            assert!(requests.sleeping + 4 <= requests.submissions.cells);
            assert!(requests.submissions.end() <= requests.released(0));
            assert!(requests.released(areas) <= requests.vectors(0));
            let stride = requests.vectors(1) - requests.vectors(0);
            assert!(stride >= 4 * usize::from(vectors) && stride.is_multiple_of(LINE));
            assert!(requests.vectors(slots) <= requests.slot(0));
            assert!(
                requests.slot(0).is_multiple_of(PAGE)
                    && requests.slot_stride >= requests.slot_bytes
            );
            assert_eq!(requests.slot(slots), requests.bytes);
            assert!(requests.submissions.capacity >= u32::from(slots));
            let imported = RequestLayout::of(&terms, true);
            assert_eq!(imported.bytes, requests.slot(0));
            let results = ResultLayout::of(&terms);
            assert!(results.bell + 4 <= results.attentive);
            assert!(results.attentive + 4 <= results.generation(0));
            assert!(results.generation(slots) <= results.results.cells);
            assert!(results.results.end() <= results.bytes);
            let outputs = OutputLayout::of(&terms);
            assert!(outputs.area(0) >= 5000 && outputs.area(areas) <= outputs.bytes);
        }
    }
}
