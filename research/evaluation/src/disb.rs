//! Reads the workload files of DISB, the benchmark of REEF, as its authors publish them.
//!
//! | in the file | here |
//! | --- | --- |
//! | `time` | seconds that requests come |
//! | `client.model_name` | one of the five networks of REEF, Table 1 ([`profiles::reef`](crate::profiles::reef)) |
//! | `id` that ends in `_be`; any other | best-effort; real-time |
//! | load `continuous` | one request open at all times |
//! | load `periodic`: `frequency`, `priority` | as many a second. Those of one frequency and priority 0 start one after the other, each when the one before would be done alone, as DISB's launcher does |
//! | load `poisson`: `frequency` | Poisson |
//! | load `trace`: `trace` | these times in milliseconds; they repeat when a load factor plays them faster |
//! | load `dependent`: `prev_task_ids` | asks when all of these tasks have answered their n-th request |
//!
//! DISB knows no deadlines. A periodic task is given its period, and a reservation if all of them
//! can be kept; every other real-time task 100 ms.
//!
//! Not reproduced: DISB's launcher skips a request when the one before is not answered yet, and counts
//! latency from when it was sent. Here requests come when they are due, and latency counts from then.

use punctual_core::{ModelId, Nanos, StageId, TaskId};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::profiles::reef::{COMPUTE_UNITS, NETWORKS, Network};
use punctual_simulator::arrivals::{Pattern, TraceEntry};
use punctual_simulator::scenario::{Board, Model, Scenario, Task};

/// Deadline of a real-time task without a period.
const DEADLINE: Nanos = Nanos::from_millis(100);

/// How much an action stretches each other one that runs at the same time: with two at a time REEF
/// measures 1.84 times the latency of VGG alone, with six 2.65 to 3.31 times (section 7.2).
const CONTENTION_PERMILLE: u64 = 500;

/// Bound on stopping best-effort work: REEF's, rounded up (section 7.3).
const PREEMPTION_BOUND: Nanos = Nanos::from_micros(40);

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum DisbError {
    #[error("{file} is not JSON: {error}")]
    Json {
        file: String,
        error: serde_json::Error,
    },
    /// A key that DISB does not have.
    #[error("{file}: `{key}` is no key of DISB; known here: {known}")]
    UnknownKey {
        file: String,
        key: String,
        known: String,
    },
    /// A key that must be there.
    #[error("{file}: `{key}` is missing")]
    Missing { file: String, key: String },
    /// A value that cannot be used.
    #[error("{file}: `{key}` is {found}; it must be {rule}")]
    Value {
        file: String,
        key: String,
        found: String,
        rule: String,
    },
}

/// The scenario that a file describes. `file` names it in errors.
pub fn parse(file: &str, json: &str) -> Result<Scenario, DisbError> {
    let root: Value = serde_json::from_str(json).map_err(|error| DisbError::Json {
        file: file.into(),
        error,
    })?;
    let root = Entry {
        file,
        key: String::new(),
        value: &root,
    };
    root.known(&["time", "tasks"])?;
    let time = root.get("time")?;
    let seconds = time.number("1 to 1,000,000 seconds", 1.0..=1e6)?;
    let length = Nanos::new((seconds * 1e9) as u64);
    let entries = root.get("tasks")?.list()?;
    if entries.is_empty() || entries.len() > usize::from(u16::MAX) {
        return Err(root.get("tasks")?.wrong("1 to 65,535 tasks"));
    }
    let tasks = entries
        .iter()
        .map(Raw::read)
        .collect::<Result<Vec<_>, _>>()?;
    let ids: Vec<&str> = tasks.iter().map(|task| task.id).collect();
    let mut models: Vec<Model> = Vec::new();
    let mut planned = Vec::new();
    let mut delays: Vec<(f64, f64)> = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        if ids[..index].contains(&task.id) {
            return Err(entries[index]
                .get("id")?
                .wrong("an id that no other task has"));
        }
        let known = models
            .iter()
            .position(|model| model.name == task.network.model_name);
        let model = known.unwrap_or_else(|| {
            models.push(task.network.model());
            models.len() - 1
        });
        let pattern = task.pattern(length, &ids, &mut delays)?;
        planned.push(task.planned(ModelId(model as u16), pattern));
    }
    let board = Board {
        preemption_bound: PREEMPTION_BOUND,
        contention_permille: CONTENTION_PERMILLE,
        ..Board::of(COMPUTE_UNITS)
    };
    Ok(Scenario::new(models, planned, board, length).reserved_if_possible())
}

