//! What every device must do, as functions that panic when it does not.
//!
//! An implementation's tests wrap the device in a [`Subject`] and call each function of
//! [`suite`] with a way to start one. What is left out, and why:
//! - Class scores: a [`Device`] reports class and confidence only; scores are compared where a
//!   device gives access to them (the CPU device's [`Evaluator`](crate::Evaluator)).
//! - Answers, for a device that computes none ([`Subject::COMPUTES`] is false, the virtual-time
//!   device): there, an action that is run again must still repeat its answer.
//! - Faults inside the device: only its own tests can plant them.
//! - Allocation after start: the allocator belongs to a process, so it needs a test binary of
//!   its own.

mod builder;
mod harness;
pub mod networks;
mod paging;
mod preemption;
pub mod suite;

use punctual_core::{Instant, ModelId};

use crate::device::Device;
use crate::spec::DeviceSpec;

/// A device under test, with its clock and its request buffers.
pub trait Subject: Device + Sized {
    /// Whether its answers come from the networks.
    const COMPUTES: bool;

    /// Whether it runs operators on tokens and on bytes; those of convolutional networks it must.
    const TOKENS_AND_BYTES: bool = true;

    /// How far the confidence of an answer may lie from the reference's. The default is what a tolerance of
    /// 1e-4 on class scores and the rounding to 1/65535 explain; a device that computes in halves needs more.
    const CONFIDENCE_TOLERANCE: f32 = 2e-4;

    /// How far below the best class's score the score of the class that it answers may lie.
    const SCORE_TOLERANCE: f32 = 2e-4;

    /// A device for `spec`, idle.
    fn start(spec: &DeviceSpec<'_>) -> Self;

    /// The device's clock.
    fn now(&self) -> Instant;

    /// Waits until the device may have an event, or `limit` on its clock.
    fn wait(&mut self, limit: Instant);

    /// Lets time pass until `until`, whatever happens meanwhile.
    fn pass(&mut self, until: Instant) {
        while self.now() < until {
            std::hint::spin_loop();
        }
    }

    /// Prepares a request's input, given as `[channel][row][column]`.
    fn write_input(&mut self, buffer: u16, model: ModelId, image: &[f32]);
}
