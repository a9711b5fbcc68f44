//! Workload files: one's own networks, tasks, arrivals, timing and faults in TOML. All keys:
//! `docs/workloads.md`; an example: `examples/workload.toml`.
//!
//! All problems of a file are reported at once, each with its line, its key and the rule that it breaks. What
//! was read is then given to the scheduler, so that a file whose promises cannot be kept is refused here.

mod document;
mod model;
mod problem;
mod task;
#[cfg(test)]
mod tests;
mod timing;
mod trace;

use punctual_plan::PolicyChoice;
use std::io;
use std::path::Path;

use punctual_core::{Nanos, PolicySpec, Scheduler, Units};
use punctual_platform::read;
use serde::Deserialize;
use toml::de::DeTable;

use document::{Problems, Section};
pub use problem::{Cause, FormatError, Problem};
use punctual_simulator::scenario::{Board, Scenario};
pub use trace::TraceError;

/// A workload file, read.
#[derive(Clone, Debug)]
pub struct Document {
    pub scenario: Scenario,
    /// Policies with parameters of their own.
    pub policies: Vec<PolicyChoice>,
}

/// Ten thousand lines. A file beyond it is not what somebody wrote, and is not looked into.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Some millions of recorded arrivals, or of samples.
const NAMED_BYTES_MAX: u64 = 256 << 20;

/// How the files are read that a workload file names, relative to it.
type Files<'f> = &'f dyn Fn(&str) -> io::Result<String>;

/// Reads a workload file and those that it names.
pub fn read(path: &Path) -> Result<Document, FormatError> {
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    let files = |file: &str| read::text(&folder.join(file), NAMED_BYTES_MAX);
    match read::text(path, FILE_BYTES_MAX as u64) {
        Ok(text) => parse(&name, &text, &files),
        Err(error) => Err(FormatError {
            problems: vec![Problem {
                line: None,
                key: String::new(),
                cause: Cause::Unreadable {
                    file: name.clone(),
                    error,
                },
            }],
            file: name,
        }),
    }
}

/// Reads the text of a workload file; `files` gives those that it names.
pub fn parse(file: &str, text: &str, files: Files<'_>) -> Result<Document, FormatError> {
    let problems = Problems::new(text);
    let document = read_document(file, text, files, &problems);
    match document {
        Some(document) if problems.is_empty() => Ok(document),
        _ => Err(FormatError {
            file: file.into(),
            problems: problems.into_sorted(),
        }),
    }
}

fn read_document(
    file: &str,
    text: &str,
    files: Files<'_>,
    problems: &Problems<'_>,
) -> Option<Document> {
    if text.len() > FILE_BYTES_MAX {
        let (found, limit) = (text.len(), FILE_BYTES_MAX);
        problems.add(String::new(), None, Cause::TooLarge { found, limit });
        return None;
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        problems.add(String::new(), error.span(), Cause::Syntax(error));
    }
    if !problems.is_empty() {
        return None;
    }
    let root = Section::root(table.get_ref(), problems);
    let scenario = read_scenario(file, &root, files);
    let policies = read_policies(text, &root);
    root.end();
    if !problems.is_empty() {
        return None;
    }
    // The core's own rules, all of which the default policy needs.
    let plan = policies
        .iter()
        .find(|policy| policy.name() == PolicyChoice::default().name())
        .cloned()
        .unwrap_or_default();
    if scenario.board.pages == 0
        && let Err(error) = Scheduler::new(&scenario.config(&plan), &plan)
    {
        problems.add(String::new(), None, Cause::Plan(error));
    }
    Some(Document { scenario, policies })
}