struct Raw<'v> {
    id: &'v str,
    network: Network,
    load: Entry<'v>,
}

impl<'v> Raw<'v> {
    fn read(task: &Entry<'v>) -> Result<Self, DisbError> {
        task.known(&["id", "load", "client"])?;
        let client = task.get("client")?;
        client.known(&[
            "name",
            "model_name",
            "batch_size",
            "tfs_grpc_addr",
            "triton_grpc_addr",
        ])?;
        if client.has("batch_size") {
            client
                .get("batch_size")?
                .number("1: a request is one image", 1.0..=1.0)?;
        }
        let model_name = client.get("model_name")?;
        let network = Network::by_name(model_name.text()?).ok_or_else(|| {
            let names = NETWORKS.map(|network| network.model_name);
            model_name.wrong(&format!("one of {}", names.join(", ")))
        })?;
        let load = task.get("load")?;
        load.known(&["type", "priority", "frequency", "trace", "prev_task_ids"])?;
        Ok(Self {
            id: task.get("id")?.text()?,
            network,
            load,
        })
    }

    /// `delays`: for each frequency with coordinated launches, when the next one starts (ms).
    fn pattern(
        &self,
        length: Nanos,
        ids: &[&str],
        delays: &mut Vec<(f64, f64)>,
    ) -> Result<Pattern, DisbError> {
        let kind = self.load.get("type")?;
        match kind.text()? {
            "continuous" => Ok(Pattern::Continuous),
            "poisson" => Ok(Pattern::Poisson {
                rate_hz: self.frequency()?,
            }),
            "periodic" => {
                let rate_hz = self.frequency()?;
                let coordinated = if self.load.has("priority") {
                    self.load.get("priority")?.number("a number", -1e9..=1e9)? <= 0.0
                } else {
                    true
                };
                let mut phase_ms = 0.0;
                if coordinated {
                    let known = delays.iter_mut().find(|(rate, _)| *rate == rate_hz);
                    match known {
                        Some((_, next)) => {
                            phase_ms = *next;
                            *next += self.network.time_ms;
                        }
                        None => delays.push((rate_hz, self.network.time_ms)),
                    }
                }
                Ok(Pattern::Periodic {
                    rate_hz,
                    phase: Nanos::new((phase_ms * 1e6) as u64),
                    jitter: Nanos::ZERO,
                })
            }
            "trace" => self.trace(length),
            "dependent" => self.dependent(ids),
            _ => Err(kind.wrong("continuous, periodic, poisson, trace or dependent")),
        }
    }

    fn frequency(&self) -> Result<f64, DisbError> {
        let frequency = self.load.get("frequency")?;
        frequency.number("0.000001 to 1,000,000 a second", 1e-6..=1e6)
    }

    /// The launcher sorts the times, so they need not be in order.
    fn trace(&self, length: Nanos) -> Result<Pattern, DisbError> {
        let mut times = Vec::new();
        for time in self.load.get("trace")?.list()? {
            let ms = time.number("0 to 1,000,000,000 ms", 0.0..=1e9)?;
            times.push(Nanos::new((ms * 1e6) as u64));
        }
        times.sort_unstable();
        let last = times.last().copied().unwrap_or(Nanos::ZERO);
        let entry = |at| TraceEntry { at, deadline: None };
        Ok(Pattern::Trace {
            entries: times.into_iter().map(entry).collect(),
            span: Some(length.max(last + Nanos::from_millis(1))),
        })
    }

