//! `[[task]]`: what the scheduler is told of a task, and how its requests come in.

use punctual_core::{
    Answers, BATCH_MAX, Confidence, Criticality, Delivery, ModelId, Nanos, StageId, TaskId,
};
use punctual_diagnostics::{Problems, RenamedKey, Rule, Section, Spanned, unique};
use punctual_simulator::arrivals::{Bursts, Parts, Pattern, PatternError, Shape, TraceEntry};
use punctual_simulator::scenario::{Model, Task};
use thiserror::Error;

use super::files::{self, Files};
use super::{names, trace};
use crate::profiles::millis;

/// Numbers of a pattern of arrivals that do not go together.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(transparent)]
pub struct PatternRefused(pub PatternError);

impl Rule for PatternRefused {
    fn rule(&self) -> &'static str {
        "a pattern of arrivals can be played"
    }

    fn help(&self) -> String {
        "correct the numbers of `arrivals`".into()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Periodic,
    Poisson,
    Gamma,
    Bursts,
    ClosedLoop,
    Continuous,
    Trace,
    Dependent,
    Query,
    Parts,
    Minutes,
}

const KINDS: [(&str, Kind); 11] = [
    ("periodic", Kind::Periodic),
    ("poisson", Kind::Poisson),
    ("gamma", Kind::Gamma),
    ("bursts", Kind::Bursts),
    ("closed-loop", Kind::ClosedLoop),
    ("continuous", Kind::Continuous),
    ("trace", Kind::Trace),
    ("dependent", Kind::Dependent),
    ("query", Kind::Query),
    ("parts", Kind::Parts),
    ("minutes", Kind::Minutes),
];

const DELIVERIES: [(&str, Delivery); 2] = [
    ("every-frame", Delivery::EveryFrame),
    ("latest-frame", Delivery::LatestFrame),
];

const ANSWERS: [(&str, Answers); 3] = [
    ("final", Answers::Final),
    ("early", Answers::Early),
    ("each-exit", Answers::EachExit),
];

const RATE: std::ops::RangeInclusive<f64> = 1e-6..=1e8;

/// Keys of `[[task]]` that had other names.
const RENAMED: [RenamedKey; 2] = [
    RenamedKey::new("queue", "queue_depth"),
    RenamedKey::new("spill", "offload_to"),
];

