//! Memory that the device may access: ranges of this process, what of them was written, and what a launch did to them.
//!
//! The addresses are the process's own. All access to them by kernels is here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::fault::Violation;
use crate::instruction::Atomic;

/// A range that the device may access.
#[derive(Debug)]
pub struct Region {
    base: u64,
    bytes: u64,
    /// A bit for each byte that was written; none: it was all written before.
    written: Option<Box<[AtomicU64]>>,
}

impl Region {
    /// Memory of which nothing has been written yet.
    #[must_use]
    pub fn fresh(base: u64, bytes: u64) -> Self {
        let words = bytes.div_ceil(64) as usize;
        Self {
            base,
            bytes,
            written: Some(
                std::iter::repeat_with(AtomicU64::default)
                    .take(words)
                    .collect(),
            ),
        }
    }

    /// Memory of the host, which it may have written.
    #[must_use]
    pub const fn written(base: u64, bytes: u64) -> Self {
        Self {
            base,
            bytes,
            written: None,
        }
    }

    const fn holds(&self, address: u64, bytes: u64) -> bool {
        let at = address.wrapping_sub(self.base);
        at < self.bytes && bytes <= self.bytes - at
    }

    /// Calls `visit` with each word of bits that a range touches, and which of its bits.
    fn words(&self, address: u64, bytes: u64, mut visit: impl FnMut(&AtomicU64, u64)) {
        let Some(words) = &self.written else { return };
        let (mut at, end) = (address - self.base, address - self.base + bytes);
        while at < end {
            let until = (at / 64 * 64 + 64).min(end);
            let count = until - at;
            let bits = if count == 64 {
                u64::MAX
            } else {
                (1 << count) - 1
            };
            visit(&words[(at / 64) as usize], bits << (at % 64));
            at = until;
        }
    }

    /// Somebody wrote these bytes.
    pub fn note_written(&self, address: u64, bytes: u64) {
        // Relaxed: launches that use what was written are ordered after it by their stream.
        self.words(address, bytes, |word, bits| {
            if word.load(Ordering::Relaxed) & bits != bits {
                word.fetch_or(bits, Ordering::Relaxed);
            }
        });
    }

    /// A copy from `source` overwrote `bytes` bytes: what was not written there is not written here.
    pub fn note_copied(&self, address: u64, source: &Region, from: u64, bytes: u64) {
        let mut whole = true;
        source.words(from, bytes, |word, bits| {
            // Relaxed: as in `note_written`.
            whole &= word.load(Ordering::Relaxed) & bits == bits;
        });
        if whole {
            return self.note_written(address, bytes);
        }
        for i in 0..bytes {
            let known = source.first_unwritten(from + i, 1, 1).is_none();
            self.words(address + i, 1, |word, bit| {
                // Relaxed: as in `note_written`.
                if known {
                    word.fetch_or(bit, Ordering::Relaxed)
                } else {
                    word.fetch_and(!bit, Ordering::Relaxed)
                };
            });
        }
    }

    /// The first byte of those in `used` that was not written.
    fn first_unwritten(&self, address: u64, bytes: u64, used: u64) -> Option<u64> {
        let mut missing = None;
        let mut before = 0;
        self.words(address, bytes, |word, bits| {
            let shift = bits.trailing_zeros();
            let wanted = used.checked_shr(before as u32).unwrap_or(0) << shift & bits;
            // Relaxed: as in `note_written`.
            let absent = wanted & !word.load(Ordering::Relaxed);
            if absent != 0 && missing.is_none() {
                missing = Some(address + before + u64::from(absent.trailing_zeros() - shift));
            }
            before += u64::from(bits.count_ones());
        });
        missing
    }
}

/// All that the device may access, as allocations come and go.
#[derive(Debug, Default)]
pub struct Space {
    /// By rising address.
    regions: Mutex<Arc<[Arc<Region>]>>,
}

impl Space {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&self, region: Region) -> Arc<Region> {
        let region = Arc::new(region);
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let at = regions.partition_point(|other| other.base < region.base);
        let mut changed = regions.to_vec();
        changed.insert(at, Arc::clone(&region));
        *regions = changed.into();
        region
    }

    /// The region that begins at `base` is no more.
    pub fn remove(&self, base: u64) {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let left = regions.iter().filter(|region| region.base != base);
        *regions = left.cloned().collect::<Vec<_>>().into();
    }

    pub fn clear(&self) {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        *regions = Arc::default();
    }

    /// The region that these bytes lie in.
    #[must_use]
    pub fn find(&self, address: u64, bytes: u64) -> Option<Arc<Region>> {
        let regions = self.snapshot();
        let found = position(&regions, address, bytes)?;
        Some(Arc::clone(&regions[found]))
    }

    fn snapshot(&self) -> Arc<[Arc<Region>]> {
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&regions)
    }
}

