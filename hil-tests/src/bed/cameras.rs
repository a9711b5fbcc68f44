//! Cameras of a case, and the counts that they keep.

use crate::account::whole;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::records::{self, CameraCounts};
use crate::target::process::Started;

use super::daemons::Daemon;
use super::test_bed::TestBed;

/// How long a camera may take beyond its time and its patience.
const LAST_S: u64 = 10;

#[derive(Clone, Debug)]
pub struct CameraPlan {
    pub name: String,
    pub task: Task,
    /// Frames a second; none: closed loop.
    pub fps: Option<f64>,
    /// How long; none: until it is stopped.
    pub seconds: Option<f64>,
    /// Connects anew so often, in seconds.
    pub stay: Option<f64>,
}

impl CameraPlan {
    /// A camera of this task at its promised rate, until it is stopped.
    #[must_use]
    pub fn of(task: Task) -> Self {
        let name = format!("camera-{}", task.name());
        Self {
            name,
            task,
            fps: task.fps(),
            seconds: None,
            stay: None,
        }
    }

    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// The same, for so long.
    #[must_use]
    pub fn for_seconds(self, seconds: f64) -> Self {
        Self {
            seconds: Some(seconds),
            ..self
        }
    }

    /// The same, connecting anew every `seconds` seconds.
    #[must_use]
    pub fn staying(self, seconds: f64) -> Self {
        Self {
            stay: Some(seconds),
            ..self
        }
    }

    #[must_use]
    pub fn at(self, fps: f64) -> Self {
        Self {
            fps: Some(fps),
            ..self
        }
    }
}

#[derive(Clone, Debug)]
pub struct Camera {
    pub name: String,
    pub process: Started,
    seconds: f64,
}

impl TestBed<'_> {
    /// Notes why frames of a camera were refused or failed.
    pub fn note_unserved(&mut self, counts: &CameraCounts) {
        for (reason, count) in counts.rejected.iter().chain(&counts.failed) {
            let words = format!("frames of {} refused or failed: {reason}", counts.task);
            self.effect(*count, words);
        }
    }

    pub fn camera(&mut self, daemon: &Daemon, plan: &CameraPlan) -> Result<Camera, Failure> {
        // As a camera's driver thread has; below every thread of the daemon.
        let mut command = match plan.task.fps() {
            Some(_) => self.priority(1),
            None => Vec::new(),
        };
        command.push(self.stage.agent.clone());
        let fixed = ["agent", "camera", "--socket", daemon.socket.as_str()];
        let task = ["--task", plan.task.name(), "--format", plan.task.format()];
        command.extend(fixed.into_iter().chain(task).map(str::to_owned));
        command.extend(["--patience".to_owned(), self.patience_s.to_string()]);
        let numbers = [
            ("--fps", plan.fps),
            ("--seconds", plan.seconds),
            ("--stay", plan.stay),
        ];
        for (key, number) in numbers {
            command.extend(
                number
                    .into_iter()
                    .flat_map(|n| [key.to_owned(), n.to_string()]),
            );
        }
        let process = self.start(&plan.name, &[], command)?;
        Ok(Camera {
            name: plan.name.clone(),
            process,
            seconds: plan.seconds.unwrap_or(0.0),
        })
    }

    /// A camera's counts so far.
    pub fn counts_of(&self, camera: &Camera) -> Result<Option<CameraCounts>, Failure> {
        Ok(records::last(&self.read(&format!("{}.out", camera.name))?))
    }

    /// Waits for a camera whose time is over; its counts must be complete.
    pub fn finish(&self, camera: &Camera) -> Result<CameraCounts, Failure> {
        self.ended(
            &camera.name,
            camera.process,
            camera.seconds as u64 + self.patience_s + LAST_S,
        )?;
        match self.counts_of(camera)? {
            Some(counts) if counts.finished => whole(&counts).map(|()| counts),
            _ => {
                let words = self.read(&format!("{}.err", camera.name))?;
                Err(Failure::Ending {
                    who: camera.name.clone(),
                    found: "its account unfinished".to_owned(),
                    wanted: "a whole account",
                    words: String::from_utf8_lossy(&words).into_owned(),
                })
            }
        }
    }

    /// Stops a camera that has no time of its own; its counts must be complete.
    pub fn stop_camera(&self, camera: &Camera) -> Result<CameraCounts, Failure> {
        self.target
            .signal(camera.process, "TERM", false, self.until_ns())?;
        self.finish(camera)
    }

    /// Waits until a camera has `on_time` answers that were on time.
    pub fn answered(&self, camera: &Camera, on_time: u64) -> Result<(), Failure> {
        let seen = self.look_for(LAST_S, |bed| {
            Ok(bed
                .counts_of(camera)?
                .filter(|counts| counts.on_time >= on_time))
        })?;
        seen.map(drop).ok_or(Failure::Missing {
            what: "the camera's frames are answered on time",
        })
    }
}
