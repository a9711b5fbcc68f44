//! Floats at a fixed address.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr::NonNull;

use punctual_platform::memory::leave_out_of_dumps;

/// Floats a cache line, which is also the widest vector: lengths of regions are multiples of it.
pub const LINE: usize = 16;

/// What a region is made of: whole pages, so that one can be registered with a device's driver
/// whatever lies next to it.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([f32; PAGE]);

/// Floats a page.
const PAGE: usize = 1024;

/// Zeroed floats at a fixed, page-aligned address.
pub struct Region {
    pages: Box<[UnsafeCell<Page>]>,
    floats: usize,
}

// SAFETY: a `Region` has no safe access to its content; both unsafe ones make the caller promise
// that no two threads use one float at the same time unless all of them only read it.
unsafe impl Sync for Region {}

impl Region {
    /// At least `floats` zeros, written once so that every page is there; in no core dump.
    pub fn zeroed(floats: usize) -> Self {
        let pages = floats.div_ceil(PAGE);
        // Written page by page: a zeroed allocation would be mapped on first use only.
        let pages = (0..pages)
            .map(|_| UnsafeCell::new(std::hint::black_box(Page([0.0; PAGE]))))
            .collect::<Box<[UnsafeCell<Page>]>>();
        leave_out_of_dumps(pages.as_ptr().cast(), pages.len() * size_of::<Page>());
        Self {
            pages,
            floats: floats.next_multiple_of(LINE),
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
        // The pointer comes from the whole slice, not from one cell, so that it may reach all.
        let base = self.pages.as_ptr() as *mut f32;
        // SAFETY: the assertion above keeps the result inside the same allocation, or one past
        // its end for an empty range.
        unsafe { base.add(range.start) }
    }

    /// Where it lies; never moved.
    pub fn place(&self) -> NonNull<[f32]> {
        let first = NonNull::from(&*self.pages).cast();
        NonNull::slice_from_raw_parts(first, self.floats())
    }

    /// A shared view.
    ///
    /// # Safety
    /// No thread writes to `range` while the slice lives.
    pub unsafe fn read(&self, range: Range<usize>) -> &[f32] {
        let pointer = self.pointer(&range);
        // SAFETY: in bounds by `pointer`'s assertion, initialised by `zeroed`, and not written
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
        // SAFETY: in bounds by `pointer`'s assertion, initialised by `zeroed`, inside
        // `UnsafeCell`s, and exclusive by the caller's promise.
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
        assert_eq!(size_of_val(&*region.pages), 4096);
    }

    #[test]
    #[should_panic(expected = "outside a region of 16 floats")]
    fn a_range_outside_is_a_programmers_error() {
        let region = Region::zeroed(16);
        // SAFETY: there is no other reference to the region.
        let _ = unsafe { region.read(1..17) };
    }
}
