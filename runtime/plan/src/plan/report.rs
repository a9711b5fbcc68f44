//! What `punctual check` prints: the plan as plain text tables.

use std::fmt;

use punctual_core::{Criticality, Nanos, PolicySpec, StageId, Weights};
use punctual_diagnostics::Bytes;
use punctual_report::{Column, Table, WIDTH, printable};
use punctual_types::Fit;

use super::frozen::{Plan, TaskPlan};
use super::warning::Warning;
use crate::budget::{
    CoreLoad, LOAD_BYTES_A_SECOND_ASSUMED, MemoryBudget, PreparedBy, Purpose, STACKS_A_CLIENT,
    THREADS_A_CLIENT,
};
use crate::inputs::DeviceKind;
use crate::resolve::places::shown;
use crate::resolve::{PartitionPlan, Reservation, Role, ThreadPlan};

/// Rows of a table of models or tasks, of which there may be thousands.
const ROWS_MAX: usize = 64;

/// Warnings of one kind that are told one by one.
const ALIKE_MAX: usize = 8;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let realtime = if self.realtime {
            "real-time"
        } else {
            "ordinary"
        };
        writeln!(
            f,
            "plan {} of {}",
            &self.hash.as_str()[..16],
            self.manifest.display()
        )?;
        writeln!(
            f,
            "board {}, power mode {}, policy {}, {realtime} threads, socket {}",
            self.board,
            self.power_mode,
            self.policy.name(),
            self.socket.display()
        )?;
        if let Some(gpu) = &self.gpu {
            writeln!(
                f,
                "GPU {}: {} TPCs in multiples of {}, partitions {}",
                gpu.machine,
                gpu.tpcs,
                gpu.granularity,
                if gpu.enforced {
                    "enforced"
                } else {
                    "by priority only"
                }
            )?;
        }
        let m = &self.margins;
        writeln!(
            f,
            "budgets: p99 x {} + {}; channel {}, dispatch {}, reply {}",
            m.factor, m.noise_floor, m.channel, m.dispatch, m.egress
        )?;
        let width = f.width().unwrap_or(WIDTH);
        if !self.defaults.is_empty() {
            let table = self.default_table();
            write!(
                f,
                "\nLeft out in the manifest, and taken as\n{table:width$}"
            )?;
        }
        writeln!(f, "\nThreads\n{:width$}", self.thread_table())?;
        let promises = self.policy.contract().promises;
        if promises {
            writeln!(f, "Cores\n{:width$}", self.core_table(&self.core_loads))?;
            writeln!(f, "Partitions\n{:width$}", self.partition_table())?;
        }
        if !self.places.is_empty() {
            writeln!(f, "{}\n{:width$}", self.about_places(), self.place_table())?;
        }
        writeln!(f, "Models\n{:width$}", self.model_table())?;
        self.write_other_weights(f)?;
        self.write_verified(f, width)?;
        if self.scheduler.pages > 0 {
            writeln!(
                f,
                "Weights of paged models come and go in a cache of {} pages of {}. Load budgets: \
                 {} MB/s is\nassumed, not measured; on slower storage loads are late\n{:width$}",
                self.scheduler.pages,
                Bytes(self.page_bytes()),
                LOAD_BYTES_A_SECOND_ASSUMED / 1_000_000,
                self.paging_table()
            )?;
        }
        writeln!(f, "Tasks\n{:width$}", self.task_table())?;
        if self.tasks.iter().any(TaskPlan::gives_or_takes_more) {
            writeln!(f, "Outputs and vectors\n{:width$}", self.output_table())?;
        }
        let mut tasks = self.tasks.iter();
        if tasks.any(|task| task.arrival.prepared_by == PreparedBy::Gpu) {
            writeln!(
                f,
                "Frames: who prepares them. On TPCs they delay stages there, whose budgets are longer for it\n{:width$}",
                self.preparation_table()
            )?;
        }
        if promises {
            writeln!(
                f,
                "Promises: mandatory work C within D after capture (less the reply), input ready \
                 after at most J, every T;\nfull depth: C of all stages; slack: least over the \
                 task's checkpoints L\n{:width$}",
                self.promise_table()
            )?;
        }
        if self.tasks.iter().any(|task| task.after.is_some()) {
            writeln!(
                f,
                "Pipelines: the first task answers within its part of the time, the others within all of it\n{:width$}",
                self.pipeline_table()
            )?;
        }
        writeln!(f, "Clients\n{:width$}", self.client_table())?;
        writeln!(f, "Memory\n{:width$}", memory_table("memory", &self.memory))?;
        if let Some(memory) = self.gpu.as_ref().and_then(|gpu| gpu.memory.as_ref()) {
            writeln!(
                f,
                "The GPU's memory\n{:width$}",
                memory_table("GPU memory", memory)
            )?;
        }
        for warning in self.told_warnings(|_| true) {
            writeln!(f, "warning: {warning}")?;
        }
        for key in &self.renamed_keys {
            writeln!(f, "warning: {key}")?;
        }
        Ok(())
    }
}

