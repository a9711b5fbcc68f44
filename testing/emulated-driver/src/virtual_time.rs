//! The emulated GPU in virtual time, as tests and simulations carry it on: launches take time and compute nothing. Loading is
//! counted, and costs the thread that loads what [`LoadCosts`] say.

use std::ffi::c_void;
use std::fmt;
use std::ops::Sub;

/// What launches cost in addition to their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one launch of a stream to the next, on the host.
    pub launch_ns: u64,
    /// From an eviction until the blocks that run have seen it and ended.
    pub look_ns: u64,
    /// What a launch takes that is evicted before it begins, or that is never evicted: it has one thread.
    pub empty_ns: u64,
}

/// A launch that begins: what its cost may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct BegunLaunch {
    /// The handle of its stream.
    pub stream: u64,
    /// Its place in the list of launches that it was submitted with.
    pub index: u32,
    /// The kernel's place in the table of our kernels; `u32::MAX`: it is none of them.
    pub kernel: u32,
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

/// What a launch costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LaunchCost {
    /// How long a block takes, if nothing but the launch runs.
    pub block_ns: u64,
    /// What it needs of the time of each of its multiprocessors, in thousandths: blocks that begin where others leave less
    /// take longer in proportion.
    pub sm_permille: u32,
    /// The same of the memory's bandwidth, of the whole device.
    pub memory_permille: u32,
}

impl LaunchCost {
    /// Of a launch that nothing slows down, and that slows down nothing.
    #[must_use]
    pub const fn alone(block_ns: u64) -> Self {
        Self {
            block_ns,
            sm_permille: 0,
            memory_permille: 0,
        }
    }
}

/// What a driver was asked to load, since it was initialised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loads {
    /// Times that a process without a context got one.
    pub contexts: u64,
    pub modules: u64,
    /// Of their images.
    pub module_bytes: u64,
    /// From the host's memory to the device's.
    pub copied_bytes: u64,
}

/// What loading costs the thread that asks for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadCosts {
    pub context_ns: u64,
    /// A module, whatever its size, and each byte of its image.
    pub module_ns: u64,
    pub module_byte_ns: f64,
    /// A byte from the host to the device.
    pub copied_byte_ns: f64,
}

impl LoadCosts {
    /// What `loads` cost, in nanoseconds.
    #[must_use]
    pub fn of(&self, loads: Loads) -> u64 {
        let bytes = loads.module_bytes as f64 * self.module_byte_ns
            + loads.copied_bytes as f64 * self.copied_byte_ns;
        loads.contexts * self.context_ns + loads.modules * self.module_ns + bytes as u64
    }
}

impl Sub for Loads {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            contexts: self.contexts - before.contexts,
            modules: self.modules - before.modules,
            module_bytes: self.module_bytes - before.module_bytes,
            copied_bytes: self.copied_bytes - before.copied_bytes,
        }
    }
}

impl fmt::Display for Loads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            contexts,
            modules,
            module_bytes,
            copied_bytes,
        } = self;
        write!(f, "{contexts} {modules} {module_bytes} {copied_bytes}")
    }
}

impl Loads {
    /// Reads what `Display` wrote.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ').map(|word| word.parse().ok());
        let mut next = || words.next().flatten();
        Some(Self {
            contexts: next()?,
            modules: next()?,
            module_bytes: next()?,
            copied_bytes: next()?,
        })
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
pub(crate) type Cost = unsafe extern "C" fn(*mut c_void, *const BegunLaunch) -> LaunchCost;

/// Lets virtual time pass. `cost` says what a launch costs.
pub(crate) fn pass(
    pass: Pass,
    until_ns: u64,
    mut cost: &mut dyn FnMut(&BegunLaunch) -> LaunchCost,
) -> Passed {
    unsafe extern "C" fn ask(user: *mut c_void, begun: *const BegunLaunch) -> LaunchCost {
        // SAFETY: it is called with the pointer below, while `pass` has not returned, and with a launch.
        let (cost, begun) = unsafe {
            let cost = user.cast::<&mut dyn FnMut(&BegunLaunch) -> LaunchCost>();
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
