//! What of the weights lives on the device, what the ends share about it, and the end of the thread that takes it
//! anew after a fault.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use punctual_device::NO_PIECE;
use punctual_platform::Doorbell;

use super::table::PageTable;
use crate::driver::{CallError, Context, DeviceMemory, Event, MappedMemory, Stream};

/// What a piece holds that was not filled.
const NOTHING: u32 = u32::MAX;

/// The recovery thread's end.
pub struct Weights {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) page_bytes: usize,
    pub(super) pieces: usize,
    /// What pages contain; equal pages are one.
    pub(super) contents: Contents,
    pub(super) models: Box<[Model]>,
    pub(super) table: Arc<PageTable>,
    /// What lives on the device, while it works. Locked by the loader and the recovery thread alone, both of which may wait.
    pub(super) pool: Mutex<Option<Pool>>,
    /// Rings when the loader has something to do.
    pub(super) orders: Arc<Doorbell>,
}

/// What the ends share about one model.
pub(super) struct Model {
    pub(super) paged: bool,
    /// What its pages contain, as positions in [`Shared::contents`].
    pub(super) contents: Box<[u32]>,
    /// Which piece of the pool each page is. Written by the ledger.
    pub(super) pieces: Box<[AtomicU32]>,
    /// Whether its weights are resident, and so to be loaded again after a fault. Set by the loader,
    /// cleared by the ledger.
    pub(super) there: AtomicBool,
}

/// The bytes of different pages.
pub(super) type Contents = Box<[Box<[u8]>]>;

impl Shared {
    /// What lives on the device. A panic while it was locked left it as good as it was: pages are
    /// published one by one.
    pub(super) fn pool(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

/// The pool, and the way to it.
pub(super) struct Pool {
    memory: DeviceMemory,
    stream: Stream,
    /// Two pages of page-locked memory: one is filled while the other one is on its way.
    staging: [Staging; 2],
    /// The content of each piece that is filled, or on its way.
    holds: Box<[u32]>,
    /// Which of the two is next.
    next: usize,
}

struct Staging {
    memory: MappedMemory,
    /// Its last copy is over.
    over: Event,
}

impl Pool {
    fn take(context: &Arc<Context>, shared: &Shared) -> Result<Self, CallError> {
        let (lowest, _) = context.stream_priorities()?;
        let stream = Stream::new(context, lowest)?;
        let memory = DeviceMemory::take(context, shared.pieces * shared.page_bytes)?;
        // Touched once, so that it is there.
        stream.fill_words(&memory, memory.bytes() / 4, 0)?;
        let staging = || {
            Ok(Staging {
                memory: MappedMemory::take(context, shared.page_bytes)?,
                over: Event::new(context, false)?,
            })
        };
        Ok(Self {
            staging: [staging()?, staging()?],
            holds: vec![NOTHING; shared.pieces].into(),
            memory,
            stream,
            next: 0,
        })
    }

    /// Begins to bring a model's pages into its pieces.
    fn begin(&mut self, shared: &Shared, model: usize) -> Result<(), CallError> {
        self.stream.context().bind()?;
        let model = &shared.models[model];
        for (place, &content) in model.pieces.iter().zip(&model.contents) {
            // Relaxed: the ring of orders, or the lock, publishes it.
            let piece = place.load(Ordering::Relaxed);
            if piece != NO_PIECE && self.holds[piece as usize] != content {
                self.fill(shared, piece as usize, content)?;
            }
        }
        Ok(())
    }

    fn fill(&mut self, shared: &Shared, piece: usize, content: u32) -> Result<(), CallError> {
        let bytes = &shared.contents[content as usize];
        let staging = &mut self.staging[self.next];
        self.next = 1 - self.next;
        // The last copy out of this staging memory may still read it.
        staging.over.synchronize()?;
        // Until the copy is queued: if a call below fails, the piece holds neither content.
        self.holds[piece] = NOTHING;
        staging.memory.write(0, bytes);
        let to = piece * shared.page_bytes;
        self.stream
            .copy_in(&staging.memory, 0, &self.memory, to, bytes.len())?;
        staging.over.record(&self.stream)?;
        self.holds[piece] = content;
        Ok(())
    }

    /// Waits for what was begun and says where the model's pages lie.
    fn finish(&mut self, shared: &Shared, model: usize) -> Result<(), CallError> {
        let ended = self.stream.synchronize();
        if ended.is_err() {
            // What was on its way may not have arrived.
            self.holds.fill(NOTHING);
        }
        ended?;
        for (page, place) in shared.models[model].pieces.iter().enumerate() {
            // Relaxed: as in `begin`.
            let piece = place.load(Ordering::Relaxed);
            if piece != NO_PIECE {
                let offset = piece as usize * shared.page_bytes;
                let address = self.memory.address() + offset as u64;
                shared.table.publish(model, page, address);
            }
        }
        // Relaxed: the lock publishes it to the recovery thread.
        shared.models[model].there.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Loads a model's pages and returns their addresses.
    pub(super) fn bring_in(&mut self, shared: &Shared, model: usize) -> Result<(), CallError> {
        self.begin(shared, model)?;
        self.finish(shared, model)
    }
}

impl Weights {
    #[must_use]
    pub fn table(&self) -> Arc<PageTable> {
        self.shared.table.clone()
    }

    /// Allocates the pool on the device and loads the pinned models, and those that were resident when
    /// it was released.
    pub fn bring_up(&self, context: &Arc<Context>) -> Result<(), CallError> {
        let shared = &*self.shared;
        let mut place = shared.pool();
        context.bind()?;
        let mut pool = Pool::take(context, shared)?;
        for (number, model) in shared.models.iter().enumerate() {
            if !model.paged || model.there.load(Ordering::Relaxed) {
                pool.bring_in(shared, number).inspect_err(|_| {
                    shared.table.hide_all();
                })?;
            }
        }
        *place = Some(pool);
        Ok(())
    }

    /// Gives everything back that is on the device, or was before it failed. Nothing is being launched.
    pub fn let_go(&self) {
        let pool = self.shared.pool().take();
        self.shared.table.hide_all();
        drop(pool);
    }
}