impl Plan {
    /// Those of its warnings in words: of one kind the first few, and how many more there are.
    #[must_use]
    pub fn told_warnings(&self, tells: impl Fn(&Warning) -> bool) -> Vec<String> {
        let mut told = Vec::new();
        let mut kinds: Vec<(std::mem::Discriminant<Warning>, usize)> = Vec::new();
        for warning in self.warnings.iter().filter(|warning| tells(warning)) {
            let kind = std::mem::discriminant(warning);
            let known = kinds.iter().position(|(known, _)| *known == kind);
            let at = known.unwrap_or_else(|| {
                kinds.push((kind, 0));
                kinds.len() - 1
            });
            kinds[at].1 += 1;
            if kinds[at].1 <= ALIKE_MAX {
                told.push(warning.to_string());
            }
        }
        let more = kinds
            .into_iter()
            .map(|(_, count)| count.saturating_sub(ALIKE_MAX));
        let more = more.filter(|more| *more > 0);
        told.extend(more.map(|more| {
            format!("{more} more like one of these; `punctual check MANIFEST --json` has all")
        }));
        told
    }

    fn default_table(&self) -> Table {
        let mut table = Table::of([Column::words("key"), Column::words("value")]).inset();
        for defaulted in &self.defaults {
            table.row([defaulted.key.clone(), defaulted.value.clone()]);
        }
        table.at_most(ROWS_MAX)
    }

