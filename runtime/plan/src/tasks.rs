//! Tasks: names resolved, frames checked.

use punctual_core::{Criticality, Delivery, Nanos};
use punctual_diagnostics::{Invalid, Place, Problems, Rule, Spanned};
use thiserror::Error;

use crate::door::{Accounts, EntryPlan};
use crate::frame::{FrameRule, RawFrame};
use crate::manifest::{CLIENT_SLOTS_MAX, Manifest, RawTask};
use crate::models::{Model, ModelRule};
use crate::placement::Placed;
use crate::plan::{ChannelPlan, FramePlan, Size};

/// Bytes of a page of shared memory. Larger pages only round up further.
const PAGE: u64 = 4096;

/// The largest frame that a channel takes: 64 MiB; 8K in RGB takes 95 MiB, in NV12 47.
const FRAME_BYTES_MAX: u64 = 64 << 20;

/// What is wrong with what is promised to a task.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TaskRule {
    /// A key that promises something to a best-effort task.
    #[error("`{0}` of a best-effort task")]
    NotForBestEffort(&'static str),
    /// A key that the task's criticality needs.
    #[error("a real-time task without `{0}`")]
    RealTimeNeeds(&'static str),
}

impl Rule for TaskRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NotForBestEffort(_) => "only real-time tasks are promised anything",
            Self::RealTimeNeeds(_) => "a real-time task is promised a rate and a deadline",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NotForBestEffort(key) => format!("remove `{key}`"),
            Self::RealTimeNeeds(key) => format!("add `{key}`, or make it \"best-effort\""),
        }
    }
}

/// A task of which everything is known that the promises rest on.
pub(crate) struct Task {
    pub(crate) name: String,
    /// Positions in the lists of models and of partitions.
    pub(crate) model: usize,
    pub(crate) partition: usize,
    pub(crate) criticality: Criticality,
    pub(crate) period: Option<Nanos>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) mandatory_exit: u8,
    pub(crate) threshold: f64,
    pub(crate) threshold_min: f64,
    pub(crate) batch_max: u8,
    pub(crate) queue: u16,
    pub(crate) clients: u16,
    pub(crate) slots: u16,
    pub(crate) reserved: bool,
    pub(crate) eager: bool,
    pub(crate) weight: u16,
    /// The task that takes on what this one would refuse.
    pub(crate) spill: Option<Spanned<String>>,
    pub(crate) delivery: Delivery,
    pub(crate) entry: EntryPlan,
    pub(crate) frame: FramePlan,
    pub(crate) deadline_place: Place,
    pub(crate) queue_place: Place,
    pub(crate) frame_place: Place,
}

impl Task {
    pub(crate) fn is_best_effort(&self) -> bool {
        self.criticality == Criticality::BestEffort
    }

    /// Period and deadline of a real-time task.
    pub(crate) fn promise(&self) -> Option<(Nanos, Nanos)> {
        if self.is_best_effort() {
            return None;
        }
        Some((self.period?, self.deadline?))
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
            results: (self.slots + self.queue).next_power_of_two(),
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
    let tasks = tasks
        .filter_map(|raw| {
            let entry = raw.entry.resolve(accounts, problems);
            task(raw, manifest, models, partitions, entry, problems)
        })
        .collect();
    let count: u64 = manifest.tasks.iter().map(|raw| raw.clients.value).sum();
    let limit = CLIENT_SLOTS_MAX as u64;
    if count > limit {
        let what = "clients of all tasks together";
        let cause = Invalid::TooMany { what, count, limit };
        problems.add(&Place::of_key("task.clients"), cause);
    }
    tasks
}

/// Whether time is kept for all of its requests.
pub(crate) fn is_reserved(raw: &RawTask) -> bool {
    raw.criticality == Some(Criticality::RealTime)
        && raw.reserved.as_ref().is_none_or(|at| at.value)
}

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
    let frame = raw.frame.as_ref().and_then(|raw| frame(raw, problems));
    let model = model.and_then(|name| models.iter().position(|m| &m.name == name));
    let exit = model.and_then(|model| exit(raw, &models[model], problems));
    let partition = partition.and_then(|name| partitions.iter().position(|p| &p.name == name));
    if !complete || !raw.sound {
        return None;
    }
    let criticality = raw.criticality?;
    let queue = raw.queue.value as u16;
    let absent = |at: Option<&Place>| at.unwrap_or(&raw.place).clone();
    Some(Task {
        name: raw.name.value.clone(),
        model: model?,
        partition: partition?,
        criticality,
        period: raw.period.as_ref().map(|at| at.value),
        deadline: raw.deadline.as_ref().map(|at| at.value),
        mandatory_exit: exit?,
        threshold: raw.threshold,
        threshold_min: raw.threshold_min,
        batch_max: raw.batch_max,
        queue,
        clients: raw.clients.value as u16,
        // One more than can be queued: a client fills a frame while the others wait.
        slots: raw.slots.unwrap_or(queue + 1),
        reserved: is_reserved(raw),
        eager: raw.eager,
        weight: raw.weight,
        spill: raw.spill.clone(),
        delivery: raw.delivery,
        entry,
        frame: frame?,
        deadline_place: absent(raw.deadline.as_ref().map(|at| &at.place)),
        queue_place: absent(raw.queue.place.span.as_ref().map(|_| &raw.queue.place)),
        frame_place: absent(raw.frame.as_ref().map(|frame| &frame.width.place)),
    })
}

