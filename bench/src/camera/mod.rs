//! Cameras: frames of which it is known what they show, at their times, and what became of them.

mod client;
mod tally;

use punctual_client::{Lost, SubmitError, now_ns};
use punctual_platform::{clock, thread};
use punctual_signs::{Camera, Shot};

pub use client::Connection;
pub use tally::{Answer, Outcome, Tally};

/// Priority of a camera: the lowest, below every thread of a daemon.
const PRIORITY: u8 = 1;

/// More than a camera can have without verdicts.
const OPEN_MAX: usize = 1024;

/// How long to wait for verdicts after the last frame.
const LAST_VERDICTS_NS: u64 = 5_000_000_000;

/// How long a camera that has nothing else to do waits at a time.
const WAIT_NS: u64 = 200_000_000;

#[derive(Debug, thiserror::Error)]
pub enum CameraError {
    #[error("task {task}: the daemon was lost: {source}")]
    Lost {
        task: &'static str,
        source: Box<Lost>,
    },
    #[error("task {task}: a frame could not be submitted: {source}")]
    Submit {
        task: &'static str,
        source: SubmitError,
    },
    /// Its thread says why when it ends.
    #[error("task {task}: the thread that runs its network ended before its time")]
    Ended { task: &'static str },
    #[error("task {task}: {missing} frames have no verdict five seconds after the last one")]
    Missing { task: &'static str, missing: u64 },
}

/// What answers a camera's frames. Times are of the monotonic clock.
pub trait Service {
    /// Submits the frame that the camera shows, unless no slot is free until `until_ns`. Frames are numbered as they are
    /// submitted.
    fn submit(
        &mut self,
        shot: Shot<'_>,
        captured_ns: u64,
        until_ns: u64,
    ) -> Result<Option<u64>, CameraError>;

    /// The next verdict, with the number of its frame, unless none comes until `until_ns`.
    fn verdict(&mut self, until_ns: u64) -> Result<Option<(u64, Outcome)>, CameraError>;

    /// Frames without verdicts.
    fn unanswered(&self) -> u64;
}

/// When a camera's frames are due.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// At their times, whatever becomes of the others.
    Open {
        start_ns: u64,
        period_ns: u64,
        frames: u64,
    },
    /// Each as soon as the last has its verdict.
    Closed { start_ns: u64, end_ns: u64 },
}

/// A camera that is connected.
pub struct Feed<'c, S> {
    task: &'static str,
    camera: &'c Camera,
    service: S,
    /// Which of the camera's frames submission `n` shows, at `n % OPEN_MAX`.
    numbers: [u64; OPEN_MAX],
    tally: Tally,
}

impl<'c, S: Service> Feed<'c, S> {
    pub fn new(task: &'static str, camera: &'c Camera, service: S) -> Self {
        Self {
            task,
            camera,
            service,
            numbers: [0; OPEN_MAX],
            tally: Tally::new(),
        }
    }

    /// Shows the frames, each at its time, and waits for what is open.
    pub fn run(mut self, pace: Pace) -> Result<Tally, CameraError> {
        match pace {
            Pace::Open {
                start_ns,
                period_ns,
                frames,
            } => {
                // Without the privilege it stays an ordinary thread; the report says that it is missing.
                let _ = thread::set_realtime(thread::current_tid(), PRIORITY);
                for frame in 0..frames {
                    // The intended time, whether or not the last frame took too long: delays do not add up.
                    let captured_ns = start_ns + frame * period_ns;
                    while self.count_one(captured_ns)? {}
                    self.submit(captured_ns, captured_ns)?;
                }
            }
            Pace::Closed { start_ns, end_ns } => {
                clock::sleep_until_ns(start_ns);
                while now_ns() < end_ns {
                    if self.service.unanswered() == 0 {
                        let captured_ns = now_ns();
                        self.submit(captured_ns, captured_ns + WAIT_NS)?;
                    }
                    self.count_one((now_ns() + WAIT_NS).min(end_ns))?;
                }
            }
        }
        self.count_open()
    }

    fn count_open(mut self) -> Result<Tally, CameraError> {
        let until_ns = now_ns() + LAST_VERDICTS_NS;
        while self.service.unanswered() > 0 {
            if !self.count_one(until_ns)? {
                return Err(CameraError::Missing {
                    task: self.task,
                    missing: self.service.unanswered(),
                });
            }
        }
        Ok(self.tally)
    }

    /// False if no verdict came until then.
    fn count_one(&mut self, until_ns: u64) -> Result<bool, CameraError> {
        let Some((sequence, outcome)) = self.service.verdict(until_ns)? else {
            return Ok(false);
        };
        let number = self.numbers[sequence as usize % OPEN_MAX];
        self.tally.count(&outcome, self.camera.shot(number).truth());
        Ok(true)
    }

    fn submit(&mut self, captured_ns: u64, until_ns: u64) -> Result<(), CameraError> {
        let number = self.tally.submitted;
        let shot = self.camera.shot(number);
        match self.service.submit(shot, captured_ns, until_ns)? {
            Some(sequence) => {
                self.tally.submitted += 1;
                self.numbers[sequence as usize % OPEN_MAX] = number;
            }
            None => self.tally.skip(shot.truth()),
        }
        Ok(())
    }
}
