//! A block: its warps take turns until all have ended.

use punctual_types::Random;

use crate::environment::{Counts, Environment};
use crate::execute::{self, Pause};
use crate::fault::{Fault, Stop, Violation};
use crate::float::Arithmetic;
use crate::global::Launched;
use crate::instruction::{Op, Vote};
use crate::module::Kernel;
use crate::shared::Shared;
use crate::warp::{LANES, Position, Warp};

/// Most instructions that a warp executes before another may.
const TURN_MAX: u64 = 512;

/// A launch of a kernel: its shape, its parameters, and the machine that it runs on.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    pub kernel: &'a Kernel,
    /// One behind the other, each at its offset.
    pub parameters: &'a [u8],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of shared memory beyond the kernel's own.
    pub dynamic_shared: u32,
    pub arithmetic: Arithmetic,
    /// The order in which warps take turns.
    pub seed: u64,
    /// Nanoseconds, for kernels that read the time.
    pub clock: fn() -> u64,
}

impl Launch<'_> {
    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    /// The position of block `at` of all.
    #[must_use]
    pub fn position(&self, at: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        [(at % x) as u32, (at / x % y) as u32, (at / (x * y)) as u32]
    }
}

/// What runs blocks, one after the other. It keeps its memory from block to block.
#[derive(Default)]
pub struct Machine {
    warps: Vec<Warp>,
    shared: Shared,
    counts: Counts,
}

/// What a warp waits with at a barrier.
#[derive(Clone, Copy)]
struct Waiting {
    at: u32,
    vote: Vote,
    holds: bool,
}

impl Machine {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Of all blocks so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Runs a block to its end. `look` is called before each look at a word that the host writes, with what this machine
    /// has done so far; if it returns false, the block ends there.
    pub fn run(
        &mut self,
        launch: &Launch<'_>,
        memory: &mut Launched,
        block: [u32; 3],
        multiprocessor: u32,
        look: &mut dyn FnMut(&Counts) -> bool,
    ) -> Result<(), Stop> {
        let kernel = launch.kernel;
        let threads: u32 = launch.block.iter().product();
        let count = threads.div_ceil(LANES) as usize;
        if self.warps.len() < count {
            self.warps.resize_with(count, Warp::default);
        }
        for (warp, at) in self.warps[..count].iter_mut().zip(0..) {
            let position = Position {
                block,
                grid: launch.grid,
                block_size: launch.block,
                warp: at,
                multiprocessor,
            };
            warp.begin(kernel, kernel.identity, position);
        }
        let shared = &mut self.shared;
        shared.begin(kernel.static_shared + launch.dynamic_shared, kernel.granule);
        let [x, y, z] = block.map(u64::from);
        let mut random = Random::new(launch.seed).stream("block", x ^ y << 24 ^ z << 44);
        let mut environment = Environment {
            kernel,
            parameters: launch.parameters,
            shared,
            memory,
            arithmetic: launch.arithmetic,
            look,
            clock: launch.clock,
            counts: &mut self.counts,
        };
        let warps = &mut self.warps[..count];
        take_turns(warps, &mut environment, &mut random).map_err(|stop| match stop {
            Halt::Ended => Stop::Ended,
            Halt::Violation { warp, violation } => {
                Stop::Fault(Box::new(fault(launch, &warps[warp], block, violation)))
            }
        })
    }
}

enum Halt {
    Ended,
    Violation { warp: usize, violation: Violation },
}

fn take_turns(
    warps: &mut [Warp],
    environment: &mut Environment<'_>,
    random: &mut Random,
) -> Result<(), Halt> {
    let mut able: Vec<usize> = (0..warps.len()).collect();
    let mut waiting: Vec<Option<Waiting>> = vec![None; warps.len()];
    let mut ended = 0;
    while ended < warps.len() {
        if able.is_empty() {
            meet(warps, &mut waiting, environment)?;
            able.extend(0..warps.len());
        }
        let chosen = random.below(able.len() as u64) as usize;
        let at = able[chosen];
        let turn = 1 + random.below(TURN_MAX) as u32;
        let violation = |violation| Halt::Violation {
            warp: at,
            violation,
        };
        match execute::run(&mut warps[at], environment, turn).map_err(violation)? {
            Pause::Turn => {}
            Pause::Stopped => return Err(Halt::Ended),
            Pause::Ended => {
                ended += 1;
                able.swap_remove(chosen);
            }
            Pause::Barrier { vote, holds } => {
                waiting[at] = Some(Waiting {
                    at: warps[at].at,
                    vote,
                    holds,
                });
                able.swap_remove(chosen);
            }
        }
        let someone = waiting.iter().position(Option::is_some);
        if let (Some(warp), true) = (someone, ended > 0) {
            return Err(Halt::Violation {
                warp,
                violation: Violation::EndedAtBarrier,
            });
        }
    }
    Ok(())
}

/// All warps wait: they go on together, if it is for the same barrier.
fn meet(
    warps: &mut [Warp],
    waiting: &mut [Option<Waiting>],
    environment: &mut Environment<'_>,
) -> Result<(), Halt> {
    let kernel = environment.kernel;
    let first = waiting[0];
    for (warp, other) in waiting.iter().enumerate() {
        if let (Some(first), Some(other)) = (first, other)
            && first.at != other.at
        {
            return Err(Halt::Violation {
                warp,
                violation: Violation::DivergentBarrier {
                    line: kernel.lines[first.at as usize],
                },
            });
        }
    }
    let mut votes = waiting.iter().flatten();
    let holds = match first.map(|first| first.vote) {
        Some(Vote::And) => votes.all(|waiting| waiting.holds),
        _ => votes.any(|waiting| waiting.holds),
    };
    for (warp, waiting) in warps.iter_mut().zip(waiting) {
        if let Op::Barrier(_, Some(to), _) = kernel.code[warp.at as usize].op {
            warp.set_predicate(to, if holds { u32::MAX } else { 0 });
        }
        warp.at += 1;
        *waiting = None;
    }
    environment.shared.barrier();
    Ok(())
}

fn fault(launch: &Launch<'_>, warp: &Warp, block: [u32; 3], violation: Violation) -> Fault {
    let kernel = launch.kernel;
    let at = warp.at as usize;
    let lane = warp.lanes.trailing_zeros().min(LANES - 1);
    let thread = u32::from(warp.first_thread) + lane;
    let [x, y, _] = launch.block;
    Fault {
        kernel: kernel.name.clone(),
        block,
        thread: [thread % x, thread / x % y, thread / (x * y)],
        line: kernel.lines[at],
        instruction: kernel.texts[at].to_string(),
        violation,
    }
}
