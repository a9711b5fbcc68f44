//! What the exits say: each request shows one picture of its model's calibration records, so its
//! confidences and whether an answer is right do not depend on the policy.

use std::sync::Arc;

use crate::virtual_device::Oracle;
use punctual_core::{Answer, Confidence, ModelId, RequestId, StageId, TaskId};

use crate::recorded::Recorded;
use crate::scenario::Scenario;

/// One record for each exit: its confidence for a picture, and whether its answer is right.
type Record = (Confidence, bool);

/// The pictures of a scenario's models.
#[derive(Clone, Debug)]
pub struct Samples {
    models: Vec<Pictures>,
    model_of_task: Vec<usize>,
    /// Frames take the place of pictures, whatever their model.
    recorded: Option<Arc<Recorded>>,
}

#[derive(Clone, Debug)]
struct Pictures {
    exits: usize,
    /// Exit by exit, picture by picture; empty for a model without calibration.
    records: Vec<Record>,
}

impl Samples {
    pub fn new(scenario: &Scenario) -> Self {
        let pictures = |model: &crate::scenario::Model| Pictures {
            exits: model.stages.len(),
            records: model
                .calibration
                .samples
                .iter()
                .flat_map(|sample| &sample.exits)
                .map(|exit| (Confidence(exit.confidence), exit.is_right()))
                .collect(),
        };
        let tasks = scenario.tasks.iter();
        Self {
            models: scenario.models.iter().map(pictures).collect(),
            model_of_task: tasks.map(|task| task.config.model.index()).collect(),
            recorded: scenario.recorded.clone(),
        }
    }

    /// How many pictures a task's requests may show; at least 1.
    pub fn count(&self, task: TaskId) -> u32 {
        let pictures = self.of(task);
        (pictures.records.len() / pictures.exits.max(1)).max(1) as u32
    }

    /// Whether an exit is right.
    pub fn correct(&self, task: TaskId, sample: u32, exit: StageId) -> bool {
        self.record(self.model_of_task[task.index()], sample, exit.index())
            .1
    }

    /// Whether the last exit is right.
    pub fn correct_at_full_depth(&self, task: TaskId, sample: u32) -> bool {
        let last = self.of(task).exits.saturating_sub(1);
        self.correct(task, sample, StageId(last as u8))
    }

    fn record(&self, model: usize, sample: u32, exit: usize) -> Record {
        let recorded = self.recorded.as_ref();
        let recorded = recorded.and_then(|recorded| recorded.answer(sample, exit));
        recorded.unwrap_or_else(|| self.models[model].record(sample, exit))
    }

    fn of(&self, task: TaskId) -> &Pictures {
        &self.models[self.model_of_task[task.index()]]
    }
}

impl Pictures {
    /// A model without calibration is never sure before its last exit, and always right: only
    /// times are of interest then.
    fn record(&self, sample: u32, exit: usize) -> Record {
        let known = self.records.get(sample as usize * self.exits + exit);
        let sure_at_the_end = if exit + 1 == self.exits {
            Confidence::ONE
        } else {
            Confidence(0)
        };
        *known.unwrap_or(&(sure_at_the_end, true))
    }
}

/// Answers for the requests in a device's buffers.
#[derive(Clone, Debug)]
pub struct Answers {
    samples: Samples,
    in_buffer: Vec<u32>,
}

impl Answers {
    /// For a device with this many request buffers.
    pub fn new(samples: Samples, request_buffers: u16) -> Self {
        Self {
            samples,
            in_buffer: vec![0; usize::from(request_buffers)],
        }
    }

    /// From now on, a buffer holds this picture.
    pub fn put(&mut self, buffer: u16, sample: u32) {
        self.in_buffer[usize::from(buffer)] = sample;
    }
}

impl Oracle for Answers {
    fn answer(&mut self, request: RequestId, model: ModelId, stage: StageId) -> Answer {
        let sample = self.in_buffer[usize::from(request.buffer)];
        let (confidence, _) = self.samples.record(model.index(), sample, stage.index());
        Answer {
            // Pictures stand for their classes: an answer can be told from another's.
            class: sample as u16,
            confidence,
        }
    }
}
