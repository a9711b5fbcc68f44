//! Tasks: what they name is looked up, and what they are promised is complete.

use punctual_core::{Answers, Criticality, Delivery, Nanos};
use punctual_diagnostics::{Bytes, Invalid, Place, Problems, Rule, Spanned};
use punctual_model::OutputLayout;
use punctual_types::DESCRIPTION_BYTES_MAX;
use serde::Serialize;
use thiserror::Error;

use super::access::EntryPlan;
use super::frame::{self, FramePlan};
use super::models::{Model, ModelRule};
use super::outputs;
use super::pipeline::{self, CropsPlan};
use super::placement::Placed;
use super::vectors::{self, VectorPlan};
use crate::inputs::Accounts;
use crate::manifest::{CLIENT_SLOTS_MAX, Manifest, Preparers, RawFrame, RawTask, TaskGroup};

/// Bytes of a page of shared memory. Larger pages only round up further.
const PAGE: u64 = 4096;

/// What is wrong with what is promised to a task.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TaskRule {
    /// A key that promises something to a best-effort task.
    #[error("a best-effort task has `{0}`")]
    NotForBestEffort(&'static str),
    /// A key that the task's criticality needs.
    #[error("a real-time task has no `{0}`")]
    RealTimeNeeds(&'static str),
    /// A reservation, although it is unknown which of the tasks are asked.
    #[error("the tasks of {pattern:?} have a reservation")]
    ReservedPattern { pattern: String },
    /// Frames of one stream that are not alike.
    #[error(
        "the packages of {pattern:?} take different frames: {one} {of_one}, {other} {of_other}"
    )]
    FramesDiffer {
        pattern: String,
        one: String,
        of_one: String,
        other: String,
        of_other: String,
    },
    /// More than a client can be told when it connects.
    #[error(
        "what a client of {of:?} is told takes up to {}, more than {}: names of {tasks} tasks, of classes and of outputs",
        Bytes(*bytes),
        Bytes(DESCRIPTION_BYTES_MAX.into())
    )]
    Description {
        /// The task, or the pattern of packages.
        of: String,
        tasks: usize,
        bytes: u64,
    },
}

impl Rule for TaskRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NotForBestEffort(_) => "only real-time tasks are promised anything",
            Self::RealTimeNeeds(_) => "a real-time task is promised a rate and a deadline",
            Self::ReservedPattern { .. } => {
                "the rate of a pattern is that of all its tasks together"
            }
            Self::FramesDiffer { .. } => {
                "a client submits frames of one format and size to all tasks of a pattern"
            }
            Self::Description { .. } => "a client is told at once what all its answers consist of",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NotForBestEffort(key) => format!("remove `{key}`"),
            Self::RealTimeNeeds(key) => format!("add `{key}`, or make it \"best-effort\""),
            Self::ReservedPattern { .. } => {
                "remove `reserved`, or write a `[[task]]` for the packages that need it".into()
            }
            Self::FramesDiffer { .. } => {
                "write `frame`, or a `[[task]]` for the packages of each kind".into()
            }
            Self::Description { tasks: 1, .. } => {
                "compile the network with fewer or shorter names of classes".into()
            }
            Self::Description { .. } => {
                "write several `[[task]]`s, each for a part of the packages".into()
            }
        }
    }
}

/// Sizes of one client's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelPlan {
    /// Frames that a client can hold or have submitted at once.
    pub slots: u16,
    /// Bytes of a slot: the frame, rounded up to pages.
    pub slot_bytes: u64,
    /// Entries of the submission ring, a power of two.
    pub submissions: u16,
    /// Submissions that may be without a verdict that the client has read, a power of two.
    pub results: u16,
    /// The most records that a submission gets: its verdict, and answers before it.
    pub records: u8,
    /// Bytes of what a client is told of its answers, at most: names of classes, outputs, vectors.
    pub description_bytes: u64,
    /// Numbers that come with a frame.
    #[serde(skip_serializing_if = "is_zero")]
    pub vectors: u64,
    /// Bytes of the outputs of a frame; 0 if none are wanted.
    #[serde(skip_serializing_if = "is_zero")]
    pub area_bytes: u64,
    /// How many such areas: one a slot, in a pipeline one for each part of a slot's frame that has outputs.
    #[serde(skip)]
    pub areas: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl ChannelPlan {
    /// Bytes shared with one client, but for areas: slots, both rings at 64 bytes an entry, a page each for the rings'
    /// indices, vectors at 64 bytes a slot and more, the description.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let ring = |entries: u16| (entries as u64 * 64).next_multiple_of(PAGE) + PAGE;
        let results = self.results.saturating_mul(self.records.into());
        let rings = ring(self.submissions) + ring(results.next_power_of_two());
        let slots = u64::from(self.slots);
        let vectors = (slots * (4 * self.vectors).next_multiple_of(64)).next_multiple_of(PAGE);
        slots * self.slot_bytes + rings + vectors + self.description_bytes.next_multiple_of(PAGE)
    }

    /// Bytes that an area takes.
    #[must_use]
    pub fn area_stride(&self) -> u64 {
        self.area_bytes.next_multiple_of(PAGE)
    }
}

