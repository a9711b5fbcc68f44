//! The first phase: the manifest as it was written. Types and ranges are checked, nothing is looked
//! up or compared yet.

mod access;
mod after;
mod byte_size;
mod defaults;
mod frame;
mod leaders;
mod limits;
mod margins;
mod pattern;
mod places;
mod recorder;
mod socket;
mod vector;

pub(crate) use access::{Account, RawAccess, RawAdmission, RawEntry};
pub use after::AfterRule;
pub(crate) use after::RawAfter;
use defaults::queue_depth;
pub use defaults::{Defaulted, names_of};
pub(crate) use defaults::{Defaults, frame_format};
pub(crate) use frame::{RawFrame, RawPicture};
pub use leaders::LeaderWait;
pub(crate) use leaders::RawLeaders;
pub(crate) use limits::CLIENT_SLOTS_MAX;
pub use margins::Margins;
pub(crate) use pattern::PackageSource;
use pattern::Pattern;
pub use pattern::PatternRule;
pub(crate) use places::{PlaceChoice, RawPlace, RawPlaces};
pub use recorder::{Payloads, RecorderMode, RecorderPlan, RecorderRule};
pub use socket::{METRICS_SUFFIX, SocketRule};
pub(crate) use vector::RawVector;

use std::num::NonZeroU32;

use punctual_core::{Answers, Criticality, Delivery, Nanos};
use punctual_diagnostics::{
    Document, Invalid, Place, Problems, RemovedKey, RenamedKey, Section, Spanned, unique,
};
use punctual_model::VECTORS_MAX;
use serde::Serialize;

use crate::inputs::{BATCH_SIZES, DeviceKind, Policies, PolicyChoice};
use byte_size::ByteSize;
use limits::{MODELS_MAX, PARTITIONS_MAX, PLACES_MAX, TASKS_MAX};

/// Keys of `[daemon]` that had other names.
const DAEMON_RENAMED: [RenamedKey; 5] = [
    RenamedKey::new("drain_ms", "drain_timeout_ms"),
    RenamedKey::new("margin", "budget_factor"),
    RenamedKey::new("channel_us", "channel_bound_us"),
    RenamedKey::new("dispatch_us", "dispatch_bound_us"),
    RenamedKey::new("egress_us", "egress_bound_us"),
];

/// Keys of `[[task]]` that had other names.
const TASK_RENAMED: [RenamedKey; 3] = [
    RenamedKey::new("queue", "queue_depth"),
    RenamedKey::new("own_buffers", "import_buffers"),
    RenamedKey::new("spill", "offload_to"),
];

const EARLY: &str = "write `answers = \"early\"` for `true`, and nothing for `false`";

/// Keys that `[[task]]` once had.
const TASK_REMOVED: [RemovedKey; 2] = [
    RemovedKey {
        key: "answer_early",
        instead: EARLY,
    },
    RemovedKey {
        key: "eager",
        instead: EARLY,
    },
];

const QUEUE_MAX: u64 = 64;
const BATCH_LIMIT: u64 = BATCH_SIZES[BATCH_SIZES.len() - 1] as u64;
/// Cores of a partition.
pub(crate) const UNITS_MAX: u64 = 64;
/// Masks of TPCs have this number of bits.
const TPCS_MAX: u64 = 128;

/// More than any board's memory takes.
const START_MB_PER_S_MAX: u64 = 1_000_000;

/// How the daemon's threads get their urgency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// `SCHED_FIFO`, each pinned to a core.
    #[default]
    Fifo,
    /// `SCHED_DEADLINE` for the scheduler and the ports, on all of the daemon's own cores.
    Deadline,
}

/// The words of `[daemon] scheduling`.
const SCHEDULINGS: [(&str, Scheduling); 2] = [
    ("fifo", Scheduling::Fifo),
    ("deadline", Scheduling::Deadline),
];

pub(crate) struct Manifest {
    /// What was taken for what is left out; the rest is complete.
    pub(crate) defaults: Defaults,
    pub(crate) daemon: RawDaemon,
    pub(crate) recorder: RecorderPlan,
    pub(crate) models: Vec<RawModel>,
    pub(crate) partitions: Vec<RawPartition>,
    pub(crate) places: Vec<RawPlace>,
    pub(crate) tasks: Vec<RawTask>,
}