    fn dependent(&self, ids: &[&str]) -> Result<Pattern, DisbError> {
        let previous = self.load.get("prev_task_ids")?;
        let mut after = Vec::new();
        for id in previous.list()? {
            let name = id.text()?;
            let found = ids
                .iter()
                .position(|known| *known == name && name != self.id);
            let task = found.ok_or_else(|| id.wrong("the id of another task"))?;
            after.push(TaskId(task as u16));
        }
        if !(1..=64).contains(&after.len()) {
            return Err(previous.wrong("1 to 64 ids of other tasks"));
        }
        Ok(Pattern::Dependent { after })
    }

    fn planned(&self, model: ModelId, pattern: Pattern) -> Task {
        let period = match pattern {
            Pattern::Periodic { rate_hz, .. } => Some(Nanos::new((1e9 / rate_hz) as u64)),
            _ => None,
        };
        let mut task = if self.id.ends_with("_be") {
            Task::best_effort(self.id, model, pattern)
        } else {
            let deadline = period.unwrap_or(DEADLINE);
            let task = Task::real_time(self.id, model, deadline, pattern);
            match period {
                Some(period) => task.reserved(period),
                None => task,
            }
        };
        task.config.batch_max = 1;
        task.mandatory(StageId(self.network.stages() as u8 - 1))
    }
}

/// A value of the file with its path.
struct Entry<'v> {
    file: &'v str,
    key: String,
    value: &'v Value,
}

