//! Memory of the host as the device sees it: request buffers, so that inputs are read where they were prepared, and frames of
//! clients.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use punctual_device::InputBuffers;
use punctual_platform::memory::kernel_page_bytes;
use punctual_types::{FrameMemory, SharedBytes};

use super::context::Context;
use super::error::CallError;
use super::external::{ImportError, Imported};
use super::library::{Attribute, Version};
use super::memory::device_address;

/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`. The second gives the buffers an address on the
/// device, which `cuMemHostGetDevicePointer` returns.
const FLAGS: u32 = 1 | 2;

/// `CU_MEMHOSTREGISTER_READ_ONLY`: kernels only read it. Without, pages that this process may not write are refused.
const READ_ONLY: u32 = 8;

/// Registered input buffers (`cuMemHostRegister`). Holds the buffers, so they are never freed while
/// the device may read them.
pub struct HostRegistration {
    ranges: Vec<Registered>,
    addresses: Vec<u64>,
    /// Dropped after the ranges were unregistered, in `drop`.
    _buffers: InputBuffers,
}

struct Registered {
    context: Arc<Context>,
    start: usize,
}

impl Registered {
    fn new(context: &Arc<Context>, pages: &Range<usize>, flags: u32) -> Result<Self, CallError> {
        let start = pages.start as *mut c_void;
        let register = context.symbols().mem_host_register;
        // SAFETY: the pages hold memory that the caller keeps; other things on these pages
        // are not touched: to the device only addresses in that memory are ever given.
        let code = unsafe { register(start, pages.len(), flags) };
        CallError::check("cuMemHostRegister", code)?;
        Ok(Self {
            context: context.clone(),
            start: pages.start,
        })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.context.give_back(|symbols| {
            // SAFETY: registered by `new`, unregistered once.
            unsafe { (symbols.mem_host_unregister)(self.start as *mut c_void) };
        });
    }
}

impl HostRegistration {
    pub fn new(context: &Arc<Context>, buffers: &InputBuffers) -> Result<Self, CallError> {
        context.bind()?;
        let places: Vec<Range<usize>> = buffers
            .places()
            .map(|place| {
                let start = place.as_ptr().cast::<f32>() as usize;
                start..start + place.len() * size_of::<f32>()
            })
            .collect();
        let pages = pages_of(&places, kernel_page_bytes());
        let ranges = pages
            .iter()
            .map(|pages| Registered::new(context, pages, FLAGS))
            .collect::<Result<Vec<_>, _>>()?;
        let mut addresses = Vec::with_capacity(places.len());
        for place in &places {
            let at = pages.partition_point(|pages| pages.end <= place.start);
            let first = device_address(context, pages[at].start as *mut c_void)?;
            addresses.push(first + (place.start - pages[at].start) as u64);
        }
        Ok(Self {
            ranges,
            addresses,
            _buffers: buffers.clone(),
        })
    }

    /// Where the device sees the first float of request buffer `buffer`.
    ///
    /// # Panics
    /// If there is no such buffer.
    #[must_use]
    pub fn address(&self, buffer: usize) -> u64 {
        self.addresses[buffer]
    }

    /// Ranges of pages that were registered.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }
}

/// Why kernels cannot read memory of others where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReadable {
    #[error("the driver registers no memory that this process may only read")]
    ReadOnly,
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(
        "the driver, of CUDA {driver}, does not import DMA-BUFs ({error}), as drivers of CUDA 13 do on Jetson boards from Thor on"
    )]
    NotImported { driver: Version, error: ImportError },
}

/// Memory that others may write to, made readable for kernels. Holds it, so it stays as long as the device may read it.
pub struct ReadableMemory {
    /// First, so that it ends before the memory may.
    _way: Way,
    /// Where the device sees the first byte.
    address: u64,
    memory: FrameMemory,
}

enum Way {
    Registered { _pages: Registered },
    Imported { _buffer: Imported },
}

impl ReadableMemory {
    /// Imports a DMA-BUF. Registers other memory, if the device can read pages that this process may not write
    /// (`CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED`).
    pub fn new(context: &Arc<Context>, memory: FrameMemory) -> Result<Self, NotReadable> {
        let bytes = memory.bytes.bytes();
        let (way, address) = if let Some(file) = &memory.dma_buf {
            let driver = context.gpu().driver().version()?;
            let buffer = Imported::new(context, file, bytes.len());
            let buffer = buffer.map_err(|error| NotReadable::NotImported { driver, error })?;
            let address = buffer.address();
            (Way::Imported { _buffer: buffer }, address)
        } else {
            let (pages, address) = registered(context, bytes)?;
            (Way::Registered { _pages: pages }, address)
        };
        Ok(Self {
            _way: way,
            address,
            memory,
        })
    }

    /// Where the device sees the first of these bytes; none if they are not all of this memory.
    #[must_use]
    pub fn address(&self, bytes: SharedBytes<'_>) -> Option<u64> {
        let all = self.memory.bytes.bytes();
        let offset = bytes.address().checked_sub(all.address())?;
        let is_inside = offset <= all.len() && bytes.len() <= all.len() - offset;
        is_inside.then(|| self.address + offset as u64)
    }
}

/// The pages of memory that this process may only read, and where the device sees its first byte.
fn registered(
    context: &Arc<Context>,
    bytes: SharedBytes<'_>,
) -> Result<(Registered, u64), NotReadable> {
    if !context.gpu().can(Attribute::RegistersReadOnlyMemory)? {
        return Err(NotReadable::ReadOnly);
    }
    context.bind()?;
    let start = bytes.address();
    let pages = whole_pages(&(start..start + bytes.len()), kernel_page_bytes());
    let registered = Registered::new(context, &pages, FLAGS | READ_ONLY)?;
    let first = device_address(context, pages.start as *mut c_void)?;
    Ok((registered, first + (start - pages.start) as u64))
}

/// The pages that a place lies in.
fn whole_pages(place: &Range<usize>, page: usize) -> Range<usize> {
    place.start / page * page..place.end.next_multiple_of(page)
}

/// The ranges of whole pages that hold `places`, by rising address, none touching another: a page
/// can be registered once only.
fn pages_of(places: &[Range<usize>], page: usize) -> Vec<Range<usize>> {
    let mut pages: Vec<Range<usize>> = places
        .iter()
        .map(|place| whole_pages(place, page))
        .collect();
    pages.sort_unstable_by_key(|pages| pages.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in pages {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_share_a_page_are_registered_together() {
        let places = [8200..8300, 4000..4200, 8300..9000, 40_960..45_056];
        let expected: [Range<usize>; 2] = [0..12_288, 40_960..45_056];
        assert_eq!(pages_of(&places, 4096), expected);
    }

    /// Two buffers in one page of 64 KiB and two ranges of pages of 4 KiB.
    #[test]
    fn pages_are_the_machines() {
        let places = [0..100, 40_960..45_056, 131_072..131_080];
        let (one, two) = (0..65_536, 131_072..196_608);
        assert_eq!(pages_of(&places, 65_536), [one, two]);
        assert_eq!(pages_of(&places, 4096).len(), 3);
    }
}
