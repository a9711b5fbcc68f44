//! The device in virtual time: launches take time on multiprocessors, in the order and at the place that a device would give
//! them, and compute nothing but what the queue of launches sees: that they begin, that they were evicted, that the stage is done.
//!
//! Blocks go to the multiprocessors that the launch may use, as many as have room next to what runs there, the others as room comes
//! free. Streams are served in the order in which their launches reached the device. A block takes what the caller says, and longer
//! in proportion if what runs on its multiprocessor when it begins, or uses the memory, needs more than there is.
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_cuda_kernels::KERNELS;
use punctual_cuda_kernels::params::{Answer, Answers, Guard, ReportEvicted};

use super::objects::{Command, QueuedLaunch};
use super::state::{DRIVER, Device};
use super::worker::{Front, front, transfer_bytes};
use crate::virtual_time::{BegunLaunch, Cost, LaunchCost, Pace};

/// Says what a launch costs.
type CostOf<'c> = dyn FnMut(&BegunLaunch) -> LaunchCost + 'c;

/// All room of a multiprocessor: a multiple of how many blocks there can be.
const ROOM: u32 = 720_720;

pub(crate) struct Timed {
    now_ns: u64,
    pace: Pace,
    sms: Vec<Multiprocessor>,
    /// What launches need of the memory's bandwidth, in thousandths.
    memory: u32,
    /// In the order in which they reached the device.
    runs: Vec<Run>,
    /// By stream, when its last launch reached the device.
    arrived: BTreeMap<u64, u64>,
}

#[derive(Clone, Copy)]
struct Multiprocessor {
    room: u32,
    /// What its blocks need of its time, in millionths.
    load: u32,
}

/// Thousandths and millionths of all.
const PERMILLE: u32 = 1_000;
const MILLION: u32 = 1_000_000;

/// A launch at the head of its stream.
struct Run {
    stream: u64,
    handle: u64,
    launch: Box<QueuedLaunch>,
    guard: Guard,
    /// Blocks that were not placed yet.
    left: u32,
    cost: LaunchCost,
    /// What a block takes of a multiprocessor: room, and millionths of its time.
    part: u32,
    load: u32,
    began: bool,
    evicted: bool,
    cohorts: Vec<Cohort>,
}

/// Blocks that began together.
struct Cohort {
    ends_ns: u64,
    /// The multiprocessor of each block.
    on: Vec<u32>,
}

impl Timed {
    pub(crate) fn new(pace: Pace, sms: u32) -> Self {
        Self {
            now_ns: 0,
            pace,
            sms: vec![
                Multiprocessor {
                    room: ROOM,
                    load: 0
                };
                sms as usize
            ],
            memory: 0,
            runs: Vec::new(),
            arrived: BTreeMap::new(),
        }
    }

    /// When the next launch of a stream reaches the device.
    pub(super) fn arrival(&mut self, stream: u64) -> u64 {
        let last = self.arrived.entry(stream).or_default();
        *last = (*last).max(self.now_ns) + self.pace.launch_ns;
        *last
    }

    /// Places what has room, in order; says whether any launch began.
    fn place(&mut self, cost: &mut CostOf<'_>) -> bool {
        let mut began = false;
        for run in &mut self.runs {
            let (sms, memory) = (&mut self.sms[..], &mut self.memory);
            began |= run.place(self.now_ns, self.pace, sms, memory, &mut *cost);
        }
        began
    }

    /// Ends the blocks whose time is over, and takes out the launches that are over with them.
    fn end(&mut self) -> Vec<Run> {
        for run in &mut self.runs {
            let (now_ns, sms) = (self.now_ns, &mut self.sms);
            let (part, load) = (run.part, run.load);
            run.cohorts.retain(|cohort| {
                let over = cohort.ends_ns <= now_ns;
                for &sm in cohort.on.iter().filter(|_| over) {
                    sms[sm as usize].room += part;
                    sms[sm as usize].load -= load;
                }
                !over
            });
        }
        let is_over = |run: &mut Run| run.began && run.left == 0 && run.cohorts.is_empty();
        let over: Vec<Run> = self.runs.extract_if(.., is_over).collect();
        self.memory -= over.iter().map(|run| run.cost.memory_permille).sum::<u32>();
        over
    }

    /// Lets launches that were evicted since the last look end soon.
    fn look(&mut self) {
        let ends_ns = self.now_ns + self.pace.look_ns;
        for run in &mut self.runs {
            run.look(ends_ns);
        }
    }

    fn next_end(&self) -> Option<u64> {
        let cohorts = self.runs.iter().flat_map(|run| &run.cohorts);
        cohorts.map(|cohort| cohort.ends_ns).min()
    }
}

impl Run {
    fn new(stream: u64, handle: u64, launch: Box<QueuedLaunch>) -> Self {
        let guard = parameter(&launch, 0);
        let blocks = launch.grid.volume().unwrap_or(u64::MAX);
        Self {
            stream,
            handle,
            guard,
            left: u32::try_from(blocks).unwrap_or(u32::MAX),
            part: ROOM / launch.blocks_per_sm.max(1),
            launch,
            cost: LaunchCost::default(),
            load: 0,
            began: false,
            evicted: false,
            cohorts: Vec::new(),
        }
    }

