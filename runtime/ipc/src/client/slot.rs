//! A slot in the client's hands.

use super::{ClientChannel, SubmitError};
use crate::descriptor::Crop;

/// A slot to write a frame into.
#[derive(Debug)]
pub struct Slot<'c> {
    pub(super) channel: &'c mut ClientChannel,
    pub(super) index: u16,
}

impl Slot<'_> {
    /// The frame's bytes, laid out as the terms' [`FrameSpec`](crate::FrameSpec) says. What was
    /// there before is an earlier frame.
    #[must_use]
    pub fn pixels(&mut self) -> &mut [u8] {
        let layout = &self.channel.request_layout;
        let bytes = layout.slot_bytes;
        let start = self.channel.requests.span(layout.slot(self.index), bytes);
        // SAFETY: in bounds and mapped read-write as long as the channel lives. The slot is free:
        // the daemon's mapping is read-only and its reading of the last use is over, so nobody
        // else accesses these bytes while self, the only handle, is borrowed.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }

    /// Submits the frame: `captured_ns` and `deadline_ns` are monotonic ns, absolute (no deadline:
    /// the capture time and the task's own), `crop` is where the network is to look. Returns the
    /// submission's sequence number, which its result repeats.
    ///
    /// # Errors
    /// If it is not submitted; the slot stays free, unless the daemon is gone.
    pub fn submit(
        self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        self.channel
            .submit(self.index, captured_ns, deadline_ns, crop)
    }
}
