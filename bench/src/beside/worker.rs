//! The loop that a good engineer writes in an hour: takes a frame, runs its network, answers.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use punctual_device_ort::{OrtError, Values};
use punctual_platform::clock;

use super::contestants::Rules;
use super::engine::{self, Engine, Found};
use super::queue::{Job, Queue};

/// From the end of a frame's network to its reader, in ns: left free before deadlines.
const WAY_NS: u64 = 300_000;

/// What a camera gets back for each frame, with its slot.
pub struct Done {
    pub sequence: u64,
    pub captured_ns: u64,
    pub deadline_ns: u64,
    /// None: dropped.
    pub found: Option<Found>,
    pub slot: Values,
}

/// What a worker knows of a camera.
pub struct Lane {
    /// Position of its network in [`Worker::engines`].
    pub model: usize,
    /// A frame whose answer has this confidence is deep enough.
    pub threshold: f32,
    pub done: Sender<Done>,
}

/// One thread of a loop.
pub struct Worker {
    pub rules: Rules,
    pub queue: Arc<Queue>,
    /// None: no camera of this thread needs it.
    pub engines: Vec<Option<Engine>>,
    /// By camera.
    pub lanes: Vec<Lane>,
}

impl Worker {
    pub fn warm_up(&mut self) -> Result<(), OrtError> {
        engine::measure(self.engines.iter_mut().flatten())
    }

    /// Until the queue is closed.
    pub fn serve(mut self) -> Result<(), OrtError> {
        while let Some(job) = self.queue.take(self.rules.order) {
            self.advance(job)?;
        }
        Ok(())
    }

    /// Runs a frame's next part, if time allows.
    fn advance(&mut self, mut job: Job) -> Result<(), OrtError> {
        let part = job.parts_done;
        let end_ns = clock::now_ns() + self.engine(&job).time_ns(part);
        if self.rules.drops && !self.allows(&job, end_ns) {
            self.finish(job);
            return Ok(());
        }
        // Answers that are there must not wait for this part beyond their deadlines.
        let due = |held: &Job| held.parts_done > 0 && end_ns + WAY_NS > held.deadline_ns;
        for held in self.queue.remove(due) {
            self.finish(held);
        }
        let Lane {
            model, threshold, ..
        } = self.lanes[job.camera];
        let engine = self.engines[model].as_mut().expect("of this camera");
        engine.run(part, &mut job.values)?;
        job.parts_done += 1;
        let is_last = job.parts_done == engine.parts();
        if is_last || engine.confidence(part, &job.values) >= threshold {
            self.finish(job);
        } else {
            self.queue.push(job);
        }
        Ok(())
    }

    /// Whether a part that ends then is on time, and leaves every other frame the time for its first part.
    fn allows(&self, job: &Job, end_ns: u64) -> bool {
        let in_time = |job: &Job, end_ns: u64| end_ns + WAY_NS <= job.deadline_ns;
        let others = |other: &Job| {
            other.parts_done > 0 || in_time(other, end_ns + self.engine(other).time_ns(0))
        };
        in_time(job, end_ns) && (job.parts_done == 0 || self.queue.all(others))
    }

    fn engine(&self, job: &Job) -> &Engine {
        let engine = &self.engines[self.lanes[job.camera].model];
        engine.as_ref().expect("of this camera")
    }

    /// With what the parts that have run have found.
    fn finish(&mut self, job: Job) {
        let Lane { model, done, .. } = &self.lanes[job.camera];
        let engine = self.engines[*model].as_mut().expect("of this camera");
        let found = job
            .parts_done
            .checked_sub(1)
            .map(|part| engine.found(part, &job.values, &job.view));
        // A camera that is gone waits for nothing.
        let _ = done.send(Done {
            sequence: job.sequence,
            captured_ns: job.captured_ns,
            deadline_ns: job.deadline_ns,
            found,
            slot: job.values,
        });
    }
}
