//! An allocator that counts what must not happen after the ready signal.
//!
//! A binary installs it with one line:
//! ```
//! #[global_allocator]
//! static ALLOCATOR: punctual_platform::SealedAllocator = punctual_platform::SealedAllocator;
//! ```
//! Before [`seal`] it is the system's allocator. Afterwards it counts, apart for real-time
//! threads (those of [`crate::thread::spawn_realtime`]) and others. With
//! [`abort_on_realtime_allocation`], as in tests, the first allocation on a real-time thread ends
//! the process with a message that names the thread. [`end_with_code_when_out_of_memory`] is for
//! programs whose end is acted on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use crate::{clock, poll, service};

// Relaxed everywhere: these are counters and switches that order nothing else.
static INSTALLED: AtomicBool = AtomicBool::new(false);
static SEALED: AtomicBool = AtomicBool::new(false);
static ABORTS: AtomicBool = AtomicBool::new(false);
static OUT_OF_MEMORY_CODE: AtomicU8 = AtomicU8::new(0);
static REALTIME: AtomicU64 = AtomicU64::new(0);
static REALTIME_FREES: AtomicU64 = AtomicU64::new(0);
static ELSEWHERE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // No destructor and a constant start: reading it neither allocates nor registers anything.
    static IS_REALTIME: Cell<bool> = const { Cell::new(false) };
}

/// The allocator to install; see the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct SealedAllocator;

/// Allocations since [`seal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// Allocations and reallocations on real-time threads: a defect.
    pub realtime: u64,
    /// Blocks freed on real-time threads: a defect too, since it takes the allocator's locks.
    pub realtime_frees: u64,
    /// Allocations and reallocations on other threads.
    pub elsewhere: u64,
}

pub fn seal() {
    SEALED.store(true, Relaxed);
}

/// Whether a binary has installed the [`SealedAllocator`]; without it the counts stay zero and mean nothing.
#[must_use]
pub fn is_installed() -> bool {
    // An allocation has the installed allocator set the mark. `black_box` keeps the compiler from removing it.
    drop(std::hint::black_box(Box::new(0_u8)));
    INSTALLED.load(Relaxed)
}

/// What was counted since [`seal`].
#[must_use]
pub fn counts() -> AllocationCounts {
    AllocationCounts {
        realtime: REALTIME.load(Relaxed),
        realtime_frees: REALTIME_FREES.load(Relaxed),
        elsewhere: ELSEWHERE.load(Relaxed),
    }
}

/// Whether an allocation on a real-time thread after [`seal`] ends the process.
pub fn abort_on_realtime_allocation(abort: bool) {
    ABORTS.store(abort, Relaxed);
}

/// From now on an allocation that fails ends the process with this code (not 0), which a supervisor can
/// act on, rather than with a signal.
pub fn end_with_code_when_out_of_memory(code: u8) {
    OUT_OF_MEMORY_CODE.store(code, Relaxed);
}

/// What `body` allocates on a real-time thread counts as allocated elsewhere: for what is known to allocate
/// and was chosen nevertheless, such as a library that runs stages, or a failure on its way to be told.
pub fn permit<T>(body: impl FnOnce() -> T) -> T {
    /// Sets the mark again, also after a panic.
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            IS_REALTIME.set(self.0);
        }
    }

    let _restore = Restore(IS_REALTIME.replace(false));
    body()
}

/// Marks the calling thread as real-time for as long as it lives.
#[derive(Debug)]
pub(crate) struct RealtimeMark(());

impl RealtimeMark {
    pub(crate) fn set() -> Self {
        IS_REALTIME.set(true);
        Self(())
    }
}

impl Drop for RealtimeMark {
    fn drop(&mut self) {
        IS_REALTIME.set(false);
    }
}

/// Whether the calling thread is one of [`crate::thread::spawn_realtime`].
pub(crate) fn is_realtime() -> bool {
    IS_REALTIME.try_with(Cell::get).unwrap_or(false)
}

#[inline]
fn count_allocation() {
    if !INSTALLED.load(Relaxed) {
        INSTALLED.store(true, Relaxed);
    }
    if SEALED.load(Relaxed) {
        count_sealed_allocation();
    }
}

#[cold]
fn count_sealed_allocation() {
    if !is_realtime() {
        ELSEWHERE.fetch_add(1, Relaxed);
        return;
    }
    REALTIME.fetch_add(1, Relaxed);
    if ABORTS.load(Relaxed) {
        abort();
    }
}

/// Ends the process with a message, allocating nothing.
fn abort() -> ! {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes with a terminating zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    for text in [
        b"punctual: real-time thread '".as_slice(),
        name.split(|&b| b == 0).next().unwrap_or(b"?"),
        b"' allocated memory after the allocator was sealed; run under a debugger and break on \
          abort to see where\n",
    ] {
        say(text);
    }
    // SAFETY: no preconditions; does not return.
    unsafe { libc::abort() }
}

/// Returns `block`, the result of an allocation of `bytes` bytes. If the allocation failed, `out_of_memory` is called first.
#[inline]
fn had(block: *mut u8, bytes: usize) -> *mut u8 {
    if block.is_null() {
        out_of_memory(bytes);
    }
    block
}

/// Ends the process, if that is wanted.
#[cold]
fn out_of_memory(bytes: usize) {
    let code = OUT_OF_MEMORY_CODE.load(Relaxed);
    if code == 0 {
        return;
    }
    let mut text = [0_u8; 160];
    let mut rest = text.as_mut_slice();
    let _ = writeln!(
        rest,
        "punctual: no memory for {bytes} bytes: raise the limit (ulimit -v, ulimit -d, MemoryMax=)"
    );
    let left = rest.len();
    say(&text[..text.len() - left]);
    service::end_now(code);
}

/// The last message of a process that cannot allocate. It is lost if standard error is full.
fn say(text: &[u8]) {
    const PATIENCE_NS: u64 = 100_000_000;
    // SAFETY: no part of this process closes standard error.
    let error = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    if poll::wait_writable(error, Some(clock::now_ns() + PATIENCE_NS)) {
        // SAFETY: `text` is valid for reads of its length.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
}

// SAFETY: every call is passed on to `System` unchanged; the counting around it does not allocate.
unsafe impl GlobalAlloc for SealedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        // SAFETY: the caller's promises are System's.
        had(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        // SAFETY: as above.
        had(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count_allocation();
        // SAFETY: as above.
        had(unsafe { System.realloc(block, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if SEALED.load(Relaxed) && is_realtime() {
            REALTIME_FREES.fetch_add(1, Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