pub(super) fn read(
    root: &mut Section<'_, '_>,
    models: &[Model],
    files: Files<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Task> {
    // Tasks refer to each other, also to later ones: all names come first.
    let all = 1..=usize::MAX;
    let sections = root.list("task", all, problems, |mut section, problems| {
        let name = section.required::<String>("name", problems)?;
        Some((name, section.with_renamed(&RENAMED)))
    });
    let (spanned, sections): (Vec<Spanned<String>>, Vec<Section<'_, '_>>) =
        sections.into_iter().unzip();
    unique("task", spanned.iter(), problems);
    let names: Vec<String> = spanned.into_iter().map(|name| name.value).collect();
    let mut tasks = Vec::new();
    for (mut section, name) in sections.into_iter().zip(&names) {
        section.missing("arrivals", "a table with a `kind`", problems);
        let arrivals = section.table("arrivals", problems);
        let pattern = arrivals.and_then(|arrivals| read_pattern(arrivals, &names, problems));
        let pattern = pattern.unwrap_or(Pattern::Continuous);
        if let Err(error) = pattern.check() {
            problems.add(&section.place_of("arrivals"), PatternRefused(error));
        }
        let mut task = read_task(&mut section, name, models, pattern, problems);
        let delivery = section.optional_word("delivery", &DELIVERIES, problems);
        task.config.delivery = delivery.unwrap_or(task.config.delivery);
        if section.has("offload_to") {
            let taker = names::index(&mut section, "offload_to", "task", &names, problems);
            task.config.offload_to = Some(id(taker));
        }
        section.finish(problems);
        tasks.push(task);
    }
    recordings(root, &mut tasks, files, problems);
    tasks
}

fn read_task(
    s: &mut Section<'_, '_>,
    name: &str,
    models: &[Model],
    pattern: Pattern,
    problems: &mut Problems<'_>,
) -> Task {
    let known: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
    let model = names::index(s, "model", "model", &known, problems);
    let exits = models
        .get(model)
        .map_or(1, |model| model.stages.len().max(1));
    let words = [("real-time", false), ("best-effort", true)];
    let best_effort = s.optional_word("criticality", &words, problems);
    let model = ModelId(model as u16);
    let mut task = if best_effort.unwrap_or(false) {
        let mut task = Task::best_effort(name, model, pattern);
        let deadline = s.has("deadline_ms").then(|| deadline(s, problems));
        task.config.deadline = deadline;
        task
    } else {
        real_time(s, name, model, pattern, problems)
    };
    let threshold = s.number("threshold", 0.95, 0.0..=1.0, "", problems);
    let least = match task.config.criticality {
        Criticality::RealTime => threshold,
        Criticality::BestEffort => 0.0,
    };
    let threshold_min = s.number("threshold_min", least, 0.0..=1.0, "", problems);
    let confidence = |share: f64| Confidence((share * f64::from(u16::MAX)) as u16);
    let config = &mut task.config;
    config.threshold = confidence(threshold);
    config.threshold_min = confidence(threshold_min);
    let mut whole = |key, default, least, most| s.whole(key, default, least..=most, problems).value;
    config.mandatory_exit = StageId(whole("mandatory_exit", 0, 0, exits as u64 - 1) as u8);
    let batch = BATCH_MAX as u64;
    config.batch_max = whole("batch_max", batch, 1, batch) as u8;
    config.queue_max = whole("queue_depth", 64, 1, 65_535) as u16;
    config.weight = whole("weight", 1, 1, 65_535) as u16;
    task.clients = whole("clients", 1, 1, 65_535) as u16;
    config.answers = s
        .optional_word("answers", &ANSWERS, problems)
        .unwrap_or_default();
    let mut micros = |key| {
        let us = s.number(key, 0.0, 0.0..=3.6e9, " us", problems);
        Nanos::new((us * 1e3) as u64)
    };
    config.prepare = micros("prepare_us");
    config.jitter = micros("jitter_us");
    task
}

/// A real-time task; a periodic one is promised its rate unless the file says otherwise.
fn real_time(
    s: &mut Section<'_, '_>,
    name: &str,
    model: ModelId,
    pattern: Pattern,
    problems: &mut Problems<'_>,
) -> Task {
    let periodic = matches!(pattern, Pattern::Periodic { .. }) && pattern.rate_hz().is_some();
    let is_follower = matches!(pattern, Pattern::Parts(_));
    let task = Task::real_time(name, model, deadline(s, problems), pattern);
    // Rounded down: no two requests come closer.
    let period = task.config.period.as_nanos() as f64 / 1e6;
    let period = s.number("period_ms", period.max(1e-3), 1e-3..=3.6e6, " ms", problems);
    if s.or("reserved", periodic || is_follower, problems).value {
        task.reserved(millis(period))
    } else {
        task
    }
}

fn deadline(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Nanos {
    millis(section.required_number("deadline_ms", 0.001..=3.6e6, " ms", problems))
}

/// None if there is no such kind: then the other keys cannot be judged.
fn read_pattern(
    mut section: Section<'_, '_>,
    tasks: &[String],
    problems: &mut Problems<'_>,
) -> Option<Pattern> {
    let kind = section.word("kind", &KINDS, problems)?;
    let mut pattern = arrivals(kind, &mut section, tasks, problems);
    if section.has("collect_ms") {
        let window = section.required_number("collect_ms", 0.001..=3.6e6, " ms", problems);
        pattern = Pattern::Collected {
            window: millis(window),
            deadlines: Vec::new(),
            of: Box::new(pattern),
        };
    }
    section.finish(problems);
    Some(pattern)
}

fn arrivals(
    kind: Kind,
    s: &mut Section<'_, '_>,
    tasks: &[String],
    problems: &mut Problems<'_>,
) -> Pattern {
    match kind {
        Kind::Periodic => Pattern::Periodic {
            rate_hz: rate(s, "rate_hz", problems),
            phase: time(s, "phase_ms", 0.0, problems),
            jitter: time(s, "jitter_ms", 0.0, problems),
        },
        Kind::Poisson => Pattern::Poisson {
            rate_hz: rate(s, "rate_hz", problems),
        },
        Kind::Gamma => Pattern::Gamma {
            rate_hz: rate(s, "rate_hz", problems),
            shape: s.required_number("shape", 0.01..=1e3, "", problems),
        },
        Kind::Bursts => Pattern::Bursts(Bursts {
            groups_hz: rate(s, "groups_hz", problems),
            median: s.required_number("median", 1.0..=65_535.0, "", problems),
            sigma: s.number("sigma", 0.8, 0.0..=5.0, "", problems),
            most: s.whole("most", 32, 1..=65_535, problems).value as u16,
            deadlines: Vec::new(),
        }),
        Kind::ClosedLoop => Pattern::ClosedLoop {
            outstanding: s.whole("outstanding", 1, 1..=65_535, problems).value as u16,
            think: time(s, "think_ms", 0.0, problems),
            retry: time(s, "retry_ms", 1.0, problems),
        },
        Kind::Continuous => Pattern::Continuous,
        Kind::Trace => Pattern::Trace {
            entries: Vec::new(),
            span: s
                .has("repeat_ms")
                .then(|| time(s, "repeat_ms", 0.0, problems)),
        },
        Kind::Dependent => {
            let after = names::indices(s, "after", "task", tasks, problems);
            Pattern::Dependent {
                after: after.into_iter().map(id).collect(),
            }
        }
        Kind::Query => Pattern::Query {
            after: id(names::index(s, "after", "task", tasks, problems)),
            fan_out: s.number("fan_out", 1.0, 0.0..=1e3, "", problems),
        },
        Kind::Parts => Pattern::Parts(parts(s, tasks, problems)),
        Kind::Minutes => Pattern::Minutes {
            rate_hz: rate(s, "rate_hz", problems),
            shape: shape(s, problems),
        },
    }
}

fn parts(s: &mut Section<'_, '_>, tasks: &[String], problems: &mut Problems<'_>) -> Parts {
    let of = id(names::index(s, "after", "task", tasks, problems));
    let at_most = s.required_whole("at_most", 1..=BATCH_MAX as u64, problems) as u8;
    let most = f64::from(at_most);
    let fan_out = s.has("fan_out");
    let fan_out = fan_out.then(|| s.number("fan_out", most, 0.0..=most, "", problems));
    let hand_over = time(s, "hand_over_ms", 0.0, problems);
    Parts {
        of,
        at_most,
        fan_out,
        hand_over,
        by_client: false,
    }
}

fn rate(section: &mut Section<'_, '_>, key: &'static str, problems: &mut Problems<'_>) -> f64 {
    section.required_number(key, RATE, " Hz", problems)
}

fn time(
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: f64,
    problems: &mut Problems<'_>,
) -> Nanos {
    millis(section.number(key, default, 0.0..=3.6e6, " ms", problems))
}

const fn id(index: usize) -> TaskId {
    TaskId(index as u16)
}

fn shape(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Shape {
    let words = [
        ("sustained", Some(Shape::Sustained)),
        ("cold", Some(Shape::Cold)),
        ("bursty", Some(Shape::Bursty)),
        ("spikes", None),
    ];
    match section.word("shape", &words, problems) {
        Some(Some(shape)) => shape,
        Some(None) => Shape::Spikes {
            every: section.required_whole("every_minutes", 1..=1_440, problems) as u16,
        },
        None => Shape::Sustained,
    }
}

/// The file `trace`, whose lines go to the tasks that play a recording.
fn recordings(
    root: &mut Section<'_, '_>,
    tasks: &mut [Task],
    files: Files<'_>,
    problems: &mut Problems<'_>,
) {
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
    let names = playing.iter().map(|task| tasks[*task].name.clone());
    let names: Vec<String> = names.collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if playing.is_empty() && !root.has("trace") {
        return;
    }
    let Some(Spanned { value: file, place }) = root.required::<String>("trace", problems) else {
        return;
    };
    let parse = |text: &str| trace::parse(text, &names);
    let Some(entries) = files::load(&file, &place, files, problems, parse) else {
        return;
    };
    for (task, of_task) in playing.into_iter().zip(entries) {
        if let Some(entries) = recording(&mut tasks[task]) {
            *entries = of_task;
        }
        if let Err(error) = tasks[task].pattern.check() {
            problems.add(&place, PatternRefused(error));
        }
    }
}

pub(super) fn first_clients(tasks: &[Task]) -> Vec<u16> {
    let mut first = 0u16;
    let clients = tasks.iter().map(|task| {
        let own = first;
        first = first.saturating_add(task.clients);
        own
    });
    clients.collect()
}