fn read_scenario(file: &str, root: &Section<'_>, files: Files<'_>) -> Scenario {
    let stem = Path::new(file).file_stem().unwrap_or_default();
    let name = root.text("name", Some(&stem.to_string_lossy()));
    let about = root.text("about", Some(""));
    let seconds = root.number("seconds", 0.001..=1e6, Some(60.0));
    let board = read_board(root);
    let models = model::read(root, &board, files);
    let names: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
    let tasks = task::read(root, &models, files);
    let length = Nanos::new((seconds * 1e9) as u64);
    let partitions = read_partitions(root, &board, &tasks);
    let mut scenario = Scenario::new(models, tasks, board, length);
    scenario.name = name;
    scenario.about = about;
    scenario.durations = timing::read(root);
    scenario.faults = timing::faults(root, &scenario.tasks, &names);
    match partitions {
        Some(partitions) => scenario.planned = partitions,
        // A plan for what was not understood would only bring further problems.
        None if root.problems().is_empty() => scenario = scenario.planned(),
        None => {}
    }
    scenario
}

fn read_board(root: &Section<'_>) -> Board {
    let Some(board) = root.section("board") else {
        return Board::of(1);
    };
    let units = board.whole("units", 1..=256, Some(1)) as u16;
    let usual = Board::of(units);
    let micros = |key, usual: Nanos| {
        let default = usual.as_nanos() as f64 / 1e3;
        Nanos::new((board.number(key, 0.0..=1e9, Some(default)) * 1e3) as u64)
    };
    let read = Board {
        preemption_bound: micros("preemption_us", usual.preemption_bound),
        dispatch_cost: micros("dispatch_us", usual.dispatch_cost),
        egress_bound: micros("egress_us", usual.egress_bound),
        request_buffers: board.whole("request_buffers", 1..=65_535, Some(256)) as u16,
        pages: board.whole("pages", 0..=u32::MAX, Some(0)),
        contention_permille: u64::from(board.whole(
            "contention_permille",
            0..=1_000_000,
            Some(1_000),
        )),
        ..usual
    };
    board.end();
    read
}

/// The partitions `[[partition]]`, by rising first unit as they stand; none: the best are found.
fn read_partitions(
    root: &Section<'_>,
    board: &Board,
    tasks: &[punctual_simulator::scenario::Task],
) -> Option<Vec<(Units, Vec<usize>)>> {
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    let mut placed: Vec<(Units, Vec<usize>)> = Vec::new();
    let mut first = 0;
    let mut homeless: Vec<&str> = names.clone();
    for partition in root.sections("partition") {
        let count = partition.whole("units", 1..=u32::from(board.units), None) as u16;
        let tasks = partition.some_of("tasks", &names);
        if first + count > board.units {
            partition.wrong(
                "units",
                &format!("such that all fit the {} of the board", board.units),
            );
        }
        for task in &tasks {
            if !homeless.contains(&names[*task]) {
                partition.wrong("tasks", "tasks that no other partition has");
            }
            homeless.retain(|name| *name != names[*task]);
        }
        placed.push((Units { first, count }, tasks));
        first += count;
        partition.end();
    }
    if placed.is_empty() {
        return None;
    }
    if !homeless.is_empty() {
        let rule = format!(
            "such that each task is in one: {} is in none",
            homeless.join(", ")
        );
        root.wrong("partition", &rule);
    }
    Some(placed)
}

/// The tables `[policy.NAME]`.
fn read_policies(text: &str, root: &Section<'_>) -> Vec<PolicyChoice> {
    #[derive(Deserialize)]
    struct Policies {
        #[serde(default)]
        policy: toml::Table,
    }
    let _ = root.section("policy");
    let Ok(Policies { policy }) = toml::from_str(text) else {
        return Vec::new();
    };
    let known = punctual_baselines::all();
    let mut policies = Vec::new();
    for (name, parameters) in policy {
        let key = format!("policy.{name}");
        match known.read(&name, parameters) {
            Some(Ok(policy)) => policies.push(policy),
            Some(Err(error)) => root.problems().add(key, None, Cause::Policy(error)),
            None => root.problems().add(key, None, Cause::NoPolicy(name)),
        }
    }
    policies
}
