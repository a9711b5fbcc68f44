//! Where things lie in a client's two memory files. Both sides compute it from the same terms, so
//! the client takes no offset on faith, and the daemon none at all.

use crate::frame::FrameSpec;
use crate::handshake::StreamTerms;
use crate::ring::{CELL_BYTES, RingSpec};

/// What the other side changes often lies on cache lines of its own.
const LINE: usize = 64;
/// Payloads begin at multiples of this: with pages of 4 KiB, none shares a page with the rings or another slot.
#[cfg(not(loom))]
const PAGE: usize = 4096;
/// Models touch no payload, and each word costs them.
#[cfg(loom)]
const PAGE: usize = LINE;

/// The most slots a client can have.
pub(crate) const SLOTS_MAX: u16 = 256;
/// The most results that can wait for a client.
pub(crate) const RESULTS_MAX: u32 = 4096;

/// The file that the client writes: ring positions, submissions, payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLayout {
    pub(crate) submissions: RingSpec,
    /// Where the client says how many results it has taken.
    pub(crate) results_taken: usize,
    /// Where the client says that it sleeps on the result ring; a hint.
    pub(crate) sleeping: usize,
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
    pub(crate) fn new(slots: u16, frame: &FrameSpec) -> Self {
        let submissions = RingSpec {
            tail: 0,
            cells: 3 * LINE,
            // A slot is in the ring at most once, so the ring is never full.
            capacity: u32::from(slots).next_power_of_two(),
        };
        let payload = submissions.end().next_multiple_of(PAGE);
        let slot_bytes = usize::try_from(frame.bytes()).expect("FrameSpec::check limits it");
        let slot_stride = slot_bytes.next_multiple_of(PAGE);
        Self {
            submissions,
            results_taken: LINE,
            sleeping: 2 * LINE,
            payload,
            slot_bytes,
            slot_stride,
            bytes: payload + slot_stride * usize::from(slots),
        }
    }

    /// As these terms want it.
    pub(crate) fn of(terms: &StreamTerms, import_buffers: bool) -> Self {
        match import_buffers {
            true => Self::without_payload(terms.slots, &terms.frame),
            false => Self::new(terms.slots, &terms.frame),
        }
    }

    /// For a client that brings its own buffers: no payload at all.
    fn without_payload(slots: u16, frame: &FrameSpec) -> Self {
        let with = Self::new(slots, frame);
        Self {
            slot_bytes: 0,
            slot_stride: 0,
            bytes: with.payload,
            ..with
        }
    }

    /// Where a slot's payload begins.
    pub(crate) fn slot(&self, slot: u16) -> usize {
        self.payload + self.slot_stride * usize::from(slot)
    }
}

impl ResultLayout {
    pub(crate) fn new(slots: u16, results: u32) -> Self {
        assert!(results.is_power_of_two(), "checked by the registration");
        let generations = 2 * LINE;
        let cells = (generations + 4 * usize::from(slots)).next_multiple_of(LINE);
        let results = RingSpec {
            tail: 0,
            cells,
            capacity: results,
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
    use crate::frame::PixelFormat;

    #[test]
    fn nothing_overlaps() {
        let frame = FrameSpec::packed(PixelFormat::Rgb8, 641, 3);
        for slots in [1, 2, 3, 64, SLOTS_MAX] {
            let requests = RequestLayout::new(slots, &frame);
            assert!(requests.sleeping + 4 <= requests.submissions.cells);
            assert!(requests.submissions.end() <= requests.slot(0));
            assert!(
                requests.slot(0).is_multiple_of(PAGE)
                    && requests.slot_stride >= requests.slot_bytes
            );
            assert_eq!(requests.slot(slots), requests.bytes);
            assert!(requests.submissions.capacity >= u32::from(slots));
            let results = ResultLayout::new(slots, 8);
            assert!(results.bell + 4 <= results.attentive);
            assert!(results.attentive + 4 <= results.generation(0));
            assert!(results.generation(slots) <= results.results.cells);
            assert!(results.results.end() <= results.bytes);
        }
    }
}
