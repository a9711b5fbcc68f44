//! All metrics. Names and labels are for ever: dashboards and alerts of others have them.

use std::iter;

use punctual_daemon::{PartitionReport, Report, StageReport, State, TaskReport};
use serde::Serialize;

use crate::live::troubles::{self, Gravity};

use super::metric::{Distribution, Metric, Sample, Seen};

/// Metrics of one subject.
#[derive(Debug)]
pub struct Group {
    #[cfg_attr(not(test), expect(dead_code, reason = "a heading of the page"))]
    pub subject: &'static str,
    pub metrics: &'static [Metric],
}

pub const GROUPS: &[Group] = &[
    Group {
        subject: "The daemon",
        metrics: DAEMON,
    },
    Group {
        subject: "Tasks",
        metrics: TASKS,
    },
    Group {
        subject: "Partitions and stages",
        metrics: PARTITIONS,
    },
    Group {
        subject: "Clients",
        metrics: CLIENTS,
    },
    Group {
        subject: "Threads and memory",
        metrics: THREADS,
    },
    Group {
        subject: "Weights, GPU, recordings",
        metrics: PARTS,
    },
    Group {
        subject: "The machine",
        metrics: MACHINE,
    },
];

const DAEMON: &[Metric] = &[
    Metric::up(
        "up",
        "1 if the daemon gave its report, otherwise 0, and there are no other metrics.",
    ),
    Metric::info("build", &["version"], "The daemon's version.", |report| {
        vec![vec![report.version.clone()]]
    }),
    Metric::info(
        "plan",
        &["plan", "board", "policy"],
        "What is served: the hash of the plan, its board, the scheduling policy.",
        |report| {
            let Report {
                plan,
                board,
                policy,
                ..
            } = report;
            vec![vec![plan.clone(), board.clone(), policy.clone()]]
        },
    ),
    Metric::gauge(
        "uptime",
        &[],
        "Time since the daemon was ready. All counters are since then.",
        |seen| Sample::alone(seen.report.seconds),
    )
    .in_unit("seconds"),
    Metric::gauge(
        "serving",
        &[],
        "1 while frames are taken on; 0 before a task is ready, and while the daemon only answers those that it has.",
        |seen| Sample::alone((seen.report.state == State::Serving).into()),
    ),
    Metric::gauge(
        "start",
        &["until"],
        "Time from the beginning of the process until the first task was ready (`ready`) and until all networks were loaded (`whole`); \
         absent before.",
        |seen| {
            let start = &seen.report.start;
            let times = [("ready", start.ready_ms), ("whole", start.whole_ms)];
            let times = times.into_iter().filter_map(|(until, ms)| Some((until, ms?)));
            times
                .map(|(until, ms)| Sample::of([until], ms / 1e3))
                .collect()
        },
    )
    .in_unit("seconds"),
    Metric::gauge(
        "tasks_ready",
        &[],
        "Tasks of which frames are answered. Fewer than all while the start goes on, or if a network could not be loaded.",
        |seen| Sample::alone(seen.report.start.tasks_ready as f64),
    ),
    Metric::gauge(
        "last_good",
        &[],
        "1 if the last good configuration is served, as the present one cannot be.",
        |seen| Sample::alone(seen.report.last_good.into()),
    ),
    Metric::gauge(
        "missing_facilities",
        &[],
        "Facilities that the system does not grant, such as real-time priority.",
        |seen| Sample::alone(seen.report.missing.len() as f64),
    ),
    Metric::gauge(
        "troubles",
        &["gravity"],
        "What `punctual status` lists as not well: `grave` if a promise is not kept, or may not be; otherwise `minor`. Troubles that \
         counters tell stay until the daemon's end.",
        troubles,
    ),
    Metric::counter("decisions", &[], "Decisions of the scheduler.", |report| {
        Sample::alone(report.decision_us.count as f64)
    }),
    Metric::gauge(
        "decision_longest",
        &[],
        "The longest decision, with the hand-over of its actions.",
        |seen| Sample::alone(seen.report.decision_us.max / 1e6),
    )
    .in_unit("seconds"),
    Metric::counter(
        "log_lines_dropped",
        &[],
        "Lines of the log that were dropped, as their reader was too slow.",
        |report| Sample::alone((report.log_dropped + report.lines_dropped) as f64),
    ),
];

