//! How the daemon wakes a client: by a futex in the memory that only the daemon writes.

use punctual_platform::atomics::{AtomicU32, Ordering};
use punctual_platform::futex::{self, Scope};

use crate::region::Region;

/// What the client's word `sleeping` says: it looks for results by itself.
pub(crate) const AWAKE: u32 = 0;
/// It sleeps on the bell.
pub(crate) const ASLEEP: u32 = 1;
/// It sleeps on the bell for verdicts: answers before them need not wake it.
pub(crate) const ASLEEP_FOR_VERDICTS: u32 = 2;

/// The daemon's bell, for a thread to wait for.
#[derive(Clone, Debug)]
pub struct BellWatch {
    results: Region,
    at: usize,
}

impl BellWatch {
    /// The bell is the word at `at`.
    pub(super) fn new(results: Region, at: usize) -> Self {
        Self { results, at }
    }

    fn word(&self) -> &AtomicU32 {
        self.results.word32(self.at)
    }

    /// How often the daemon rang, modulo 2^32.
    #[must_use]
    pub fn count(&self) -> u32 {
        // Acquire pairs with the store in `Results::ring_bell`: the result is there.
        self.word().load(Ordering::Acquire)
    }

    /// Sleeps until the daemon has rung since `seen`, or `until_ns` (absolute) has come, or for no
    /// reason. A daemon that is gone does not ring.
    pub fn wait(&self, seen: u32, until_ns: u64) {
        let word = std::ptr::from_ref(self.word());
        futex::wait(word, seen, Some(until_ns), Scope::Machine);
    }
}
