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
        let end_ns = clock::now_ns() + self.engine(job.camera).time_ns(part);
        if self.rules.drops && end_ns + WAY_NS > job.deadline_ns {
            self.finish(job);
            return Ok(());
        }
        // Answers that are there must not wait for this part beyond their deadlines.
        let due = |held: &Job| held.parts_done > 0 && end_ns + WAY_NS > held.deadline_ns;
        for held in self.queue.remove(due) {
            self.finish(held);
        }
        let threshold = self.lanes[job.camera].threshold;
        let engine = self.engine(job.camera);
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

    fn engine(&mut self, camera: usize) -> &mut Engine {
        let engine = &mut self.engines[self.lanes[camera].model];
        engine
            .as_mut()
            .expect("loaded for the cameras of this thread")
    }

    /// With what the parts that have run have found.
    fn finish(&mut self, job: Job) {
        let last = job.parts_done.checked_sub(1);
        let found = last.map(|part| {
            let engine = self.engine(job.camera);
            engine.found(part, &job.values, &job.view)
        });
        // A camera that is gone waits for nothing.
        let _ = self.lanes[job.camera].done.send(Done {
            sequence: job.sequence,
            captured_ns: job.captured_ns,
            deadline_ns: job.deadline_ns,
            found,
            slot: job.values,
        });
    }
}
