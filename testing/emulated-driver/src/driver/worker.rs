//! The thread of a stream.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use punctual_ptx::{Arithmetic, Counts, Launch, Launched, Machine, Space, Stop};
use punctual_types::Random;

use super::fault::Fate;
use super::gate::{Hold, Step};
use super::objects::{Command, Progress, QueuedLaunch, Signals, Source, Stream};
use super::state::{DRIVER, Device};
use crate::clock;
use crate::code::{Code, Outcome};
use crate::launch_log::LoggedLaunch;

/// Threads of streams. Relaxed: changed and read under the lock.
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Starts the thread of stream `number`.
pub(super) fn start(number: u64, signals: Arc<Signals>) -> Outcome {
    WORKERS.fetch_add(1, Ordering::Relaxed);
    let worker = Worker {
        number,
        signals,
        machine: Machine::new(),
    };
    // A driver's threads are its own: neither pinned nor of real time, and not the platform crate's to
    // start.
    std::thread::Builder::new()
        .name(format!("emulated-{number}"))
        .spawn(move || {
            worker.run();
            let _lock = DRIVER.lock();
            WORKERS.fetch_sub(1, Ordering::Relaxed);
            DRIVER.notify();
        })
        .map(drop)
        .map_err(|_| {
            WORKERS.fetch_sub(1, Ordering::Relaxed);
            Code::OPERATING_SYSTEM
        })
}

struct Worker {
    number: u64,
    signals: Arc<Signals>,
    machine: Machine,
}

/// The first thing in a queue.
pub(super) enum Front {
    /// May be done now.
    Ready(Command),
    /// Waits for another stream, or its turn in the hardware queue, or there is nothing.
    Wait,
    /// The test does not let it begin.
    Held,
    Gone,
}

/// The stream of this number, if it is still that of the thread: a new default stream has the old one's number.
fn own<'a>(device: &'a mut Device, number: u64, signals: &Arc<Signals>) -> Option<&'a mut Stream> {
    let stream = device.streams.get_mut(&number)?;
    Arc::ptr_eq(&stream.signals, signals).then_some(stream)
}

pub(super) fn front(device: &mut Device, number: u64, signals: &Arc<Signals>) -> Front {
    let broken = device.primary.error.is_some();
    if own(device, number, signals).is_none() {
        return Front::Gone;
    }
    let stream = &device.streams[&number];
    let Some(command) = stream.queue.front() else {
        if stream.destroyed {
            device.streams.remove(&number);
            return Front::Gone;
        }
        return Front::Wait;
    };
    let (ready, counts) = match command {
        Command::AwaitEvent(mark) => (broken || mark.reached().is_some(), false),
        Command::AwaitStream { id, count } => (device.has_completed(*id, *count), false),
        _ => (true, true),
    };
    let Some(stream) = device.streams.get_mut(&number) else {
        return Front::Gone;
    };
    if !ready || !device.connections.is_next(stream.connection, number) {
        return Front::Wait;
    }
    if counts && !stream.hold.pass(Step::Command) {
        return Front::Held;
    }
    device.connections.begin(stream.connection);
    let command = stream.queue.pop_front();
    command.map_or(Front::Wait, Front::Ready)
}

impl Worker {
    fn run(mut self) {
        while let Some(command) = self.next() {
            let outcome = self.carry_out(command);
            let mut state = DRIVER.lock();
            let Some(device) = &mut state.device else {
                return;
            };
            if let Err(code) = outcome {
                device.break_context(code);
            }
            let Some(stream) = own(device, self.number, &self.signals) else {
                return;
            };
            (stream.running, stream.hangs) = (false, false);
            stream.completed += 1;
            DRIVER.notify();
        }
    }

    /// Waits for something to do; none: the stream is gone.
    fn next(&self) -> Option<Command> {
        let mut state = DRIVER.lock();
        loop {
            let device = state.device.as_mut()?;
            let timed = device.timed.is_some();
            let front = match own(device, self.number, &self.signals) {
                // `timed` carries its commands out.
                Some(stream) if timed && !stream.destroyed => Front::Wait,
                _ => front(device, self.number, &self.signals),
            };
            let held = matches!(front, Front::Held);
            if let Some(stream) = own(device, self.number, &self.signals)
                && stream.stopped != held
            {
                stream.stopped = held;
                DRIVER.notify();
            }
            match front {
                Front::Gone => {
                    DRIVER.notify();
                    return None;
                }
                Front::Ready(command) => {
                    self.begin(device, &command);
                    return Some(command);
                }
                Front::Wait | Front::Held => state = DRIVER.wait(state),
            }
        }
    }

