//! Memory of the device, and memory of the host that kernels can use.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use punctual_types::SharedBytes;

use super::context::Context;
use super::error::CallError;

/// Bytes of device memory.
pub struct DeviceMemory {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
}

impl DeviceMemory {
    /// Takes `bytes` (`cuMemAlloc`), which begin at a multiple of 256.
    pub fn take(context: &Arc<Context>, bytes: usize) -> Result<Self, CallError> {
        context.bind()?;
        let mut address = 0;
        // The driver refuses a size of zero.
        let bytes = bytes.max(1);
        // SAFETY: a valid place for the result.
        let code = unsafe { (context.symbols().mem_alloc)(&raw mut address, bytes) };
        CallError::check("cuMemAlloc", code)?;
        Ok(Self {
            context: context.clone(),
            address,
            bytes,
        })
    }

    /// Where it lies, for kernels.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes bytes from `offset` on and waits until they are there (`cuMemcpyHtoD`, `cuStreamSynchronize`). The copy alone
    /// returns when pageable memory was read, which may be before the device has the bytes, and launches in our streams do
    /// not wait for the default stream, which copies them.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), CallError> {
        let to = self.at(offset, bytes.len());
        // SAFETY: the range is inside this memory, and the source lives until the call returns.
        let code = unsafe {
            (self.context.symbols().memcpy_to_device)(to, bytes.as_ptr().cast(), bytes.len())
        };
        CallError::check("cuMemcpyHtoD", code)?;
        let default = std::ptr::null_mut();
        // SAFETY: null is the default stream of whichever context is current; without one the driver says so.
        let code = unsafe { (self.context.symbols().stream_synchronize)(default) };
        CallError::check("cuStreamSynchronize", code)
    }

    /// Reads bytes from `offset` on (`cuMemcpyDtoH`). Not ordered behind streams: ask when they are done.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), CallError> {
        let from = self.at(offset, bytes.len());
        // SAFETY: the range is inside this memory, and the target lives until the call returns.
        let code = unsafe {
            (self.context.symbols().memcpy_to_host)(bytes.as_mut_ptr().cast(), from, bytes.len())
        };
        CallError::check("cuMemcpyDtoH", code)
    }

    /// The address of `offset`, if `bytes` from there on are inside.
    pub(super) fn at(&self, offset: usize, bytes: usize) -> u64 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{bytes} bytes from {offset} on are outside {} bytes of device memory",
            self.bytes
        );
        self.address + offset as u64
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.context.give_back(|symbols| {
            // SAFETY: taken by `take` and given back once. The driver waits for what uses it.
            unsafe { (symbols.mem_free)(self.address) };
        });
    }
}

/// Page-locked memory of the host that kernels read and write in place.
///
/// The device may write at any time, so there are no slices of it, only atomic words and copies.
pub struct MappedMemory {
    context: Arc<Context>,
    place: NonNull<u8>,
    address: u64,
    bytes: usize,
}

// SAFETY: plain memory; all shared access is through atomics or the device.
unsafe impl Send for MappedMemory {}
// SAFETY: as above.
unsafe impl Sync for MappedMemory {}

impl MappedMemory {
    /// Takes `bytes` (`cuMemHostAlloc`), zeroed, and finds where the device sees them (`cuMemHostGetDevicePointer`).
    pub fn take(context: &Arc<Context>, bytes: usize) -> Result<Self, CallError> {
        /// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`, without `CU_MEMHOSTALLOC_WRITECOMBINED`: the host
        /// reads from it, which is slow from write-combined memory.
        const FLAGS: u32 = 1 | 2;
        context.bind()?;
        let symbols = context.symbols();
        let bytes = bytes.max(1).next_multiple_of(size_of::<u64>());
        let mut raw: *mut c_void = std::ptr::null_mut();
        // SAFETY: a valid place for the result.
        let code = unsafe { (symbols.mem_host_alloc)(&raw mut raw, bytes, FLAGS) };
        CallError::check("cuMemHostAlloc", code)?;
        let null = CallError {
            call: "cuMemHostAlloc",
            code: super::Code::OUT_OF_MEMORY,
        };
        let mut memory = Self {
            context: context.clone(),
            place: NonNull::new(raw.cast()).ok_or(null)?,
            address: 0,
            bytes,
        };
        memory.address = device_address(context, raw)?;
        // SAFETY: `bytes` were just taken, and no other code has their address yet.
        unsafe { memory.place.write_bytes(0, bytes) };
        Ok(memory)
    }

    /// Where the device sees byte `offset`.
    ///
    /// # Panics
    /// If it is outside.
    #[must_use]
    pub fn address(&self, offset: usize) -> u64 {
        assert!(offset < self.bytes, "byte {offset} of {}", self.bytes);
        self.address + offset as u64
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If it is outside, or not at a multiple of 4.
    #[must_use]
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "a word at byte {offset}");
        let place = self.at(offset, 4);
        // SAFETY: inside the memory, aligned (it begins at a page), initialised by `take`, and never
        // used but through atomics and by the device, for which a word is one access too.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }

    /// Copies bytes from `offset` on out of it. They mean something when the device is known to have written them.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let place = self.at(offset, bytes.len());
        // SAFETY: inside the memory; nothing of ours writes it while it is shared.
        unsafe { place.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Copies bytes into it from `offset` on.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let place = self.at(offset, bytes.len());
        // SAFETY: inside the memory, which is ours alone.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes that others may write to into it, from `offset` on. They may change meanwhile.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write_shared(&mut self, offset: usize, bytes: SharedBytes<'_>) {
        let place = self.at(offset, bytes.len());
        // SAFETY: inside the memory, which is ours alone and initialised, and of which there are no other slices.
        let copy = unsafe { std::slice::from_raw_parts_mut(place, bytes.len()) };
        bytes.copy_to(copy);
    }

    /// As [`read`](Self::read), of floats.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn read_floats(&self, offset: usize, floats: &mut [f32]) {
        let bytes = size_of_val(floats);
        let place = self.at(offset, bytes);
        // SAFETY: inside the memory; nothing of ours writes it while it is shared; any bytes are a float.
        unsafe { place.copy_to_nonoverlapping(floats.as_mut_ptr().cast(), bytes) };
    }

    /// As [`write`](Self::write), of floats.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write_floats(&mut self, offset: usize, floats: &[f32]) {
        let bytes = size_of_val(floats);
        let place = self.at(offset, bytes);
        // SAFETY: inside the memory, which is ours alone.
        unsafe { place.copy_from_nonoverlapping(floats.as_ptr().cast(), bytes) };
    }

    pub(super) fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{bytes} bytes from {offset} on are outside {} bytes of mapped memory",
            self.bytes
        );
        // SAFETY: just checked to be inside.
        unsafe { self.place.as_ptr().add(offset) }
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        self.context.give_back(|symbols| {
            // SAFETY: taken by `take` and given back once. The driver waits for what uses it.
            unsafe { (symbols.mem_free_host)(self.place.as_ptr().cast()) };
        });
    }
}

/// Where the device sees page-locked host memory (`cuMemHostGetDevicePointer`).
pub(super) fn device_address(context: &Context, place: *mut c_void) -> Result<u64, CallError> {
    let mut address = 0;
    let ask = context.symbols().mem_host_get_device_pointer;
    // SAFETY: a valid place for the result; the driver knows the memory or says that it does not.
    let code = unsafe { ask(&raw mut address, place, 0) };
    CallError::check("cuMemHostGetDevicePointer", code)?;
    Ok(address)
}