pub(crate) struct RawDaemon {
    pub(crate) board: Option<Spanned<String>>,
    pub(crate) power_mode: Option<Spanned<String>>,
    pub(crate) socket: String,
    pub(crate) admission: RawAdmission,
    pub(crate) drain: Nanos,
    pub(crate) watchdog: Nanos,
    pub(crate) scheduling: Scheduling,
    pub(crate) idle_latency: Option<Nanos>,
    pub(crate) start_mb_per_s: Option<NonZeroU32>,
    pub(crate) margins: Margins,
    pub(crate) memory_bytes: Option<Spanned<u64>>,
    /// The folder of engines of TensorRT that the user has built.
    pub(crate) engines: Option<Spanned<String>>,
    /// Memory for the weights of models that are not always there.
    pub(crate) weight_cache: Option<Spanned<ByteSize>>,
    pub(crate) cores: Option<Spanned<Vec<u64>>>,
    pub(crate) priority: Spanned<u64>,
    pub(crate) policy: Spanned<PolicyChoice>,
    /// Whether stages that models have in common run as one.
    pub(crate) share_stages: bool,
    pub(crate) places: RawPlaces,
    pub(crate) leaders: RawLeaders,
}

pub(crate) struct RawModel {
    pub(crate) name: Spanned<String>,
    pub(crate) package: Option<Spanned<String>>,
}

pub(crate) struct RawPartition {
    pub(crate) name: Spanned<String>,
    /// Without them, `units`, `tpcs` and `fill` it has all cores that are left.
    pub(crate) cores: Option<Spanned<Vec<u64>>>,
    pub(crate) units: Option<Spanned<u64>>,
    /// Given: a partition of the GPU, and `cores` is its leader's.
    pub(crate) tpcs: Option<Spanned<u64>>,
    /// The key `fill`, if it is true: a partition of the GPU without TPCs of its own, and `cores` is its leader's.
    pub(crate) fill: Option<Place>,
    /// What runs its stages, as written or as `tpcs` says.
    pub(crate) device: DeviceKind,
    /// The key `device`, if it is there.
    pub(crate) device_place: Option<Place>,
    /// The key `cores`, be it there or not.
    pub(crate) cores_place: Place,
    pub(crate) place: Place,
}

/// The `[[task]]` that a task is of: with a pattern of packages it stands for several, which share the places of its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskGroup {
    /// Position among the tables.
    pub(crate) position: usize,
    pub(crate) pattern: Option<Pattern>,
}

