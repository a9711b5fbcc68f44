//! The words through which host and device talk while a stage runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use punctual_cuda_kernels::IMAGES_MAX;
use punctual_cuda_kernels::params::Answer;

use crate::driver::{CallError, Context, MappedMemory};

/// What the device writes often is not on a line with what it reads often.
const LINE: usize = 128;
/// The epoch, written by the host.
const EPOCH: usize = 0;
/// How many launches of the list have begun, written by the device.
const BEGUN: usize = LINE;
/// The sequence number of the last stage that is done, written by the device.
const DONE: usize = 2 * LINE;
/// The first evicted launch, reported here by the device after an eviction.
const EVICTED: usize = 3 * LINE;
/// Answers of the last stage, written by the device before [`DONE`].
const ANSWERS: usize = 4 * LINE;
const BYTES: usize = ANSWERS + IMAGES_MAX * size_of::<Answer>();

/// A partition's words, in memory that both sides see.
pub(super) struct Words {
    memory: MappedMemory,
}

impl Words {
    pub(super) fn take(context: &Arc<Context>) -> Result<Self, CallError> {
        Ok(Self {
            memory: MappedMemory::take(context, BYTES)?,
        })
    }

    pub(super) fn memory(&self) -> &MappedMemory {
        &self.memory
    }

    pub(super) fn epoch(&self) -> &AtomicU32 {
        self.memory.word(EPOCH)
    }

    pub(super) fn begun(&self) -> &AtomicU32 {
        self.memory.word(BEGUN)
    }

    pub(super) fn done(&self) -> &AtomicU32 {
        self.memory.word(DONE)
    }

    pub(super) fn evicted(&self) -> &AtomicU32 {
        self.memory.word(EVICTED)
    }

    pub(super) const EPOCH: usize = EPOCH;

    pub(super) fn begun_address(&self) -> u64 {
        self.memory.address(BEGUN)
    }

    pub(super) fn done_address(&self) -> u64 {
        self.memory.address(DONE)
    }

    pub(super) fn evicted_address(&self) -> u64 {
        self.memory.address(EVICTED)
    }

    pub(super) fn epoch_address(&self) -> u64 {
        self.memory.address(EPOCH)
    }

    pub(super) fn answers_address(&self) -> u64 {
        self.memory.address(ANSWERS)
    }

    /// The answer for an image of a stage that is done.
    ///
    /// # Panics
    /// If a launch has fewer images.
    pub(super) fn answer(&self, image: usize) -> Answer {
        assert!(image < IMAGES_MAX, "image {image}");
        let mut bytes = [0; size_of::<Answer>()];
        self.memory
            .read(ANSWERS + image * size_of::<Answer>(), &mut bytes);
        let [class_index, confidence, not_finite] = [0, 4, 8].map(|at| {
            let word: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
            u32::from_ne_bytes(word)
        });
        Answer {
            class_index,
            confidence: f32::from_bits(confidence),
            not_finite,
            gap: 0,
        }
    }
}

/// Moves a queue's epoch on, from any thread.
#[derive(Clone)]
pub struct EpochFlag(pub(super) Arc<Words>);

impl EpochFlag {
    /// Moves the epoch on: what was handed over under the old one is evicted.
    pub fn move_on(&self) {
        // Relaxed: it publishes nothing, and the device reads it at its next look. Its partners on the host are the
        // loads in `VirtualQueue::go_on` and `is_evicted`. Launches of the new epoch come from the leader, which
        // reads it from this same word.
        self.0.epoch().fetch_add(1, Ordering::Relaxed);
    }
}

/// An [`EpochFlag`] that can be taken away and given again: the words of a device that is restarted are
/// other words afterwards.
#[derive(Clone, Default)]
pub struct StopFlag(Arc<Mutex<Option<EpochFlag>>>);

impl StopFlag {
    /// Moves the epoch on, if there is one. Called by the scheduler's thread: it never waits. The lock
    /// is held elsewhere only while a restart changes the words, when nothing runs.
    pub fn stop(&self) {
        if let Ok(flag) = self.0.try_lock()
            && let Some(flag) = &*flag
        {
            flag.move_on();
        }
    }

    /// Puts another flag there, or none.
    pub fn set(&self, flag: Option<EpochFlag>) {
        // Nothing panics under the lock.
        *self.0.lock().unwrap_or_else(|poison| poison.into_inner()) = flag;
    }
}