const TASKS: &[Metric] = &[
    Metric::info(
        "task",
        &["task", "model", "partition", "criticality"],
        "The tasks of the manifest; `criticality` is `real-time` or `best-effort`.",
        |report| {
            let task = |task: &TaskReport| {
                let TaskReport {
                    name,
                    model,
                    partition,
                    criticality,
                    ..
                } = task;
                [name, model, partition, criticality].map(Clone::clone).into()
            };
            report.tasks.iter().map(task).collect()
        },
    ),
    Metric::gauge(
        "task_start",
        &["task", "until"],
        "Time from the beginning of the process until the task's frames were answered (`ready`), all of its network was loaded \
         (`whole`), and it gave its first answer (`answered`); absent before.",
        |seen| {
            let of_task = |task: &TaskReport| {
                let start = &task.start;
                let times = [
                    ("ready", start.ready_ms),
                    ("whole", start.whole_ms),
                    ("answered", start.answered_ms),
                ];
                let times = times.into_iter().filter_map(|(until, ms)| Some((until, ms?)));
                times
                    .map(|(until, ms)| Sample::of([task.name.as_str(), until], ms / 1e3))
                    .collect::<Vec<_>>()
            };
            seen.report.tasks.iter().flat_map(of_task).collect()
        },
    )
    .in_unit("seconds"),
    Metric::counter(
        "frames_submitted",
        &["task"],
        "Frames that clients submitted.",
        |report| by_task(report, |task| task.submitted as f64),
    ),
    Metric::counter(
        "frames",
        &["task", "verdict", "reason"],
        "Frames by verdict: `on_time`, `late`, `rejected` or `failed`. The last two have reasons, as the report names them.",
        frames,
    ),
    Metric::gauge(
        "frames_open",
        &["task"],
        "Frames without a verdict yet.",
        |seen| by_task(&seen.report, |task| task.open as f64),
    ),
    Metric::counter(
        "frames_late_in_stall",
        &["task"],
        "Late frames that were on their way while the machine stood still.",
        |report| by_task(report, |task| task.late_in_host_stall as f64),
    ),
    Metric::counter(
        "frames_offloaded",
        &["task"],
        "Frames that the task of `offload_to` took on.",
        |report| by_task(report, |task| task.offloaded as f64),
    ),
    Metric::histogram(
        "latency",
        &["task"],
        "From a frame's capture to its answer's hand-over to the client. The sum is of bucket edges: at most 1/64 too large.",
        |report| times(report, |task| &task.latency_buckets),
    )
    .in_unit("seconds"),
    Metric::histogram(
        "slack",
        &["task"],
        "From an answer's hand-over to the frame's deadline, 0 if it was late. The sum is of bucket edges: at most 1/64 too large.",
        |report| times(report, |task| &task.slack_buckets),
    )
    .in_unit("seconds"),
    Metric::histogram(
        "depth",
        &["task"],
        "The exit of each answer, 0 the first. The mean depth is the sum by the count.",
        depths,
    ),
    Metric::counter(
        "answers_not_finite",
        &["task"],
        "Answers with outputs of which values are not finite.",
        |report| by_task(report, |task| task.not_finite as f64),
    ),
    Metric::counter(
        "frames_prepared",
        &["task"],
        "Frames whose pixels were read.",
        |report| by_task(report, |task| task.prepared as f64),
    ),
    Metric::counter(
        "frames_copied",
        &["task"],
        "Bytes of frames that were copied before they were converted: none of those that are prepared where they lie.",
        |report| by_task(report, |task| task.copied_bytes as f64),
    )
    .in_unit("bytes"),
    Metric::counter(
        "frames_prepared_by_gpu",
        &["task"],
        "Those of the frames whose pixels were read that the GPU prepared.",
        |report| by_task(report, |task| task.prepared_by_gpu as f64),
    ),
    Metric::counter(
        "overruns",
        &["task"],
        "Times that a stage of the task's frames ran longer than its budget.",
        |report| by_task(report, |task| task.overruns as f64),
    ),
    Metric::gauge(
        "overrun_worst",
        &["task"],
        "The longest overrun, as a multiple of the stage's budget.",
        |seen| by_task(&seen.report, |task| task.overrun_worst as f64 / 1e3),
    )
    .in_unit("ratio"),
    Metric::counter(
        "demotions",
        &["task"],
        "Times that the task lost its promises, as its model broke its profile.",
        |report| by_task(report, |task| task.demotions as f64),
    ),
    Metric::gauge(
        "demoted",
        &["task"],
        "1 while the task is promised nothing.",
        |seen| by_task(&seen.report, |task| task.demoted.into()),
    ),
    Metric::gauge(
        "deadline",
        &["task"],
        "The task's deadline from the capture on, of tasks that have one.",
        |seen| {
            let us = |task: &TaskReport| task.deadline_us.map(|us| us as f64 / 1e6);
            by_task_with(&seen.report, us)
        },
    )
    .in_unit("seconds"),
    Metric::gauge(
        "reserved",
        &["task"],
        "Frames in a second for which the plan reserves capacity, of tasks that have a reservation.",
        |seen| by_task_with(&seen.report, |task| task.reserved_hz),
    )
    .in_unit("hertz"),
];

