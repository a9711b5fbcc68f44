//! What every device must do, as functions that panic when it does not; the networks that devices are tested with; one
//! operator [`Alone`], which kernels are compared with.
//!
//! An implementation's tests give each function of [`suite`] a [`Subject`] that starts its devices;
//! [`conforms!`](crate::conforms) makes a test of each. What is left out, and why:
//! - Class scores: a [`Device`] reports class and confidence only; scores are compared where a
//!   device gives access to them (the CPU device's `Evaluator`).
//! - Answers, for a device that computes none ([`Subject::COMPUTES`] is false, the virtual-time
//!   device): there, an action that is run again must still repeat its answer.
//! - Faults inside the device: only its own tests can plant them.
//! - Allocation after start: the allocator belongs to a process, so it needs a test binary of
//!   its own.
#![forbid(unsafe_code)]

mod alone;
mod builder;
mod drawing;
mod graph;
mod harness;
pub mod mutations;
pub mod networks;
mod operators;
mod paging;
mod preemption;
pub mod suite;
pub mod tied;

pub use alone::Alone;

use std::sync::Arc;

use punctual_core::{Instant, ModelId};
use punctual_device::{Device, DeviceSpec, HostedDevice};
use punctual_platform::{Doorbell, clock};

/// Starts devices under test, and says what is expected of them.
pub trait Subject {
    /// What it starts.
    type Device: Testable;

    /// Whether answers come from the networks.
    const COMPUTES: bool = true;

    /// Whether it runs operators on tokens and on bytes; those of convolutional networks it must.
    const TOKENS_AND_BYTES: bool = true;

    /// Whether it runs arithmetic of any two tensors, softmaxes inside a network, and operators on computed positions.
    const ARITHMETIC: bool = true;
    /// Whether it makes lists of detections.
    const DETECTIONS: bool = Self::ARITHMETIC;
    /// Whether it runs resizes and dilated convolutions.
    const SEGMENTS: bool = true;

    /// How far the confidence of an answer may lie from the reference's. The default is what a tolerance of
    /// 1e-4 on class scores and the rounding to 1/65535 explain; a device that computes in halves needs more.
    const CONFIDENCE_TOLERANCE: f32 = 2e-4;

    /// How far below the best class's score the score of the class that it answers may lie.
    const SCORE_TOLERANCE: f32 = 2e-4;

    /// An idle device for `spec`, which rings `bell`.
    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> Self::Device;
}

/// The [`SCORE_TOLERANCE`](Subject::SCORE_TOLERANCE) of a device that computes in halves.
///
/// Halves are off by up to 2^-11 of their size. Each layer rounds its weights and its result, so a
/// layer adds up to two such errors, and one in `sqrt(2)` of that where they fall at random; scores
/// of the suite's networks are of size 4 at most and lie behind at most 20 layers:
/// `4 * sqrt(20) * sqrt(2) * 2^-11 = 0.012`.
pub const SCORE_TOLERANCE_OF_HALVES: f32 = 0.0125;

/// How far a confidence may lie from the reference's where each score is off by up to `scores`.
///
/// Between two classes, a difference of scores that is wrong by `2 s` moves the larger probability by
/// `s / 2` at most, as the logistic function is nowhere steeper than a quarter. The rest is rounding.
#[must_use]
pub const fn confidence_tolerance(scores: f32) -> f32 {
    scores / 2.0 + 2e-4
}

/// A device as the suite handles it: its clock and its request buffers.
pub trait Testable: Device {
    /// The device's clock.
    fn now(&self) -> Instant;

    /// Waits until the bell has rung since `seen`, or until `limit` on the device's clock.
    fn wait(&mut self, bell: &Doorbell, seen: u32, limit: Instant);

    /// Lets time pass until `until`, whatever happens meanwhile.
    fn pass(&mut self, until: Instant);

    /// Prepares a request's input, given as `[channel][row][column]`.
    fn write_input(&mut self, buffer: u16, model: ModelId, image: &[f32]);
}

impl<D: HostedDevice> Testable for D {
    fn now(&self) -> Instant {
        Instant::from_nanos(clock::now_ns())
    }

    fn wait(&mut self, bell: &Doorbell, seen: u32, limit: Instant) {
        bell.wait(seen, Some(limit.as_nanos()));
    }

    fn pass(&mut self, until: Instant) {
        while self.now() < until {
            std::hint::spin_loop();
        }
    }

    fn write_input(&mut self, buffer: u16, model: ModelId, image: &[f32]) {
        let inputs = self.shell().input_buffers();
        let mut writer = inputs.claim(buffer, model).expect("a free buffer");
        writer.write_planar(image);
    }
}

/// A test of each of the named functions of [`suite`], on a subject: `conforms!(Cpu: windows_are_honoured, ...)`.
#[macro_export]
macro_rules! conforms {
    ($subject:expr => $($check:ident),* $(,)?) => {
        $(#[test] fn $check() {
            $crate::suite::$check(&$subject);
        })*
    };
}