    fn thread_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("thread"),
            Column::number("core"),
            Column::number("priority"),
            Column::words("for"),
        ])
        .inset();
        for thread in &self.threads {
            let priority = match (thread.priority, thread.reservation) {
                (None, _) => "ordinary".to_owned(),
                (Some(level), None) => level.to_string(),
                (
                    Some(level),
                    Some(Reservation {
                        runtime_ns,
                        period_ns,
                    }),
                ) => {
                    let percent = 100.0 * runtime_ns as f64 / period_ns as f64;
                    format!("{percent:.1}% reserved, or {level}")
                }
            };
            let (kind, purpose) = self.describe(thread);
            table.row([kind.to_owned(), thread.core.to_string(), priority, purpose]);
        }
        table
    }

    fn describe_client(&self, client: u16) -> String {
        let task = self.client_slots[usize::from(client)].task;
        format!("client {client} ({})", self.task(task).name)
    }

    fn describe(&self, thread: &ThreadPlan) -> (&'static str, String) {
        match thread.role {
            Role::Scheduler => ("scheduler", "all decisions".to_owned()),
            Role::StallProbe => ("stall probe", "stalls of this core".to_owned()),
            Role::Port { client } => ("port", self.describe_client(client)),
            Role::Intake { client } => ("intake", self.describe_client(client)),
            Role::Worker { partition, unit } => {
                let partition = &self.partitions[partition.index()];
                let PartitionPlan { name, tpcs, .. } = partition;
                let kind = if partition.is_place() {
                    "place"
                } else {
                    "partition"
                };
                let purpose = match tpcs.len() {
                    0 => format!("{kind} {name}, unit {unit}"),
                    _ if partition.fills() => format!("{kind} {name}, fills"),
                    tpcs => format!("{kind} {name}, leads {tpcs} TPCs"),
                };
                ("worker", purpose)
            }
        }
    }

    /// Pages by model.
    fn paging_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("model"),
            Column::words("weights"),
            Column::number("pages"),
            Column::number("load budget"),
        ])
        .inset();
        for (model, config) in self.models.iter().zip(&self.scheduler.models) {
            let name = model.name.clone();
            table.row(match &config.weights {
                Some(Weights { pages, load }) => {
                    [name, "paged".into(), pages.to_string(), load.to_string()]
                }
                None => [name, "resident".into(), "-".into(), "-".into()],
            });
        }
        table.at_most(ROWS_MAX)
    }

    pub(super) fn core_table(&self, loads: &[CoreLoad]) -> Table {
        let mut table = Table::of([
            Column::number("core"),
            Column::number("promised load"),
            Column::words("runs"),
        ])
        .inset();
        for CoreLoad { core, load } in loads {
            let here = self.threads.iter().filter(|thread| thread.core == *core);
            let mut runs: Vec<&str> = here.map(|thread| self.describe(thread).0).collect();
            runs.dedup();
            table.row([core.to_string(), percent(*load), runs.join(", ")]);
        }
        table
    }

    fn partition_table(&self) -> Table {
        let mut columns = vec![
            Column::words("partition"),
            Column::words("cores"),
            Column::number("utilisation"),
            Column::number("preemption"),
            Column::number("checkpoints"),
        ];
        let by_stage = self.schedulability.iter().any(|r| r.preempted.is_some());
        if by_stage {
            columns.push(Column::words("longest to stop"));
        }
        let mut table = Table::of(columns).inset();
        for report in &self.schedulability {
            let partition = &self.partitions[report.partition.index()];
            let preempted = report.preempted.as_ref().map(ToString::to_string);
            let row = [
                partition.name.clone(),
                units(partition),
                percent(report.utilisation),
                or_dash(report.preemption),
                report.tested.to_string(),
            ];
            let last = by_stage.then(|| preempted.unwrap_or_default());
            table.row(row.into_iter().chain(last));
        }
        table
    }

    fn about_places(&self) -> &'static str {
        if self.places.iter().all(|place| place.partition.is_none()) {
            return "Places: none pays, and none is in the plan";
        }
        "Places: stages also run there while their units are idle, if that pays: if their time beside busy \
         neighbours,\nin their time alone (co-run), is at most the break-even. Budgets of partitions that lend are \
         the longer of\nthose alone and those beside busy neighbours"
    }

    fn place_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("place"),
            Column::words("units"),
            Column::words("model"),
            Column::number("co-run"),
            Column::number("break-even"),
            Column::words("pays"),
        ])
        .inset();
        for place in &self.places {
            let units = shown(place.device, &place.units);
            if place.models.is_empty() {
                let [none, no] = ["-", "no"].map(str::to_owned);
                let name = place.name.clone();
                table.row([name, units, none.clone(), none.clone(), none, no]);
                continue;
            }
            for (position, of_model) in place.models.iter().enumerate() {
                let first = |text: &str| {
                    if position == 0 {
                        text.to_owned()
                    } else {
                        String::new()
                    }
                };
                let ratio = |ratio: Option<f64>| {
                    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
                };
                table.row([
                    first(&place.name),
                    first(&units),
                    self.models[of_model.model.index()].name.clone(),
                    ratio(of_model.co_run),
                    ratio(of_model.break_even),
                    if of_model.pays { "yes" } else { "no" }.to_owned(),
                ]);
            }
        }
        table
    }

    fn model_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("model"),
            Column::words("input"),
            Column::number("exits"),
            Column::number("classes"),
            Column::words("batches"),
            Column::words("package"),
        ])
        .inset();
        for model in &self.models {
            let batches: Vec<String> = model.batches.iter().map(ToString::to_string).collect();
            table.row([
                model.name.clone(),
                model.input.to_string(),
                model.stages.to_string(),
                model.classes.len().to_string(),
                batches.join(" "),
                format!(
                    "{} ({})",
                    model.package.display(),
                    model.hash.get(..8).unwrap_or(&model.hash)
                ),
            ]);
        }
        table.at_most(ROWS_MAX)
    }

    fn write_other_weights(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models = self.models.iter();
        let others = models.filter_map(|model| Some((model, model.measured_with.as_ref()?)));
        let more = others.clone().count().saturating_sub(ALIKE_MAX);
        for (model, measured) in others.take(ALIKE_MAX) {
            writeln!(
                f,
                "Model {} was measured, and verified if it was, with other weights, of package {}: they change no time.",
                model.name,
                measured.get(..8).unwrap_or(measured)
            )?;
        }
        if more > 0 {
            writeln!(f, "So were {more} others.")?;
        }
        Ok(())
    }

    /// What of the models' answers was compared, if any of it was.
    fn write_verified(&self, f: &mut fmt::Formatter<'_>, width: usize) -> fmt::Result {
        if self.models.iter().all(|model| model.verified.is_none()) {
            return Ok(());
        }
        writeln!(
            f,
            "Verified on this machine against the reference interpreter; the worst error as a share of its tolerance\n{:width$}",
            self.verified_table()
        )
    }

    fn verified_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("model"),
            Column::number("inputs"),
            Column::words("batches"),
            Column::words("units"),
            Column::number("solutions"),
            Column::number("values"),
            Column::number("undecided"),
            Column::number("worst error"),
            Column::words("memory"),
        ])
        .inset();
        let list = |sizes: &[u8]| -> String {
            let sizes: Vec<String> = sizes.iter().map(u8::to_string).collect();
            sizes.join(" ")
        };
        for model in &self.models {
            let Some(verified) = &model.verified else {
                continue;
            };
            let memory = if verified.poisoned {
                "overwritten before each stage"
            } else {
                "the library's own"
            };
            table.row([
                model.name.clone(),
                verified.inputs.to_string(),
                list(&verified.batches),
                list(&verified.units),
                verified.solutions.to_string(),
                verified.values.to_string(),
                verified.undecided.to_string(),
                percent(f64::from(verified.worst_permille) / 1_000.0),
                memory.to_owned(),
            ]);
        }
        table.at_most(ROWS_MAX)
    }

    fn task_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("task"),
            Column::words("criticality"),
            Column::words("model"),
            Column::words("partition"),
            Column::number("rate"),
            Column::number("deadline"),
            Column::words("exits"),
            Column::number("threshold"),
            Column::number("batch"),
            Column::number("queue"),
            Column::number("clients"),
            Column::words("frame"),
            Column::words("crop"),
        ])
        .inset();
        for task in &self.tasks {
            table.row(self.task_row(task));
        }
        table.at_most(ROWS_MAX)
    }

    /// How tasks follow each other, and when each part of a frame is due.
    fn pipeline_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("task"),
            Column::words("after"),
            Column::number("crops"),
            Column::number("score"),
            Column::words("of"),
            Column::number("begins by"),
            Column::number("due"),
        ])
        .inset();
        for (task, settings) in self.tasks.iter().zip(&self.scheduler.tasks) {
            let Some(after) = &task.after else {
                continue;
            };
            let first = self.task(after.first);
            let classes = &self.models[first.model.index()].classes;
            let named = after.crops.classes.iter().map(|class| {
                let name = classes.get(usize::from(*class));
                name.map_or_else(|| class.to_string(), |name| printable(name))
            });
            let named: Vec<String> = named.collect();
            table.row([
                task.name.clone(),
                first.name.clone(),
                format!("at most {}", after.crops.at_most),
                format!("{:.2}", after.crops.score),
                if named.is_empty() {
                    "all classes".to_owned()
                } else {
                    named.join(", ")
                },
                or_dash(self.scheduler.tasks[after.first.index()].deadline),
                or_dash(settings.deadline),
            ]);
        }
        table.at_most(ROWS_MAX)
    }

    /// Who prepares frames, if any are not prepared by cores.
    fn preparation_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("task"),
            Column::words("prepared by"),
            Column::number("budget"),
        ])
        .inset();
        for task in &self.tasks {
            let by = match task.arrival.prepared_by {
                PreparedBy::Cores => "cores".to_owned(),
                PreparedBy::Gpu => {
                    format!("TPCs of {}", self.partitions[task.partition.index()].name)
                }
            };
            table.row([task.name.clone(), by, task.arrival.prepare.to_string()]);
        }
        table.at_most(ROWS_MAX)
    }

    /// What each client takes for itself, whether or not it is there.
    fn client_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("task"),
            Column::number("clients"),
            Column::number("threads a client"),
            Column::number("their stacks"),
            Column::number("shared memory"),
            Column::number("crop copy"),
            Column::number("output areas"),
        ])
        .inset();
        for group in self
            .tasks
            .chunk_by(|one, other| one.clients_of == other.clients_of)
        {
            let task = &group[0];
            let items = self.memory.items.iter();
            let of = |purpose: Purpose| {
                let mut items = items.clone();
                let found =
                    items.find(|item| item.purpose == purpose && item.of == task.clients_of);
                let areas = u64::from(task.channel.areas);
                let count = if purpose == Purpose::OutputAreas {
                    areas
                } else {
                    1
                };
                found.map_or("-".to_owned(), |item| Bytes(item.bytes * count).to_string())
            };
            table.row([
                task.clients_of.clone(),
                task.client_slots.len().to_string(),
                THREADS_A_CLIENT.to_string(),
                Bytes(STACKS_A_CLIENT).to_string(),
                of(Purpose::Channels),
                of(Purpose::CropCopies),
                of(Purpose::OutputAreas),
            ]);
        }
        table
    }

    /// What frames bring in addition to their pixels, and answers in addition to their class.
    fn output_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("task"),
            Column::words("outputs"),
            Column::number("a frame"),
            Column::number("areas a client"),
            Column::words("vectors"),
        ])
        .inset();
        let dash = |words: String| {
            if words.is_empty() {
                "-".to_owned()
            } else {
                words
            }
        };
        for task in self.tasks.iter().filter(|task| task.gives_or_takes_more()) {
            let vectors = task.vectors.iter().map(|vector| {
                let (name, low, high) = (&vector.name, vector.low, vector.high);
                format!("{name} ({} in {low}..{high})", vector.length)
            });
            let areas = match task.channel.area_bytes {
                0 => 0,
                _ => task.channel.areas,
            };
            table.row([
                task.name.clone(),
                dash(task.outputs.join(" ")),
                Bytes(task.channel.area_bytes).to_string(),
                areas.to_string(),
                dash(vectors.collect::<Vec<_>>().join(" ")),
            ]);
        }
        table.at_most(ROWS_MAX)
    }

    fn task_row(&self, task: &TaskPlan) -> [String; 13] {
        let model = &self.models[task.model.index()];
        let criticality = match task.criticality {
            Criticality::RealTime => "real-time",
            Criticality::BestEffort => "best-effort",
        };
        let rate = task
            .hz()
            .map_or_else(|| "-".to_owned(), |hz| format!("{hz:.1} Hz"));
        let StageId(mandatory) = task.mandatory_exit;
        let frame = &task.frame;
        [
            task.name.clone(),
            criticality.to_owned(),
            model.name.clone(),
            self.partitions[task.partition.index()].name.clone(),
            rate,
            or_dash(task.deadline),
            format!("{mandatory}..{}", model.stages - 1),
            if model.without_confidence {
                "-".to_owned()
            } else {
                format!("{:.2}", task.threshold.as_probability())
            },
            task.batch_max.to_string(),
            task.queue_depth.to_string(),
            task.client_slots.len().to_string(),
            format!("{} {}", frame.format.name(), frame.size),
            match frame.fit {
                Fit::Stretch => frame.crop.to_string(),
                Fit::Letterbox { fill } => format!("{} letterboxed ({fill})", frame.crop),
            },
        ]
    }

    fn promise_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("task"),
            Column::number("C"),
            Column::number("D"),
            Column::number("J"),
            Column::number("T"),
            Column::number("C/T"),
            Column::number("full depth"),
            Column::number("slack"),
            Column::number("at L"),
        ])
        .inset();
        let partitions = self.schedulability.iter();
        for report in partitions.flat_map(|partition| &partition.tasks) {
            table.row([
                self.task(report.task).name.clone(),
                report.work.to_string(),
                report.deadline.to_string(),
                report.jitter.to_string(),
                report.period.to_string(),
                percent(report.utilisation),
                report.work_to_last_exit.to_string(),
                report.slack.to_string(),
                report.tightest.to_string(),
            ]);
        }
        table.at_most(ROWS_MAX)
    }
}