const PARTITIONS: &[Metric] = &[
    Metric::info(
        "partition",
        &["partition", "device"],
        "The partitions of the plan.",
        |report| {
            let partition = |at: &PartitionReport| vec![at.name.clone(), at.device.clone()];
            report.partitions.iter().map(partition).collect()
        },
    ),
    Metric::gauge(
        "partition_units",
        &["partition"],
        "Compute units: cores, TPCs.",
        |seen| by_partition(&seen.report, |partition| partition.units as f64),
    ),
    Metric::counter(
        "partition_busy",
        &["partition"],
        "Time in which stages ran. Its rate is the share of the time that the partition is busy.",
        |report| by_partition(report, |partition| partition.busy_us as f64 / 1e6),
    )
    .in_unit("seconds"),
    // No difference of the two, which are read one after the other: a counter never falls.
    Metric::counter(
        "partition_best_effort",
        &["partition"],
        "The part of the busy time that was best-effort work.",
        |report| by_partition(report, |partition| partition.best_effort_us as f64 / 1e6),
    )
    .in_unit("seconds"),
    Metric::counter(
        "partition_actions",
        &["partition", "end"],
        "Orders to run a stage, by their end: `finished`, `preempted`, `not_run` (not started within their window) or `failed`.",
        actions,
    ),
    Metric::counter(
        "partition_members",
        &["partition"],
        "Frames in the batches of all orders: by their number, the mean batch size.",
        |report| by_partition(report, |partition| partition.members as f64),
    ),
    Metric::counter(
        "stage_runs",
        STAGE,
        "Runs of a stage, of stages that ran.",
        |report| by_stage(report, |stage| stage.count as f64),
    ),
    Metric::counter(
        "stage",
        STAGE,
        "Time that these runs took on the device.",
        |report| by_stage(report, |stage| stage.sum_us as f64 / 1e6),
    )
    .in_unit("seconds"),
    Metric::gauge(
        "stage_longest",
        STAGE,
        "The longest of these runs.",
        |seen| by_stage(&seen.report, |stage| stage.max_us as f64 / 1e6),
    )
    .in_unit("seconds"),
    Metric::gauge(
        "stage_budget",
        STAGE,
        "The plan's budget for one of these runs.",
        |seen| by_stage(&seen.report, |stage| stage.budget_us as f64 / 1e6),
    )
    .in_unit("seconds"),
];

