//! How long launches should take on a GPU that is known by its figures alone: a prediction to be refuted.
//!
//! A pure function of a list of launches and of a [`Device`]. A launch's blocks go over the multiprocessors in waves of
//! as many as are resident at a time. A wave takes as long as the scarcest resource of a multiprocessor needs for its
//! blocks, or as long as one block waits for what it reads, its own instructions and its looks at the epoch, whichever
//! is longer. A launch takes no less than its bytes need, and no less than the host needs to hand it over.
//!
//! What a launch touches, its [`Step`] says; `work` says what a block of it does, `bytes` which bytes come from memory, the
//! cache, the host; [`structures`] are the networks that are predicted.
//!
//! What is not modelled: bank conflicts, sets of caches, contention between partitions, clocks that change, pages of
//! memory that are not mapped yet.
#![forbid(unsafe_code)]

mod bytes;
pub mod structures;
mod work;

use punctual_cuda_kernels::contract::Multiprocessor;
use punctual_cuda_kernels::images::{self, ImageError};
use thiserror::Error;

use punctual_device_cuda::lower::{LaunchList, Place, Step};
use work::Work;

pub use bytes::Moved;

/// A GPU, as its vendor describes it, with assumptions where he does not.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub name: String,
    pub compute_capability: (u32, u32),
    pub multiprocessors: u32,
    pub tpcs: u32,
    /// It shares the host's memory.
    pub integrated: bool,
    pub clock_mhz: f64,
    pub resident: Multiprocessor,
    pub per_clock: PerClock,
    pub memory: Memory,
    pub times: Times,
}

/// What a multiprocessor does in a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerClock {
    /// Instructions of warps.
    pub instructions: f64,
    /// Multiply-accumulates of `mma.sync` 16x8x16, halves in, `f32` sums.
    pub tensor_products: f64,
    /// Multiply-accumulates of `f32`.
    pub float_products: f64,
    /// From and to its shared memory.
    pub shared_bytes: f64,
    /// From the second-level cache.
    pub loaded_bytes: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Of device memory, in 10^9 bytes a second, as the vendor says.
    pub gb_s: f64,
    /// Which part of that is reached.
    pub share_reached: f64,
    /// Of the way to the host's memory.
    pub host_gb_s: f64,
    pub cache_bytes: u64,
}

/// In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// To read device memory.
    pub memory: f64,
    /// To read what the second-level cache has.
    pub cache: f64,
    /// To read the epoch, where it lies on this device.
    pub look: f64,
    /// Of the host, to hand a launch over.
    pub hand_over: f64,
    /// From the end of a launch to the first instruction of the next that waits for it.
    pub gap: f64,
    /// Of a stage besides its launches: until the first one begins, and until the host has seen the last one's word.
    pub stage: f64,
}

/// What would shorten a launch if it were better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    HandOver,
    Memory,
    Host,
    TensorCores,
    Floats,
    Issue,
    Shared,
    Loads,
    Latency,
    Looks,
}

impl Limit {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HandOver => "hand-over",
            Self::Memory => "memory",
            Self::Host => "host memory",
            Self::TensorCores => "tensor cores",
            Self::Floats => "f32",
            Self::Issue => "issue",
            Self::Shared => "shared memory",
            Self::Loads => "L2",
            Self::Latency => "latency",
            Self::Looks => "looks",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchTime {
    pub kernel: &'static str,
    pub ns: f64,
    /// What its bytes at full bandwidth and its products at the full rate of all multiprocessors allow, if the cache does
    /// what is assumed of it.
    pub at_least_ns: f64,
    pub limit: Limit,
    pub blocks: u32,
    /// Blocks on a multiprocessor at a time.
    pub resident: u32,
    pub waves: u32,
    pub products: f64,
    /// They alone, at the full rate of all multiprocessors.
    pub products_ns: f64,
    pub moved: Moved,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StageTime {
    pub launches: Vec<LaunchTime>,
    /// As the partition's leader measures it.
    pub ns: f64,
    /// What no run can be faster than, whatever the cache keeps: products at the full rate of all multiprocessors, and at
    /// full bandwidth the bytes that the cache has no room for.
    pub at_least_ns: f64,
}

#[derive(Debug, Error)]
pub enum RooflineError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(
        "registers of `{kernel}` are not known for compute capability {major}.{minor}: its code is compiled by the driver"
    )]
    NotCompiled {
        kernel: &'static str,
        major: u32,
        minor: u32,
    },
    #[error("a multiprocessor of {device} has no room for a block of `{kernel}`")]
    NoRoom {
        kernel: &'static str,
        device: String,
    },
    #[error("a partition of no multiprocessors runs nothing")]
    NoMultiprocessors,
}