fn position(regions: &[Arc<Region>], address: u64, bytes: u64) -> Option<usize> {
    let after = regions.partition_point(|region| region.base <= address);
    let at = after.checked_sub(1)?;
    regions[at].holds(address, bytes).then_some(at)
}

/// Bytes of a page of marks.
const PAGE: u64 = 4096;

/// A bit for each byte.
type Bits = [u64; (PAGE / 64) as usize];

struct Page {
    read: Bits,
    written: Bits,
}

/// What the blocks of one launch read and wrote: a launch that is cut short runs again from its begin, so none may read
/// what it writes, and no byte may be written by two.
pub struct Launched {
    regions: Arc<[Arc<Region>]>,
    pages: BTreeMap<u64, usize>,
    marks: Vec<Page>,
    /// The page that was used last, and where it is.
    last: (u64, usize),
    /// The region that was used last.
    recent: usize,
}

impl Launched {
    #[must_use]
    pub fn new(space: &Space) -> Self {
        Self {
            regions: space.snapshot(),
            pages: BTreeMap::new(),
            marks: Vec::new(),
            last: (u64::MAX, 0),
            recent: 0,
        }
    }

    /// The region of an aligned access.
    #[inline]
    fn region(&mut self, address: u64, bytes: u32) -> Result<&Region, Violation> {
        if !address.is_multiple_of(u64::from(bytes)) {
            return Err(Violation::Misaligned { address, bytes });
        }
        let length = u64::from(bytes);
        let hit = self.regions.get(self.recent);
        if !hit.is_some_and(|region| region.holds(address, length)) {
            self.recent = position(&self.regions, address, length)
                .ok_or(Violation::Foreign { address, bytes })?;
        }
        Ok(&self.regions[self.recent])
    }

    #[inline]
    fn page(&mut self, number: u64) -> &mut Page {
        if self.last.0 != number {
            let marks = &mut self.marks;
            let at = *self.pages.entry(number).or_insert_with(|| {
                marks.push(Page {
                    read: [0; 64],
                    written: [0; 64],
                });
                marks.len() - 1
            });
            self.last = (number, at);
        }
        &mut self.marks[self.last.1]
    }

