//! A launch with its guard, run by the emulation in the shape that the table of kernels gives it.
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use emulated_cuda::{Parameter, RunError, Shape, run_watched};
use punctual_kernels::cuda::params::Guard;
use punctual_kernels::cuda::{Arguments, kernel};

/// The words that a queue's launches share with the host.
pub struct Queue {
    epoch_now: AtomicU32,
    first_evicted: AtomicU32,
    begun: AtomicU32,
    guarded: bool,
    check_stride: u32,
}

/// The epoch that launches belong to.
const EPOCH: u32 = 7;

pub const INDEX: u32 = 41;

/// What `first_evicted` is while nothing was.
pub const NOTHING: u32 = u32::MAX;

struct Raw<'a>(&'a Arguments);

// SAFETY: the structures in it are `repr(C)`, without gaps but the written ones.
unsafe impl Parameter for Raw<'_> {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn address(&self) -> *const c_void {
        self.0.as_ptr()
    }
}

impl Queue {
    pub fn new() -> Self {
        Self {
            epoch_now: AtomicU32::new(EPOCH),
            first_evicted: AtomicU32::new(NOTHING),
            begun: AtomicU32::new(0),
            guarded: true,
            check_stride: 1,
        }
    }

    pub fn with_check_stride(check_stride: u32) -> Self {
        Self {
            check_stride,
            ..Self::new()
        }
    }

    /// One whose launches are not told of an epoch.
    pub fn unguarded() -> Self {
        Self {
            guarded: false,
            ..Self::new()
        }
    }

    pub fn first_evicted(&self) -> u32 {
        // Relaxed: the kernel ran on this thread.
        self.first_evicted.load(Ordering::Relaxed)
    }

    pub fn begun(&self) -> u32 {
        // Relaxed: the kernel ran on this thread.
        self.begun.load(Ordering::Relaxed)
    }

    fn guard(&self) -> Guard {
        let address = |word: &AtomicU32| word.as_ptr().expose_provenance() as u64;
        Guard {
            epoch_now: if self.guarded {
                address(&self.epoch_now)
            } else {
                0
            },
            first_evicted: address(&self.first_evicted),
            begun: address(&self.begun),
            epoch: EPOCH,
            index: INDEX,
            check_stride: self.check_stride,
            gap: 0,
        }
    }

    /// Runs a launch that is evicted from its check number `evicted_at` on, counted over all blocks.
    /// Returns how many checks there were.
    pub fn launch(
        &self,
        name: &str,
        arguments: &Arguments,
        grid: Option<[u32; 3]>,
        evicted_at: u64,
    ) -> Result<u64, RunError> {
        let kernel = kernel(name).expect("in the table");
        let shape = Shape {
            grid: kernel.grid(arguments).or(grid).expect("a grid"),
            block: [kernel.block, 1, 1],
            shared_bytes: kernel.shared_bytes as usize,
        };
        let mut checks = 0;
        // SAFETY: the tests' buffers are as large as the parameters say; that is what they test.
        unsafe {
            run_watched(name, shape, &[&self.guard(), &Raw(arguments)], |check| {
                checks = check + 1;
                if check >= evicted_at {
                    // Relaxed: the kernel runs on this thread.
                    self.epoch_now.store(EPOCH + 1, Ordering::Relaxed);
                }
            })?;
        }
        Ok(checks)
    }
}

/// Runs a launch to its end, undisturbed.
pub fn launch(name: &str, arguments: Arguments) {
    let queue = Queue::new();
    queue
        .launch(name, &arguments, None, u64::MAX)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(queue.first_evicted(), NOTHING, "{name}");
    assert_eq!(queue.begun(), INDEX + 1, "{name}");
}