/// A task of which everything is known that the promises rest on.
pub(crate) struct Task {
    pub(crate) name: String,
    /// Whose clients it shares.
    pub(crate) group: TaskGroup,
    /// Positions in the lists of models and of partitions.
    pub(crate) model: usize,
    pub(crate) partition: usize,
    pub(crate) criticality: Criticality,
    pub(crate) period: Option<Nanos>,
    /// By when it is answered; of a pipeline's first task, its own part of the time.
    pub(crate) deadline: Option<Nanos>,
    /// By when all of a frame is answered, as the manifest says.
    pub(crate) frame_deadline: Option<Nanos>,
    /// Of a part of a pipeline: by when its first task's answer is there, once that is decided.
    pub(crate) first_deadline: Option<Nanos>,
    /// Most of its requests that are of one frame.
    pub(crate) burst: u8,
    /// Of a part of a pipeline.
    pub(crate) crops: Option<CropsPlan>,
    pub(crate) mandatory_exit: u8,
    pub(crate) threshold: f64,
    pub(crate) threshold_min: f64,
    pub(crate) batch_max: u8,
    pub(crate) queue_depth: u16,
    /// Of all tasks of its group together.
    pub(crate) clients: u16,
    pub(crate) slots: u16,
    pub(crate) reserved: bool,
    pub(crate) answers: Answers,
    /// The most records that a submission gets.
    pub(crate) records: u8,
    pub(crate) weight: u16,
    /// The task that takes on what this one would refuse.
    pub(crate) offload_to: Option<Spanned<String>>,
    pub(crate) delivery: Delivery,
    pub(crate) entry: EntryPlan,
    pub(crate) prepare: Spanned<Preparers>,
    pub(crate) frame: FramePlan,
    /// Names, in the network's order.
    pub(crate) outputs: Vec<String>,
    /// Bytes of the outputs of a frame, of all that the model's tasks want; 0 if this one wants none.
    pub(crate) area_bytes: u64,
    /// Areas that a client has of them, as far as they are settled.
    pub(crate) areas: u16,
    pub(crate) description_bytes: u64,
    pub(crate) vectors: Vec<VectorPlan>,
    pub(crate) outputs_place: Place,
    pub(crate) deadline_place: Place,
    pub(crate) queue_place: Place,
    pub(crate) frame_place: Place,
}

impl Task {
    pub(crate) fn is_best_effort(&self) -> bool {
        self.criticality == Criticality::BestEffort
    }

    /// Whether its frames are parts of another task's.
    pub(crate) fn is_part(&self) -> bool {
        self.crops.is_some()
    }

    /// Period and deadline of a real-time task.
    pub(crate) fn promise(&self) -> Option<(Nanos, Nanos)> {
        if self.is_best_effort() {
            return None;
        }
        Some((self.period?, self.deadline?))
    }

    /// What the places of its clients are called: as it, or as the packages of its group.
    pub(crate) fn clients_of(&self) -> String {
        let pattern = self.group.pattern.as_ref();
        pattern.map_or_else(|| self.name.clone(), ToString::to_string)
    }

    /// Sizes of the memory shared with each of its clients.
    pub(crate) fn channel(&self) -> ChannelPlan {
        ChannelPlan {
            slots: self.slots,
            slot_bytes: self.frame.bytes().next_multiple_of(PAGE),
            // A client cannot have more submissions on their way than it has slots.
            submissions: self.slots.next_power_of_two(),
            // A slot is free again with its answer, which may be read later: a client that is
            // behind can go on submitting for another queue's length.
            results: (self.slots + self.queue_depth).next_power_of_two(),
            records: self.records,
            description_bytes: self.description_bytes,
            vectors: self.vectors.iter().map(|v| u64::from(v.length)).sum(),
            area_bytes: self.area_bytes,
            areas: self.areas,
        }
    }
}

