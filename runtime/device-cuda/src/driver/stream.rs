//! Streams, events and launches.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUgreenCtx, CUstream};
use libsmctrl_sys::TpcMask;
use libsmctrl_sys::launch_mask::LaunchMasks;

use super::context::Context;
use super::error::CallError;
use super::memory::{DeviceMemory, MappedMemory};
use super::module::Function;
use super::symbols::GreenSymbols;

/// A queue of launches and copies, carried out in order. None of its methods allocates on our side.
pub struct Stream {
    context: Arc<Context>,
    raw: CUstream,
    /// What limits it, if anything does, and must outlive it.
    green: Option<GreenContext>,
    /// What each of its launches is masked with, where its own mask is not.
    launch_mask: Option<(LaunchMasks, TpcMask)>,
}

// SAFETY: the driver's streams may be used from all threads.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: u32,
    /// Dynamic shared bytes of a block.
    pub shared_bytes: u32,
}

/// A context that is limited to some groups.
pub(super) struct GreenContext {
    pub(super) context: Arc<Context>,
    pub(super) symbols: Arc<GreenSymbols>,
    pub(super) raw: CUgreenCtx,
}

// SAFETY: the handle is used twice: to make a stream, by the thread that made it, and to destroy it.
unsafe impl Send for GreenContext {}
// SAFETY: shared, it offers nothing.
unsafe impl Sync for GreenContext {}

impl Drop for GreenContext {
    fn drop(&mut self) {
        self.context.give_back(|_| {
            // SAFETY: made by `Groups::context`, destroyed once, after its stream.
            unsafe { (self.symbols.destroy)(self.raw) };
        });
    }
}

impl Stream {
    /// A stream that does not wait for the default one (`cuStreamCreateWithPriority`); the smaller
    /// `priority`, the sooner its blocks run.
    pub fn new(context: &Arc<Context>, priority: i32) -> Result<Self, CallError> {
        /// `CU_STREAM_NON_BLOCKING`.
        const FLAGS: u32 = 1;
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid place for the result.
        let code = unsafe { (context.symbols().stream_create)(&raw mut raw, FLAGS, priority) };
        CallError::check("cuStreamCreateWithPriority", code)?;
        Ok(Self {
            context: context.clone(),
            raw,
            green: None,
            launch_mask: None,
        })
    }

    /// A stream of a green context, which it keeps.
    ///
    /// # Safety
    /// `raw` is a stream of `green` without another owner; `green` is of the device that `context` is of.
    pub(super) unsafe fn of_green(
        context: &Arc<Context>,
        raw: CUstream,
        green: GreenContext,
    ) -> Self {
        Self {
            context: context.clone(),
            raw,
            green: Some(green),
            launch_mask: None,
        }
    }

    /// Masks all later launches; copies and fills may run anywhere.
    pub(super) fn mask_launches(&mut self, masks: LaunchMasks, mask: TpcMask) {
        self.launch_mask = Some((masks, mask));
    }

    /// Whether it is a stream of a green context.
    pub(super) const fn is_green(&self) -> bool {
        self.green.is_some()
    }