    fn is_evicted_now(&self) -> bool {
        // SAFETY: the address is of a word of the queue, whose memory stays while a stream has work.
        // Relaxed: as the device's looks.
        self.guard.epoch_now != 0
            && unsafe { word(self.guard.epoch_now) }.load(Ordering::Relaxed) != self.guard.epoch
    }

    fn note_evicted(&mut self) {
        (self.evicted, self.left) = (true, 0);
        // SAFETY: as for the epoch. Relaxed: the host reads what `report_evicted` makes of it, later in this stream.
        unsafe { word(self.guard.first_evicted) }.fetch_min(self.guard.index, Ordering::Relaxed);
    }

    fn look(&mut self, ends_ns: u64) {
        let ends_anyway = self.left == 0 && self.cohorts.iter().all(|each| each.ends_ns <= ends_ns);
        if !self.began || self.evicted || ends_anyway || !self.is_evicted_now() {
            return;
        }
        self.note_evicted();
        for cohort in &mut self.cohorts {
            cohort.ends_ns = cohort.ends_ns.min(ends_ns);
        }
    }

    /// Puts as many blocks as there is room for; says whether the launch began with that.
    fn place(
        &mut self,
        now_ns: u64,
        pace: Pace,
        sms: &mut [Multiprocessor],
        memory: &mut u32,
        cost: &mut CostOf<'_>,
    ) -> bool {
        if self.left == 0 || now_ns < self.launch.arrives_ns {
            return false;
        }
        let mut on = Vec::new();
        // Level, as devices do: one block more on each before any gets two.
        for _ in 0..self.launch.blocks_per_sm.max(1) {
            let before = on.len();
            for &sm in &self.launch.sms {
                let room = &mut sms[sm as usize].room;
                if self.left > on.len() as u32 && *room >= self.part {
                    *room -= self.part;
                    on.push(sm);
                }
            }
            if on.len() == before {
                break;
            }
        }
        if on.is_empty() {
            return false;
        }
        let begins = !std::mem::replace(&mut self.began, true);
        if begins {
            self.begin(&pace, cost);
            *memory += self.cost.memory_permille;
        }
        for &sm in &on {
            sms[sm as usize].load += self.load;
        }
        let loads = on.iter().map(|&sm| sms[sm as usize].load);
        let busiest = loads.max().unwrap_or(0).max(MILLION);
        let scarcest = busiest.max(MILLION / PERMILLE * *memory);
        let takes_ns = u128::from(self.cost.block_ns) * u128::from(scarcest) / u128::from(MILLION);
        self.left = self.left.saturating_sub(on.len() as u32);
        let ends_ns = now_ns + takes_ns as u64;
        self.cohorts.push(Cohort { ends_ns, on });
        begins
    }

    fn begin(&mut self, pace: &Pace, cost: &mut CostOf<'_>) {
        if self.guard.begun != 0 {
            // SAFETY: as for the epoch. Relaxed: only how much may wait depends on it.
            unsafe { word(self.guard.begun) }.store(self.guard.index + 1, Ordering::Relaxed);
        }
        self.cost = LaunchCost::alone(pace.empty_ns);
        if self.is_evicted_now() {
            self.note_evicted();
            return;
        }
        if self.guard.epoch_now != 0 {
            let sms = self.launch.sms.len() as u32;
            self.cost = cost(&BegunLaunch {
                stream: self.handle,
                index: self.guard.index,
                kernel: position(self.launch.kernel.name()),
                blocks: self.left,
                blocks_per_sm: self.launch.blocks_per_sm,
                sms,
            });
            self.cost.block_ns = self.cost.block_ns.max(1);
            let at_once = self.left.div_ceil(sms.max(1));
            let at_once = at_once.clamp(1, self.launch.blocks_per_sm.max(1));
            self.load = self.cost.sm_permille * (MILLION / PERMILLE) / at_once;
        }
    }

    /// What the host sees of a launch that is over.
    fn complete(&self) {
        if self.evicted {
            return;
        }
        match self.launch.kernel.name() {
            "report_evicted" => {
                let report: ReportEvicted = parameter(&self.launch, 1);
                // SAFETY: both words are of the queue. Relaxed: the host reads once the stream is idle, which it learns
                // under the driver's lock.
                unsafe {
                    let first = word(report.first_evicted).swap(u32::MAX, Ordering::Relaxed);
                    word(report.report).store(first, Ordering::Relaxed);
                }
            }
            "answers" => {
                let answers: Answers = parameter(&self.launch, 1);
                let bytes = answers.images as usize * size_of::<Answer>();
                if answers.answers != 0 {
                    // SAFETY: room for an answer of each image, of the queue's.
                    unsafe { std::ptr::write_bytes(answers.answers as *mut u8, 0, bytes) };
                }
                // SAFETY: as above. Release: pairs with the host's acquiring load (label DONE in device-cuda).
                unsafe { word(answers.done) }.store(answers.sequence, Ordering::Release);
            }
            _ => {}
        }
    }
}