impl TaskPlan {
    /// Whether clients get more than a class, or give more than pixels.
    fn gives_or_takes_more(&self) -> bool {
        !self.outputs.is_empty() || !self.vectors.is_empty()
    }
}

fn memory_table(title: &str, memory: &MemoryBudget) -> Table {
    let mut table = Table::of([
        Column::words(title),
        Column::words("of"),
        Column::number("each"),
        Column::number("count"),
        Column::number("total"),
    ])
    .inset();
    for item in &memory.items {
        table.row([
            item.purpose.in_words().to_owned(),
            item.of.clone(),
            Bytes(item.bytes).to_string(),
            item.count.to_string(),
            Bytes(item.total_bytes()).to_string(),
        ]);
    }
    let mut table = table.at_most(ROWS_MAX * 2);
    table.row([
        "all".to_owned(),
        format!("at most {}", Bytes(memory.limit_bytes)),
        String::new(),
        String::new(),
        Bytes(memory.total_bytes()).to_string(),
    ]);
    table
}

/// The cores, or the leader's and the TPCs.
pub(super) fn units(partition: &PartitionPlan) -> String {
    let cores: Vec<String> = partition.cores.iter().map(ToString::to_string).collect();
    let cores = cores.join(" ");
    match partition.tpcs[..] {
        [] if partition.device == DeviceKind::Ort => format!("{cores}, ONNX Runtime"),
        [] => cores,
        _ if partition.fills() => format!("{cores}, fills"),
        [one] => format!("{cores}, TPC {one}{}", by(partition.device)),
        [first, .., last] => format!("{cores}, TPCs {first}-{last}{}", by(partition.device)),
    }
}

/// What runs the stages of TPCs, where that is not Punctual.
const fn by(device: DeviceKind) -> &'static str {
    match device {
        DeviceKind::OrtCuda => ", ONNX Runtime",
        DeviceKind::OrtTensorrt => ", TensorRT",
        DeviceKind::Cpu | DeviceKind::Cuda | DeviceKind::Ort => "",
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn or_dash(span: Option<Nanos>) -> String {
    span.map_or_else(|| "-".to_owned(), |span| span.to_string())
}
