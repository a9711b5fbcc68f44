//! Workload files: one's own networks, tasks, arrivals, timing and faults in TOML. All keys:
//! `docs/workloads.md`; an example: `examples/workload.toml`.
//!
//! All problems of a file are reported at once, each with its line, its key and the rule that it breaks. What
//! was read is then given to the scheduler, so that a file whose promises cannot be kept is refused here.

mod files;
mod model;
mod names;
mod partition;
mod task;
#[cfg(test)]
mod tests;
mod timing;
mod trace;

use std::path::Path;

use punctual_core::{ConfigError, Nanos, PolicySpec, Scheduler};
use punctual_diagnostics::{
    Diagnostics, Document, Invalid, Place, Problems, RenamedKey, Rule, Section, read_text,
};
use punctual_plan::{PolicyChoice, PolicyRule};
use punctual_platform::read;
use punctual_simulator::scenario::{Board, Scenario};
use thiserror::Error;

pub use files::FileRule;
use files::Files;
pub use model::ModelRule;
pub use partition::PartitionRule;
pub use task::PatternRefused;
pub use timing::QuantilesOutOfOrder;
pub use trace::TraceError;

/// A workload file, read.
#[derive(Clone, Debug)]
pub struct Workload {
    pub scenario: Scenario,
    /// Policies with parameters of their own.
    pub policies: Vec<PolicyChoice>,
    /// Keys that the file has under their former names, each once.
    pub renamed_keys: Vec<RenamedKey>,
}

/// Keys of `[board]` that had other names.
const BOARD_RENAMED: [RenamedKey; 2] = [
    RenamedKey::new("dispatch_us", "dispatch_bound_us"),
    RenamedKey::new("egress_us", "egress_bound_us"),
];

/// Promises that cannot be kept, or more than the scheduler has room for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the default policy refuses the plan: {error}")]
#[non_exhaustive]
pub struct PlanRefused {
    pub error: ConfigError,
}

impl Rule for PlanRefused {
    fn rule(&self) -> &'static str {
        "what a workload reserves can be promised"
    }

    fn help(&self) -> String {
        "lower rates, allow more time, or set reserved = false".into()
    }
}

/// Reads a workload file and those that it names.
pub fn read(path: &Path) -> Result<Workload, Diagnostics> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let files = |file: &str| read::text(&folder.join(file), files::BYTES_MAX);
    match read_text(path) {
        Ok(text) => parse(path, &text, &files),
        Err(cause) => Err(Diagnostics::of_file(path, AIM, cause)),
    }
}

const AIM: &str = "workload";

/// Reads the text of a workload file; `files` gives those that it names.
///
/// # Panics
/// Never: a workload without problems is complete.
pub fn parse(path: &Path, text: &str, files: Files<'_>) -> Result<Workload, Diagnostics> {
    let mut problems = Problems::new(path, text, AIM);
    let workload = read_workload(path, files, &mut problems);
    problems.into_result()?;
    Ok(workload.expect("a workload without problems is complete"))
}

fn read_workload(path: &Path, files: Files<'_>, problems: &mut Problems<'_>) -> Option<Workload> {
    let document = Document::parse(problems)?;
    let mut root = document.root();
    let scenario = read_scenario(path, &mut root, files, problems);
    let policies = read_policies(&mut root, problems);
    root.finish(problems);
    if problems.count() > 0 {
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
        problems.add(&Place::default(), PlanRefused { error });
    }
    Some(Workload {
        scenario,
        policies,
        renamed_keys: problems.renamed().to_vec(),
    })
}

fn read_scenario(
    path: &Path,
    root: &mut Section<'_, '_>,
    files: Files<'_>,
    problems: &mut Problems<'_>,
) -> Scenario {
    let stem = path.file_stem().unwrap_or_default();
    let name = root.or("name", stem.to_string_lossy().into_owned(), problems);
    let about = root.or("about", String::new(), problems);
    let seconds = root.number("seconds", 60.0, 0.001..=1e6, " s", problems);
    let board = read_board(root, problems);
    let models = model::read(root, &board, files, problems);
    let names: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
    let tasks = task::read(root, &models, files, problems);
    let length = Nanos::new((seconds * 1e9) as u64);
    let partitions = partition::read(root, &board, &tasks, problems);
    let mut scenario = Scenario::new(models, tasks, board, length);
    scenario.align_followers();
    scenario.name = name.value;
    scenario.about = about.value;
    scenario.durations = timing::read(root, problems);
    scenario.faults = timing::faults(root, &scenario.tasks, &names, problems);
    match partitions {
        Some(partitions) => scenario = scenario.partitioned(partitions),
        // A plan for what was not understood would only bring further problems.
        None if problems.count() == 0 => scenario = scenario.planned(),
        None => {}
    }
    scenario
}

fn read_board(root: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Board {
    let board = root.table_or_empty("board", problems);
    let mut board = board.with_renamed(&BOARD_RENAMED);
    let units = board.whole("units", 1, 1..=256, problems).value as u16;
    let usual = Board::of(units);
    let mut micros = |key, usual: Nanos| {
        let default = usual.as_nanos() as f64 / 1e3;
        let us = board.number(key, default, 0.0..=1e9, " us", problems);
        Nanos::new((us * 1e3) as u64)
    };
    let preemption_bound = micros("preemption_us", usual.preemption_bound);
    let dispatch_cost = micros("dispatch_bound_us", usual.dispatch_cost);
    let egress_bound = micros("egress_bound_us", usual.egress_bound);
    let request_buffers = board.whole("request_buffers", 256, 1..=65_535, problems);
    let pages = board.whole("pages", 0, 0..=u64::from(u32::MAX), problems);
    let contention_permille = board.whole("contention_permille", 1_000, 0..=1_000_000, problems);
    board.finish(problems);
    Board {
        preemption_bound,
        dispatch_cost,
        egress_bound,
        request_buffers: request_buffers.value as u16,
        pages: pages.value as u32,
        contention_permille: contention_permille.value,
        ..usual
    }
}

/// The tables `[policy.NAME]`.
fn read_policies(root: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Vec<PolicyChoice> {
    let known = punctual_baselines::all();
    let mut policies = Vec::new();
    let section = root.table_or_empty("policy", problems);
    for (name, parameters) in section.entries(problems) {
        match known.read(&name, parameters.value) {
            Some(Ok(policy)) => policies.push(policy),
            Some(Err(error)) => {
                let error = error.message().to_owned();
                problems.add(&parameters.place, PolicyRule::Parameters { error });
            }
            None => {
                let cause = Invalid::NotOneOf {
                    value: name,
                    allowed: known.names().map(str::to_owned).collect(),
                };
                problems.add(&parameters.place, cause);
            }
        }
    }
    policies
}
