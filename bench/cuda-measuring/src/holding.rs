//! Kernels that only take time, handed over and evicted as a stage's are.

use std::sync::Arc;

use punctual_cuda_kernels::params::Hold;
use punctual_cuda_kernels::{Kernel, Module, kernel};
use punctual_device_cuda::driver::{CallError, Context, Shape, Stream};
use punctual_device_cuda::queue::{NotHandedOver, QueueSpec, VirtualQueue};
use punctual_device_cuda::{KernelError, Kernels};
use punctual_platform::clock;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many, one behind the other.
    pub kernels: u32,
    /// How long each of their blocks takes, in nanoseconds.
    pub stay_ns: u32,
    /// Between two looks at the epoch, in nanoseconds; 0: at the block's start only.
    pub check_ns: u32,
    pub blocks: u32,
}

/// The outcome of a load that was preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preempted {
    /// From the wish to when the host knew that the device was free of it, in nanoseconds.
    pub latency_ns: u64,
    /// Launches that the driver held at the wish, whether they ran or waited.
    pub in_driver: u32,
    /// The launch to resume at.
    pub resume_at: u32,
}

/// Why a load was not preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HoldError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is no code for the device.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device contradicts what it was given.
    #[error(transparent)]
    Contradiction(#[from] NotHandedOver),
    /// It does not begin, or does not end.
    #[error("delay launches did not {what} within {limit_ns} ns")]
    Stuck { what: &'static str, limit_ns: u64 },
}

/// A queue of kernels that only take time.
pub struct Holding {
    queue: VirtualQueue,
    kernels: Kernels,
    kernel: &'static Kernel,
}

const LIMIT_NS: u64 = 20_000_000_000;

impl Holding {
    /// On a stream of its own.
    ///
    /// # Panics
    /// If the table of kernels has no `hold`.
    pub fn new(context: &Arc<Context>, spec: QueueSpec) -> Result<Self, HoldError> {
        let kernel = kernel("hold").expect("a kernel of the module `probe`");
        let kernels = Kernels::default();
        for module in [Module::General, kernel.module] {
            kernels.load(context, module)?;
        }
        Ok(Self {
            queue: VirtualQueue::new(Stream::new(context, 0)?, spec, &kernels)?,
            kernels,
            kernel,
        })
    }

    /// Begins a load, lets it run for `after_ns` from when its first launch has begun, and evicts it.
    pub fn preempt(&mut self, load: Load, after_ns: u64) -> Result<Preempted, HoldError> {
        self.queue.begin(0, load.kernels);
        let started = clock::now_ns();
        let mut handed_over = 0;
        let mut wish = None;
        loop {
            while let Some(index) = self.queue.hand_over() {
                self.launch(load, index)?;
                handed_over = index + 1;
            }
            let now = clock::now_ns();
            if wish.is_none() && self.queue.begun() > 0 {
                wish = Some(now + after_ns);
            }
            if wish.is_some_and(|wish| now >= wish) {
                break;
            }
            stuck("begin", started)?;
            std::hint::spin_loop();
        }
        let in_driver = handed_over.saturating_sub(self.queue.begun().saturating_sub(1));
        let wished = clock::now_ns();
        self.queue.evict()?;
        self.queue.close()?;
        while !self.queue.is_drained()? {
            stuck("end", wished)?;
            std::hint::spin_loop();
        }
        Ok(Preempted {
            latency_ns: clock::now_ns() - wished,
            in_driver,
            resume_at: self.queue.resume_at()?,
        })
    }

    fn launch(&self, load: Load, index: u32) -> Result<(), CallError> {
        let arguments = Hold {
            stay_ns: load.stay_ns,
            check_ns: load.check_ns,
        };
        let shape = Shape::of(self.kernel, [load.blocks, 1, 1]);
        let function = self.kernels.get(self.kernel)?;
        // SAFETY: `hold` takes these arguments, which have no addresses.
        unsafe {
            let arguments = (&raw const arguments).cast();
            self.queue.launch(index, function, shape, arguments)
        }
    }
}

fn stuck(what: &'static str, since: u64) -> Result<(), HoldError> {
    if clock::now_ns() - since < LIMIT_NS {
        return Ok(());
    }
    Err(HoldError::Stuck {
        what,
        limit_ns: LIMIT_NS,
    })
}
