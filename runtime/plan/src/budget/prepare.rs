//! Who prepares a task's frames, and how long that takes: cores, or the GPU where the manifest lets it and it was measured.

use punctual_core::{Nanos, SPAN_MAX};
use punctual_diagnostics::{Problems, Rule};
use punctual_model::{InputForm, PrepareProfile};
use punctual_types::{PixelFormat, Size};
use serde::Serialize;
use thiserror::Error;

use crate::inputs::DeviceKind;
use crate::manifest::Preparers;
use crate::resolve::{MEASURE, Resolved, Task};

/// Who prepares a task's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreparedBy {
    /// The thread of the client's intake, on its core.
    #[default]
    Cores,
    /// The TPCs of the task's partition.
    Gpu,
}

impl PreparedBy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(crate) fn is_cores(&self) -> bool {
        *self == Self::Cores
    }
}

/// The preparation of a task's frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preparation {
    pub(super) by: PreparedBy,
    pub(super) time: Nanos,
}

/// A frame format without a figure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the profile of model {model:?} lacks preparing {format} {frame} cropped to {crop}")]
#[non_exhaustive]
pub struct PrepareNotProfiled {
    pub model: String,
    pub format: &'static str,
    pub frame: Size,
    /// The part that the network sees.
    pub crop: Size,
}

impl Rule for PrepareNotProfiled {
    fn rule(&self) -> &'static str {
        "every task's frame format is measured"
    }

    fn help(&self) -> String {
        MEASURE.into()
    }
}

/// Why the GPU cannot prepare a task's frames.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PrepareRule {
    #[error("the stages of {task:?} run on device \"{}\"", device.name())]
    OtherDevice { task: String, device: DeviceKind },
    /// Its frames come as often as they like.
    #[error("{task:?} is best-effort")]
    NoRate { task: String },
    /// Frames of other tasks would be prepared there, too.
    #[error("frames of {task:?} go to another task, or it takes others'")]
    Offloads { task: String },
    #[error("a partition fills")]
    Filled,
    #[error("frames of {} for {channels} channel(s) have no kernel", format.name())]
    NoKernel { format: PixelFormat, channels: u32 },
    #[error("frames are letterboxed")]
    Letterboxed,
    /// Each partition with such frames has a stream for them.
    #[error(
        "frames of {frames} partition(s) need a stream each beside the {stages} of stages, and this GPU has {queues} hardware queues"
    )]
    TooManyStreams {
        frames: usize,
        stages: usize,
        queues: usize,
    },
    #[error(
        "the GPU's profile of model {model:?} lacks preparing {format} {frame} cropped to {crop} on {units} TPC(s)"
    )]
    NotProfiled {
        model: String,
        format: &'static str,
        frame: Size,
        crop: Size,
        units: u8,
    },
}

impl Rule for PrepareRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::OtherDevice { .. } => {
                "the GPU prepares frames of tasks whose stages our kernels run there"
            }
            Self::NoRate { .. } | Self::Offloads { .. } => {
                "what frames take from the stages of a partition is bounded by a promised rate"
            }
            Self::Filled => "what fills the GPU keeps to what stages leave, and sees no frames",
            Self::NoKernel { .. } | Self::Letterboxed => {
                "the GPU prepares frames of rgb8, nv12 and yuyv, stretched to an input of three channels"
            }
            Self::TooManyStreams { .. } => "no two streams share a hardware queue",
            Self::NotProfiled { .. } => "what the GPU prepares is measured on it",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NotProfiled { .. } => MEASURE.into(),
            Self::TooManyStreams { .. } => {
                "remove `prepare`: cores prepare the frames; or give the partitions fewer TPCs"
                    .into()
            }
            _ => "remove `prepare`: cores prepare the frames".into(),
        }
    }
}

/// How the frames of a task are prepared. Figures that are missing, and a GPU that cannot, are noted.
pub(super) fn preparation(
    task: &Task,
    resolved: &Resolved<'_>,
    problems: &mut Problems<'_>,
) -> Preparation {
    let preparers = task.prepare.value;
    let gpu = if preparers == Preparers::Cores {
        None
    } else {
        let found = by_gpu(task, resolved);
        let noted = found.map_err(|cause| problems.add(&task.prepare.place, cause));
        noted.ok()
    };
    let of_gpu = |time| Preparation {
        by: PreparedBy::Gpu,
        time,
    };
    if let (Preparers::Gpu, Some(time)) = (preparers, gpu) {
        return of_gpu(time);
    }
    let cores = Preparation {
        by: PreparedBy::Cores,
        time: by_cores(task, resolved, problems),
    };
    match gpu {
        Some(time) if time < cores.time => of_gpu(time),
        _ => cores,
    }
}

fn by_cores(task: &Task, resolved: &Resolved<'_>, problems: &mut Problems<'_>) -> Nanos {
    let model = &resolved.models[task.model];
    let (frame, letterbox) = (&task.frame, !task.frame.fit.is_stretch());
    let (format, size, crop) = (frame.format.name(), frame.size, frame.crop);
    let measured = model
        .preparation
        .prepare(format, sides(size), sides(crop), letterbox);
    let Some(entry) = measured else {
        let cause = PrepareNotProfiled {
            model: model.name.clone(),
            format,
            frame: size,
            crop,
        };
        problems.add(&task.frame_place, cause);
        return Nanos::ZERO;
    };
    budget(entry, resolved)
}

fn by_gpu(task: &Task, resolved: &Resolved<'_>) -> Result<Nanos, PrepareRule> {
    let model = &resolved.models[task.model];
    let input = model.package.network().input;
    let frame = &task.frame;
    let (format, channels) = (frame.format, input.channels);
    let name = || task.name.clone();
    let partitions = &resolved.placement.partitions;
    let home = &partitions[task.partition];
    let takes = |other: &Task| {
        let taker = other.offload_to.as_ref();
        taker.is_some_and(|taker| taker.value == task.name)
    };
    if home.device != DeviceKind::Cuda {
        let (task, device) = (name(), home.device);
        return Err(PrepareRule::OtherDevice { task, device });
    }
    if task.promise().is_none() {
        return Err(PrepareRule::NoRate { task: name() });
    }
    if task.offload_to.is_some() || resolved.tasks.iter().any(takes) {
        return Err(PrepareRule::Offloads { task: name() });
    }
    if partitions.iter().any(|partition| partition.fills()) {
        return Err(PrepareRule::Filled);
    }
    let is_picture = matches!(input.form, InputForm::Image { .. });
    if !is_picture || !format.has_frame_kernel(channels) {
        return Err(PrepareRule::NoKernel { format, channels });
    }
    if !frame.fit.is_stretch() {
        return Err(PrepareRule::Letterboxed);
    }
    let (format, size, crop, units) = (format.name(), frame.size, frame.crop, home.width());
    let profile = model.profile;
    let entry = profile.prepare_on_device(units, format, sides(size), sides(crop), false);
    let entry = entry.ok_or_else(|| PrepareRule::NotProfiled {
        model: model.name.clone(),
        format,
        frame: size,
        crop,
        units,
    })?;
    Ok(budget(entry, resolved))
}

const fn sides(size: Size) -> [u32; 2] {
    [size.width, size.height]
}

fn budget(entry: &PrepareProfile, resolved: &Resolved<'_>) -> Nanos {
    let margins = &resolved.manifest.daemon.margins;
    let budget = margins.budget(entry.samples, entry.p99_ns, entry.max_ns);
    budget.min(SPAN_MAX)
}