#[derive(Clone)]
pub(crate) struct RawTask {
    pub(crate) name: Spanned<String>,
    pub(crate) group: TaskGroup,
    /// None: a task of its own, or a pipeline's first.
    pub(crate) after: Option<RawAfter>,
    pub(crate) model: Option<Spanned<String>>,
    pub(crate) partition: Option<Spanned<String>>,
    pub(crate) criticality: Option<Criticality>,
    pub(crate) period: Option<Spanned<Nanos>>,
    pub(crate) deadline: Option<Spanned<Nanos>>,
    /// None: the network's first.
    pub(crate) mandatory_exit: Option<Spanned<u64>>,
    pub(crate) threshold: f64,
    pub(crate) threshold_min: f64,
    /// The keys of these that are given.
    pub(crate) thresholds: Vec<(&'static str, Place)>,
    pub(crate) batch_max: u8,
    pub(crate) queue_depth: Spanned<u64>,
    pub(crate) clients: Spanned<u64>,
    /// Keys that every promise needs, and that are not there.
    pub(crate) unpromised: Vec<&'static str>,
    pub(crate) slots: Option<u16>,
    pub(crate) reserved: Option<Spanned<bool>>,
    pub(crate) answers: Answers,
    /// The key `answers`, if it is there.
    pub(crate) answers_place: Option<Place>,
    pub(crate) weight: u16,
    pub(crate) offload_to: Option<Spanned<String>>,
    pub(crate) delivery: Delivery,
    pub(crate) entry: RawEntry,
    pub(crate) prepare: Spanned<Preparers>,
    pub(crate) frame: Option<RawFrame>,
    /// None: what the network gives by default.
    pub(crate) outputs: Option<Spanned<Vec<String>>>,
    pub(crate) vectors: Vec<RawVector>,
    /// Whether all of it could be read: otherwise what follows from its values says nothing.
    pub(crate) sound: bool,
    pub(crate) place: Place,
}

/// Tables that manifests once had.
const REMOVED: [RemovedKey; 1] = [RemovedKey {
    key: "layout",
    instead: "remove it: stages follow the load by `places` (docs/manifest.md, Places), which reaches as much \
              (docs/results/layouts-or-places.md)",
}];

impl Manifest {
    /// The partition of a task, if it exists.
    pub(crate) fn partition_of(&self, task: &RawTask) -> Option<&RawPartition> {
        let name = &task.partition.as_ref()?.value;
        self.partitions.iter().find(|p| p.name.value == *name)
    }
}

/// Reads all that can be read; none if it is not TOML. Patterns of packages mean those of `source`.
pub(crate) fn read(
    policies: &Policies,
    source: PackageSource<'_>,
    problems: &mut Problems<'_>,
) -> Option<Manifest> {
    let document = Document::parse(problems)?;
    let mut root = document.root().with_removed(&REMOVED);
    let daemon = root.table_or_empty("daemon", problems);
    let recorder = root.table_or_empty("recorder", problems);
    let mut defaults = Defaults::default();
    let daemon = RawDaemon::read(daemon, policies, &mut defaults, problems);
    let recorder = RecorderPlan::read(recorder, problems);
    let mut models = root.list("model", 0..=MODELS_MAX, problems, |model, problems| {
        RawModel::read(model, &mut defaults, problems)
    });
    let mut partitions = root.list(
        "partition",
        0..=PARTITIONS_MAX,
        problems,
        |partition, problems| RawPartition::read(partition, &mut defaults, problems),
    );
    if !root.has("partition") {
        partitions.push(defaults.partition());
    }
    let places = root.list("place", 0..=PLACES_MAX, problems, RawPlace::read);
    let mut position = 0;
    let tables = root.list("task", 1..=TASKS_MAX, problems, |task, problems| {
        let task = RawTask::read(
            position,
            task,
            &models,
            &partitions,
            &mut defaults,
            problems,
        );
        position += 1;
        let task = task?;
        let (place, group) = (task.name.place.clone(), task.group.clone());
        let tasks = task.of_each_package(source, &models, &mut defaults);
        if let (None, Some(pattern)) = (&tasks, group.pattern) {
            let pattern = pattern.to_string();
            problems.add(&place, PatternRule::NoPackage { pattern });
        }
        tasks
    });
    let tasks: Vec<RawTask> = tables.into_iter().flatten().collect();
    let tasks = after::join(tasks, problems);
    root.finish(problems);
    models.extend(defaults.models());
    for (what, count, limit) in [
        ("models", models.len(), MODELS_MAX),
        ("tasks", tasks.len(), TASKS_MAX),
    ] {
        if count > limit {
            let (count, limit) = (count as u64, limit as u64);
            let cause = Invalid::TooMany { what, count, limit };
            problems.add(&Place::of_key("task.package"), cause);
        }
    }
    let manifest = Manifest {
        defaults,
        daemon,
        recorder,
        models,
        partitions,
        places,
        tasks,
    };
    unique("model", manifest.models.iter().map(|m| &m.name), problems);
    // A place is a partition to which no task is assigned.
    let partitions = manifest.partitions.iter().map(|p| &p.name);
    let places = manifest.places.iter().map(|p| &p.name);
    unique("partition", partitions.chain(places), problems);
    unique("task", manifest.tasks.iter().map(|t| &t.name), problems);
    Some(manifest)
}

impl RawDaemon {
    fn read(
        section: Section<'_, '_>,
        policies: &Policies,
        defaults: &mut Defaults,
        problems: &mut Problems<'_>,
    ) -> Self {
        let mut section = section.with_renamed(&DAEMON_RENAMED);
        let board = defaults.board(&mut section, problems);
        // It names a file.
        let board = board.filter(|name| name.is_name(problems));
        let power_mode = section.optional("power_mode", problems);
        let socket = section.or("socket", "/run/punctual/socket".to_owned(), problems);
        if let Some(cause) = SocketRule::of(socket.value.as_ref()) {
            problems.add(&socket.place, cause);
        }
        let admission = RawAdmission::read(&mut section, problems);
        let drain = section.milliseconds("drain_timeout_ms", 1_000.0, 1.0..=60_000.0, problems);
        let watchdog = section.milliseconds("watchdog_ms", 1_000.0, 100.0..=60_000.0, problems);
        let scheduling = section.optional_word("scheduling", &SCHEDULINGS, problems);
        let us = section.optional::<u64>("idle_latency_us", problems);
        let idle_latency =
            us.map(|at| Nanos::from_micros(at.within(0..=10_000, " us", problems).value));
        let start_rate = section.optional::<u64>("start_mb_per_s", problems);
        let start_mb_per_s = start_rate.and_then(|at| {
            let rate = at.within(1..=START_MB_PER_S_MAX, " MB/s", problems);
            NonZeroU32::new(rate.value as u32)
        });
        let margins = Margins::read(&mut section, problems);
        let memory_bytes = section.optional::<u64>("memory_mb", problems);
        let memory_bytes = memory_bytes.map(|at| {
            at.within(1..=1 << 20, " MB", problems)
                .map(|mb| mb * 1_000_000)
        });
        let engines = section.optional("engines", problems);
        let weight_cache = section.optional("weight_cache", problems);
        let cores = section.optional("cores", problems);
        let policy = policies.of(&mut section, problems);
        let share_stages = section.or("share_stages", true, problems).value;
        let places = RawPlaces::read(&mut section, problems);
        let leaders = RawLeaders::read(&mut section, problems);
        let priority = section.whole("priority", 40, 1..=99, problems);
        section.finish(problems);
        Self {
            board,
            power_mode,
            socket: socket.value,
            admission,
            drain,
            watchdog,
            scheduling: scheduling.unwrap_or_default(),
            idle_latency,
            start_mb_per_s,
            margins,
            memory_bytes,
            engines,
            weight_cache,
            cores,
            priority,
            policy,
            share_stages,
            places,
            leaders,
        }
    }
}

impl RawModel {
    fn read(
        mut section: Section<'_, '_>,
        defaults: &mut Defaults,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let package = section.required("package", problems);
        let name = defaults.name_of_model(&mut section, package.as_ref(), problems);
        section.finish(problems);
        Some(Self {
            name: name?,
            package,
        })
    }
}

impl RawPartition {
    /// Whether it has all cores that others leave.
    pub(crate) fn has_what_is_left(&self) -> bool {
        let says = self.cores.is_some() || self.units.is_some() || self.tpcs.is_some();
        !says && self.fill.is_none()
    }

