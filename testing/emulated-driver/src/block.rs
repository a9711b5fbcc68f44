//! The thread model of `cpp/emulation.hpp`, from Rust: the kernels that were compiled in, and the
//! running of one block.
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// A position in a grid or a block, or the size of one: columns, rows, layers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Index {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

impl Index {
    /// How many positions there are; none if that is more than can be counted.
    #[must_use]
    pub fn volume(self) -> Option<u64> {
        (u64::from(self.x) * u64::from(self.y)).checked_mul(u64::from(self.z))
    }

    /// The position at place `at` of all, in the order in which blocks begin.
    #[must_use]
    pub fn position(self, at: u64) -> Index {
        let row = at / u64::from(self.x);
        Index {
            x: (at % u64::from(self.x)) as u32,
            y: (row % u64::from(self.y)) as u32,
            z: (row / u64::from(self.y)) as u32,
        }
    }
}

impl From<[u32; 3]> for Index {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self { x, y, z }
    }
}

/// A kernel that was compiled for the processor. Its twin is `emulated::Kernel`.
#[repr(C)]
pub struct Kernel {
    name: *const c_char,
    entry: unsafe extern "C" fn(*const *mut c_void),
    parameter_bytes: *const usize,
    parameters: usize,
    threads_max: u32,
    next: *const Kernel,
}

// SAFETY: kernels are constants of the library once it is loaded.
unsafe impl Sync for Kernel {}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name())
            .field("parameter_bytes", &self.parameter_bytes())
            .field("threads_max", &self.threads_max)
            .finish_non_exhaustive()
    }
}

impl Kernel {
    /// All that there are; none if the library was built for another machine than the one that built it.
    pub fn all() -> impl Iterator<Item = &'static Kernel> {
        let mut next = first();
        std::iter::from_fn(move || {
            // SAFETY: null or a registration, which is a constant.
            let kernel = unsafe { next.as_ref() }?;
            next = kernel.next;
            Some(kernel)
        })
    }

    /// The one called `name`.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Kernel> {
        Self::all().find(|kernel| kernel.name() == name)
    }

    /// Its name, as in the source.
    #[must_use]
    pub fn name(&self) -> &'static str {
        // SAFETY: a string literal of the source.
        unsafe { CStr::from_ptr(self.name) }
            .to_str()
            .unwrap_or_default()
    }

    /// The size of each parameter, in bytes.
    #[must_use]
    pub fn parameter_bytes(&self) -> &'static [usize] {
        // SAFETY: a constant array of that many, made by the compiler from the kernel's type.
        unsafe { std::slice::from_raw_parts(self.parameter_bytes, self.parameters) }
    }

    /// The most threads that a block of it may have.
    #[must_use]
    pub fn threads_max(&self) -> u32 {
        self.threads_max
    }
}

/// A launch, as its blocks see it. Its twin is `emulated::Launch`.
#[repr(C)]
pub struct Launch {
    pub kernel: *const Kernel,
    pub parameters: *const *mut c_void,
    pub grid: Index,
    pub block: Index,
    /// Dynamic shared memory of a block.
    pub shared_bytes: usize,
    /// Called with `of` whenever a thread is about to look at its guard. Something else than 0: the launch is to end.
    pub at_checkpoint: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    /// For `at_checkpoint`.
    pub of: *mut c_void,
}

#[cfg(kernels_compiled)]
mod raw {
    use super::{Index, Kernel, Launch};
    use std::ffi::{c_char, c_int};

    #[repr(C)]
    pub struct Runner {
        _opaque: [u8; 0],
    }

    unsafe extern "C" {
        pub fn emulated_kernels() -> *const Kernel;
        pub fn emulated_runner_new() -> *mut Runner;
        pub fn emulated_runner_free(runner: *mut Runner);
        pub fn emulated_run_block(
            runner: *mut Runner,
            launch: *const Launch,
            block: Index,
            smid: u32,
        ) -> *const c_char;
        pub fn emulated_illegal_address(runner: *const Runner) -> c_int;
        pub fn emulated_nanoseconds() -> u64;
        pub fn emulated_threads_max() -> u32;
        pub fn emulated_shared_max() -> usize;
    }
}

