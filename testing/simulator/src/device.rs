//! What runs the stages of a simulation.

use crate::virtual_device::{Timing, VirtualDevice};
use punctual_core::Instant;
use punctual_device::Device;

use crate::samples::Answers;

/// A device on a virtual clock, which stands still until [`advance_to`](Self::advance_to).
pub trait TimedDevice: Device {
    /// No event comes before this instant: now or earlier if one is ready; none if the device holds nothing.
    fn next_event(&mut self) -> Option<Instant>;

    /// Lets time pass; what ends until then becomes ready.
    fn advance_to(&mut self, now: Instant);

    /// From now on, a request buffer holds this picture.
    fn put(&mut self, buffer: u16, sample: u32);

    /// Compute units times nanoseconds that something ran on them, until now.
    fn busy(&self) -> u128;
}

impl<T: Timing> TimedDevice for VirtualDevice<T, Answers> {
    fn next_event(&mut self) -> Option<Instant> {
        Self::next_event(self)
    }

    fn advance_to(&mut self, now: Instant) {
        Self::advance_to(self, now);
    }

    fn put(&mut self, buffer: u16, sample: u32) {
        self.shows(buffer, sample);
        self.oracle_mut().put(buffer, sample);
    }

    fn busy(&self) -> u128 {
        Self::busy(self)
    }
}