/// On which part of a device, and how often blocks look at the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    pub multiprocessors: u32,
    /// As [`QueueSpec::check_stride`](punctual_device_cuda::queue::QueueSpec::check_stride).
    pub check_stride: u32,
}

/// Clocks from one instruction of a warp to its next when no other hides them: half of what arithmetic takes.
const LONE_CLOCKS: f64 = 2.0;
/// Clocks of a round in addition to its instructions: a barrier, and the wait for fragments and products.
const ROUND_CLOCKS: f64 = 100.0;
/// A block that waits counts as waiting for its looks if they make it take more than this number of times as long.
const LOOKS_NOTABLE: f64 = 1.25;

impl Device {
    /// How long a list of launches takes, each for a full batch.
    pub fn stage(
        &self,
        list: &LaunchList,
        partition: Partition,
    ) -> Result<StageTime, RooflineError> {
        if partition.multiprocessors == 0 {
            return Err(RooflineError::NoMultiprocessors);
        }
        let moved = bytes::moved(list, self.memory.cache_bytes);
        let launches = list.steps.iter().zip(moved);
        let launches = launches.map(|(step, moved)| self.launch(list, step, moved, partition));
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        let sum: f64 = launches.iter().map(|launch| launch.ns).sum();
        let products: f64 = launches.iter().map(|launch| launch.products_ns).sum();
        let rest = bytes::different(list).saturating_sub(self.memory.cache_bytes);
        Ok(StageTime {
            ns: self.times.stage + self.bring_ns(list) + sum,
            at_least_ns: products.max(rest as f64 / self.memory.gb_s),
            launches,
        })
    }

    /// On a device with memory of its own the leader copies each member's input there first.
    fn bring_ns(&self, list: &LaunchList) -> f64 {
        let is_input = |step: &Step| {
            let mut touched = step.touched().into_iter();
            touched.any(|(place, _)| matches!(place, Place::Input { .. }))
        };
        let brings = !self.integrated && list.steps.iter().any(is_input);
        f64::from(u8::from(brings)) * f64::from(list.batch) * self.times.hand_over
    }

    fn launch(
        &self,
        list: &LaunchList,
        step: &Step,
        moved: Moved,
        partition: Partition,
    ) -> Result<LaunchTime, RooflineError> {
        let [x, y, z] = step.grid(usize::from(list.batch));
        let blocks = x * y * z;
        let resident = self.resident_blocks(step)?;
        let bytes = moved.memory + moved.host + moved.cached;
        let work = Work::of(step, bytes as f64 / f64::from(blocks.max(1)));
        let spread = Spread {
            blocks,
            resident,
            multiprocessors: partition.multiprocessors,
        };
        let (ns, limit) = self.time(&work, moved, spread, partition.check_stride);
        let products_ns = self.products_ns(&work, spread);
        let memory_ns = moved.memory as f64 / self.memory.gb_s;
        Ok(LaunchTime {
            kernel: step.kernel.name,
            ns,
            at_least_ns: products_ns.max(memory_ns),
            limit,
            blocks,
            resident,
            waves: spread.waves(),
            products: work.products * f64::from(blocks),
            products_ns,
            moved,
        })
    }

    fn resident_blocks(&self, step: &Step) -> Result<u32, RooflineError> {
        let (major, minor) = self.compute_capability;
        let kernel = step.kernel.name;
        let mut contract = None;
        // The latest compiler's: boards of today have drivers of CUDA 12 or 13.
        for archive in images::candidates(major, minor, 13) {
            contract = contract.or(archive.contract(step.kernel)?);
        }
        let contract = contract.ok_or(RooflineError::NotCompiled {
            kernel,
            major,
            minor,
        })?;
        match contract.blocks_on(&self.resident) {
            0 => Err(RooflineError::NoRoom {
                kernel,
                device: self.name.clone(),
            }),
            blocks => Ok(blocks),
        }
    }

    /// The time of a launch whose blocks all do the same.
    fn time(&self, work: &Work, moved: Moved, spread: Spread, check_stride: u32) -> (f64, Limit) {
        let block = self.block(work, moved, check_stride);
        let memory = moved.memory as f64 / self.memory.gb_s / self.memory.share_reached;
        let host = moved.host as f64 / self.memory.host_gb_s;
        let (kernel, limit) = longest([
            spread.time(&block),
            (memory, Limit::Memory),
            (host, Limit::Host),
        ]);
        longest([
            (kernel + self.times.gap, limit),
            (self.times.hand_over, Limit::HandOver),
        ])
    }

