//! `[[task]]`: what the scheduler is told of a task, and how its requests come in.

use punctual_core::{BATCH_MAX, Confidence, Delivery, ModelId, Nanos, StageId, TaskId};

use super::Files;
use super::document::Section;
use super::problem::Cause;
use super::trace;
use crate::profiles::millis;
use punctual_simulator::arrivals::{Bursts, Pattern, Shape, TraceEntry};
use punctual_simulator::scenario::{Model, Task};

const KINDS: [&str; 10] = [
    "periodic",
    "poisson",
    "gamma",
    "bursts",
    "closed-loop",
    "continuous",
    "trace",
    "dependent",
    "query",
    "minutes",
];

const RATE: std::ops::RangeInclusive<f64> = 1e-6..=1e8;

pub(super) fn read(root: &Section<'_>, models: &[Model], files: Files<'_>) -> Vec<Task> {
    let sections = root.sections("task");
    if sections.is_empty() {
        root.wrong("task", "one [[task]] at least");
    }
    let names: Vec<String> = sections
        .iter()
        .map(|section| section.text("name", None))
        .collect();
    for (index, section) in sections.iter().enumerate() {
        if names[..index].contains(&names[index]) {
            section.wrong("name", "a name that no other task has");
        }
    }
    let mut tasks: Vec<Task> = Vec::new();
    for (section, name) in sections.iter().zip(&names) {
        let pattern = match section.section("arrivals") {
            Some(arrivals) => read_pattern(arrivals, &names),
            None => {
                section.wrong("arrivals", "a table with a `kind`");
                Pattern::Continuous
            }
        };
        if let Err(error) = pattern.check() {
            section.note(Cause::Pattern(error));
        }
        let mut task = read_task(section, name, models, pattern);
        if section.has("delivery")
            && section.one_of("delivery", &["every-frame", "latest-frame"]) == 1
        {
            task.config.delivery = Delivery::LatestFrame;
        }
        if section.has("spill") {
            task.config.spill = Some(id(section.one_of("spill", &names)));
        }
        tasks.push(task);
    }
    recordings(root, &mut tasks, files);
    sections.into_iter().for_each(Section::end);
    tasks
}

fn read_task(section: &Section<'_>, name: &str, models: &[Model], pattern: Pattern) -> Task {
    let model_names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let model = section.one_of("model", &model_names);
    let exits = models
        .get(model)
        .map_or(1, |model| model.stages.len().max(1));
    let best_effort = section.has("criticality")
        && section.one_of("criticality", &["real-time", "best-effort"]) == 1;
    let deadline = |default| millis(section.number("deadline_ms", 0.001..=3.6e6, default));
    let micros = |key| Nanos::new((section.number(key, 0.0..=3.6e9, Some(0.0)) * 1e3) as u64);
    let share = |key, default| {
        let share = section.number(key, 0.0..=1.0, Some(default));
        Confidence((share * f64::from(u16::MAX)) as u16)
    };
    let model = ModelId(model as u16);
    let periodic = matches!(pattern, Pattern::Periodic { .. });
    let rate_hz = pattern.rate_hz();
    let mut task = if best_effort {
        let mut task = Task::best_effort(name, model, pattern);
        task.config.deadline = section.has("deadline_ms").then(|| deadline(None));
        task
    } else {
        let task = Task::real_time(name, model, deadline(None), pattern);
        // Rounded down: no two requests come closer.
        let period = task.config.period.as_nanos() as f64 / 1e6;
        let period = millis(section.number("period_ms", 1e-3..=3.6e6, Some(period.max(1e-3))));
        if section.flag("reserved", periodic && rate_hz.is_some()) {
            task.reserved(period)
        } else {
            task
        }
    };
    let config = &mut task.config;
    config.mandatory_exit =
        StageId(section.whole("mandatory_exit", 0..=exits as u32 - 1, Some(0)) as u8);
    config.threshold = share("threshold", 0.95);
    config.threshold_min = share("threshold_min", 0.0);
    config.batch_max =
        section.whole("batch_max", 1..=BATCH_MAX as u32, Some(BATCH_MAX as u32)) as u8;
    config.queue_max = section.whole("queue", 1..=65_535, Some(64)) as u16;
    config.weight = section.whole("weight", 1..=65_535, Some(1)) as u16;
    config.eager = section.flag("eager", false);
    config.prepare = micros("prepare_us");
    config.jitter = micros("jitter_us");
    task.clients = section.whole("clients", 1..=65_535, Some(1)) as u16;
    task
}

