//! Orders of housekeeping that real-time threads see at their next wake-up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::starved::StarvedLeaders;

/// Answer what was accepted, accept nothing more.
#[derive(Debug, Default)]
pub struct DrainOrder {
    /// Short of that: give up best-effort work.
    pub shed: ShedOrder,
    /// No order: what the watchdog knows and the scheduler does not.
    pub starved: StarvedLeaders,
    /// Absolute, in ns; zero: serve.
    bound_ns: AtomicU64,
}

impl DrainOrder {
    /// Gives the order; a thread that is not done by `bound_ns` stops as it is.
    pub fn give(&self, bound_ns: u64) {
        // At least 1, since zero means that there is no order. Release pairs with the Acquire in `bound_ns`.
        self.bound_ns.store(bound_ns.max(1), Ordering::Release);
    }

    /// By when the drain must be done, once it was ordered.
    pub fn bound_ns(&self) -> Option<u64> {
        // Acquire pairs with the Release in `give`.
        let bound = self.bound_ns.load(Ordering::Acquire);
        (bound != 0).then_some(bound)
    }
}

/// Give up best-effort work until further notice: the watchdog's first answer to a thread that is silent.
#[derive(Debug, Default)]
pub struct ShedOrder {
    hold: AtomicBool,
}

impl ShedOrder {
    /// Gives the order, or takes it back; true if it was otherwise before, and the scheduler must be woken.
    pub fn give(&self, hold: bool) -> bool {
        // Relaxed, like its partner in `holds`: the order stands for itself, and the ring that follows
        // it publishes it.
        self.hold.swap(hold, Ordering::Relaxed) != hold
    }

    pub fn holds(&self) -> bool {
        // Relaxed: partner of the swap in `give`.
        self.hold.load(Ordering::Relaxed)
    }
}

/// Something that one thread says once and another looks at. Ring its bell after raising it.
#[derive(Debug, Default)]
pub struct Flag {
    raised: AtomicBool,
}

impl Flag {
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
