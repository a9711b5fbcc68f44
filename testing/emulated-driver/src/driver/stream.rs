//! Streams: queues of commands, each worked off by a thread of its own.
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::context::{self, PRIORITIES};
use super::event::Mark;
use super::fragile;
use super::gate::Hold;
use super::launch::QueuedLaunch;
use super::mask;
use super::state::{DRIVER, Device};
use super::worker;
use crate::code::{Code, Outcome};

/// What a stream is asked to do. Addresses were checked when it was asked.
pub(crate) enum Command {
    Launch(Box<QueuedLaunch>),
    Copy {
        to: usize,
        from: Source,
        bytes: usize,
    },
    /// `words` times `pattern`, of which the lowest `width` bytes count.
    Fill {
        to: usize,
        pattern: u32,
        width: usize,
        words: usize,
    },
    /// One word, after everything before it.
    Write {
        to: usize,
        value: u32,
    },
    Record(Arc<Mark>),
    AwaitEvent(Arc<Mark>),
    /// Until stream `id` has completed `count` commands.
    AwaitStream {
        id: u64,
        count: u64,
    },
}

pub(crate) enum Source {
    Address(usize),
    /// Read when the copy was asked for, as page-locked memory alone can be read later.
    Staged(Box<[u8]>),
}

/// Words of a stream's object: more than the offset of any mask.
pub(super) const OBJECT_WORDS: usize = 1024;

/// What a `CUstream` points to: as in the real driver a pointer to the stream's object, in which its mask lies, at an
/// undocumented offset.
#[repr(C)]
pub(super) struct Handle {
    object: *const [AtomicU32; OBJECT_WORDS],
}

/// What the thread of a stream looks at without the lock.
#[derive(Default)]
pub(crate) struct Signals {
    /// The context was reset: whatever runs is to end.
    ///
    /// Relaxed everywhere: set and acted upon under the lock; a look without it is only early.
    pub(super) abort: AtomicBool,
    /// A hold is on: to be asked under the lock. Likewise.
    pub(super) armed: AtomicBool,
    /// Instructions of warps that were executed. Likewise.
    pub(super) instructions: AtomicU64,
}

impl Signals {
    pub(super) fn instructions(&self) -> u64 {
        self.instructions.load(Ordering::Relaxed)
    }
}

pub(crate) struct Stream {
    handle: Box<Handle>,
    object: Box<[AtomicU32; OBJECT_WORDS]>,
    pub(crate) priority: i32,
    /// Keeps order with the default stream.
    blocking: bool,
    /// The multiprocessors of its green context.
    pub(super) green: Option<Vec<u32>>,
    /// Its hardware queue.
    pub(super) connection: usize,
    pub(super) queue: VecDeque<Command>,
    submitted: u64,
    pub(super) completed: u64,
    /// Its thread carries out a command.
    pub(crate) running: bool,
    /// What its thread carries out hangs.
    pub(super) hangs: bool,
    pub(super) launches_waiting: u32,
    pub(crate) hold: Hold,
    /// Its thread waits because of the hold.
    pub(super) stopped: bool,
    pub(super) destroyed: bool,
    pub(super) signals: Arc<Signals>,
}

// SAFETY: the pointer in the handle is to the object, which is atomics and lives as long.
unsafe impl Send for Stream {}

/// The number of the default stream.
pub(super) const DEFAULT: u64 = 0;
/// `CU_STREAM_LEGACY`.
const LEGACY: usize = 1;
/// `CU_STREAM_NON_BLOCKING`.
pub(super) const NON_BLOCKING: u32 = 1;

impl Stream {
    fn new(priority: i32, blocking: bool, green: Option<Vec<u32>>, hold: Hold) -> Self {
        let object = Box::new([const { AtomicU32::new(0) }; OBJECT_WORDS]);
        let handle = Box::new(Handle {
            object: &raw const *object,
        });
        let mut stream = Self {
            handle,
            object,
            priority,
            blocking,
            green,
            connection: 0,
            queue: VecDeque::new(),
            submitted: 0,
            completed: 0,
            running: false,
            hangs: false,
            launches_waiting: 0,
            hold,
            stopped: false,
            destroyed: false,
            signals: Arc::default(),
        };
        stream.set_hold(hold);
        stream
    }

    /// The address that the program knows it by.
    pub(crate) fn handle(&self) -> usize {
        debug_assert!(std::ptr::eq(self.handle.object, &raw const *self.object));
        &raw const *self.handle as usize
    }

    pub(super) fn object(&self) -> &[AtomicU32; OBJECT_WORDS] {
        &self.object
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.running
    }

    /// Whether it stands still and will until it is let go.
    pub(crate) fn is_held(&self) -> bool {
        self.hold == Hold::Held && (self.stopped || !self.running)
    }

    pub(crate) fn set_hold(&mut self, hold: Hold) {
        self.hold = hold;
        self.signals
            .armed
            .store(hold != Hold::Open, Ordering::Relaxed);
    }

    /// Nothing that was asked of it will be done.
    pub(crate) fn give_up(&mut self) {
        self.queue.clear();
        self.launches_waiting = 0;
        self.signals.abort.store(true, Ordering::Relaxed);
    }
}

