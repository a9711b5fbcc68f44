//! What a simulated scheduler is told and decides, as a recording.

use std::fs::File;
use std::io::BufWriter;

use punctual_core::{Action, Config, Event, Instant, Nanos, Scheduler};
use punctual_plan::PolicyChoice;
use punctual_recording::{Names, SEGMENT, Setting, Step, WriteError, Writer};
use punctual_simulator::observer::Observer;
use punctual_simulator::scenario::Scenario;

/// Writes each step into a file.
pub struct Recording {
    writer: Writer<BufWriter<File>>,
    /// The step that is being taken.
    step: Option<Step>,
    /// The present segment's number.
    segments: u64,
    /// When the next one begins.
    next: Instant,
    /// The first failure: nothing is written any more.
    failed: Option<WriteError>,
}

impl Recording {
    pub fn begin(
        file: File,
        config: &Config,
        policy: &PolicyChoice,
        scenario: &Scenario,
    ) -> Result<Self, WriteError> {
        let setting = Setting {
            config: config.clone(),
            policy: serde_json::to_value(policy).expect("parameters are plain data"),
            names: Names {
                tasks: scenario
                    .tasks
                    .iter()
                    .map(|task| task.name.clone())
                    .collect(),
                models: scenario
                    .models
                    .iter()
                    .map(|model| model.name.clone())
                    .collect(),
                partitions: Vec::new(),
            },
        };
        // Virtual time is its own clock.
        let mut writer = Writer::new(BufWriter::new(file), 0, &setting)?;
        writer.segment(0, Instant::ZERO, None)?;
        Ok(Self {
            writer,
            step: None,
            segments: 0,
            next: Instant::ZERO + SEGMENT,
            failed: None,
        })
    }

    pub fn finish(self) -> Result<(), WriteError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.writer.finish().map(drop)
    }

    fn write(&mut self, step: Step, scheduler: &Scheduler) -> Result<(), WriteError> {
        let now = step.now;
        self.writer.step(step)?;
        if now < self.next {
            return Ok(());
        }
        self.next = now + SEGMENT;
        self.segments += 1;
        self.writer.segment(self.segments, now, scheduler.state())
    }
}

impl Observer for Recording {
    fn event(&mut self, now: Instant, event: &Event) {
        self.step = Some(Step {
            now,
            took: Nanos::ZERO,
            event: event.clone(),
            actions: Vec::new(),
        });
    }

    fn action(&mut self, _: Instant, action: &Action) {
        if let Some(step) = &mut self.step {
            step.actions.push(action.clone());
        }
    }

    fn stepped(&mut self, _: Instant, scheduler: &Scheduler) {
        if let Some(step) = self.step.take()
            && self.failed.is_none()
        {
            self.failed = self.write(step, scheduler).err();
        }
    }
}
