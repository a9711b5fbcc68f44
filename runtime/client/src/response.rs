//! What a client is told of a submission.

use std::ops::Deref;
use std::sync::Arc;

use punctual_decode::View;
use punctual_ipc::{Description, Outputs, ResultRecord};

/// The verdict of a submission, or an answer before it, with the network's answer and its outputs. It dereferences to the
/// [`ResultRecord`].
///
/// The outputs' memory is the client's until this and its clones are dropped, or the [`Outputs`] that were
/// [taken](Self::take_outputs) out of them.
#[derive(Clone, Debug)]
pub struct Response {
    record: ResultRecord,
    /// None of what no daemon answered.
    description: Option<Arc<Description>>,
    /// The number of the task of the stream's that it was for.
    task: u16,
    view: Option<View>,
    outputs: Option<Outputs>,
    /// With a pipeline's verdict.
    parts: Vec<Self>,
}

impl Response {
    pub(crate) fn new(
        record: ResultRecord,
        description: Arc<Description>,
        task: u16,
        view: Option<View>,
        outputs: Option<Outputs>,
    ) -> Self {
        Self {
            record,
            description: Some(description),
            task,
            view,
            outputs,
            parts: Vec::new(),
        }
    }

    pub(crate) fn of_parts(self, parts: Vec<Self>) -> Self {
        Self { parts, ..self }
    }

    /// With the verdict on all of a frame: those on its parts, which tasks after the first looked at, in the order in which they
    /// came. Each says [which part](ResultRecord::part) it is about, and of [which task](Self::task_name).
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        &self.parts
    }

    /// The name of the task whose answer it is; none if its stream has one task only, or no daemon answered.
    #[must_use]
    pub fn task_name(&self) -> Option<&str> {
        let description = self.description.as_ref()?;
        // A frame's own answer is that of the first, where others come after it.
        description.task_name(self.task.max(1))
    }

    /// Without its outputs.
    #[must_use]
    pub fn record(&self) -> ResultRecord {
        self.record
    }

    /// The number of the task of the stream's that the frame was for; 0: the one that the client asked for, or no daemon
    /// answered.
    #[must_use]
    pub fn task(&self) -> u16 {
        self.task
    }

    /// The number of the class with the largest score; none without an answer, or if answers have no class.
    #[must_use]
    pub fn class(&self) -> Option<u16> {
        self.record.answer?.class
    }

    /// That class's name; none if it has none.
    #[must_use]
    pub fn class_name(&self) -> Option<&str> {
        self.name_of(self.class()?.into())
    }

    /// The name of class `class`, for outputs that name classes by number.
    #[must_use]
    pub fn name_of(&self, class: usize) -> Option<&str> {
        let description = self.description.as_ref()?.of_task(self.task);
        let name = description.classes.get(class)?;
        Some(name)
    }

    /// How sure the network is, 0 to 1; none without an answer, or if the network does not say so.
    #[must_use]
    pub fn confidence(&self) -> Option<f32> {
        let confidence = self.record.answer?.confidence?;
        Some(f32::from(confidence) / f32::from(u16::MAX))
    }

    /// What the network saw of the frame, to map places of its input to the frame; none without a daemon's answer.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.view
    }

    /// The exit's tensors; none without an answer, or if the manifest wants none (`outputs` of the task).
    #[must_use]
    pub fn outputs(&self) -> Option<&Outputs> {
        self.outputs.as_ref()
    }

    /// The same, to be kept beyond this. As long as a client keeps all areas, its submissions are rejected.
    pub fn take_outputs(&mut self) -> Option<Outputs> {
        self.outputs.take()
    }
}

impl Deref for Response {
    type Target = ResultRecord;

    fn deref(&self) -> &ResultRecord {
        &self.record
    }
}

/// A verdict that no daemon gave.
impl From<ResultRecord> for Response {
    fn from(record: ResultRecord) -> Self {
        Self {
            record,
            description: None,
            task: 0,
            view: None,
            outputs: None,
            parts: Vec::new(),
        }
    }
}

/// Equal verdicts, wherever their outputs are.
impl PartialEq for Response {
    fn eq(&self, other: &Self) -> bool {
        self.record == other.record
    }
}