    fn begin(&self, device: &mut Device, command: &Command) {
        let broken = device.primary.error.is_some();
        if let Some(stream) = own(device, self.number, &self.signals) {
            stream.running = true;
            if let Command::Launch(launch) = command {
                stream.launches_waiting = stream.launches_waiting.saturating_sub(1);
                stream.hangs = !broken && launch.hangs();
                let progress = if broken {
                    Progress::Dropped
                } else {
                    Progress::Running
                };
                device.note(launch.number, progress);
            }
        }
        DRIVER.notify();
    }

    fn carry_out(&mut self, command: Command) -> Outcome {
        match command {
            Command::Record(mark) => {
                let _order = DRIVER.lock();
                mark.reach();
            }
            Command::AwaitEvent(_) | Command::AwaitStream { .. } => {}
            _ if self.is_broken() => {}
            Command::Launch(launch) => return self.launch(&launch),
            transfer => transfer_bytes(&transfer, self.space().ok().as_deref()),
        }
        Ok(())
    }

    fn is_broken(&self) -> bool {
        let state = DRIVER.lock();
        let broken = |device: &Device| device.primary.error.is_some();
        self.is_aborted() || state.device.as_ref().is_none_or(broken)
    }

    fn is_aborted(&self) -> bool {
        self.signals.abort.load(Ordering::Relaxed)
    }

    fn launch(&mut self, launch: &QueuedLaunch) -> Outcome {
        let outcome = match launch.fate {
            Fate::Fails(code) => Err(code),
            Fate::Hangs if !self.released(launch.number) => Ok(false),
            Fate::Hangs | Fate::Runs if launch.sms.is_empty() => self.never(),
            Fate::Hangs | Fate::Runs => self.run_blocks(launch),
        };
        let progress = match outcome {
            Ok(true) => Progress::Done,
            Ok(false) => Progress::Dropped,
            Err(_) => Progress::Failed,
        };
        if let Some(device) = &mut DRIVER.lock().device {
            device.note(launch.number, progress);
        }
        outcome.map(drop)
    }

