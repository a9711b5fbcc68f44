//! A slot in the client's hands.

use super::{ClientChannel, SubmitError};
use crate::descriptor::Crop;
use crate::region::Region;

/// A slot out of the channel's hands: its owner may write the frame while the channel is used for
/// something else, by another thread if need be. Forgotten, it is lost until the channel ends.
#[derive(Debug)]
#[must_use = "submit it or give it back: the channel cannot use it meanwhile"]
pub struct Claim {
    /// The number of the channel that it is of.
    pub(super) channel: u64,
    pub(super) index: u16,
    /// Kept mapped even when the channel is gone.
    pub(super) memory: Region,
    pub(super) start: usize,
    pub(super) bytes: usize,
}

impl Claim {
    /// Its number, from 0.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Keeps the slot's memory mapped.
    #[must_use]
    pub fn memory(&self) -> SlotMemory {
        SlotMemory {
            _memory: self.memory.clone(),
        }
    }

    /// The frame's bytes, laid out as the terms' [`FrameSpec`](crate::FrameSpec) says. What was
    /// there before is an earlier frame.
    #[must_use]
    pub fn pixels(&mut self) -> &mut [u8] {
        let start = self.memory.span(self.start, self.bytes);
        // SAFETY: in bounds and mapped read-write as long as `memory` lives. The slot is free: the
        // daemon's mapping is read-only and its reading of the last use is over, and the channel
        // makes no second claim of it, so no other code accesses these bytes while self, the only
        // handle, is borrowed.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes) }
    }

    /// Writes a tensor in the manifest's layout: `[channel][row][column]`.
    ///
    /// # Panics
    /// If the slot is not as long as these values.
    pub fn write_tensor(&mut self, values: &[f32]) {
        let (places, rest) = self.pixels().as_chunks_mut::<4>();
        assert_eq!(
            (places.len(), rest.len()),
            (values.len(), 0),
            "values of a tensor"
        );
        for (place, value) in places.iter_mut().zip(values) {
            *place = value.to_le_bytes();
        }
    }
}

/// Keeps the memory of a slot mapped, whatever becomes of the slot and its channel: for languages in
/// which a reference to a submitted frame may remain.
#[derive(Clone, Debug)]
pub struct SlotMemory {
    _memory: Region,
}

/// A slot to write a frame into, while the channel waits.
#[derive(Debug)]
pub struct Slot<'c> {
    channel: &'c mut ClientChannel,
    /// There until it is submitted.
    claim: Option<Claim>,
}

impl<'c> Slot<'c> {
    pub(super) fn new(channel: &'c mut ClientChannel, claim: Claim) -> Self {
        Self {
            channel,
            claim: Some(claim),
        }
    }

    /// As [`Claim::pixels`].
    #[must_use]
    pub fn pixels(&mut self) -> &mut [u8] {
        self.claim.as_mut().map_or(&mut [], Claim::pixels)
    }

    /// As [`ClientChannel::submit`].
    ///
    /// # Errors
    /// If it is not submitted; the slot stays free, unless the daemon is gone.
    pub fn submit(
        mut self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        match self.claim.take() {
            Some(claim) => self.channel.submit(claim, captured_ns, deadline_ns, crop),
            None => Err(SubmitError::ForeignSlot),
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            // It is this channel's own, so it is taken back.
            let _ = self.channel.give_back(claim);
        }
    }
}
