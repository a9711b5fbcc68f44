//! What a simulated scheduler is told and decides, as a recording.

use std::io::{Seek, Write};

use punctual_core::{Action, Config, Event, Instant, Nanos, Scheduler};
use punctual_recording::{Names, Setting, Step, WriteError, Writer};

use crate::observer::Observer;
use crate::scenario::Scenario;

/// Writes each step of a run. It begins with the run, so its first segment has no state.
pub struct Recording<W: Write + Seek> {
    writer: Writer<W>,
    /// The step that is being taken.
    step: Option<Step>,
    /// How long a segment is, in virtual time.
    segment: Nanos,
    /// The present segment's number.
    number: u64,
    /// When the next one begins.
    next: Instant,
    /// The first failure: nothing is written any more.
    failed: Option<WriteError>,
}

impl<W: Write + Seek> Recording<W> {
    /// Begins one with a segment each `segment` of virtual time. Virtual time is its own clock: the writer's is not ahead of it.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn begin(mut writer: Writer<W>, segment: Nanos) -> Result<Self, WriteError> {
        writer.segment(0, Instant::ZERO, None)?;
        Ok(Self {
            writer,
            step: None,
            segment,
            number: 0,
            next: Instant::ZERO + segment,
            failed: None,
        })
    }

    /// Ends it.
    ///
    /// # Errors
    /// The first of all writes that failed.
    pub fn finish(self) -> Result<W, WriteError> {
        match self.failed {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }

    fn write(&mut self, step: Step, scheduler: &Scheduler) -> Result<(), WriteError> {
        let now = step.now;
        self.writer.step(step)?;
        if now < self.next {
            return Ok(());
        }
        self.next = now + self.segment;
        self.number += 1;
        self.writer.segment(self.number, now, scheduler.state())
    }
}

impl<W: Write + Seek> Observer for Recording<W> {
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

/// What the scheduler of a run is made from; `policy`: its name with its parameters.
#[must_use]
pub fn setting(scenario: &Scenario, config: &Config, policy: serde_json::Value) -> Setting {
    let partitions = config.partitions.iter().map(|partition| {
        let units = partition.units;
        format!("units {}..{}", units.first, units.end())
    });
    Setting {
        config: config.clone(),
        policy,
        names: Names {
            tasks: scenario.tasks.iter().map(|t| t.name.clone()).collect(),
            models: scenario.models.iter().map(|m| m.name.clone()).collect(),
            partitions: partitions.collect(),
        },
    }
}