    /// `bytes` (at most 16) from an address, of which those in `used` matter.
    #[inline]
    pub(crate) fn read(
        &mut self,
        address: u64,
        bytes: u32,
        used: u16,
    ) -> Result<[u8; 16], Violation> {
        let region = self.region(address, bytes)?;
        let used = u64::from(used) & ((1 << bytes) - 1);
        if let Some(address) = region.first_unwritten(address, u64::from(bytes), used) {
            return Err(Violation::UninitialisedGlobal { address });
        }
        let bits = used << (address % 64);
        let page = self.page(address / PAGE);
        let word = (address % PAGE / 64) as usize;
        let own = page.written[word] & bits;
        page.read[word] |= bits;
        if own != 0 {
            let address = address / 64 * 64 + u64::from(own.trailing_zeros());
            return Err(Violation::ReadsOwnOutput { address });
        }
        let mut value = [0; 16];
        // SAFETY: the bytes lie in a region, which is memory of this process for as long as a launch may access it. Another
        // thread may write them only if the kernel races with the host or another launch.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::with_exposed_provenance::<u8>(address as usize),
                value.as_mut_ptr(),
                bytes as usize,
            );
        }
        Ok(value)
    }

    #[inline]
    pub(crate) fn write(&mut self, address: u64, value: &[u8]) -> Result<(), Violation> {
        let bytes = value.len() as u32;
        let region = self.region(address, bytes)?;
        region.note_written(address, u64::from(bytes));
        let bits = ((1u64 << bytes) - 1) << (address % 64);
        let page = self.page(address / PAGE);
        let word = (address % PAGE / 64) as usize;
        let (twice, input) = (page.written[word] & bits, page.read[word] & bits);
        page.written[word] |= bits;
        let first = |of: u64| address / 64 * 64 + u64::from(of.trailing_zeros());
        if twice != 0 {
            return Err(Violation::WrittenTwice {
                address: first(twice),
            });
        }
        if input != 0 {
            return Err(Violation::WritesOwnInput {
                address: first(input),
            });
        }
        // SAFETY: as in `read`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                value.as_ptr(),
                std::ptr::with_exposed_provenance_mut::<u8>(address as usize),
                value.len(),
            );
        }
        Ok(())
    }

    /// A word that the host or other launches access meanwhile; it is not among what a launch must not do twice.
    fn word(&mut self, address: u64) -> Result<&AtomicU32, Violation> {
        let region = self.region(address, 4)?;
        region.note_written(address, 4);
        // SAFETY: an aligned word in a region, as in `read`; everyone who shares it uses atomic accesses.
        Ok(unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) })
    }

    pub(crate) fn load_relaxed(&mut self, address: u64) -> Result<u32, Violation> {
        // Relaxed, as the instruction says; the host's store that it sees publishes nothing.
        self.word(address).map(|word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn store(
        &mut self,
        address: u64,
        value: u32,
        release: bool,
    ) -> Result<(), Violation> {
        // Release: partner of the host's acquiring load, as with the instruction.
        let order = if release {
            Ordering::Release
        } else {
            Ordering::Relaxed
        };
        self.word(address).map(|word| word.store(value, order))
    }

    pub(crate) fn atomic(
        &mut self,
        op: Atomic,
        address: u64,
        value: u32,
    ) -> Result<u32, Violation> {
        let word = self.word(address)?;
        // Relaxed, as the instruction is without an order of its own.
        Ok(match op {
            Atomic::Add => word.fetch_add(value, Ordering::Relaxed),
            Atomic::Min => word.fetch_min(value, Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(memory: &mut [u128; 8], fresh: bool) -> (Space, u64) {
        let base = memory.as_mut_ptr().expose_provenance() as u64;
        let space = Space::new();
        space.add(if fresh {
            Region::fresh(base, 128)
        } else {
            Region::written(base, 128)
        });
        (space, base)
    }

    #[test]
    fn only_what_lies_in_one_region_is_there() {
        let mut memory = [0u128; 8];
        let (space, base) = space(&mut memory, false);
        let mut launch = Launched::new(&space);
        assert!(launch.read(base + 112, 16, u16::MAX).is_ok());
        let foreign = |address| Violation::Foreign { address, bytes: 16 };
        assert_eq!(
            launch.read(base + 128, 16, u16::MAX),
            Err(foreign(base + 128))
        );
        assert_eq!(
            launch.read(base - 16, 16, u16::MAX),
            Err(foreign(base - 16))
        );
        let misaligned = Violation::Misaligned {
            address: base + 2,
            bytes: 4,
        };
        assert_eq!(launch.read(base + 2, 4, u16::MAX), Err(misaligned));
    }

    #[test]
    fn bytes_that_nobody_wrote_are_not_read_unless_they_do_not_matter() {
        let mut memory = [0u128; 8];
        let (space, base) = space(&mut memory, true);
        let missing = |address| Err(Violation::UninitialisedGlobal { address });
        assert_eq!(Launched::new(&space).read(base, 4, u16::MAX), missing(base));
        Launched::new(&space).write(base, &[1; 4]).expect("free");
        let mut launch = Launched::new(&space);
        assert_eq!(
            launch.read(base, 4, u16::MAX).expect("written")[..4],
            [1; 4]
        );
        assert_eq!(launch.read(base, 16, u16::MAX), missing(base + 4));
        assert!(launch.read(base, 16, 0xf).is_ok(), "only four matter");
    }

    #[test]
    fn a_launch_neither_writes_twice_nor_reads_what_it_wrote() {
        let mut memory = [0u128; 8];
        let (space, base) = space(&mut memory, false);
        let mut launch = Launched::new(&space);
        launch.write(base + 8, &[1; 8]).expect("free");
        let twice = Violation::WrittenTwice { address: base + 12 };
        assert_eq!(launch.write(base + 12, &[1; 4]), Err(twice));
        let own = Violation::ReadsOwnOutput { address: base + 8 };
        assert_eq!(launch.read(base, 16, u16::MAX), Err(own));
        launch.read(base + 32, 4, u16::MAX).expect("free");
        let input = Violation::WritesOwnInput { address: base + 32 };
        assert_eq!(launch.write(base + 32, &[1; 2]), Err(input));
        assert!(Launched::new(&space).read(base + 8, 8, u16::MAX).is_ok());
    }

    #[test]
    fn a_copy_brings_what_was_not_written_with_it() {
        let (mut from, mut to) = ([0u128; 8], [0u128; 8]);
        let (source, source_base) = space(&mut from, true);
        let (target, target_base) = space(&mut to, true);
        let of = |space: &Space, base| space.find(base, 1).expect("there");
        of(&source, source_base).note_written(source_base, 8);
        let region = of(&target, target_base);
        region.note_written(target_base, 128);
        region.note_copied(target_base + 60, &of(&source, source_base), source_base, 16);
        assert_eq!(region.first_unwritten(target_base + 52, 16, u64::MAX), None);
        assert_eq!(
            region.first_unwritten(target_base + 64, 16, u64::MAX),
            Some(target_base + 68)
        );
    }
}
