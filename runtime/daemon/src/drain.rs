//! Orders of housekeeping that real-time threads see at their next wake-up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Answer what was accepted, accept nothing more.
#[derive(Debug, Default)]
pub struct DrainOrder {
    /// Absolute, in ns; zero: serve.
    bound_ns: AtomicU64,
}

impl DrainOrder {
    /// Gives the order; whoever is not done by `bound_ns` stops as it is.
    pub fn give(&self, bound_ns: u64) {
        // Release pairs with the Acquire in `bound_ns`.
        self.bound_ns.store(bound_ns.max(1), Ordering::Release);
    }

    /// By when the drain must be done, once it was ordered.
    pub fn bound_ns(&self) -> Option<u64> {
        // Acquire pairs with the Release in `give`.
        let bound = self.bound_ns.load(Ordering::Acquire);
        (bound != 0).then_some(bound)
    }
}

/// Something that one thread says once and another looks at. Ring its bell after raising it.
#[derive(Debug, Default)]
pub struct Flag {
    raised: AtomicBool,
}

impl Flag {
    /// Says it.
    pub fn raise(&self) {
        // Release pairs with the Acquire in `is_raised`: what was pushed before is seen after.
        self.raised.store(true, Ordering::Release);
    }

    /// Whether it was said. Look at it before the rings, not after.
    pub fn is_raised(&self) -> bool {
        // Acquire pairs with the Release in `raise`.
        self.raised.load(Ordering::Acquire)
    }
}
