//! A ring from one writer to one reader, of which neither trusts the other.
//!
//! Each side keeps its own position privately. The writer publishes how many cells it has ever
//! written, modulo 2^32; the reader checks that against its own position, so that a wild value is
//! an error and never an index.

use punctual_platform::atomics::Ordering;

use crate::region::Region;

/// One entry, as 64-bit words.
pub type Cell = [u64; 8];

pub(crate) const CELL_BYTES: usize = size_of::<Cell>();

/// Where a ring lies in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSpec {
    /// Where the writer publishes its position, a 32-bit word.
    pub tail: usize,
    /// Where the cells begin, aligned to 8 bytes.
    pub cells: usize,
    /// How many there are, a power of two.
    pub capacity: u32,
}

impl RingSpec {
    /// Behind the last cell.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.cells + self.capacity as usize * CELL_BYTES
    }

    fn word(&self, position: u32, word: usize) -> usize {
        let cell = (position & (self.capacity - 1)) as usize;
        self.cells + cell * CELL_BYTES + word * size_of::<u64>()
    }
}

/// The other side's position is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "ring positions {theirs} (theirs) and {ours} (ours) differ by more than the {capacity} cells"
)]
pub struct PositionError {
    /// What the other side says.
    pub theirs: u32,
    /// Where this side is.
    pub ours: u32,
    pub capacity: u32,
}

#[derive(Debug)]
pub struct RingWriter {
    region: Region,
    ring: RingSpec,
    /// How many were ever written, modulo 2^32. Private: what is published is a copy.
    tail: u32,
}

#[derive(Debug)]
pub struct RingReader {
    region: Region,
    ring: RingSpec,
    /// How many were ever taken, modulo 2^32. Private.
    head: u32,
}

impl RingWriter {
    /// Begins an empty ring.
    #[must_use]
    pub fn new(region: Region, ring: RingSpec) -> Self {
        check(&region, &ring);
        Self {
            region,
            ring,
            tail: 0,
        }
    }

