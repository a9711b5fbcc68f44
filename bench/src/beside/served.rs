//! A loop in this process, as its cameras see it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use punctual_client::now_ns;
use punctual_decode::View;
use punctual_device_ort::Values;
use punctual_kernels::preprocess::{PlanarOutput, Preprocessor};
use punctual_signs::Shot;

use super::engine;
use super::queue::{Job, Queue};
use super::worker::Done;
use crate::camera::{Answer, CameraError, Outcome, Service};

/// A camera whose thread prepares each frame itself, with the function that the daemon prepares with, and queues it.
pub struct Served {
    pub task: &'static str,
    /// Position of the camera.
    pub camera: usize,
    /// Relative to the capture; none: its frames have no deadlines.
    pub deadline_ns: Option<u64>,
    pub preprocessor: Preprocessor,
    /// What the camera writes.
    pub frame: Vec<u8>,
    /// The crop's rows.
    pub copy: Vec<u8>,
    /// Free ones.
    pub slots: Vec<Values>,
    pub queue: Arc<Queue>,
    pub done: Receiver<Done>,
    /// Frames submitted so far.
    pub submitted: u64,
    pub answered: u64,
}

impl Served {
    fn prepare(&mut self, shot: Shot<'_>, slot: &mut Values) -> View {
        shot.write(&mut self.frame);
        let (x, y) = shot.crop();
        let rows = self.preprocessor.crop_rows(x, y).expect("within the frame");
        rows.copy_from(&self.frame, &mut self.copy);
        let size = self.preprocessor.output();
        let (width, height) = (size.width as usize, size.height as usize);
        let output = PlanarOutput::packed(engine::image(slot), width, height);
        let prepared = self.preprocessor.run(&rows, &self.copy, output);
        prepared.expect("a picture");
        View::new(x, y, rows.crop(), size, false).expect("sides that both have")
    }
}

impl Service for Served {
    fn submit(
        &mut self,
        shot: Shot<'_>,
        captured_ns: u64,
        _until_ns: u64,
    ) -> Result<Option<u64>, CameraError> {
        let Some(mut values) = self.slots.pop() else {
            return Ok(None);
        };
        let view = self.prepare(shot, &mut values);
        let sequence = self.submitted;
        self.submitted += 1;
        self.queue.push(Job {
            camera: self.camera,
            sequence,
            captured_ns,
            deadline_ns: self
                .deadline_ns
                .map_or(u64::MAX, |deadline_ns| captured_ns + deadline_ns),
            view,
            values,
            parts_done: 0,
        });
        Ok(Some(sequence))
    }

    fn verdict(&mut self, until_ns: u64) -> Result<Option<(u64, Outcome)>, CameraError> {
        let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
        let done = match self.done.recv_timeout(left) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(CameraError::Ended { task: self.task });
            }
        };
        self.answered += 1;
        self.slots.push(done.slot);
        let received_ns = now_ns();
        let outcome = done.found.map_or(Outcome::Rejected, |found| {
            Outcome::Answered(Answer {
                exit: Some(found.exit),
                class: found.class,
                boxes: found.boxes,
                captured_ns: done.captured_ns,
                deadline_ns: done.deadline_ns,
                given_in_time: true,
                received_ns,
                first_ns: received_ns,
            })
        });
        Ok(Some((done.sequence, outcome)))
    }

    fn unanswered(&self) -> u64 {
        self.submitted - self.answered
    }
}