fn read_pattern(section: Section<'_>, tasks: &[String]) -> Pattern {
    let pattern = arrivals(&section, tasks);
    let pattern = if section.has("collect_ms") {
        Pattern::Collected {
            window: millis(section.number("collect_ms", 0.001..=3.6e6, None)),
            deadlines: Vec::new(),
            of: Box::new(pattern),
        }
    } else {
        pattern
    };
    section.end();
    pattern
}

fn arrivals(section: &Section<'_>, tasks: &[String]) -> Pattern {
    let rate = || section.number("rate_hz", RATE, None);
    let time = |key, default| millis(section.number(key, 0.0..=3.6e6, Some(default)));
    match KINDS[section.one_of("kind", &KINDS)] {
        "periodic" => Pattern::Periodic {
            rate_hz: rate(),
            phase: time("phase_ms", 0.0),
            jitter: time("jitter_ms", 0.0),
        },
        "poisson" => Pattern::Poisson { rate_hz: rate() },
        "gamma" => Pattern::Gamma {
            rate_hz: rate(),
            shape: section.number("shape", 0.01..=1e3, None),
        },
        "bursts" => Pattern::Bursts(Bursts {
            groups_hz: section.number("groups_hz", RATE, None),
            median: section.number("median", 1.0..=65_535.0, None),
            sigma: section.number("sigma", 0.0..=5.0, Some(0.8)),
            most: section.whole("most", 1..=65_535, Some(32)) as u16,
            deadlines: Vec::new(),
        }),
        "closed-loop" => Pattern::ClosedLoop {
            outstanding: section.whole("outstanding", 1..=65_535, Some(1)) as u16,
            think: time("think_ms", 0.0),
            retry: time("retry_ms", 1.0),
        },
        "trace" => Pattern::Trace {
            entries: Vec::new(),
            span: section.has("repeat_ms").then(|| time("repeat_ms", 0.0)),
        },
        "dependent" => Pattern::Dependent {
            after: section
                .some_of("after", tasks)
                .into_iter()
                .map(id)
                .collect(),
        },
        "query" => Pattern::Query {
            after: id(section.one_of("after", tasks)),
            fan_out: section.number("fan_out", 0.0..=1e3, Some(1.0)),
        },
        "minutes" => Pattern::Minutes {
            rate_hz: rate(),
            shape: shape(section),
        },
        _ => Pattern::Continuous,
    }
}

const fn id(index: usize) -> TaskId {
    TaskId(index as u16)
}

fn shape(section: &Section<'_>) -> Shape {
    match section.one_of("shape", &["sustained", "cold", "bursty", "spikes"]) {
        0 => Shape::Sustained,
        1 => Shape::Cold,
        2 => Shape::Bursty,
        _ => Shape::Spikes {
            every: section.whole("every_minutes", 1..=1_440, None) as u16,
        },
    }
}

/// The file `trace`, whose lines go to the tasks that play a recording.
fn recordings(root: &Section<'_>, tasks: &mut [Task], files: Files<'_>) {
    fn recording(task: &mut Task) -> Option<&mut Vec<TraceEntry>> {
        let pattern = match &mut task.pattern {
            Pattern::Collected { of, .. } => of,
            pattern => pattern,
        };
        match pattern {
            Pattern::Trace { entries, .. } => Some(entries),
            _ => None,
        }
    }
    let playing: Vec<usize> = (0..tasks.len())
        .filter(|task| recording(&mut tasks[*task]).is_some())
        .collect();
    let names: Vec<String> = playing
        .iter()
        .map(|task| tasks[*task].name.clone())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if playing.is_empty() && !root.has("trace") {
        return;
    }
    let file = root.text("trace", None);
    let text = match files(&file) {
        Ok(text) => text,
        Err(error) => return root.note(Cause::Unreadable { file, error }),
    };
    match trace::parse(&file, &text, &names) {
        Err(error) => root.note(Cause::Trace(error)),
        Ok(entries) => {
            for (task, of_task) in playing.into_iter().zip(entries) {
                if let Some(entries) = recording(&mut tasks[task]) {
                    *entries = of_task;
                }
                if let Err(error) = tasks[task].pattern.check() {
                    root.note(Cause::Pattern(error));
                }
            }
        }
    }
}

/// The first client of each task.
pub(super) fn first_clients(tasks: &[Task]) -> Vec<u16> {
    let mut first = 0u16;
    let clients = tasks.iter().map(|task| {
        let own = first;
        first = first.saturating_add(task.clients);
        own
    });
    clients.collect()
}