    fn read(
        mut section: Section<'_, '_>,
        defaults: &mut Defaults,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let name = defaults.name_of_partition(&mut section, problems);
        let cores = section.optional::<Vec<u64>>("cores", problems);
        let units = section
            .optional::<u64>("units", problems)
            .map(|at| at.within(1..=UNITS_MAX, " cores", problems));
        let tpcs = section
            .optional::<u64>("tpcs", problems)
            .map(|at| at.within(1..=TPCS_MAX, " TPCs", problems));
        let fill = section.or("fill", false, problems);
        let fill = fill.value.then_some(fill.place);
        let device = section.optional::<String>("device", problems);
        let device_place = device.as_ref().map(|at| at.place.clone());
        let words = DeviceKind::ALL.map(|kind| (kind.name(), kind));
        let device = device.and_then(|at| at.one_of(&words, problems));
        let place = section.place().clone();
        let cores_place = section.place_of("cores");
        section.finish(problems);
        Some(Self {
            name: name?,
            cores_place,
            cores,
            units,
            device: device.unwrap_or(match (&tpcs, &fill) {
                (None, None) => DeviceKind::Cpu,
                _ => DeviceKind::Cuda,
            }),
            device_place,
            fill,
            tpcs,
            place,
        })
    }
}

impl RawTask {
    /// Whether time is kept for all of its requests. Which tasks of a pattern are asked is unknown.
    pub(crate) fn is_reserved(&self) -> bool {
        self.criticality == Some(Criticality::RealTime)
            && self.group.pattern.is_none()
            && self.reserved.as_ref().is_none_or(|at| at.value)
    }

