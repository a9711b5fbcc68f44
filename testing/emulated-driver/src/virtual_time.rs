//! The emulated GPU in virtual time, as tests and simulations carry it on: launches take time and compute nothing.

use std::ffi::c_void;

/// What launches cost beside their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one launch of a stream to the next, on the host.
    pub launch_ns: u64,
    /// From an eviction until the blocks that run have seen it and ended.
    pub look_ns: u64,
    /// What a launch takes that is evicted before it begins, or that is never evicted: it has one thread.
    pub empty_ns: u64,
}

/// A launch that begins, as whoever says its cost sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct BegunLaunch {
    /// The handle of its stream.
    pub stream: u64,
    /// Its place in the list of launches that it was submitted with.
    pub index: u32,
    pub blocks: u32,
    /// How many of its blocks a multiprocessor has room for.
    pub blocks_per_sm: u32,
    /// Multiprocessors that it may use.
    pub sms: u32,
}

impl BegunLaunch {
    /// How often its blocks fill its multiprocessors, if it is alone there.
    #[must_use]
    pub fn waves(&self) -> u32 {
        let at_once = (self.blocks_per_sm.max(1) * self.sms).max(1);
        self.blocks.div_ceil(at_once).max(1)
    }
}

/// How far virtual time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    pub now_ns: u64,
    /// When something happens next if the host does nothing; none: nothing will.
    pub next_ns: Option<u64>,
    /// Something changed that the host may see now.
    pub changed: bool,
}

/// How the exported function looks from here.
pub(crate) type Pass = unsafe extern "C" fn(u64, Cost, *mut c_void, *mut [u64; 2]) -> bool;
type Cost = unsafe extern "C" fn(*mut c_void, *const BegunLaunch) -> u64;

/// Lets virtual time pass. `cost` says how long a block of a launch takes, in nanoseconds.
pub(crate) fn pass(
    pass: Pass,
    until_ns: u64,
    mut cost: &mut dyn FnMut(&BegunLaunch) -> u64,
) -> Passed {
    unsafe extern "C" fn ask(user: *mut c_void, begun: *const BegunLaunch) -> u64 {
        // SAFETY: it is called with the pointer below, while `pass` has not returned, and with a launch.
        let (cost, begun) = unsafe {
            let cost = user.cast::<&mut dyn FnMut(&BegunLaunch) -> u64>();
            (&mut *cost, &*begun)
        };
        cost(begun)
    }
    let mut at = [0; 2];
    // SAFETY: `ask` takes this pointer, and `at` is as wanted.
    let changed = unsafe { pass(until_ns, ask, (&raw mut cost).cast(), &raw mut at) };
    let [now_ns, next] = at;
    Passed {
        now_ns,
        next_ns: (next != u64::MAX).then_some(next),
        changed,
    }
}