const CLIENTS: &[Metric] = &[
    Metric::gauge(
        "clients",
        &[],
        "Places for clients that are taken.",
        |seen| Sample::alone(seen.report.clients.in_use as f64),
    ),
    Metric::gauge(
        "client_places",
        &[],
        "Places for clients in the plan.",
        |seen| Sample::alone(seen.report.clients.slots as f64),
    ),
    Metric::counter(
        "clients_accepted",
        &[],
        "Clients that were admitted.",
        |report| Sample::alone(report.clients.accepted as f64),
    ),
    Metric::counter(
        "clients_refused",
        &[],
        "Clients that were refused: not allowed, an unknown task, no place left.",
        |report| Sample::alone(report.clients.refused as f64),
    ),
    Metric::counter(
        "clients_gone",
        &[],
        "Clients that closed their connection, died or were disconnected.",
        |report| Sample::alone(report.clients.gone as f64),
    ),
    Metric::counter(
        "channel_faults",
        &[],
        "Clients that were disconnected, as they broke the protocol or made the daemon wait.",
        |report| Sample::alone(report.channel_faults as f64),
    ),
];

const THREADS: &[Metric] = &[
    Metric::counter(
        "thread_silences",
        &[],
        "Times that a real-time thread was late with its sign of life, though it could run.",
        |report| Sample::alone(report.watchdog.episodes as f64),
    ),
    Metric::gauge(
        "thread_silence_longest",
        &[],
        "The longest of these silences.",
        |seen| Sample::alone(seen.report.watchdog.longest_ms as f64 / 1e3),
    )
    .in_unit("seconds"),
    Metric::counter(
        "thread_starvations",
        &[],
        "Times that a real-time thread was ready to run and got no processor time.",
        |report| Sample::alone(report.watchdog.starved_episodes as f64),
    ),
    Metric::gauge(
        "thread_starvation_longest",
        &[],
        "The longest of these starvations.",
        |seen| Sample::alone(seen.report.watchdog.longest_starved_ms as f64 / 1e3),
    )
    .in_unit("seconds"),
    Metric::gauge(
        "threads_late",
        &[],
        "Real-time threads that are silent or starved now.",
        |seen| Sample::alone(seen.report.watchdog.silent.len() as f64),
    ),
    Metric::counter(
        "realtime_allocations",
        &[],
        "Allocations by real-time threads: there should be none.",
        |report| Sample::alone(report.allocations_after_ready as f64),
    ),
    Metric::counter(
        "realtime_page_faults",
        &[],
        "Page faults of real-time threads.",
        |report| Sample::alone(report.page_faults_after_ready as f64),
    ),
    Metric::gauge(
        "memory_planned",
        &[],
        "Memory that the plan takes with every client there.",
        |seen| Sample::alone(seen.report.memory.planned_bytes as f64),
    )
    .in_unit("bytes"),
    Metric::gauge(
        "memory_resident",
        &[],
        "Memory of the daemon that is resident.",
        |seen| known(seen.report.memory.resident_bytes),
    )
    .in_unit("bytes"),
    Metric::gauge("memory_peak", &[], "The most that ever was.", |seen| {
        known(seen.report.memory.peak_bytes)
    })
    .in_unit("bytes"),
    Metric::gauge("memory_locked", &[], "Locked address space.", |seen| {
        known(seen.report.memory.locked_bytes)
    })
    .in_unit("bytes"),
];

