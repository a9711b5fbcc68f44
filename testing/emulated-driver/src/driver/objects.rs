//! What there is in a context, and what waits in its streams.
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use punctual_ptx::Kernel;

use super::fault::Fate;
use super::gate::Hold;
use super::image::{Image, Resources};
use crate::clock;
use crate::code::Code;
use crate::index::Index;

#[derive(Default)]
pub(crate) struct Primary {
    pub(super) retained: u32,
    /// What everything in it fails with until it is reset, or until the process ends.
    pub(crate) error: Option<Code>,
    pub(crate) resets: u64,
    /// A reset or a release has met a kernel that hangs, and waits.
    pub(crate) waits: bool,
}

pub(crate) struct Module {
    pub(super) image: Image,
}

pub(crate) struct Function {
    pub(super) module: usize,
    pub(super) name: String,
    pub(super) kernel: Arc<Kernel>,
    pub(super) resources: Resources,
    /// Dynamic shared memory that a launch may ask for.
    pub(super) dynamic_shared_max: usize,
    pub(super) carveout: i32,
}

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
    pub(super) handle: Box<Handle>,
    pub(super) object: Box<[AtomicU32; OBJECT_WORDS]>,
    pub(crate) priority: i32,
    /// Keeps order with the default stream.
    pub(super) blocking: bool,
    /// The multiprocessors of its green context.
    pub(super) green: Option<Vec<u32>>,
    /// Its hardware queue.
    pub(super) connection: usize,
    pub(super) queue: VecDeque<Command>,
    pub(super) submitted: u64,
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

impl Stream {
    pub(super) fn new(priority: i32, blocking: bool, green: Option<Vec<u32>>, hold: Hold) -> Self {
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

#[derive(Default)]
pub(crate) struct Mark {
    /// When the stream came to it; 0: not yet. Relaxed: written and read under the driver's lock.
    at_ns: AtomicU64,
}

impl Mark {
    pub(super) fn reach(&self) {
        self.at_ns
            .store(clock::nanoseconds().max(1), Ordering::Relaxed);
    }

    pub(super) fn reached(&self) -> Option<u64> {
        match self.at_ns.load(Ordering::Relaxed) {
            0 => None,
            at => Some(at),
        }
    }
}

pub(crate) struct Event {
    pub(super) latest: Option<Arc<Mark>>,
    pub(super) timing: bool,
}

/// A green context. The primary context stays as long as there is one.
pub(crate) struct Green {
    pub(super) sms: Vec<u32>,
    /// The handle of the context that stands for it.
    pub(crate) context: usize,
}

/// A launch that waits in a stream.
pub(crate) struct QueuedLaunch {
    /// Counted from 0 over all streams.
    pub(super) number: u64,
    pub(super) kernel: Arc<Kernel>,
    pub(super) parameters: Parameters,
    pub(super) grid: Index,
    pub(super) block: Index,
    pub(super) shared_bytes: usize,
    /// The multiprocessors that it may use; none: it can never run.
    pub(super) sms: Vec<u32>,
    pub(super) fate: Fate,
    /// Where it is logged.
    pub(super) log: Option<String>,
    /// In virtual time: when it reaches the device, and how many of its blocks a multiprocessor has room for.
    pub(super) arrives_ns: u64,
    pub(super) blocks_per_sm: u32,
    /// Blocks that have run, as the record sees it.
    pub(super) blocks: Arc<AtomicU64>,
}

impl QueuedLaunch {
    /// Whether it will not end by itself.
    pub(super) fn hangs(&self) -> bool {
        self.fate == Fate::Hangs || self.sms.is_empty()
    }
}

/// The bytes of all parameters, as they were when the kernel was launched.
pub(crate) struct Parameters(pub(super) Box<[u8]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    Running,
    Done,
    Failed,
    /// Its context was broken or reset first.
    Dropped,
}

impl Progress {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Progress::Waiting => "waiting",
            Progress::Running => "running",
            Progress::Done => "done",
            Progress::Failed => "failed",
            Progress::Dropped => "dropped",
        }
    }
}

/// What is remembered of a launch.
pub(crate) struct Record {
    pub(crate) number: u64,
    pub(crate) kernel: String,
    pub(crate) grid: Index,
    pub(crate) block: Index,
    pub(crate) shared_bytes: usize,
    pub(crate) stream: usize,
    pub(crate) priority: i32,
    pub(crate) sms: Vec<u32>,
    pub(crate) blocks: Arc<AtomicU64>,
    /// How many launches of all streams began before it, once it began.
    pub(crate) began: Option<u64>,
    pub(crate) progress: Progress,
}

impl Record {
    pub(crate) fn blocks_run(&self) -> u64 {
        // Relaxed: a count; what the blocks did is seen through the stream's completion.
        self.blocks.load(Ordering::Relaxed)
    }
}