    /// Whether all blocks ran to their end; otherwise the launch was given up.
    fn run_blocks(&mut self, launch: &QueuedLaunch) -> Outcome<bool> {
        let pauses = Pauses {
            number: self.number,
            signals: Arc::clone(&self.signals),
        };
        let run = Launch {
            kernel: &launch.kernel,
            parameters: &launch.parameters.0,
            grid: launch.grid.into(),
            block: launch.block.into(),
            dynamic_shared: launch.shared_bytes as u32,
            arithmetic: Arithmetic::Exact,
            seed: launch.number,
            clock: clock::nanoseconds,
        };
        let mut memory = Launched::new(self.space()?.as_ref());
        let began_ns = clock::nanoseconds();
        let (mut last_began_ns, mut sms) = (began_ns, BTreeSet::new());
        for at in shuffled(run.blocks(), launch.number) {
            if !pauses.pass(Step::Block) {
                return Ok(false);
            }
            last_began_ns = clock::nanoseconds();
            let sm = launch.sms[at as usize % launch.sms.len()];
            sms.insert(sm);
            let block = run.position(at);
            let mut look = |counts: &Counts| {
                pauses.note(counts);
                pauses.pass(Step::Checkpoint)
            };
            let ended = self.machine.run(&run, &mut memory, block, sm, &mut look);
            pauses.note(&self.machine.counts());
            match ended {
                Ok(()) => {}
                Err(Stop::Ended) => return Ok(false),
                Err(Stop::Fault(fault)) => {
                    let code = if fault.violation.is_illegal_address() {
                        Code::ILLEGAL_ADDRESS
                    } else {
                        Code::LAUNCH_FAILED
                    };
                    if let Some(device) = &mut DRIVER.lock().device {
                        device.complaint = Some(fault.to_string());
                    }
                    // Programs see no more than the code.
                    eprintln!("emulated driver: {fault}");
                    return Err(code);
                }
            }
            // Relaxed: a count for the record.
            launch.blocks.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(file) = &launch.log {
            let logged = LoggedLaunch {
                process: std::process::id(),
                stream: self.number,
                kernel: launch.kernel.name().to_owned(),
                began_ns,
                last_began_ns,
                sms: sms.into_iter().collect(),
            };
            logged.append(file);
        }
        Ok(true)
    }

    fn space(&self) -> Outcome<Arc<Space>> {
        let state = DRIVER.lock();
        let device = state.device.as_ref().ok_or(Code::NOT_INITIALIZED)?;
        Ok(Arc::clone(device.memory.space()))
    }

    /// Waits until the test releases a launch that hangs; false: its context was reset.
    fn released(&self, launch: u64) -> bool {
        self.wait_until(|device| device.fates.released > launch)
    }

    /// What no multiprocessor may run hangs until the context is reset.
    fn never(&self) -> Outcome<bool> {
        Ok(self.wait_until(|_| false))
    }

    fn wait_until(&self, done: impl Fn(&Device) -> bool) -> bool {
        let mut state = DRIVER.lock();
        loop {
            let Some(device) = &mut state.device else {
                return false;
            };
            if self.is_aborted() {
                return false;
            }
            if done(device) {
                if let Some(stream) = own(device, self.number, &self.signals) {
                    stream.hangs = false;
                }
                DRIVER.notify();
                return true;
            }
            state = DRIVER.wait(state);
        }
    }
}

/// Carries out a copy, a fill or a write of a word; others do nothing. `space` is told what was written.
pub(super) fn transfer_bytes(command: &Command, space: Option<&Space>) {
    let (to, bytes, from) = match command {
        Command::Copy { to, from, bytes } => {
            let (from, address) = match from {
                Source::Address(address) => (*address as *const u8, Some(*address)),
                Source::Staged(staged) => (staged.as_ptr(), None),
            };
            // SAFETY: both ranges were checked when the copy was asked for, and are not given back while
            // a stream has work. They may overlap only if the program asked for that.
            unsafe { std::ptr::copy(from, *to as *mut u8, *bytes) };
            (*to, *bytes, address)
        }
        Command::Fill {
            to,
            pattern,
            width,
            words,
        } => {
            let pattern = pattern.to_le_bytes();
            for word in 0..*words {
                let at = (to + word * width) as *mut u8;
                // SAFETY: as for copies.
                unsafe { std::ptr::copy_nonoverlapping(pattern.as_ptr(), at, *width) };
            }
            (*to, width * words, None)
        }
        Command::Write { to, value } => {
            // SAFETY: as for copies; the address is a multiple of four. Release: a thread that sees the value
            // (an acquiring load in the program) sees what the stream did before.
            unsafe { AtomicU32::from_ptr(*to as *mut u32) }.store(*value, Ordering::Release);
            (*to, 4, None)
        }
        _ => return,
    };
    if let Some(space) = space {
        note_written(space, to, bytes, from);
    }
}

/// A copy or a fill wrote these bytes; `from`: what it copied, if that was memory of the device.
fn note_written(space: &Space, to: usize, bytes: usize, from: Option<usize>) {
    let (to, bytes) = (to as u64, bytes as u64);
    let Some(region) = space.find(to, bytes) else {
        return;
    };
    let source = from.and_then(|from| Some((space.find(from as u64, bytes)?, from as u64)));
    match source {
        Some((source, from)) => region.note_copied(to, &source, from, bytes),
        None => region.note_written(to, bytes),
    }
}

/// Where a launch may be stopped, or ended.
struct Pauses {
    number: u64,
    signals: Arc<Signals>,
}

impl Pauses {
    /// What the stream's machine has done so far.
    fn note(&self, counts: &Counts) {
        let instructions = &self.signals.instructions;
        instructions.store(counts.instructions, Ordering::Relaxed);
    }

    /// Waits until the next step may be done; false: the context was reset, and the launch is to end.
    fn pass(&self, step: Step) -> bool {
        if self.signals.abort.load(Ordering::Relaxed) {
            return false;
        }
        if !self.signals.armed.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = DRIVER.lock();
        loop {
            let Some(stream) = state
                .device
                .as_mut()
                .and_then(|device| own(device, self.number, &self.signals))
            else {
                return false;
            };
            let goes_on = stream.hold.pass(step);
            let aborted = self.signals.abort.load(Ordering::Relaxed);
            let stopped = stream.hold == Hold::Held && !goes_on && !aborted;
            if stream.stopped != stopped {
                stream.stopped = stopped;
                DRIVER.notify();
            }
            if goes_on || aborted {
                return !aborted;
            }
            state = DRIVER.wait(state);
        }
    }
}

/// All blocks, in an order that hides what a launch owes to the usual one.
fn shuffled(blocks: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    let first = random.below(blocks.max(1));
    let step = (1 + random.below(blocks.max(1)).max(1)..)
        .find(|&step| greatest_divisor(step, blocks) == 1)
        .unwrap_or(1);
    (0..blocks).map(move |at| (first + (at % blocks) * (step % blocks)) % blocks)
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_divisor(b, a % b)
    }
}

/// Waits until no thread of a stream is left: the library may be asked to be another machine then.
pub(super) fn all_ended() {
    let mut state = DRIVER.lock();
    while WORKERS.load(Ordering::Relaxed) > 0 {
        state = DRIVER.wait(state);
    }
}