const PARTS: &[Metric] = &[
    Metric::counter(
        "weights_requests",
        &["found"],
        "Frames for models whose weights come and go, by what they found: a `hit` or a `miss`.",
        |report| {
            let paging = &report.paging;
            [("hit", paging.hits), ("miss", paging.misses)]
                .map(|(found, count)| Sample::of([found], count as f64))
                .into()
        },
    ),
    Metric::counter(
        "weights_evictions",
        &[],
        "Models whose weights were evicted for others.",
        |report| Sample::alone(report.paging.evictions as f64),
    ),
    Metric::counter(
        "weights_loads_failed",
        &[],
        "Times that weights could not be loaded.",
        |report| Sample::alone(report.paging.failed as f64),
    ),
    Metric::counter(
        "gpu_faults",
        &[],
        "Faults and hangs of the GPU that lost everything on it.",
        |report| of_some(report.gpu.as_ref(), |gpu| gpu.faults),
    ),
    Metric::counter(
        "gpu_restarts",
        &[],
        "Restarts of the GPU after them.",
        |report| of_some(report.gpu.as_ref(), |gpu| gpu.restarts),
    ),
    Metric::counter(
        "gpu_stages_overdue",
        &[],
        "Stages on the GPU that took too long and were stopped.",
        |report| of_some(report.gpu.as_ref(), |gpu| gpu.overdue),
    ),
    Metric::gauge(
        "gpu_lost",
        &[],
        "1 if the daemon can no longer use the GPU.",
        |seen| of_some(seen.report.gpu.as_ref(), |gpu| gpu.lost.is_some().into()),
    ),
    Metric::counter(
        "recordings",
        &[],
        "Recordings that are complete.",
        |report| of_some(report.recorder.as_ref(), |recorder| recorder.written),
    ),
    Metric::counter(
        "recordings_failed",
        &[],
        "Recordings that could not be written, or not to their end.",
        |report| of_some(report.recorder.as_ref(), |recorder| recorder.failed),
    ),
    Metric::counter(
        "recorder_steps_lost",
        &[],
        "Steps of the scheduler that the recorder lost.",
        |report| of_some(report.recorder.as_ref(), |recorder| recorder.steps_lost),
    ),
];

const MACHINE: &[Metric] = &[
    Metric::counter(
        "machine_stalls",
        &[],
        "Times over 1 ms in which the machine ran nothing on a core of the plan.",
        |report| Sample::alone((report.host_stalls.count + report.host_stalls.unlisted) as f64),
    ),
    Metric::counter(
        "machine_stalled",
        &[],
        "How long these stalls were together, of the first 1024 of each core.",
        |report| Sample::alone(report.host_stalls.total_us as f64 / 1e6),
    )
    .in_unit("seconds"),
    Metric::gauge(
        "machine_stall_longest",
        &[],
        "The longest of them.",
        |seen| Sample::alone(seen.report.host_stalls.longest_us as f64 / 1e6),
    )
    .in_unit("seconds"),
    Metric::gauge(
        "machine_temperature",
        &[],
        "The hottest zone, where the kernel tells.",
        |seen| seen.machine.celsius.map_or_else(Vec::new, Sample::alone),
    )
    .in_unit("celsius"),
    Metric::gauge(
        "machine_clock",
        &[],
        "The mean clock of the cores, where the kernel tells.",
        |seen| {
            let hertz = seen.machine.mhz.map(|mhz| mhz * 1e6);
            hertz.map_or_else(Vec::new, Sample::alone)
        },
    )
    .in_unit("hertz"),
];

const STAGE: &[&str] = &["model", "stage", "batch", "partition"];

/// The largest times of buckets, in seconds: from the frames of the fastest cameras to those that have no use.
const TIMES: [f64; 17] = [
    0.0005,
    0.001,
    0.002,
    0.003,
    0.005,
    0.008,
    0.012,
    0.02,
    0.033,
    0.05,
    0.08,
    0.12,
    0.2,
    0.33,
    0.5,
    1.0,
    f64::INFINITY,
];

fn troubles(seen: &Seen) -> Vec<Sample> {
    let troubles = troubles::of(&seen.report);
    let of = |gravity: Gravity, name| {
        let count = troubles.iter().filter(|trouble| trouble.gravity == gravity);
        Sample::of([name], count.count() as f64)
    };
    vec![of(Gravity::Grave, "grave"), of(Gravity::Minor, "minor")]
}

fn by_task(report: &Report, value: impl Fn(&TaskReport) -> f64) -> Vec<Sample> {
    by_task_with(report, |task| Some(value(task)))
}

fn by_task_with(report: &Report, value: impl Fn(&TaskReport) -> Option<f64>) -> Vec<Sample> {
    let sample = |task: &TaskReport| Some(Sample::of([&task.name], value(task)?));
    report.tasks.iter().filter_map(sample).collect()
}