/// The same interface where nothing was compiled: no kernel is ever found, so none is ever run.
#[cfg(not(kernels_compiled))]
mod raw {
    use super::{Index, Kernel, Launch};
    use std::ffi::{c_char, c_int};

    pub struct Runner;

    pub unsafe fn emulated_kernels() -> *const Kernel {
        std::ptr::null()
    }
    pub unsafe fn emulated_runner_new() -> *mut Runner {
        std::ptr::null_mut()
    }
    pub unsafe fn emulated_runner_free(_: *mut Runner) {}
    pub unsafe fn emulated_run_block(
        _: *mut Runner,
        _: *const Launch,
        _: Index,
        _: u32,
    ) -> *const c_char {
        c"the kernels were not compiled: the library was built for another machine than its builder"
            .as_ptr()
    }
    pub unsafe fn emulated_illegal_address(_: *const Runner) -> c_int {
        0
    }
    pub unsafe fn emulated_nanoseconds() -> u64 {
        0
    }
    pub unsafe fn emulated_threads_max() -> u32 {
        0
    }
    pub unsafe fn emulated_shared_max() -> usize {
        0
    }
}

fn first() -> *const Kernel {
    // SAFETY: reads a pointer that was set while the library was loaded.
    unsafe { raw::emulated_kernels() }
}

/// The most threads that a block may have.
#[must_use]
pub fn threads_max() -> u32 {
    // SAFETY: returns a constant.
    unsafe { raw::emulated_threads_max() }
}

/// The most dynamic shared memory that a block may have, in bytes.
#[must_use]
pub fn shared_max() -> usize {
    // SAFETY: returns a constant.
    unsafe { raw::emulated_shared_max() }
}

/// A monotonic clock, in nanoseconds: that of the kernels.
#[must_use]
pub fn nanoseconds() -> u64 {
    // SAFETY: reads a clock.
    unsafe { raw::emulated_nanoseconds() }
}

/// Stacks and shared memory for one block at a time.
#[derive(Debug)]
pub struct Runner(NonNull<raw::Runner>);

// SAFETY: nothing of it is tied to a thread between two blocks.
unsafe impl Send for Runner {}

impl Runner {
    /// None if the machine has no memory left for the stacks.
    #[must_use]
    pub fn new() -> Option<Self> {
        // SAFETY: no preconditions.
        NonNull::new(unsafe { raw::emulated_runner_new() }).map(Self)
    }

    /// Runs block `block` of `launch` on multiprocessor `smid`, and says what went wrong, if anything did.
    ///
    /// # Safety
    /// The kernel may be run with these parameters: what they point to is there, and no check depends on what it
    /// does to it. Block and shared memory are within the limits.
    pub unsafe fn run(&mut self, launch: &Launch, block: Index, smid: u32) -> Result<(), &CStr> {
        // SAFETY: the runner is ours alone; the rest is the caller's promise.
        let complaint = unsafe { raw::emulated_run_block(self.0.as_ptr(), launch, block, smid) };
        if complaint.is_null() {
            return Ok(());
        }
        // SAFETY: not null, so a text that stays until the next block, which needs this borrow's end.
        Err(unsafe { CStr::from_ptr(complaint) })
    }
}

impl Runner {
    /// Whether what just went wrong was an access to memory that is not there.
    #[must_use]
    pub fn met_illegal_address(&self) -> bool {
        // SAFETY: reads a field that the last block wrote.
        unsafe { raw::emulated_illegal_address(self.0.as_ptr()) != 0 }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // SAFETY: made by `new`, given back once.
        unsafe { raw::emulated_runner_free(self.0.as_ptr()) }
    }
}
