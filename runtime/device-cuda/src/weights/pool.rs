//! What of the weights lives on the device, what the ends share about it, and the end of the thread that takes it
//! anew after a fault.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use punctual_device::NO_PIECE;
use punctual_platform::Doorbell;

use super::content::Content;
use super::failure::LoadError;
use super::table::PageTable;
use crate::driver::{CallError, Context, DeviceMemory, Event, MappedMemory, Stream};
use crate::lower::PackError;

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
    pub(super) contents: Box<[Arc<Content>]>,
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

    /// Begins to bring a model's page into its piece.
    fn begin(&mut self, shared: &Shared, model: usize, page: usize) -> Result<(), LoadError> {
        let model = &shared.models[model];
        // Relaxed: the ring of orders, or the lock, publishes it.
        let piece = model.pieces[page].load(Ordering::Relaxed);
        let content = model.contents[page];
        if piece != NO_PIECE && self.holds[piece as usize] != content {
            let bytes = shared.contents[content as usize].bytes()?;
            self.stream.context().bind()?;
            self.fill(shared, piece as usize, content, bytes)?;
        }
        Ok(())
    }

    fn fill(
        &mut self,
        shared: &Shared,
        piece: usize,
        content: u32,
        bytes: &[u8],
    ) -> Result<(), CallError> {
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

    /// Waits for what was begun.
    fn arrive(&mut self) -> Result<(), CallError> {
        self.stream.context().bind()?;
        let ended = self.stream.synchronize();
        if ended.is_err() {
            // What was on its way may not have arrived.
            self.holds.fill(NOTHING);
        }
        ended
    }

    /// Says where a model's page lies, which has arrived.
    fn publish(&self, shared: &Shared, model: usize, page: usize) {
        // Relaxed: as in `begin`.
        let piece = shared.models[model].pieces[page].load(Ordering::Relaxed);
        if piece != NO_PIECE {
            let offset = piece as usize * shared.page_bytes;
            let address = self.memory.address() + offset as u64;
            shared.table.publish(model, page, address);
        }
    }

    /// Loads a model's pages, and says where they lie.
    pub(super) fn bring_in(&mut self, shared: &Shared, model: usize) -> Result<(), LoadError> {
        let pages = 0..shared.models[model].pieces.len();
        for page in pages.clone() {
            self.begin(shared, model, page)?;
        }
        self.arrive()?;
        for page in pages {
            self.publish(shared, model, page);
        }
        // Relaxed: the lock publishes it to the recovery thread.
        shared.models[model].there.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Weights {
    #[must_use]
    pub fn table(&self) -> Arc<PageTable> {
        self.shared.table.clone()
    }

    /// Allocates the pool on the device and loads, of the models that `comes` names by their position, the pinned ones, and
    /// those that were resident when it was released.
    pub fn bring_up(
        &self,
        context: &Arc<Context>,
        comes: impl Fn(usize) -> bool,
    ) -> Result<(), LoadError> {
        let shared = &*self.shared;
        let mut place = shared.pool();
        context.bind()?;
        let mut pool = Pool::take(context, shared)?;
        for (number, model) in shared.models.iter().enumerate() {
            if comes(number) && (!model.paged || model.there.load(Ordering::Relaxed)) {
                pool.bring_in(shared, number).inspect_err(|_| {
                    shared.table.hide_all();
                })?;
            }
        }
        *place = Some(pool);
        Ok(())
    }

    /// Packs everything on the host.
    pub fn pack_all(&self) -> Result<(), PackError> {
        let mut contents = self.shared.contents.iter();
        contents.try_for_each(|content| content.bytes().map(drop))
    }

    /// Packs a model's page on the host, if that was not done. It takes its time, and nothing waits for it but who needs
    /// the same page.
    pub fn pack(&self, model: usize, page: usize) -> Result<(), LoadError> {
        let content = self.shared.models[model].contents[page];
        self.shared.contents[content as usize].bytes()?;
        Ok(())
    }

    /// Loads a page of a pinned model, and says where it lies. The pool is not kept meanwhile from a load that was
    /// ordered: it waits for one page at most.
    pub fn bring_in_page(&self, model: usize, page: usize) -> Result<(), LoadError> {
        let shared = &*self.shared;
        let mut place = shared.pool();
        let pool = place.as_mut().ok_or(LoadError::Down)?;
        pool.begin(shared, model, page)?;
        pool.arrive()?;
        pool.publish(shared, model, page);
        Ok(())
    }

    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.shared.page_bytes
    }

    #[must_use]
    pub fn is_paged(&self, model: usize) -> bool {
        self.shared.models[model].paged
    }

    /// Gives everything back that is on the device, or was before it failed. Nothing is being launched.
    pub fn let_go(&self) {
        let pool = self.shared.pool().take();
        self.shared.table.hide_all();
        drop(pool);
    }
}
