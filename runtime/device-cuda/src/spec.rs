//! What a CUDA device is started with, in addition to the [`DeviceSpec`](punctual_device::DeviceSpec).

use punctual_device::pool::Wait;

use crate::kernel_padding::KernelPaddingSpec;
use crate::partition::Division;
use crate::queue::QueueSpec;

/// The GPU, its partitions, and the knobs.
#[derive(Clone, Debug)]
pub struct CudaSpec {
    /// Which of the driver's GPUs.
    pub ordinal: u32,
    /// Which parts of the GPU the partitions are.
    pub division: Division,
    /// Bytes of a page of weights.
    pub page_bytes: u32,
    /// Workspaces of a stream. With two, a best-effort stage that was preempted keeps its
    /// half-way results while a real-time one runs, and resumes where it was.
    pub workspaces: u32,
    /// Which partitions fill what real-time launches leave.
    pub kernel_padding: KernelPaddingSpec,
    /// How launches are handed over and evicted.
    pub queue: QueueSpec,
    /// How leaders wait while stages run.
    pub wait: Wait,
    /// When a stage is taken to hang.
    pub watchdog: Watchdog,
    /// Whether others of this process use the GPU's primary context: then it is not reset, and the first fault loses the
    /// device.
    pub shares_context: bool,
}

/// 16 MiB (Clockwork's).
pub const PAGE_BYTES: u32 = 16 << 20;

impl Default for CudaSpec {
    fn default() -> Self {
        Self {
            ordinal: 0,
            division: Division::Whole,
            page_bytes: PAGE_BYTES,
            workspaces: 2,
            kernel_padding: KernelPaddingSpec::default(),
            queue: QueueSpec::default(),
            wait: Wait::Spin,
            watchdog: Watchdog::default(),
            shares_context: false,
        }
    }
}

/// When a stage is taken to hang: it is evicted then; if the device does not obey, it is restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// How many times its longest time a stage may take.
    pub multiple: u32,
    /// The longest time of each stage of each model, in nanoseconds, for its largest batch.
    pub longest_ns: Vec<Vec<u64>>,
    /// How long a stage may take whose longest time is not known, in nanoseconds.
    pub unknown_ns: u64,
    /// How long the device may take to empty itself after an eviction, in nanoseconds.
    pub grace_ns: u64,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self {
            multiple: 8,
            longest_ns: Vec::new(),
            unknown_ns: 2_000_000_000,
            grace_ns: 100_000_000,
        }
    }
}

impl Watchdog {
    /// How long a stage may take, in nanoseconds.
    #[must_use]
    pub fn limit_ns(&self, model: usize, stage: usize) -> u64 {
        let known = self
            .longest_ns
            .get(model)
            .and_then(|model| model.get(stage));
        known.map_or(self.unknown_ns, |longest| {
            longest.saturating_mul(u64::from(self.multiple))
        })
    }
}
