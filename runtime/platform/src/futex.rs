//! Waiting for a word of memory to change.
//!
//! The functions take raw pointers because the word may lie in memory that another process can
//! write to, which must not be the target of a Rust reference to anything but an atomic. They are
//! safe nevertheless: the kernel reads the word itself and answers `EFAULT` when it cannot.

use crate::atomics::AtomicU32;
use crate::clock;

/// Which threads may wait on the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only (cheaper).
    Process,
    /// Every process that maps the page.
    Machine,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Woken, or interrupted by a signal: look at the word again.
    Maybe,
    /// The word did not hold the expected value when the wait began.
    Changed,
    TimedOut,
}

/// Sleeps while `*word == expected`, until woken or until `until_ns` (absolute; none: no limit).
#[expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the kernel checks the address"
)]
pub fn wait(word: *const AtomicU32, expected: u32, until_ns: Option<u64>, scope: Scope) -> Wake {
    let time = clock::timespec(until_ns.unwrap_or(0));
    let limit = if until_ns.is_some() {
        &raw const time
    } else {
        std::ptr::null()
    };
    // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, which FUTEX_WAIT does not.
    // SAFETY: the kernel checks `word` and only reads from it; `limit` is null or valid.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAIT_BITSET | flag(scope),
            expected,
            limit,
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if result == 0 {
        return Wake::Maybe;
    }
    // SAFETY: errno is this thread's own.
    match unsafe { *libc::__errno_location() } {
        libc::EAGAIN => Wake::Changed,
        libc::ETIMEDOUT => Wake::TimedOut,
        _ => Wake::Maybe,
    }
}

/// Wakes up to `count` waiters of `word`.
#[expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the kernel checks the address"
)]
pub fn wake(word: *const AtomicU32, count: u32, scope: Scope) {
    let count = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel uses `word` as a key and does not write to it.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | flag(scope), count);
    }
}

const fn flag(scope: Scope) -> libc::c_int {
    match scope {
        Scope::Process => libc::FUTEX_PRIVATE_FLAG,
        Scope::Machine => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_word_that_has_changed_returns_at_once() {
        let word = AtomicU32::new(7);
        assert_eq!(
            wait(&raw const word, 6, None, Scope::Process),
            Wake::Changed
        );
    }

    #[test]
    fn waiting_ends_at_its_limit() {
        let word = AtomicU32::new(7);
        let limit = clock::now_ns() + 200_000;
        while wait(&raw const word, 7, Some(limit), Scope::Machine) != Wake::TimedOut {}
        assert!(clock::now_ns() >= limit);
    }

    #[test]
    fn bad_addresses_are_refused_by_the_kernel() {
        let limit = clock::now_ns() + 1_000_000_000;
        assert_eq!(
            wait(std::ptr::null(), 0, Some(limit), Scope::Machine),
            Wake::Maybe
        );
        wake(std::ptr::null(), 1, Scope::Machine);
    }
}
