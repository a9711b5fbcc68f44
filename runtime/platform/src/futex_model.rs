//! The futex as the model checker sees it: one queue with a lock, under which the kernel compares
//! the word. Times never come, so a wake-up that is lost is a deadlock, which the checker reports.

use loom::sync::{Condvar, Mutex};

use crate::atomics::{AtomicU32, Ordering};

/// Who may wait on the word: here it makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only.
    Process,
    /// Every process that maps the page.
    Machine,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    Maybe,
    /// The word did not hold the expected value when the wait began.
    Changed,
    /// The time limit passed: never.
    TimedOut,
}

loom::lazy_static! {
    static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// Sleeps while `*word == expected`, until woken.
///
/// # Panics
/// If a thread of the model panicked.
#[expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the same signature as the kernel's, which checks the address; models pass references"
)]
pub fn wait(word: *const AtomicU32, expected: u32, _: Option<u64>, _: Scope) -> Wake {
    let guard = QUEUE.0.lock().expect("no panic");
    // SAFETY: models pass words that outlive the wait. The kernel's load is ordered by its lock only.
    if unsafe { &*word }.load(Ordering::Relaxed) != expected {
        return Wake::Changed;
    }
    drop(QUEUE.1.wait(guard).expect("no panic"));
    Wake::Maybe
}

/// Wakes all waiters: waking too many is allowed at any time.
///
/// # Panics
/// If a thread of the model panicked.
pub fn wake(_: *const AtomicU32, _: u32, _: Scope) {
    drop(QUEUE.0.lock().expect("no panic"));
    QUEUE.1.notify_all();
}