fn frames(report: &Report) -> Vec<Sample> {
    let of_task = |task: &TaskReport| {
        let sample =
            |verdict, reason: &str, count| Sample::of([&task.name, verdict, reason], count);
        let with_reasons = |verdict, reasons: Vec<(String, f64)>| {
            let reasons = reasons.into_iter();
            reasons.map(move |(reason, count)| sample(verdict, &reason, count))
        };
        let answered = [
            sample("on_time", "", task.on_time as f64),
            sample("late", "", task.late as f64),
        ];
        let rejected = with_reasons("rejected", fields(&task.rejected));
        let failed = with_reasons("failed", fields(&task.failed));
        answered
            .into_iter()
            .chain(rejected)
            .chain(failed)
            .collect::<Vec<_>>()
    };
    report.tasks.iter().flat_map(of_task).collect()
}

/// The counts of a part of the report, by their names there.
fn fields(part: &impl Serialize) -> Vec<(String, f64)> {
    let value = serde_json::to_value(part).expect("plain data serialises");
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter_map(|(name, count)| Some((name.clone(), count.as_f64()?)))
        .collect()
}

fn times(report: &Report, buckets: fn(&TaskReport) -> &Vec<(f64, u64)>) -> Vec<Distribution> {
    let of_task = |task: &TaskReport| {
        let found = buckets(task).iter().map(|(us, count)| (us / 1e6, *count));
        distribution(&task.name, found, &TIMES)
    };
    report.tasks.iter().map(of_task).collect()
}

fn depths(report: &Report) -> Vec<Distribution> {
    let of_task = |task: &TaskReport| {
        let exits = (0..task.exits.len()).map(|exit| exit as f64);
        let edges: Vec<f64> = exits.chain([f64::INFINITY]).collect();
        distribution(
            &task.name,
            iter::zip(edges.iter().copied(), task.exits.iter().copied()),
            &edges,
        )
    };
    report.tasks.iter().map(of_task).collect()
}

/// Of values with their counts, each in the first bucket that it fits into.
fn distribution(
    label: &str,
    found: impl Iterator<Item = (f64, u64)>,
    edges: &[f64],
) -> Distribution {
    let mut buckets: Vec<(f64, u64)> = edges.iter().map(|edge| (*edge, 0)).collect();
    let mut sum = 0.0;
    for (value, count) in found {
        sum += value * count as f64;
        if let Some((_, in_bucket)) = buckets.iter_mut().find(|(edge, _)| value <= *edge) {
            *in_bucket += count;
        }
    }
    Distribution {
        labels: vec![label.to_owned()],
        sum,
        buckets,
    }
}

fn by_partition(report: &Report, value: fn(&PartitionReport) -> f64) -> Vec<Sample> {
    let partitions = report.partitions.iter();
    partitions
        .map(|partition| Sample::of([&partition.name], value(partition)))
        .collect()
}

fn actions(report: &Report) -> Vec<Sample> {
    let of_partition = |partition: &PartitionReport| {
        [
            ("finished", partition.finished),
            ("preempted", partition.preempted),
            ("not_run", partition.not_run),
            ("failed", partition.failed),
        ]
        .map(|(end, count)| Sample::of([&partition.name, end], count as f64))
    };
    report.partitions.iter().flat_map(of_partition).collect()
}

fn by_stage(report: &Report, value: fn(&StageReport) -> f64) -> Vec<Sample> {
    let sample = |at: &StageReport| {
        let (stage, batch) = (at.stage.to_string(), at.batch.to_string());
        Sample::of([&at.model, &stage, &batch, &at.partition], value(at))
    };
    report.stages.iter().map(sample).collect()
}

/// 0 where the kernel does not tell.
fn known(bytes: u64) -> Vec<Sample> {
    if bytes == 0 {
        return Vec::new();
    }
    Sample::alone(bytes as f64)
}

fn of_some<P>(part: Option<&P>, value: fn(&P) -> u64) -> Vec<Sample> {
    part.map_or_else(Vec::new, |part| Sample::alone(value(part) as f64))
}