fn promises_are_complete(raw: &RawTask, problems: &mut Problems<'_>) -> bool {
    let before = problems.count();
    match raw.criticality {
        Some(Criticality::RealTime) => {
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
    let exit = raw.mandatory_exit.value;
    let last = model.stages() - 1;
    if exit > u64::from(last) {
        problems.add(
            &raw.mandatory_exit.place,
            ModelRule::NoSuchExit { exit, last },
        );
        return None;
    }
    Some(exit as u8)
}

pub(crate) fn frame(raw: &RawFrame, problems: &mut Problems<'_>) -> Option<FramePlan> {
    let before = problems.count();
    let (width, height) = (raw.width.value as u32, raw.height.value as u32);
    let least = raw.format.row_bytes(width);
    colour_sites(raw, problems);
    if let Some(stride) = raw.stride.as_ref().filter(|stride| stride.value < least) {
        let stride_bytes = stride.value;
        let cause = FrameRule::StrideTooShort {
            stride: stride_bytes,
            least,
        };
        problems.add(&stride.place, cause);
    }
    let size = Size { width, height };
    let crop = crop(raw, size, problems);
    let stride = raw.stride.as_ref().map_or(least, |stride| stride.value);
    let frame = FramePlan {
        format: raw.format,
        size,
        stride: stride as u32,
        crop: crop.unwrap_or(size),
    };
    let bytes = Spanned {
        value: frame.bytes(),
        place: raw.width.place.clone(),
    };
    let _ = bytes.within(1..=FRAME_BYTES_MAX, " bytes", problems);
    (problems.count() == before).then_some(frame)
}

/// Notes sides that would tear pixels apart which share their colour.
fn colour_sites(raw: &RawFrame, problems: &mut Problems<'_>) {
    let (columns, rows) = raw.format.shared_colour();
    let mut whole = |value: u64, shared: u64, place: &Place| {
        if !value.is_multiple_of(shared) {
            problems.add(place, FrameRule::OddDimension(value));
        }
    };
    whole(raw.width.value, columns, &raw.width.place);
    whole(raw.height.value, rows, &raw.height.place);
    if let Some(stride) = raw.stride.as_ref() {
        whole(stride.value, columns, &stride.place);
    }
    if let Some(crop) = &raw.crop {
        for (side, shared) in crop.value.iter().zip([columns, rows]) {
            whole(*side, shared, &crop.place);
        }
    }
}

fn crop(raw: &RawFrame, frame: Size, problems: &mut Problems<'_>) -> Option<Size> {
    let crop = raw.crop.as_ref()?;
    let [crop_width, crop_height] = crop.value[..] else {
        let count = crop.value.len();
        problems.add(&crop.place, FrameRule::NotASize { count });
        return None;
    };
    let (width, height) = (frame.width, frame.height);
    if crop_width > u64::from(width) || crop_height > u64::from(height) {
        let cause = FrameRule::CropTooLarge {
            crop_width,
            crop_height,
            width,
            height,
        };
        problems.add(&crop.place, cause);
        return None;
    }
    if crop_width == 0 || crop_height == 0 {
        let cause = Invalid::OutOfRange {
            value: 0.0,
            least: 1.0,
            most: f64::from(width.min(height)),
            unit: " pixels",
        };
        problems.add(&crop.place, cause);
        return None;
    }
    Some(Size {
        width: crop_width as u32,
        height: crop_height as u32,
    })
}