impl Device {
    /// The number of the stream that a handle means.
    pub(super) fn stream_number(&mut self, handle: usize) -> Outcome<u64> {
        if handle == 0 || handle == LEGACY {
            if !self.streams.contains_key(&DEFAULT) {
                self.begin_stream(DEFAULT, Stream::new(0, true, None, self.hold_new))?;
            }
            return Ok(DEFAULT);
        }
        self.streams
            .iter()
            .find(|(_, stream)| stream.handle() == handle && !stream.destroyed)
            .map(|(&number, _)| number)
            .ok_or(Code::INVALID_HANDLE)
    }

    fn begin_stream(&mut self, number: u64, mut stream: Stream) -> Outcome {
        if let Some(seed) = self.config.fragile {
            fragile::fill(seed, stream.object(), mask::words(&self.config));
        }
        stream.connection = self.connections.give();
        worker::start(number, Arc::clone(&stream.signals))?;
        self.streams.insert(number, stream);
        Ok(())
    }

    /// Makes a stream on the multiprocessors of a green context, or on all.
    pub(super) fn new_stream(
        &mut self,
        flags: u32,
        priority: i32,
        green: Option<Vec<u32>>,
    ) -> Outcome<usize> {
        if flags & !NON_BLOCKING != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (least, greatest) = PRIORITIES;
        let stream = Stream::new(
            priority.clamp(greatest, least),
            flags & NON_BLOCKING == 0,
            green,
            self.hold_new,
        );
        let handle = stream.handle();
        let number = self.number();
        self.begin_stream(number, stream)?;
        Ok(handle)
    }

    /// Appends a command, behind what the default stream's rules put before it, and says how many
    /// commands the stream has completed when it is done.
    pub(super) fn submit(&mut self, number: u64, command: Command) -> Outcome<u64> {
        let mut before = Vec::new();
        let own = self.streams.get(&number).ok_or(Code::INVALID_HANDLE)?;
        for (&id, other) in &self.streams {
            let ordered = id != number
                && (number == DEFAULT && other.blocking || id == DEFAULT && own.blocking);
            if ordered && other.submitted > other.completed {
                let count = other.submitted;
                before.push(Command::AwaitStream { id, count });
            }
        }
        let stream = self.streams.get_mut(&number).ok_or(Code::INVALID_HANDLE)?;
        if matches!(command, Command::Launch(_)) {
            stream.launches_waiting += 1;
        }
        stream.submitted += before.len() as u64 + 1;
        for _ in 0..=before.len() {
            self.connections.push(stream.connection, number);
        }
        stream.queue.extend(before);
        stream.queue.push_back(command);
        let count = stream.submitted;
        if self.timed.is_none() {
            DRIVER.notify();
        }
        Ok(count)
    }

    /// Whether stream `number` has completed `count` commands, or is gone.
    pub(super) fn has_completed(&self, number: u64, count: u64) -> bool {
        self.streams
            .get(&number)
            .is_none_or(|stream| stream.completed >= count)
    }
}

pub(crate) fn create(flags: u32, priority: i32) -> Outcome<usize> {
    context::with(|device| device.new_stream(flags, priority, None))
}

pub(crate) fn destroy(handle: usize) -> Outcome {
    let mut state = DRIVER.lock();
    let device = state.device()?;
    let number = device.stream_number(handle)?;
    if number == DEFAULT {
        return Err(Code::INVALID_HANDLE);
    }
    if let Some(stream) = device.streams.get_mut(&number) {
        // Its thread does what was asked of it, and takes it out.
        stream.destroyed = true;
        stream.set_hold(Hold::Open);
    }
    DRIVER.notify();
    Ok(())
}

pub(crate) fn priority(handle: usize) -> Outcome<i32> {
    context::with(|device| {
        let number = device.stream_number(handle)?;
        Ok(device.streams[&number].priority)
    })
}

pub(crate) fn query(handle: usize) -> Outcome {
    context::with(|device| {
        let number = device.stream_number(handle)?;
        if device.streams[&number].is_idle() {
            Ok(())
        } else {
            Err(Code::NOT_READY)
        }
    })
}

pub(crate) fn synchronize(handle: usize) -> Outcome {
    // What was asked of the stream so far, looked up within the wait: a reset before it is not taken for the end of it all.
    let mut asked = None;
    DRIVER.wait_in_context(|device| {
        let (number, count) = match asked {
            Some(asked) => asked,
            None => match device.stream_number(handle) {
                Ok(number) => *asked.insert((number, device.streams[&number].submitted)),
                Err(code) => return Some(Err(code)),
            },
        };
        device.has_completed(number, count).then_some(Ok(()))
    })
}

pub(crate) fn write_value(handle: usize, to: u64, value: u32) -> Outcome {
    context::with(|device| {
        let number = device.stream_number(handle)?;
        if !to.is_multiple_of(4) {
            return Err(Code::INVALID_VALUE);
        }
        device.check_access(to, 4)?;
        let to = to as usize;
        device.submit(number, Command::Write { to, value })?;
        Ok(())
    })
}
