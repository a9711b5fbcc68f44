//! The manifest as it was written: types and ranges checked, nothing yet looked up or compared.

use crate::budgets::Margins;
use crate::cause::Cause;
use crate::document::{Section, parse, within_whole};
use crate::door::{DoorCause, RawDoor, RawEntry};
use crate::frame::RawFrame;
use crate::keys::{
    checked_name, microseconds, milliseconds, name, number, optional_word, span, unique, whole,
    word,
};
use crate::paging::ByteSize;
use crate::plan::BATCH_SIZES;
use crate::policy::{Policies, PolicyChoice};
use crate::problem::{At, Place, Problems};
use crate::reservation::Scheduling;
use punctual_core::{Criticality, Delivery, Nanos};

// Tables of the plan have fixed limits; the scheduler's bound on a step rests on them.
pub(crate) const TASKS_MAX: usize = 64;
pub(crate) const MODELS_MAX: usize = 32;
pub(crate) const PARTITIONS_MAX: usize = 32;
pub(crate) const CLIENT_SLOTS_MAX: usize = 64;
const QUEUE_MAX: u64 = 64;
const BATCH_LIMIT: u64 = BATCH_SIZES[BATCH_SIZES.len() - 1] as u64;
/// Masks of TPCs have so many bits.
const TPCS_MAX: u64 = 128;
/// The words of `[daemon] scheduling`.
const SCHEDULINGS: [(&str, Scheduling); 2] = [
    ("fifo", Scheduling::Fifo),
    ("deadline", Scheduling::Deadline),
];

pub(crate) struct Manifest {
    pub(crate) daemon: RawDaemon,
    pub(crate) models: Vec<RawModel>,
    pub(crate) partitions: Vec<RawPartition>,
    pub(crate) tasks: Vec<RawTask>,
}

pub(crate) struct RawDaemon {
    pub(crate) board: Option<At<String>>,
    pub(crate) power_mode: Option<At<String>>,
    pub(crate) socket: String,
    pub(crate) door: RawDoor,
    pub(crate) drain: Nanos,
    pub(crate) watchdog: Nanos,
    pub(crate) scheduling: Scheduling,
    pub(crate) idle_latency: Option<Nanos>,
    pub(crate) margins: Margins,
    pub(crate) memory_bytes: Option<At<u64>>,
    /// Memory for the weights of models that are not always there.
    pub(crate) weight_cache: Option<At<ByteSize>>,
    pub(crate) cores: Option<At<Vec<u64>>>,
    pub(crate) priority: At<u64>,
    pub(crate) policy: At<PolicyChoice>,
    /// Whether stages that models have in common run as one.
    pub(crate) share_stages: bool,
}

pub(crate) struct RawModel {
    pub(crate) name: At<String>,
    pub(crate) package: Option<At<String>>,
}

pub(crate) struct RawPartition {
    pub(crate) name: At<String>,
    pub(crate) cores: Option<At<Vec<u64>>>,
    pub(crate) units: Option<At<u64>>,
    /// Given: a partition of the GPU, and `cores` is its leader's.
    pub(crate) tpcs: Option<At<u64>>,
    pub(crate) place: Place,
}

pub(crate) struct RawTask {
    pub(crate) name: At<String>,
    pub(crate) model: Option<At<String>>,
    pub(crate) partition: Option<At<String>>,
    pub(crate) criticality: Option<Criticality>,
    pub(crate) period: Option<At<Nanos>>,
    pub(crate) deadline: Option<At<Nanos>>,
    pub(crate) mandatory_exit: At<u64>,
    pub(crate) threshold: f64,
    pub(crate) threshold_min: f64,
    pub(crate) batch_max: u8,
    pub(crate) queue: At<u64>,
    pub(crate) clients: At<u64>,
    /// Keys that every promise needs, and that are not there.
    pub(crate) unpromised: Vec<&'static str>,
    pub(crate) slots: Option<u16>,
    pub(crate) reserved: Option<At<bool>>,
    pub(crate) eager: bool,
    pub(crate) weight: u16,
    pub(crate) spill: Option<At<String>>,
    pub(crate) delivery: Delivery,
    pub(crate) entry: RawEntry,
    pub(crate) frame: Option<RawFrame>,
    /// Whether all of it could be read: otherwise what follows from its values says nothing.
    pub(crate) sound: bool,
    pub(crate) place: Place,
}

