//! A launch with its guard, run by the interpreter in the shape that the table of kernels gives it.
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use emulated_cuda::{Parameter, RunError, Shape, Source, Target};
use punctual_cuda_kernels::params::Guard;
use punctual_cuda_kernels::{Arguments, kernel};
use std::sync::Arc;

use punctual_ptx::{Arithmetic, Counts, Module, Region, Space};

use crate::buffer::with_space;

/// The words that a queue's launches share with the host.
pub struct Queue {
    epoch_now: AtomicU32,
    first_evicted: AtomicU32,
    begun: AtomicU32,
    guarded: bool,
    check_stride: u32,
    image: &'static str,
    /// Instead of the image's kernels.
    program: Option<Arc<Module>>,
    arithmetic: Arithmetic,
    seed: u64,
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

/// `PUNCTUAL_ARITHMETIC=coarse` runs all of these tests on the coarser of the two machines that the manual allows: what is allowed
/// between a result and its reference must be enough for it, too.
fn usual_arithmetic() -> Arithmetic {
    match std::env::var_os("PUNCTUAL_ARITHMETIC") {
        Some(name) if name == "coarse" => Arithmetic::Coarse,
        _ => Arithmetic::Exact,
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
            image: "sm_87",
            program: None,
            arithmetic: usual_arithmetic(),
            seed: 0,
        }
    }

    /// Of a program that is in no image.
    pub fn running(program: &Arc<Module>) -> Self {
        Self {
            program: Some(Arc::clone(program)),
            ..Self::new()
        }
    }

    /// Of another architecture, with other arithmetic, in another order.
    pub fn on(image: &'static str, arithmetic: Arithmetic, seed: u64) -> Self {
        Self {
            image,
            arithmetic,
            seed,
            ..Self::new()
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
    /// Returns what was counted; its looks are the checks.
    pub fn launch(
        &self,
        name: &str,
        arguments: &Arguments,
        grid: Option<[u32; 3]>,
        evicted_at: u64,
    ) -> Result<Counts, RunError> {
        let kernel = kernel(name).expect("in the table");
        let shape = Shape {
            grid: kernel.grid(arguments).or(grid).expect("a grid"),
            block: [kernel.block, 1, 1],
            shared_bytes: kernel.shared_bytes as usize,
        };
        let look = |check| {
            if check >= evicted_at {
                // Relaxed: the kernel runs on this thread.
                self.epoch_now.store(EPOCH + 1, Ordering::Relaxed);
            }
        };
        with_space(|space| {
            let target = Target {
                space,
                source: match &self.program {
                    Some(program) => Source::Program(program),
                    None => Source::Image(self.image),
                },
                arithmetic: self.arithmetic,
                seed: self.seed,
            };
            self.share(space, || {
                target.run(name, shape, &[&self.guard(), &Raw(arguments)], look)
            })
        })
    }

    /// Lets kernels access the words meanwhile.
    fn share<T>(&self, space: &Space, body: impl FnOnce() -> T) -> T {
        let words = [&self.epoch_now, &self.first_evicted, &self.begun];
        let addresses = words.map(|word| word.as_ptr().expose_provenance() as u64);
        for address in addresses {
            space.add(Region::written(address, 4));
        }
        let result = body();
        for address in addresses {
            space.remove(address);
        }
        result
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