    /// Writes `cell` unless the ring is full (then false), given the `head` that the reader says
    /// it is at. Returns the new position otherwise.
    ///
    /// # Errors
    /// If that head is impossible.
    pub fn push(&mut self, cell: &Cell, head: u32) -> Result<bool, PositionError> {
        let used = self.tail.wrapping_sub(head);
        if used > self.ring.capacity {
            return Err(PositionError {
                theirs: head,
                ours: self.tail,
                capacity: self.ring.capacity,
            });
        }
        if used == self.ring.capacity {
            return Ok(false);
        }
        for (i, value) in cell.iter().enumerate() {
            // Relaxed: published by the tail.
            let word = self.region.word64(self.ring.word(self.tail, i));
            word.store(*value, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        // Release pairs with the Acquire in `RingReader::waiting`: the cell is there.
        let tail = self.region.word32(self.ring.tail);
        tail.store(self.tail, Ordering::Release);
        Ok(true)
    }
}

impl RingReader {
    /// Begins at an empty ring.
    #[must_use]
    pub fn new(region: Region, ring: RingSpec) -> Self {
        check(&region, &ring);
        Self {
            region,
            ring,
            head: 0,
        }
    }

    /// How many cells wait.
    ///
    /// # Errors
    /// If the writer's position is impossible.
    pub fn waiting(&self) -> Result<u32, PositionError> {
        // Acquire pairs with the Release in `RingWriter::push`.
        let tail = self.region.word32(self.ring.tail).load(Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        if waiting > self.ring.capacity {
            return Err(PositionError {
                theirs: tail,
                ours: self.head,
                capacity: self.ring.capacity,
            });
        }
        Ok(waiting)
    }

    /// Copies the oldest cell out, if there is one.
    ///
    /// # Errors
    /// As for [`waiting`](Self::waiting).
    pub fn pop(&mut self) -> Result<Option<Cell>, PositionError> {
        if self.waiting()? == 0 {
            return Ok(None);
        }
        let cell = std::array::from_fn(|i| {
            // Relaxed: each word is read once; ordered by the tail.
            let word = self.region.word64(self.ring.word(self.head, i));
            word.load(Ordering::Relaxed)
        });
        self.head = self.head.wrapping_add(1);
        Ok(Some(cell))
    }

    /// How many were taken, modulo 2^32.
    #[must_use]
    pub fn head(&self) -> u32 {
        self.head
    }
}

fn check(region: &Region, ring: &RingSpec) {
    assert!(
        ring.capacity.is_power_of_two() && ring.end() <= region.bytes(),
        "{ring:?} in {region:?}"
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RING: RingSpec = RingSpec {
        tail: 0,
        cells: 64,
        capacity: 4,
    };

    fn ring_at(start: u32) -> (RingWriter, RingReader, Region) {
        let region = Region::private(RING.end());
        region.word32(0).store(start, Ordering::Relaxed);
        let mut writer = RingWriter::new(region.clone(), RING);
        let mut reader = RingReader::new(region.clone(), RING);
        (writer.tail, reader.head) = (start, start);
        (writer, reader, region)
    }

    #[test]
    fn cells_come_out_in_the_order_they_went_in_across_the_counters_wrap() {
        let (mut writer, mut reader, _) = ring_at(u32::MAX - 5);
        for i in 0..20 {
            for j in 0..3 {
                assert_eq!(writer.push(&[i * 3 + j; 8], reader.head()), Ok(true));
            }
            for j in 0..3 {
                assert_eq!(reader.pop(), Ok(Some([i * 3 + j; 8])));
            }
            assert_eq!(reader.pop(), Ok(None));
        }
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        let (mut writer, mut reader, _) = ring_at(0);
        for i in 0..4 {
            assert_eq!(writer.push(&[i; 8], 0), Ok(true));
        }
        assert_eq!(writer.push(&[4; 8], 0), Ok(false));
        assert_eq!(reader.pop(), Ok(Some([0; 8])));
        assert_eq!(writer.push(&[4; 8], reader.head()), Ok(true));
    }

    #[test]
    fn two_threads_exchange_whole_cells() {
        const COUNT: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let region = Region::private(RING.end() + 8);
        let head_at = RING.end();
        let mut writer = RingWriter::new(region.clone(), RING);
        let mut reader = RingReader::new(region.clone(), RING);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..COUNT {
                    let head = || region.word32(head_at).load(Ordering::Acquire);
                    while !writer.push(&[i; 8], head()).unwrap() {
                        std::thread::yield_now();
                    }
                }
            });
            for i in 0..COUNT {
                let cell = loop {
                    match reader.pop().unwrap() {
                        Some(cell) => break cell,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(cell, [i; 8]);
                region
                    .word32(head_at)
                    .store(reader.head(), Ordering::Release);
            }
        });
    }

    proptest! {
        #[test]
        fn any_order_of_pushes_and_pops_is_a_bounded_queues(
            start in any::<u32>(), pushes in proptest::collection::vec(any::<bool>(), 0..200),
        ) {
            let (mut writer, mut reader, _) = ring_at(start);
            let mut queue = std::collections::VecDeque::new();
            for (i, push) in pushes.into_iter().enumerate() {
                let cell = [i as u64; 8];
                if push {
                    let room = queue.len() < 4;
                    prop_assert_eq!(writer.push(&cell, reader.head()), Ok(room));
                    queue.extend(room.then_some(cell));
                } else {
                    prop_assert_eq!(reader.pop(), Ok(queue.pop_front()));
                }
                prop_assert_eq!(reader.waiting(), Ok(queue.len() as u32));
            }
        }

        #[test]
        fn positions_further_apart_than_the_ring_are_errors(
            ours in any::<u32>(), theirs in any::<u32>(),
        ) {
            let (mut writer, mut reader, region) = ring_at(ours);
            region.word32(0).store(theirs, Ordering::Relaxed);
            let distance = theirs.wrapping_sub(ours);
            prop_assert_eq!(reader.waiting().ok(), (distance <= 4).then_some(distance));
            prop_assert_eq!(reader.pop().is_ok(), distance <= 4);
            let distance = ours.wrapping_sub(theirs);
            prop_assert_eq!(writer.push(&[0; 8], theirs).is_ok(), distance <= 4);
        }
    }
}