impl<'v> Entry<'v> {
    fn object(&self) -> Result<&'v Map<String, Value>, DisbError> {
        self.value
            .as_object()
            .ok_or_else(|| self.wrong("an object"))
    }

    fn known(&self, keys: &[&str]) -> Result<(), DisbError> {
        for key in self.object()?.keys() {
            if !keys.contains(&key.as_str()) {
                return Err(DisbError::UnknownKey {
                    file: self.file.into(),
                    key: self.path(key),
                    known: keys.join(", "),
                });
            }
        }
        Ok(())
    }

    fn has(&self, key: &str) -> bool {
        self.value.get(key).is_some()
    }

    fn get(&self, key: &str) -> Result<Self, DisbError> {
        let value = self.object()?.get(key);
        let value = value.ok_or_else(|| DisbError::Missing {
            file: self.file.into(),
            key: self.path(key),
        })?;
        Ok(Self {
            file: self.file,
            key: self.path(key),
            value,
        })
    }

    fn list(&self) -> Result<Vec<Self>, DisbError> {
        let list = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let entry = |(index, value)| Self {
            file: self.file,
            key: format!("{}[{index}]", self.key),
            value,
        };
        Ok(list.iter().enumerate().map(entry).collect())
    }

    fn text(&self) -> Result<&'v str, DisbError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    fn number(&self, rule: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, DisbError> {
        let number = self.value.as_f64().filter(|number| range.contains(number));
        number.ok_or_else(|| self.wrong(rule))
    }

    fn path(&self, key: &str) -> String {
        match self.key.as_str() {
            "" => key.into(),
            parent => format!("{parent}.{key}"),
        }
    }

    fn wrong(&self, rule: &str) -> DisbError {
        // A list of thousands of times says no more than its beginning.
        let found: String = self.value.to_string().chars().take(60).collect();
        DisbError::Value {
            file: self.file.into(),
            key: self.key.clone(),
            found,
            rule: rule.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Criticality;

    fn one(load: &str) -> String {
        task("vgg19_rt", "vgg19-imagenet", load)
    }

    fn task(id: &str, model: &str, load: &str) -> String {
        format!(r#"{{"id": "{id}", "load": {load}, "client": {{"model_name": "{model}"}}}}"#)
    }

    fn file(tasks: &[String]) -> String {
        format!(r#"{{"time": 60, "tasks": [{}]}}"#, tasks.join(","))
    }

    fn error(json: &str) -> String {
        parse("W.json", json).expect_err("a problem").to_string()
    }

    #[test]
    fn every_type_of_load_is_read() {
        let json = file(&[
            one(r#"{"type": "periodic", "frequency": 20, "priority": 0}"#),
            task(
                "a",
                "distilbert",
                r#"{"type": "periodic", "frequency": 20}"#,
            ),
            task(
                "b",
                "distilbert",
                r#"{"type": "poisson", "frequency": 7.5}"#,
            ),
            task("c", "distilbert", r#"{"type": "trace", "trace": [30, 10]}"#),
            task(
                "d",
                "distilbert",
                r#"{"type": "dependent", "prev_task_ids": ["a", "b"]}"#,
            ),
            task("e_be", "distilbert", r#"{"type": "continuous"}"#),
        ]);
        let scenario = parse("W.json", &json).expect("it can be read");
        let patterns: Vec<&Pattern> = scenario.tasks.iter().map(|task| &task.pattern).collect();
        let periodic = |phase| Pattern::Periodic {
            rate_hz: 20.0,
            phase,
            jitter: Nanos::ZERO,
        };
        assert_eq!(*patterns[0], periodic(Nanos::ZERO));
        // Launched when VGG alone would be done.
        assert_eq!(*patterns[1], periodic(Nanos::from_micros(4_400)));
        assert_eq!(*patterns[2], Pattern::Poisson { rate_hz: 7.5 });
        let Pattern::Trace { entries, span } = patterns[3] else {
            panic!("a trace");
        };
        let times: Vec<Nanos> = entries.iter().map(|entry| entry.at).collect();
        assert_eq!(times, [Nanos::from_millis(10), Nanos::from_millis(30)]);
        assert_eq!(*span, Some(Nanos::from_millis(60_000)));
        let after = vec![TaskId(1), TaskId(2)];
        assert_eq!(*patterns[4], Pattern::Dependent { after });
        assert_eq!(*patterns[5], Pattern::Continuous);
        let criticality = |index: usize| scenario.tasks[index].config.criticality;
        assert_eq!(criticality(4), Criticality::RealTime);
        assert_eq!(criticality(5), Criticality::BestEffort);
        assert_eq!(scenario.models.len(), 2, "each network once");
    }

    #[test]
    fn what_is_unknown_is_named_with_its_file_and_key() {
        let load = r#"{"type": "burst"}"#;
        assert_eq!(
            error(&file(&[one(load)])),
            "W.json: `tasks[0].load.type` is \"burst\"; it must be continuous, periodic, poisson, \
             trace or dependent"
        );
        let error_of = |load: &str| error(&file(&[one(load)]));
        assert!(
            error_of(r#"{"type": "continuous", "rate": 3}"#)
                .contains("`tasks[0].load.rate` is no key")
        );
        assert!(
            error_of(r#"{"type": "poisson"}"#).contains("`tasks[0].load.frequency` is missing")
        );
        assert!(error_of(r#"{"type": "poisson", "frequency": -1}"#).contains("is -1; it must be"));
        assert!(
            error_of(r#"{"type": "trace", "trace": [1, "x"]}"#)
                .contains("`tasks[0].load.trace[1]`")
        );
        let waits = r#"{"type": "dependent", "prev_task_ids": ["vgg19_rt"]}"#;
        assert!(
            error_of(waits)
                .contains("prev_task_ids[0]` is \"vgg19_rt\"; it must be the id of another")
        );
        let model = file(&[task("a", "vgg16", r#"{"type": "continuous"}"#)]);
        assert!(
            error(&model)
                .contains("`tasks[0].client.model_name` is \"vgg16\"; it must be one of resnet152")
        );
    }

    #[test]
    fn malformed_files_are_refused() {
        assert!(error("{").contains("W.json is not JSON"));
        assert!(error("[]").contains("must be an object"));
        assert!(error(r#"{"time": 60, "tasks": []}"#).contains("`tasks` is []"));
        let twice = file(&[
            one(r#"{"type": "continuous"}"#),
            one(r#"{"type": "continuous"}"#),
        ]);
        assert!(error(&twice).contains("`tasks[1].id`"));
    }

    #[test]
    fn periodic_tasks_are_promised_their_period_if_all_can_be() {
        let reserved = |frequency: u32| {
            let load = format!(r#"{{"type": "periodic", "frequency": {frequency}}}"#);
            let scenario = parse("W.json", &file(&[one(&load)])).expect("it can be read");
            scenario.tasks[0].config.reserved
        };
        assert!(reserved(100));
        // 4.4 ms of work each 4 ms.
        assert!(!reserved(250));
    }
}
