//! Floats at a fixed address.

use std::ops::Range;
use std::ptr::NonNull;

use punctual_platform::memory::PAGE_BYTES;
use punctual_platform::zeros::Zeros;

/// Floats a cache line, which is also the widest vector: lengths of regions are multiples of it.
pub const LINE: usize = 16;

/// Floats of the smallest page of any kernel.
const PAGE: usize = PAGE_BYTES / size_of::<f32>();

/// Zeroed floats at a fixed address, on pages of their own, so that they can be registered with a device's driver.
pub struct Region {
    memory: Zeros,
    floats: usize,
}

impl Region {
    /// At least `floats` zeros, every page of which is there; in no core dump.
    pub fn zeroed(floats: usize) -> Self {
        let region = Self::awaited(floats);
        // SAFETY: no other thread knows it.
        unsafe { region.bring() };
        region
    }

    /// The same, the pages of which are still to be [brought](Self::bring).
    pub fn awaited(floats: usize) -> Self {
        let floats = floats.next_multiple_of(LINE);
        let bytes = floats.checked_mul(size_of::<f32>());
        Self {
            memory: Zeros::new(bytes.unwrap_or(usize::MAX)),
            floats,
        }
    }

    /// Has all its pages come, before it is used.
    ///
    /// # Safety
    /// No other thread uses it meanwhile.
    pub unsafe fn bring(&self) {
        // Written without a look at it, which would bring a page of zeros that all processes share, and later another one.
        for at in (0..self.floats).step_by(PAGE) {
            // SAFETY: inside of it; no other thread uses it, by the caller's promise.
            unsafe { self.pointer(&(at..at)).write_volatile(0.0) };
        }
    }

    /// Its length in floats.
    pub fn floats(&self) -> usize {
        self.floats
    }

    fn pointer(&self, range: &Range<usize>) -> *mut f32 {
        assert!(
            range.start <= range.end && range.end <= self.floats(),
            "range {range:?} is outside a region of {} floats",
            self.floats()
        );
        let base: *mut f32 = self.memory.as_ptr().cast();
        // SAFETY: the assertion above keeps the result inside of the memory, or one past its end for an empty range.
        unsafe { base.add(range.start) }
    }

    /// Where it lies; never moved.
    pub fn place(&self) -> NonNull<[f32]> {
        let first = NonNull::new(self.pointer(&(0..0))).expect("memory is not at zero");
        NonNull::slice_from_raw_parts(first, self.floats())
    }

    /// A shared view.
    ///
    /// # Safety
    /// No thread writes to `range` while the slice lives.
    pub unsafe fn read(&self, range: Range<usize>) -> &[f32] {
        let pointer = self.pointer(&range);
        // SAFETY: in bounds by `pointer`'s assertion, all bits of which are a float, and not written
        // meanwhile by the caller's promise.
        unsafe { std::slice::from_raw_parts(pointer, range.len()) }
    }

    /// An exclusive view.
    ///
    /// # Safety
    /// No other reference reads or writes `range` while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn write(&self, range: Range<usize>) -> &mut [f32] {
        let pointer = self.pointer(&range);
        // SAFETY: in bounds by `pointer`'s assertion, all bits of which are a float, in memory that
        // is only reached by pointers, and exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(pointer, range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_zero_and_has_its_pages_to_itself() {
        let region = Region::zeroed(33);
        // SAFETY: there is no other reference to the region.
        let floats = unsafe { region.read(0..48) };
        assert_eq!(region.floats(), 48);
        assert!(floats.iter().all(|&x| x == 0.0));
        assert_eq!(floats.as_ptr().align_offset(4096), 0);
        assert!(region.memory.bytes().is_multiple_of(4096));
    }

    #[test]
    #[should_panic(expected = "outside a region of 16 floats")]
    fn a_range_outside_is_a_programmers_error() {
        let region = Region::zeroed(16);
        // SAFETY: there is no other reference to the region.
        let _ = unsafe { region.read(1..17) };
    }
}