impl Manifest {
    /// Reads all that can be read; problems are noted.
    pub(crate) fn read(text: &str, policies: &Policies, problems: &mut Problems<'_>) -> Self {
        let document = parse(text, problems);
        let mut root = Section::root(&document);
        let daemon = RawDaemon::read(root.table("daemon", problems), policies, problems);
        let models = root.tables("model", problems);
        let partitions = root.tables("partition", problems);
        let tasks = root.tables("task", problems);
        for (what, count, limit) in [
            ("model", models.len(), MODELS_MAX),
            ("partition", partitions.len(), PARTITIONS_MAX),
            ("task", tasks.len(), TASKS_MAX),
        ] {
            let place = Place {
                key: what.to_owned(),
                span: None,
            };
            if count == 0 {
                problems.add(&place, Cause::NoneGiven(what));
            } else if count > limit {
                let (count, limit) = (count as u64, limit as u64);
                problems.add(&place, Cause::TooMany { what, count, limit });
            }
        }
        // What exceeds the limit was reported and is not read: the work on a file is bounded.
        let manifest = Self {
            daemon,
            models: collect(models, MODELS_MAX, problems, RawModel::read),
            partitions: collect(partitions, PARTITIONS_MAX, problems, RawPartition::read),
            tasks: collect(tasks, TASKS_MAX, problems, RawTask::read),
        };
        root.finish(problems);
        unique("model", manifest.models.iter().map(|m| &m.name), problems);
        unique(
            "partition",
            manifest.partitions.iter().map(|p| &p.name),
            problems,
        );
        unique("task", manifest.tasks.iter().map(|t| &t.name), problems);
        manifest
    }
}

pub fn collect<'d, 't, T>(
    sections: Vec<Section<'d, 't>>,
    limit: usize,
    problems: &mut Problems<'_>,
    read: impl Fn(Section<'d, 't>, &mut Problems<'_>) -> Option<T>,
) -> Vec<T> {
    sections
        .into_iter()
        .take(limit)
        .filter_map(|section| read(section, problems))
        .collect()
}

impl RawDaemon {
    fn read(
        section: Option<Section<'_, '_>>,
        policies: &Policies,
        problems: &mut Problems<'_>,
    ) -> Self {
        let empty = toml::Spanned::new(0..0, toml::de::DeTable::new());
        let mut section = section.unwrap_or_else(|| Section::named(&empty, "daemon"));
        let board = section.required::<String>("board", problems);
        // It names a file.
        let board = board.filter(|name| checked_name(name, problems));
        let power_mode = section.optional("power_mode", problems);
        let socket = section.or("socket", "/run/punctual/socket".to_owned(), problems);
        if let Some(cause) = DoorCause::of_socket(socket.value.as_ref()) {
            problems.add(&socket.place, Cause::Door(cause));
        }
        let door = RawDoor::read(&mut section, problems);
        let drain = milliseconds(&mut section, "drain_ms", 1_000.0, 1.0..=60_000.0, problems);
        let watchdog = milliseconds(
            &mut section,
            "watchdog_ms",
            1_000.0,
            100.0..=60_000.0,
            problems,
        );
        let scheduling = optional_word(&mut section, "scheduling", &SCHEDULINGS, problems);
        let us = section.optional::<u64>("idle_latency_us", problems);
        let idle_latency =
            us.map(|at| Nanos::from_micros(within_whole(&at, 0..=10_000, " us", problems)));
        let margins = Margins {
            factor: number(&mut section, "margin", 1.25, 1.0..=10.0, "", problems),
            noise_floor: microseconds(&mut section, "noise_us", 20.0, problems),
            channel: microseconds(&mut section, "channel_us", 2_000.0, problems),
            dispatch: microseconds(&mut section, "dispatch_us", 100.0, problems),
            egress: microseconds(&mut section, "egress_us", 300.0, problems),
        };
        let memory_bytes = section.optional::<u64>("memory_mb", problems).map(|at| At {
            value: within_whole(&at, 1..=1 << 20, " MB", problems) * 1_000_000,
            place: at.place,
        });
        let weight_cache = section.optional("weight_cache", problems);
        let cores = section.optional("cores", problems);
        let policy = policies.of(&mut section, problems);
        let share_stages = section.or("share_stages", true, problems).value;
        let priority = section.or("priority", 40, problems);
        let priority = At {
            value: within_whole(&priority, 1..=99, "", problems),
            place: priority.place,
        };
        section.finish(problems);
        Self {
            board,
            power_mode,
            socket: socket.value,
            door,
            drain,
            watchdog,
            scheduling: scheduling.unwrap_or_default(),
            idle_latency,
            margins,
            memory_bytes,
            weight_cache,
            cores,
            priority,
            policy,
            share_stages,
        }
    }
}

impl RawModel {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let name = name(&mut section, problems);
        let package = section.required("package", problems);
        section.finish(problems);
        Some(Self {
            name: name?,
            package,
        })
    }
}