    /// The handle, for calls of `cudarc` and for stream masks.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.raw
    }

    /// The context that it is in.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Queues a kernel (`cuLaunchKernel`). What `arguments` point at is copied before this returns, so
    /// a launch that is evicted later leaves nothing of ours to be freed.
    ///
    /// # Safety
    /// `arguments` point at values of the kernel's parameter types, and all addresses in them are of
    /// memory that is there, large enough, until the launch is over.
    pub unsafe fn launch<const N: usize>(
        &self,
        function: &Function,
        shape: Shape,
        arguments: [*const c_void; N],
    ) -> Result<(), CallError> {
        let mut arguments = arguments.map(<*const c_void>::cast_mut);
        let [x, y, z] = shape.grid;
        // SAFETY: the driver reads `N` values through the pointers and checks the shape; the rest is
        // the caller's promise.
        let mut launch = || unsafe {
            (self.context.symbols().launch_kernel)(
                function.as_raw(),
                x,
                y,
                z,
                shape.block,
                1,
                1,
                shape.shared_bytes,
                self.raw,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        let (code, masked) = match self.launch_mask {
            Some((masks, mask)) => masks.masked(mask, launch),
            None => (launch(), Ok(())),
        };
        CallError::check("cuLaunchKernel", code)?;
        masked.map_err(CallError::not_confined)
    }

    /// Queues a copy to the device (`cuMemcpyHtoDAsync`): `bytes` from `from_offset` on to
    /// `to_offset` on. The source is read when its turn comes.
    ///
    /// # Panics
    /// If a range is outside.
    pub fn copy_in(
        &self,
        from: &MappedMemory,
        from_offset: usize,
        to: &DeviceMemory,
        to_offset: usize,
        bytes: usize,
    ) -> Result<(), CallError> {
        let (to, from) = (to.at(to_offset, bytes), from.at(from_offset, bytes));
        // SAFETY: both ranges are inside memory that the driver waits for before it is freed.
        let code = unsafe {
            (self.context.symbols().memcpy_to_device_async)(to, from.cast(), bytes, self.raw)
        };
        CallError::check("cuMemcpyHtoDAsync", code)
    }

    /// Queues a copy to the device from memory that need not be page-locked, which is read before this returns
    /// (`cuMemcpyHtoDAsync`: "may be synchronous with respect to the host", and is so for pageable memory).
    ///
    /// # Panics
    /// If the bytes do not fit.
    pub fn copy_floats_in(
        &self,
        from: &[f32],
        to: &DeviceMemory,
        to_offset: usize,
    ) -> Result<(), CallError> {
        let to = to.at(to_offset, size_of_val(from));
        // SAFETY: the source is pageable memory, staged by the driver before it returns.
        let code = unsafe {
            (self.context.symbols().memcpy_to_device_async)(
                to,
                from.as_ptr().cast(),
                size_of_val(from),
                self.raw,
            )
        };
        CallError::check("cuMemcpyHtoDAsync", code)
    }

    /// Queues a copy from the device (`cuMemcpyDtoHAsync`): `bytes` from `from_offset` on to `to_offset` on.
    ///
    /// # Panics
    /// If a range is outside.
    pub fn copy_out(
        &self,
        from: &DeviceMemory,
        from_offset: usize,
        to: &MappedMemory,
        to_offset: usize,
        bytes: usize,
    ) -> Result<(), CallError> {
        let (to, from) = (to.at(to_offset, bytes), from.at(from_offset, bytes));
        // SAFETY: both ranges are inside memory that the driver waits for before it is freed, and of mapped memory there
        // are no slices.
        let code = unsafe {
            (self.context.symbols().memcpy_to_host_async)(to.cast(), from, bytes, self.raw)
        };
        CallError::check("cuMemcpyDtoHAsync", code)
    }

    /// Queues a copy on the device (`cuMemcpyDtoDAsync`): `bytes` from `from_offset` on to `to_offset` on.
    ///
    /// # Panics
    /// If a range is outside.
    pub fn copy_across(
        &self,
        from: &DeviceMemory,
        from_offset: usize,
        to: &DeviceMemory,
        to_offset: usize,
        bytes: usize,
    ) -> Result<(), CallError> {
        let (to, from) = (to.at(to_offset, bytes), from.at(from_offset, bytes));
        // SAFETY: both ranges are inside memory that the driver waits for before it is freed.
        let code =
            unsafe { (self.context.symbols().memcpy_on_device_async)(to, from, bytes, self.raw) };
        CallError::check("cuMemcpyDtoDAsync", code)
    }

    /// Queues the writing of one word that the host looks at (`cuMemsetD32Async`).
    ///
    /// # Panics
    /// If it is outside, or not at a multiple of 4.
    pub fn write_word(
        &self,
        to: &MappedMemory,
        offset: usize,
        value: u32,
    ) -> Result<(), CallError> {
        // Checks the place.
        let _ = to.word(offset);
        let to = to.address(offset);
        // SAFETY: the word is inside memory that the driver waits for before it is freed, and used by atomics only.
        let code = unsafe { (self.context.symbols().memset_words_async)(to, value, 1, self.raw) };
        CallError::check("cuMemsetD32Async", code)
    }

    /// Queues the filling of the first words with `value` (`cuMemsetD32Async`).
    ///
    /// # Panics
    /// If the words are outside.
    pub fn fill_words(&self, to: &DeviceMemory, words: usize, value: u32) -> Result<(), CallError> {
        let to = to.at(0, words * 4);
        // SAFETY: the range is inside the memory.
        let code =
            unsafe { (self.context.symbols().memset_words_async)(to, value, words, self.raw) };
        CallError::check("cuMemsetD32Async", code)
    }

    /// Whether everything queued is over (`cuStreamQuery`).
    pub fn is_idle(&self) -> Result<bool, CallError> {
        // SAFETY: the stream exists.
        let code = unsafe { (self.context.symbols().stream_query)(self.raw) };
        CallError::check_ready("cuStreamQuery", code)
    }

    /// Waits until everything queued is over (`cuStreamSynchronize`): for starting up, loaders, tests.
    pub fn synchronize(&self) -> Result<(), CallError> {
        // SAFETY: the stream exists.
        let code = unsafe { (self.context.symbols().stream_synchronize)(self.raw) };
        CallError::check("cuStreamSynchronize", code)
    }

    /// What is queued from now on waits for `event` (`cuStreamWaitEvent`).
    pub fn wait_for(&self, event: &Event) -> Result<(), CallError> {
        // SAFETY: both exist.
        let code = unsafe { (self.context.symbols().stream_wait_event)(self.raw, event.raw, 0) };
        CallError::check("cuStreamWaitEvent", code)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context.give_back(|symbols| {
            // SAFETY: made by `new` or handed over to `of_green`, and destroyed once.
            unsafe { (symbols.stream_destroy)(self.raw) };
        });
    }
}

pub struct Event {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the driver's events may be used from all threads.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event (`cuEventCreate`), which notes the time only if `timed`: those that do not are cheaper.
    pub fn new(context: &Arc<Context>, timed: bool) -> Result<Self, CallError> {
        /// `CU_EVENT_DISABLE_TIMING`.
        const UNTIMED: u32 = 2;
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        let flags = if timed { 0 } else { UNTIMED };
        // SAFETY: a valid place for the result.
        let code = unsafe { (context.symbols().event_create)(&raw mut raw, flags) };
        CallError::check("cuEventCreate", code)?;
        Ok(Self {
            context: context.clone(),
            raw,
        })
    }

    /// Puts the mark behind what is queued in `stream` (`cuEventRecord`).
    pub fn record(&self, stream: &Stream) -> Result<(), CallError> {
        // SAFETY: both exist.
        let code = unsafe { (self.context.symbols().event_record)(self.raw, stream.raw) };
        CallError::check("cuEventRecord", code)
    }

    /// Waits for the mark (`cuEventSynchronize`).
    pub fn synchronize(&self) -> Result<(), CallError> {
        // SAFETY: the event exists.
        let code = unsafe { (self.context.symbols().event_synchronize)(self.raw) };
        CallError::check("cuEventSynchronize", code)
    }

    /// Nanoseconds from `earlier` to this (`cuEventElapsedTime`, whose resolution is about half a microsecond).
    pub fn nanoseconds_since(&self, earlier: &Self) -> Result<u64, CallError> {
        let mut milliseconds = 0.0_f32;
        let ask = self.context.symbols().event_elapsed_time;
        // SAFETY: a valid place for the result; both exist.
        let code = unsafe { ask(&raw mut milliseconds, earlier.raw, self.raw) };
        CallError::check("cuEventElapsedTime", code)?;
        Ok((f64::from(milliseconds) * 1e6) as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.context.give_back(|symbols| {
            // SAFETY: made by `new`, destroyed once.
            unsafe { (symbols.event_destroy)(self.raw) };
        });
    }
}