fn position(name: &str) -> u32 {
    let found = KERNELS.iter().position(|kernel| kernel.name == name);
    found.map_or(u32::MAX, |at| at as u32)
}

/// The word at an address.
///
/// # Safety
/// It is that of an aligned word which lives for as long as the result is used.
unsafe fn word<'a>(address: u64) -> &'a AtomicU32 {
    // SAFETY: the caller's promise.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }
}

/// A parameter of one of our kernels; all have a guard and then one more.
///
/// # Panics
/// If the kernel has no such parameter.
fn parameter<T: Copy + Default>(launch: &QueuedLaunch, which: usize) -> T {
    let place = &launch.kernel.parameters()[which];
    let bytes = &launch.parameters.0[place.offset..][..place.bytes];
    assert!(bytes.len() >= size_of::<T>(), "a parameter of our kernels");
    // SAFETY: as many bytes as the type has, all of whose fields are numbers.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

impl Device {
    /// Begins what is at the head of its stream; says whether anything changed.
    fn take_heads(&mut self) -> bool {
        let streams: Vec<u64> = self.streams.keys().copied().collect();
        let mut changed = false;
        for number in streams {
            while let Some(command) = self.head(number) {
                changed = true;
                match command {
                    Command::Launch(launch) => {
                        let handle = self.began(number);
                        let Some(timed) = &mut self.timed else {
                            return changed;
                        };
                        let arrives = |run: &Run| (run.launch.arrives_ns, run.launch.number);
                        let run = Run::new(number, handle, launch);
                        let at = timed
                            .runs
                            .partition_point(|other| arrives(other) < arrives(&run));
                        timed.runs.insert(at, run);
                        break;
                    }
                    Command::Record(mark) => mark.reach(),
                    other => transfer_bytes(&other, Some(&**self.memory.space())),
                }
                self.ended(number);
            }
        }
        changed
    }

    /// In virtual time, carries out what is at the head of streams, for a call that waits for a copy: no other thread does.
    pub(super) fn carry_out_copies(&mut self) {
        if self.timed.is_some() {
            self.take_heads();
        }
    }

    /// The first command of a stream, if it may be carried out now.
    fn head(&mut self, number: u64) -> Option<Command> {
        let stream = self.streams.get(&number)?;
        if stream.running {
            return None;
        }
        let signals = stream.signals.clone();
        match front(self, number, &signals) {
            Front::Ready(command) => Some(command),
            Front::Wait | Front::Held | Front::Gone => None,
        }
    }

    /// The stream's launch is at its head; the handle of the stream.
    fn began(&mut self, number: u64) -> u64 {
        let Some(stream) = self.streams.get_mut(&number) else {
            return 0;
        };
        stream.running = true;
        stream.launches_waiting = stream.launches_waiting.saturating_sub(1);
        stream.handle() as u64
    }

    fn ended(&mut self, number: u64) {
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.running = false;
            stream.completed += 1;
        }
    }

    /// Lets virtual time pass; the time of what comes next, and whether anything changed.
    fn pass(&mut self, until_ns: u64, cost: &mut CostOf<'_>) -> (u64, bool) {
        let mut changed = false;
        loop {
            changed |= self.take_heads();
            let Some(timed) = &mut self.timed else {
                return (u64::MAX, changed);
            };
            timed.look();
            changed |= timed.place(cost);
            let waiting = timed.runs.iter().filter(|run| !run.began);
            let arrivals = waiting.map(|run| run.launch.arrives_ns);
            let arrivals = arrivals.filter(|&at| at > timed.now_ns);
            let next = arrivals.chain(timed.next_end()).min().unwrap_or(u64::MAX);
            // What begins is for the host to see before anything else happens.
            if next > until_ns || changed {
                if !changed {
                    timed.now_ns = until_ns.max(timed.now_ns);
                }
                return (next, changed);
            }
            timed.now_ns = next.max(timed.now_ns);
            let over = timed.end();
            for run in over {
                run.complete();
                self.ended(run.stream);
                changed = true;
            }
        }
    }
}

/// Lets virtual time pass until `until_ns`, or until the host has something to see. Writes when that was, and the time
/// of what comes next if the host does nothing (`u64::MAX`: nothing). Returns whether anything changed.
///
/// # Safety
/// `cost` takes `user`; `at` has room for two numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emulated_cuda_pass(
    until_ns: u64,
    cost: Cost,
    user: *mut c_void,
    at: *mut [u64; 2],
) -> bool {
    let mut state = DRIVER.lock();
    let (mut now_ns, mut next, mut changed) = (until_ns, u64::MAX, false);
    if let Some(device) = &mut state.device {
        // SAFETY: the caller's promise.
        let mut cost = |begun: &BegunLaunch| unsafe { cost(user, begun) };
        (next, changed) = device.pass(until_ns, &mut cost);
        now_ns = device.timed.as_ref().map_or(until_ns, |timed| timed.now_ns);
    }
    // SAFETY: the caller's promise.
    unsafe { *at = [now_ns, next] };
    changed
}