impl RawPartition {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let name = name(&mut section, problems);
        let cores = section.optional::<Vec<u64>>("cores", problems);
        let units = section.optional::<u64>("units", problems).map(|at| At {
            value: within_whole(&at, 1..=64, " cores", problems),
            place: at.place,
        });
        let tpcs = section.optional::<u64>("tpcs", problems).map(|at| At {
            value: within_whole(&at, 1..=TPCS_MAX, " TPCs", problems),
            place: at.place,
        });
        let place = section.place().clone();
        section.finish(problems);
        Some(Self {
            name: name?,
            cores,
            units,
            tpcs,
            place,
        })
    }
}

impl RawTask {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let before = problems.count();
        let s = &mut section;
        let name = name(s, problems);
        let model = s.required("model", problems);
        let partition = s.required("partition", problems);
        let criticality = word(s, "criticality", &CRITICALITIES, problems);
        let period = span(
            s,
            "rate_hz",
            0.01..=10_000.0,
            " Hz",
            |hz| 1e9 / hz,
            problems,
        );
        let deadline = span(
            s,
            "deadline_ms",
            0.1..=60_000.0,
            " ms",
            |ms| ms * 1e6,
            problems,
        );
        let mandatory_exit = s.or("mandatory_exit", 0, problems);
        let threshold = number(s, "threshold", 0.9, 0.0..=1.0, "", problems);
        let threshold_min = number(s, "threshold_min", 0.0, 0.0..=threshold, "", problems);
        let batch_max = whole(s, "batch_max", 1, 1..=BATCH_LIMIT, problems).value as u8;
        let queue = whole(s, "queue", 8, 1..=QUEUE_MAX, problems);
        let clients = whole(s, "clients", 1, 1..=CLIENT_SLOTS_MAX as u64, problems);
        let slots = s
            .optional::<u64>("slots", problems)
            .map(|at| within_whole(&at, 2..=64, " slots", problems) as u16);
        let reserved = s.optional("reserved", problems);
        let eager = s.or("eager", false, problems).value;
        let weight = whole(s, "weight", 1, 1..=1_000, problems).value as u16;
        let spill = s.optional("spill", problems);
        let delivery = optional_word(s, "delivery", &DELIVERIES, problems).unwrap_or_default();
        let entry = RawEntry::read(s, problems);
        let unpromised = s.without(["rate_hz", "deadline_ms"]);
        let frame = RawFrame::of_task(s, problems);
        let place = section.place().clone();
        section.finish(problems);
        Some(Self {
            name: name?,
            model,
            partition,
            criticality,
            period,
            deadline,
            mandatory_exit,
            threshold,
            threshold_min,
            batch_max,
            queue,
            clients,
            unpromised,
            slots,
            reserved,
            eager,
            weight,
            spill,
            delivery,
            entry,
            frame,
            sound: problems.count() == before,
            place,
        })
    }
}

const CRITICALITIES: [(&str, Criticality); 2] = [
    ("real-time", Criticality::RealTime),
    ("best-effort", Criticality::BestEffort),
];

const DELIVERIES: [(&str, Delivery); 2] = [
    ("every-frame", Delivery::EveryFrame),
    ("latest-frame", Delivery::LatestFrame),
];