    fn read(
        position: usize,
        section: Section<'_, '_>,
        models: &[RawModel],
        partitions: &[RawPartition],
        defaults: &mut Defaults,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let mut section = section
            .with_renamed(&TASK_RENAMED)
            .with_removed(&TASK_REMOVED);
        let before = problems.count();
        let s = &mut section;
        let (pattern, model, name) = match pattern::of_task(s, problems) {
            // Each of its tasks gets its own.
            Some(at) => {
                let (place, name) = (at.place, at.value.to_string());
                let name = Spanned { value: name, place };
                (Some(at.value), None, Some(name))
            }
            None => {
                let model = defaults.model_of_task(s, models, problems);
                let name = defaults.name_of_task(s, model.as_ref(), problems);
                (None, model, name)
            }
        };
        let partition = defaults.partition_of_task(s, partitions, problems);
        let criticality = defaults.criticality(s, problems);
        let period = s.span("rate_hz", 0.01..=10_000.0, " Hz", |hz| 1e9 / hz, problems);
        let deadline = s.span(
            "deadline_ms",
            0.1..=60_000.0,
            " ms",
            |ms| ms * 1e6,
            problems,
        );
        let mandatory_exit = s.optional("mandatory_exit", problems);
        let thresholds = ["threshold", "threshold_min"];
        let thresholds = thresholds.into_iter().filter(|key| s.has(key));
        let thresholds = thresholds.map(|key| (key, s.place_of(key))).collect();
        let threshold = s.number("threshold", 0.9, 0.0..=1.0, "", problems);
        // Depth of real-time frames gives way to other frames only if the manifest says so.
        let least = match criticality {
            Some(Criticality::BestEffort) => 0.0,
            Some(Criticality::RealTime) | None => threshold,
        };
        let threshold_min = s.number("threshold_min", least, 0.0..=threshold, "", problems);
        let batch_max = s.whole("batch_max", 1, 1..=BATCH_LIMIT, problems).value as u8;
        let usual = queue_depth(period.as_ref(), deadline.as_ref());
        let queue_depth = s.whole("queue_depth", usual, 1..=QUEUE_MAX, problems);
        let clients = s.whole("clients", 1, 1..=CLIENT_SLOTS_MAX as u64, problems);
        let slots = s
            .optional::<u64>("slots", problems)
            .map(|at| at.within(2..=64, " slots", problems).value as u16);
        let reserved = s.optional("reserved", problems);
        let answers_place = s.has("answers").then(|| s.place_of("answers"));
        let answers = s
            .optional_word("answers", &ANSWERS, problems)
            .unwrap_or(Answers::EachExit);
        let weight = s.whole("weight", 1, 1..=1_000, problems).value as u16;
        let offload_to = s.optional("offload_to", problems);
        let delivery = s
            .optional_word("delivery", &DELIVERIES, problems)
            .unwrap_or_default();
        let entry = RawEntry::read(s, problems);
        let prepare = Spanned {
            place: s.place_of("prepare"),
            value: s
                .optional_word("prepare", &PREPARERS, problems)
                .unwrap_or_default(),
        };
        let unpromised = s.without(["rate_hz", "deadline_ms"]);
        let frame = RawFrame::of_task(s, problems);
        let outputs = s.optional("outputs", problems);
        let vectors = s.list("vector", 0..=VECTORS_MAX, problems, RawVector::read);
        let after = RawAfter::of_task(s, problems);
        let place = section.place().clone();
        section.finish(problems);
        Some(Self {
            name: name?,
            group: TaskGroup { position, pattern },
            after,
            model,
            partition,
            criticality,
            period,
            deadline,
            mandatory_exit,
            threshold,
            threshold_min,
            thresholds,
            batch_max,
            queue_depth,
            clients,
            unpromised,
            slots,
            reserved,
            answers,
            answers_place,
            weight,
            offload_to,
            delivery,
            entry,
            prepare,
            frame,
            outputs,
            vectors,
            sound: problems.count() == before,
            place,
        })
    }
}

const CRITICALITIES: [(&str, Criticality); 2] = [
    ("real-time", Criticality::RealTime),
    ("best-effort", Criticality::BestEffort),
];

/// Who may prepare the frames of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Preparers {
    #[default]
    Cores,
    Gpu,
    /// The GPU where that was measured to be faster.
    Measured,
}

const PREPARERS: [(&str, Preparers); 3] = [
    ("cores", Preparers::Cores),
    ("gpu", Preparers::Gpu),
    ("measured", Preparers::Measured),
];

const ANSWERS: [(&str, Answers); 3] = [
    ("final", Answers::Final),
    ("early", Answers::Early),
    ("each-exit", Answers::EachExit),
];

const DELIVERIES: [(&str, Delivery); 2] = [
    ("every-frame", Delivery::EveryFrame),
    ("latest-frame", Delivery::LatestFrame),
];
