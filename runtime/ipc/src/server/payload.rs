//! The intake's part: pixels out of a client's slot.

use std::sync::Arc;

use punctual_platform::atomics::Ordering;
use punctual_types::SharedBytes;

use super::buffers::{Buffer, Rows};
use super::shared::Shared;
use crate::frame::FrameSpec;

/// Reads a client's payloads. The only thing in the daemon that touches them: what the client
/// does to its pages happens to this client's own intake thread.
#[derive(Debug)]
pub struct PayloadReader {
    shared: Arc<Shared>,
}

/// Why a payload was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The slot was given back to the client meanwhile.
    #[error("slot {slot} no longer holds submission {sequence}")]
    Released { slot: u16, sequence: u64 },
    /// The rows are not all inside the slot.
    #[error("{rows:?} leave the slot's {slot_bytes} bytes")]
    Outside {
        /// The rows that should have been read.
        rows: Rows,
        slot_bytes: usize,
    },
    /// The client's own buffer did not give its bytes.
    #[error("the buffer of slot {slot} cannot be read")]
    Unreadable { slot: u16 },
    /// The copy would have another size.
    #[error("{needed} bytes to copy, room for {room}")]
    Room { needed: usize, room: usize },
}

impl PayloadReader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Where the pixels lie in a slot.
    #[must_use]
    pub fn frame(&self) -> &FrameSpec {
        &self.shared.terms.frame
    }

    /// Copies rows out of the slot that holds submission `sequence`, packed without gaps. The
    /// client may be writing meanwhile: the copy is then a mixture, which harms that client only.
    ///
    /// # Errors
    /// If the slot holds something else, or the rows do not fit.
    pub fn read(
        &self,
        slot: u16,
        sequence: u64,
        rows: Rows,
        copy: &mut [u8],
    ) -> Result<(), PayloadError> {
        if !self.shared.slots.holds(slot, sequence) {
            return Err(PayloadError::Released { slot, sequence });
        }
        let layout = &self.shared.request_layout;
        let slot_bytes = match self.shared.buffers {
            Some(_) => usize::try_from(self.frame().bytes()).expect("checked terms"),
            None => layout.slot_bytes,
        };
        let needed = rows.bytes.saturating_mul(rows.rows);
        if needed != copy.len() {
            let room = copy.len();
            return Err(PayloadError::Room { needed, room });
        }
        if rows.end().is_none_or(|end| end > slot_bytes) {
            return Err(PayloadError::Outside { rows, slot_bytes });
        }
        if rows.bytes == 0 {
            return Ok(());
        }
        if let Some(buffers) = &self.shared.buffers {
            let buffer = &buffers[usize::from(slot)];
            let read = buffer.read(rows, copy);
            return read.ok_or(PayloadError::Unreadable { slot });
        }
        rows.copy_out(self.own_slot(slot), copy);
        Ok(())
    }

    /// Whether the frame of a slot can be read [where it lies](Self::in_place): in memory that the daemon made, or in a buffer
    /// whose pages stay.
    #[must_use]
    pub fn lies_in_memory(&self, slot: u16) -> bool {
        let buffers = self.shared.buffers.as_ref();
        buffers.is_none_or(|buffers| {
            buffers
                .get(usize::from(slot))
                .is_some_and(Buffer::has_pages)
        })
    }

    /// Has `read` read the slot that holds submission `sequence`, where it lies, from the slot's first byte on. The client may
    /// be writing meanwhile: what is read is then a mixture, which harms that client only.
    ///
    /// # Errors
    /// If the slot holds something else, or its memory cannot be read so.
    pub fn in_place<T>(
        &self,
        slot: u16,
        sequence: u64,
        read: impl FnOnce(SharedBytes<'_>) -> T,
    ) -> Result<T, PayloadError> {
        if !self.shared.slots.holds(slot, sequence) {
            return Err(PayloadError::Released { slot, sequence });
        }
        let Some(buffers) = &self.shared.buffers else {
            return Ok(read(self.own_slot(slot)));
        };
        let done = buffers[usize::from(slot)].with_pages(read);
        done.ok_or(PayloadError::Unreadable { slot })
    }

    /// A slot of memory that the daemon made.
    fn own_slot(&self, slot: u16) -> SharedBytes<'_> {
        let layout = &self.shared.request_layout;
        self.shared
            .requests
            .shared(layout.slot(slot), layout.slot_bytes)
    }

    /// Copies the numbers that came with submission `sequence`, of all vectors one after the other. As with pixels, the
    /// client may be writing meanwhile; nothing is known of them.
    ///
    /// # Errors
    /// If the slot holds something else, or the terms have another count of numbers.
    pub fn read_vectors(
        &self,
        slot: u16,
        sequence: u64,
        copy: &mut [f32],
    ) -> Result<(), PayloadError> {
        if !self.shared.slots.holds(slot, sequence) {
            return Err(PayloadError::Released { slot, sequence });
        }
        let needed = usize::from(self.shared.terms.vectors);
        if needed != copy.len() {
            let room = copy.len();
            return Err(PayloadError::Room { needed, room });
        }
        let start = self.shared.request_layout.vectors(slot);
        for (at, value) in copy.iter_mut().enumerate() {
            // Relaxed: published by the submission ring.
            let word = self.shared.requests.word32(start + 4 * at);
            *value = f32::from_bits(word.load(Ordering::Relaxed));
        }
        Ok(())
    }

    /// Gives the slot back to the client, now that its payload was copied; false if it was given back before.
    pub fn release(&self, slot: u16, sequence: u64) -> bool {
        self.shared.release(slot, sequence)
    }
}

impl Rows {
    /// Behind the last byte; none if that is no number.
    fn end(&self) -> Option<usize> {
        let Some(last) = self.rows.checked_sub(1) else {
            return Some(self.offset);
        };
        let last = last.checked_mul(self.stride)?;
        self.offset.checked_add(last)?.checked_add(self.bytes)
    }
}
