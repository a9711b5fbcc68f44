//! The primary context of a GPU: what all memory, streams and modules belong to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::CUcontext;

use super::error::CallError;
use super::library::Gpu;
use super::symbols::Symbols;

/// A retained primary context. Whatever is made in it holds it, so it outlives all of that.
pub struct Context {
    gpu: Gpu,
    raw: CUcontext,
    /// Nothing in it is given back one by one any more: it will be reset, or the process ends.
    abandoned: AtomicBool,
    /// It was reset: nothing is left in it.
    reset: bool,
}

// SAFETY: the driver's contexts may be used from all threads; the handle is only a name.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Something still holds a context that should have been reset.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// This number of holders in addition to the caller.
    #[error("the context still has {0} objects: drop them first")]
    InUse(usize),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Context {
    /// The primary context of `gpu` (`cuDevicePrimaryCtxRetain`), made current on this thread.
    pub fn retain(gpu: Gpu) -> Result<Arc<Self>, CallError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid place for the result, and a device that exists.
        let code = unsafe { (gpu.driver.symbols.primary_ctx_retain)(&raw mut raw, gpu.raw) };
        CallError::check("cuDevicePrimaryCtxRetain", code)?;
        let context = Arc::new(Self {
            gpu,
            raw,
            abandoned: AtomicBool::new(false),
            reset: false,
        });
        context.bind()?;
        Ok(context)
    }

    /// Makes it current on the calling thread (`cuCtxSetCurrent`). Launches, copies and questions are
    /// made on threads that did so once; what makes or ends something does it itself.
    pub fn bind(&self) -> Result<(), CallError> {
        // SAFETY: the context is retained for as long as `self` lives.
        let code = unsafe { (self.symbols().ctx_set_current)(self.raw) };
        CallError::check("cuCtxSetCurrent", code)
    }

    /// The lowest and the highest priority of streams (`cuCtxGetStreamPriorityRange`): the highest is
    /// the smallest number. Both 0 where there are none.
    pub fn stream_priorities(&self) -> Result<(i32, i32), CallError> {
        self.bind()?;
        let (mut lowest, mut highest) = (0, 0);
        let ask = self.symbols().ctx_get_stream_priority_range;
        // SAFETY: valid places for the results.
        let code = unsafe { ask(&raw mut lowest, &raw mut highest) };
        CallError::check("cuCtxGetStreamPriorityRange", code)?;
        Ok((lowest, highest))
    }

    /// Waits until the device has done everything that was asked of it (`cuCtxSynchronize`): for
    /// starting up and for tests.
    pub fn synchronize(&self) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: no arguments; a context is current.
        let code = unsafe { (self.symbols().ctx_synchronize)() };
        CallError::check("cuCtxSynchronize", code)
    }

    /// What is dropped from now on is not given back to the driver, which might wait for the device:
    /// [`reset`](Self::reset) follows, which ends everything at once, or the end of the process.
    pub fn abandon(&self) {
        // Relaxed: objects are dropped by the thread that abandons, or handed to it through locks.
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Ends everything in the context and the context itself, whatever state it is in
    /// (`cuDevicePrimaryCtxReset`), so that a new one can be made. As each thing in it holds the
    /// context, nothing is left that could be used afterwards.
    pub fn reset(self: Arc<Self>) -> Result<Gpu, ResetError> {
        let holders = Arc::strong_count(&self) - 1;
        let mut context = Arc::into_inner(self).ok_or(ResetError::InUse(holders))?;
        let gpu = context.gpu;
        // SAFETY: nothing made in the context exists any more: each holds it, and it was alone.
        let code = unsafe { (gpu.driver.symbols.primary_ctx_reset)(gpu.raw) };
        CallError::check("cuDevicePrimaryCtxReset", code)?;
        context.reset = true;
        Ok(gpu)
    }

    /// The GPU that it is of.
    #[must_use]
    pub fn gpu(&self) -> Gpu {
        self.gpu
    }

    pub(super) fn symbols(&self) -> &'static Symbols {
        self.gpu.driver.symbols
    }

    /// Calls `end` with the context current, unless the context will be reset anyway. A drop
    /// cannot report an error.
    pub(super) fn give_back(&self, end: impl FnOnce(&'static Symbols)) {
        // Relaxed: partner of the store in `abandon`.
        if !self.abandoned.load(Ordering::Relaxed) && self.bind().is_ok() {
            end(self.symbols());
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Relaxed: partner of the store in `abandon`. The last release ends the context, for which the driver may wait
        // for the device.
        if self.abandoned.load(Ordering::Relaxed) && !self.reset {
            return;
        }
        // SAFETY: retained once, by `retain`; nothing made in it is left. After a reset, which drops
        // the context too, the reference is still ours to release.
        unsafe { (self.symbols().primary_ctx_release)(self.gpu.raw) };
    }
}