/// The tasks of the manifest that are complete; what is wrong with the others is noted.
pub(crate) fn resolve(
    manifest: &Manifest,
    models: &[Model<'_>],
    partitions: &[Placed],
    accounts: &Accounts,
    problems: &mut Problems<'_>,
) -> Vec<Task> {
    let tasks = manifest.tasks.iter();
    let tasks: Vec<Task> = tasks
        .filter_map(|raw| {
            let entry = EntryPlan::resolve(&raw.entry, accounts, problems);
            task(raw, manifest, models, partitions, entry, problems)
        })
        .collect();
    for group in groups(&tasks) {
        check_frames(group, problems);
    }
    let groups = manifest
        .tasks
        .chunk_by(|one, other| one.group == other.group);
    let count: u64 = groups.map(|group| group[0].clients.value).sum();
    let limit = CLIENT_SLOTS_MAX as u64;
    if count > limit {
        let what = "clients of all tasks together";
        let cause = Invalid::TooMany { what, count, limit };
        problems.add(&Place::of_key("task.clients"), cause);
    }
    tasks
}

/// The tasks by the table that they are of: those of one share the places of its clients.
pub(crate) fn groups(tasks: &[Task]) -> impl Iterator<Item = &[Task]> {
    tasks.chunk_by(|one, other| one.group == other.group)
}

/// What tasks of a group take for a frame of a client, by what each takes for a request: all parts of a pipeline, or the one that
/// takes most of those that a frame may be for.
pub(crate) fn of_frame(group: &[Task], of: impl Fn(usize) -> Nanos) -> Nanos {
    let each = (0..).zip(group);
    let each = each.map(|(at, task)| of(at).saturating_mul(task.burst.into()));
    if group.iter().any(Task::is_part) {
        each.fold(Nanos::ZERO, |sum, part| sum + part)
    } else {
        each.max().unwrap_or_default()
    }
}

/// Notes tasks of a group whose frames are not those of the first.
fn check_frames(group: &[Task], problems: &mut Problems<'_>) {
    let first = &group[0];
    let frames = |task: &Task| format!("{} {}", task.frame.format.name(), task.frame.size);
    let mut others = group.iter().filter(|task| !task.is_part());
    if let Some(other) = others.find(|task| task.frame != first.frame) {
        let cause = TaskRule::FramesDiffer {
            pattern: first.clients_of(),
            one: first.name.clone(),
            of_one: frames(first),
            other: other.name.clone(),
            of_other: frames(other),
        };
        problems.add(&first.frame_place, cause);
    }
}

/// Notes groups whose clients would be told more than fits.
pub(super) fn check_descriptions(tasks: &[Task], problems: &mut Problems<'_>) {
    for group in groups(tasks) {
        let first = &group[0];
        if first.description_bytes > u64::from(DESCRIPTION_BYTES_MAX) {
            let cause = TaskRule::Description {
                of: first.clients_of(),
                tasks: group.len(),
                bytes: first.description_bytes,
            };
            problems.add(&first.outputs_place, cause);
        }
    }
}

/// Gives the places of a group's clients room for what any of its tasks gives.
pub(super) fn settle_places(tasks: &mut [Task], models: &[Model<'_>], outputs: &[OutputLayout]) {
    for group in tasks.chunk_by_mut(|one, other| one.group == other.group) {
        let with_outputs = group.iter().filter(|task| task.area_bytes > 0);
        let areas = with_outputs.map(|task| task.burst.into());
        let (records, areas) = if group.iter().any(Task::is_part) {
            let records = group
                .iter()
                .map(|task| task.burst.saturating_mul(task.records));
            // The first part's comes once more, with the verdict on all.
            (records.fold(1, u8::saturating_add), areas.sum())
        } else {
            let records = group.iter().map(|task| task.records);
            (records.max().unwrap_or(1), areas.max().unwrap_or(0_u16))
        };
        let area_bytes = group.iter().map(|task| task.area_bytes).max();
        let area_bytes = area_bytes.unwrap_or_default();
        let areas = areas.saturating_mul(group[0].slots);
        if group.len() == 1 {
            group[0].areas = areas;
            continue;
        }
        let mut described: u64 = group
            .iter()
            .map(|task| NAMED_BYTES + task.name.len() as u64)
            .sum();
        let mut kinds: Vec<usize> = Vec::new();
        for task in &*group {
            let classes = |model: usize| &models[model].package.network().classes;
            let is_like = |kind: &usize| {
                classes(*kind) == classes(task.model)
                    && outputs::are_alike(models, outputs, *kind, task.model)
            };
            if !kinds.iter().any(is_like) {
                kinds.push(task.model);
                // What a client is told of the task that it asked for comes in addition.
                described += 2 * task.description_bytes;
            }
        }
        for task in group {
            task.area_bytes = area_bytes;
            task.areas = areas;
            task.records = records;
            task.description_bytes = described;
        }
    }
}

/// Of a task's name in a description: its length, and which kind of answers it has.
const NAMED_BYTES: u64 = 10;

/// One task, if all of it is sound and what it names is there.
fn task(
    raw: &RawTask,
    manifest: &Manifest,
    models: &[Model<'_>],
    partitions: &[Placed],
    entry: EntryPlan,
    problems: &mut Problems<'_>,
) -> Option<Task> {
    let known = manifest.models.iter().map(|model| &model.name.value);
    let named = raw.model.as_ref();
    let model = named.and_then(|name| name.resolve("model", known, problems));
    let known = manifest.partitions.iter().map(|p| &p.name.value);
    let named = raw.partition.as_ref();
    let partition = named.and_then(|name| name.resolve("partition", known, problems));
    let complete = promises_are_complete(raw, problems);
    let model = model.and_then(|name| models.iter().position(|m| &m.name == name));
    let input = model.map(|model| &models[model].package.network().input);
    let frame = raw.frame.as_ref();
    let frame = frame.and_then(|raw| frame::resolve(raw, input, problems));
    let exit = model.and_then(|model| exit(raw, &models[model], problems));
    let crops = pipeline::crops(raw, manifest, models, problems);
    let found = model.map(|model| &models[model]);
    let outputs = found.and_then(|model| outputs::wanted(raw, model, problems));
    let vectors = found.and_then(|model| vectors::resolve(raw, model, problems));
    if let Some(model) = found {
        outputs::check_thresholds(raw, model, problems);
    }
    let partition = partition.and_then(|name| partitions.iter().position(|p| &p.name == name));
    if !complete || !raw.sound || crops.is_some() != raw.after.is_some() {
        return None;
    }
    let criticality = raw.criticality?;
    let queue_depth = raw.queue_depth.value as u16;
    let absent = |at: Option<&Place>| at.unwrap_or(&raw.place).clone();
    Some(Task {
        name: raw.name.value.clone(),
        group: raw.group.clone(),
        model: model?,
        partition: partition?,
        criticality,
        period: raw.period.as_ref().map(|at| at.value),
        deadline: raw.deadline.as_ref().map(|at| at.value),
        frame_deadline: raw.deadline.as_ref().map(|at| at.value),
        first_deadline: None,
        burst: crops.as_ref().map_or(1, |crops| crops.at_most),
        crops,
        mandatory_exit: exit?,
        threshold: raw.threshold,
        threshold_min: raw.threshold_min,
        batch_max: raw.batch_max,
        queue_depth,
        clients: raw.clients.value as u16,
        // One more than can be queued: a client fills a frame while the others wait.
        slots: raw.slots.unwrap_or(queue_depth + 1),
        reserved: raw.is_reserved(),
        answers: raw.answers,
        records: outputs::records(raw.answers, exit?, found?.package.network()),
        weight: raw.weight,
        offload_to: raw.offload_to.clone(),
        delivery: raw.delivery,
        entry,
        prepare: raw.prepare.clone(),
        frame: frame?,
        description_bytes: outputs::description_bytes(found?.package.network(), outputs.as_ref()?),
        outputs: outputs?,
        area_bytes: 0,
        areas: 0,
        vectors: vectors?,
        outputs_place: outputs::place(raw),
        deadline_place: absent(raw.deadline.as_ref().map(|at| &at.place)),
        queue_place: absent(
            raw.queue_depth
                .place
                .span
                .as_ref()
                .map(|_| &raw.queue_depth.place),
        ),
        frame_place: absent(raw.frame.as_ref().map(RawFrame::place)),
    })
}

fn promises_are_complete(raw: &RawTask, problems: &mut Problems<'_>) -> bool {
    let before = problems.count();
    match raw.criticality {
        Some(Criticality::RealTime) => {
            let reserved = raw.reserved.as_ref().filter(|at| at.value);
            if let (Some(at), Some(pattern)) = (reserved, &raw.group.pattern) {
                let pattern = pattern.to_string();
                problems.add(&at.place, TaskRule::ReservedPattern { pattern });
            }
            for key in &raw.unpromised {
                problems.add(&raw.place, TaskRule::RealTimeNeeds(key));
            }
        }
        Some(Criticality::BestEffort) => {
            if let Some(at) = raw.reserved.as_ref().filter(|at| at.value) {
                problems.add(&at.place, TaskRule::NotForBestEffort("reserved"));
            }
        }
        None => {}
    }
    problems.count() == before
}

fn exit(raw: &RawTask, model: &Model<'_>, problems: &mut Problems<'_>) -> Option<u8> {
    let stages = &model.package.network().stages;
    let ends_in_exit = |stage: &usize| stages[*stage].exit.is_some();
    let Some(asked) = &raw.mandatory_exit else {
        // A beginning that networks have in common may end in none.
        return (0..stages.len())
            .find(ends_in_exit)
            .map(|stage| stage as u8);
    };
    let (exit, last) = (asked.value, model.stages() - 1);
    let cause = if exit > u64::from(last) {
        ModelRule::NoSuchExit { exit, last }
    } else if ends_in_exit(&(exit as usize)) {
        return Some(exit as u8);
    } else {
        ModelRule::NoExitThere {
            stage: exit as u8,
            exits: (0..stages.len()).filter(ends_in_exit).collect(),
        }
    };
    problems.add(&asked.place, cause);
    None
}