    /// Of all blocks, at the full rate of all multiprocessors.
    fn products_ns(&self, work: &Work, spread: Spread) -> f64 {
        let rate = self.products_rate(work) * f64::from(spread.multiprocessors);
        work.products * f64::from(spread.blocks) / rate * self.clock_ns()
    }

    fn clock_ns(&self) -> f64 {
        1e3 / self.clock_mhz
    }

    fn products_rate(&self, work: &Work) -> f64 {
        if work.on_tensor_cores {
            self.per_clock.tensor_products
        } else {
            self.per_clock.float_products
        }
    }

    fn block(&self, work: &Work, moved: Moved, check_stride: u32) -> Block {
        let clock = self.clock_ns();
        let products = if work.on_tensor_cores {
            Limit::TensorCores
        } else {
            Limit::Floats
        };
        let per_clock = &self.per_clock;
        let (busy_ns, busy) = longest([
            (work.products / self.products_rate(work) * clock, products),
            (
                work.all_instructions() / per_clock.instructions * clock,
                Limit::Issue,
            ),
            (
                work.shared_bytes / per_clock.shared_bytes * clock,
                Limit::Shared,
            ),
            (
                work.loaded_bytes / per_clock.loaded_bytes * clock,
                Limit::Loads,
            ),
        ]);
        let without_looks = self.alone(work, moved, busy_ns, 0.0, 0);
        let alone_ns = self.alone(work, moved, busy_ns, self.times.look, check_stride);
        Block {
            busy_ns,
            busy,
            alone_ns,
            waits: if alone_ns > LOOKS_NOTABLE * without_looks {
                Limit::Looks
            } else {
                Limit::Latency
            },
        }
    }

    /// How long a block takes that nothing hinders, from its first instruction to its last.
    fn alone(
        &self,
        work: &Work,
        moved: Moved,
        busy_ns: f64,
        look_ns: f64,
        check_stride: u32,
    ) -> f64 {
        let clock = self.clock_ns();
        // If a byte of the launch comes from memory, then its blocks wait for memory.
        let far = match (moved.host, moved.memory) {
            (0, 0) => self.times.cache,
            _ => self.times.memory,
        };
        let own = work.round_instructions * LONE_CLOCKS * clock;
        let computes = own.max(busy_ns / work.rounds) + ROUND_CLOCKS * clock;
        let round = if work.ahead > 0.0 {
            computes.max(far / work.ahead)
        } else {
            computes + far
        };
        // The first look is under way while the first values are; a later one lasts for one round.
        let later = work.rounds - 1.0;
        let stride = f64::from(check_stride) * work.rounds_a_look;
        let looks = if stride > 0.0 {
            (later / stride).floor()
        } else {
            0.0
        };
        let begin = far.max(look_ns) + work.instructions * LONE_CLOCKS * clock;
        begin + computes + later * round + looks * (look_ns - round).max(0.0) + self.times.cache
    }
}

/// A block's time on a multiprocessor.
struct Block {
    /// Of the resource that it needs most, when others keep the multiprocessor busy, too.
    busy_ns: f64,
    busy: Limit,
    alone_ns: f64,
    waits: Limit,
}

/// How blocks are spread over multiprocessors.
#[derive(Clone, Copy)]
struct Spread {
    blocks: u32,
    resident: u32,
    multiprocessors: u32,
}

impl Spread {
    fn waves(self) -> u32 {
        let at_a_time = u64::from(self.resident) * u64::from(self.multiprocessors);
        u64::from(self.blocks).div_ceil(at_a_time) as u32
    }

    /// Of the multiprocessor that has the most blocks.
    fn time(self, block: &Block) -> (f64, Limit) {
        let most = self.blocks.div_ceil(self.multiprocessors);
        let wave = |blocks: u32| {
            let busy = (f64::from(blocks) * block.busy_ns, block.busy);
            longest([busy, (block.alone_ns, block.waits)])
        };
        let (full, rest) = (most / self.resident, most % self.resident);
        let all = f64::from(full) * wave(self.resident).0;
        let last = if rest > 0 { wave(rest).0 } else { 0.0 };
        let limit = wave(most.min(self.resident)).1;
        (all + last, limit)
    }
}

/// The first of the longest.
fn longest<const N: usize>(times: [(f64, Limit); N]) -> (f64, Limit) {
    let longer = |a: (f64, Limit), b: (f64, Limit)| if b.0 > a.0 { b } else { a };
    times.into_iter().reduce(longer).expect("at least one")
}

#[cfg(test)]
mod tests;
