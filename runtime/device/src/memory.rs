//! Memory that threads share without a lock: the only `unsafe` of this crate.
//!
//! A [`Region`] is a run of `f32`s at a fixed address, touched at start so that it never faults
//! later. It hands out slices on trust; the trust is settled one level up, in two ways:
//!
//! - **Request buffers** ([`ClaimedRegions`]): whoever reads or writes one holds its claim, an
//!   atomic flag taken and released like a lock that never waits. The flag's release/acquire pair
//!   also carries the data from the intake thread that wrote an input to the worker that reads it,
//!   so soundness does not rest on the order in which the scheduler sends its actions. A claim
//!   that is refused is a broken protocol, reported as such, never waited for.
//! - **Workspaces**: one a partition, used by that partition's workers only. Within an operator
//!   each worker writes its own part of the output, and the inputs are elsewhere (the memory plan
//!   is asserted); between operators they meet at a barrier.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Floats a cache line, and the alignment of every region: also the widest vector's.
pub(crate) const LINE: usize = 16;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// Zeroed floats at a fixed, 64-byte-aligned address.
pub(crate) struct Region {
    lines: Box<[UnsafeCell<Line>]>,
}

// SAFETY: a `Region` has no safe access to its content; both unsafe ones make the caller promise
// that no two threads use one float at the same time unless all of them only read it.
unsafe impl Sync for Region {}

impl Region {
    /// At least `floats` zeros, written once so that every page is there.
    pub(crate) fn zeroed(floats: usize) -> Self {
        let lines = floats.div_ceil(LINE);
        // Written element by element: a zeroed allocation would be mapped on first use only.
        let lines = (0..lines)
            .map(|_| UnsafeCell::new(std::hint::black_box(Line([0.0; LINE]))))
            .collect();
        Self { lines }
    }

    /// Its length in floats.
    pub(crate) fn len(&self) -> usize {
        self.lines.len() * LINE
    }

    fn pointer(&self, range: &Range<usize>) -> *mut f32 {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "range {range:?} is outside a region of {} floats",
            self.len()
        );
        // The pointer comes from the whole slice, not from one cell, so that it may reach all.
        let base = self.lines.as_ptr() as *mut f32;
        // SAFETY: the assertion above keeps the result inside the same allocation, or one past
        // its end for an empty range.
        unsafe { base.add(range.start) }
    }

    /// A shared view.
    ///
    /// # Safety
    /// Nobody writes to `range` while the slice lives.
    pub(crate) unsafe fn read(&self, range: Range<usize>) -> &[f32] {
        let pointer = self.pointer(&range);
        // SAFETY: in bounds by `pointer`'s assertion, initialised by `zeroed`, and not written
        // meanwhile by the caller's promise.
        unsafe { std::slice::from_raw_parts(pointer, range.len()) }
    }

    /// An exclusive view.
    ///
    /// # Safety
    /// Nobody else reads or writes `range` while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn write(&self, range: Range<usize>) -> &mut [f32] {
        let pointer = self.pointer(&range);
        // SAFETY: in bounds by `pointer`'s assertion, initialised by `zeroed`, inside
        // `UnsafeCell`s, and exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(pointer, range.len()) }
    }
}

/// Regions of one length, each usable by one holder at a time.
pub(crate) struct ClaimedRegions {
    regions: Box<[Region]>,
    claimed: Box<[AtomicBool]>,
}

impl ClaimedRegions {
    pub(crate) fn new(count: usize, floats: usize) -> Self {
        Self {
            regions: (0..count).map(|_| Region::zeroed(floats)).collect(),
            claimed: (0..count).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.regions.len()
    }

    /// The region `index`, until the claim is dropped; none if somebody holds it.
    ///
    /// # Panics
    /// If there is no such region.
    pub(crate) fn claim(&self, index: usize) -> Option<Claim<'_>> {
        // Acquire: pairs with the release in `Claim::drop` (label CLAIM), so that this holder
        // sees everything the last one wrote.
        self.claimed[index]
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Claim {
                region: &self.regions[index],
                flag: &self.claimed[index],
            })
    }
}

/// The right to use one region of [`ClaimedRegions`].
pub(crate) struct Claim<'a> {
    region: &'a Region,
    flag: &'a AtomicBool,
}

impl<'a> Claim<'a> {
    /// The region, for the holder's team: its accesses are `unsafe` and end before the claim does.
    pub(crate) fn region(&self) -> &'a Region {
        self.region
    }

    /// All of it.
    pub(crate) fn floats(&mut self) -> &mut [f32] {
        // SAFETY: the claim is exclusive, and `&mut self` makes this the only view made from it.
        unsafe { self.region.write(0..self.region.len()) }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `ClaimedRegions::claim` (label CLAIM).
        self.flag.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zero_and_aligned_to_the_widest_vector() {
        let regions = ClaimedRegions::new(3, 33);
        for index in 0..3 {
            let mut claim = regions.claim(index).expect("free");
            assert_eq!(claim.floats().len(), 48);
            assert!(claim.floats().iter().all(|&x| x == 0.0));
            assert_eq!(claim.floats().as_ptr().align_offset(64), 0);
        }
    }

    #[test]
    fn a_claimed_region_is_refused_until_its_claim_is_dropped() {
        let regions = ClaimedRegions::new(2, 16);
        let mut first = regions.claim(0).expect("free");
        assert!(regions.claim(0).is_none());
        assert!(regions.claim(1).is_some());
        first.floats()[3] = 7.0;
        drop(first);
        assert_eq!(regions.claim(0).expect("free again").floats()[3], 7.0);
    }
}
