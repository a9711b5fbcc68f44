//! Queries: the division of their deadlines, and all that is asked in the end.

use punctual_core::Nanos;

use crate::cause::Cause;
use crate::packing::{Choice, Flow, Rate, StageCost, even_split, split};
use crate::problem::{At, Problems};

use super::cause::FleetCause;
use super::file::{File, RawQuery};
use super::models::{Models, Stage};
use super::plan::{Budget, QueryPlan};

/// Requests for a model, by their deadline.
pub(super) struct Asked<'m> {
    pub(super) name: String,
    pub(super) model: String,
    /// The model's stages up to the exit that is asked for.
    pub(super) stages: &'m [Stage],
    pub(super) rate: Rate,
    pub(super) deadline: Nanos,
}

/// Divides the deadline of each query whose models are known.
pub(super) fn divide(file: &File, models: &Models, problems: &mut Problems<'_>) -> Vec<QueryPlan> {
    let each = file.queries.iter();
    each.filter_map(|query| divide_one(query, file, models, problems))
        .collect()
}

fn divide_one(
    query: &RawQuery,
    file: &File,
    models: &Models,
    problems: &mut Problems<'_>,
) -> Option<QueryPlan> {
    let after = predecessors(query, problems)?;
    let Some(flow) = Flow::of(&after) else {
        if !query.stages.is_empty() {
            let query_name = query.name.value.clone();
            let cause = FleetCause::NotForkJoin { query: query_name };
            problems.add(&query.name.place, Cause::Fleet(cause));
        }
        return None;
    };
    let mut costs = Vec::new();
    for stage in &query.stages {
        let found = stages(models, file, &stage.model, stage.exit.as_ref(), problems);
        costs.push(found.map(|stages| StageCost {
            rate: Rate::from_hz(query.asked.rate.hz() * stage.per_query),
            choices: choices(stages, file, models),
        }));
    }
    let costs: Vec<StageCost> = costs.into_iter().collect::<Option<_>>()?;
    let deadline = query.asked.deadline;
    let Some(found) = split(&flow, &costs, deadline, file.segments) else {
        let cause = FleetCause::QueryUnreachable { deadline };
        problems.add(&query.name.place, Cause::Fleet(cause));
        return None;
    };
    let even = even_split(&flow, &costs, deadline).devices;
    let names = query.stages.iter().map(|stage| stage.name.value.clone());
    Some(QueryPlan {
        name: query.name.value.clone(),
        deadline,
        budgets: names
            .zip(found.budgets)
            .map(|(stage, deadline)| Budget { stage, deadline })
            .collect(),
        boards: found.devices,
        boards_if_even: even.is_finite().then_some(even),
    })
}

/// For each stage the positions of those that it comes after.
fn predecessors(query: &RawQuery, problems: &mut Problems<'_>) -> Option<Vec<Vec<usize>>> {
    let names: Vec<String> = query.stages.iter().map(|s| s.name.value.clone()).collect();
    let mut all_known = true;
    let mut after = Vec::new();
    for stage in &query.stages {
        let mut before = Vec::new();
        for name in stage.after.iter().flat_map(|at| &at.value) {
            if let Some(position) = names.iter().position(|known| known == name) {
                before.push(position);
                continue;
            }
            all_known = false;
            if let Some(at) = &stage.after {
                let (what, name, known) = ("stage", name.clone(), names.clone());
                problems.add(&at.place, Cause::Unresolved { what, name, known });
            }
        }
        after.push(before);
    }
    all_known.then_some(after)
}

/// The ways to run stages: each batch size on each kind of partition, with twice its time as latency,
/// as in the packing, and the part of a board that it keeps busy as work.
fn choices(stages: &[Stage], file: &File, models: &Models) -> Vec<Choice> {
    let mut choices = Vec::new();
    for (position, kind) in models.kinds.iter().enumerate() {
        let units: u32 = file.boards[kind.board]
            .partitions
            .iter()
            .map(|u| u32::from(*u))
            .sum();
        let share = f64::from(kind.units) / f64::from(units.max(1));
        let times = models.times(stages, position);
        for &(size, time) in times.iter().flat_map(|times| times.points()) {
            choices.push(Choice {
                latency: time.saturating_mul(2),
                work_ns: time.as_nanos() as f64 / f64::from(size) * share,
            });
        }
    }
    choices
}

/// The stages of a model up to an exit; notes if there is no such model or exit.
fn stages<'m>(
    models: &'m Models,
    file: &File,
    model: &At<String>,
    exit: Option<&At<u64>>,
    problems: &mut Problems<'_>,
) -> Option<&'m [Stage]> {
    let known = || file.models.iter().map(|raw| raw.name.value.clone());
    if !known().any(|name| name == model.value) {
        let cause = Cause::Unresolved {
            what: "model",
            name: model.value.clone(),
            known: known().collect(),
        };
        problems.add(&model.place, cause);
    }
    // A model with a problem was noted already.
    let stages = models.stages.get(&model.value)?;
    let last = stages.len() - 1;
    let Some(exit) = exit else {
        return Some(stages);
    };
    let within = usize::try_from(exit.value)
        .ok()
        .and_then(|exit| stages.get(..=exit));
    if within.is_none() {
        let (exit_value, last) = (exit.value, last as u8);
        let cause = Cause::NoSuchExit {
            exit: exit_value,
            last,
        };
        problems.add(&exit.place, cause);
    }
    within
}

/// All sessions of the file, and a session for each stage of each divided query.
pub(super) fn asked<'m>(
    file: &File,
    models: &'m Models,
    queries: &[QueryPlan],
    problems: &mut Problems<'_>,
) -> Vec<Asked<'m>> {
    let mut all = Vec::new();
    for session in &file.sessions {
        let exit = session.exit.as_ref();
        let Some(stages) = stages(models, file, &session.model, exit, problems) else {
            continue;
        };
        let asked = Asked {
            name: session.name.value.clone(),
            model: session.model.value.clone(),
            stages,
            rate: session.asked.rate,
            deadline: session.asked.deadline,
        };
        if let Some(cause) = unreachable(&asked, models) {
            problems.add(&session.name.place, Cause::Fleet(cause));
        }
        all.push(asked);
    }
    for plan in queries {
        let Some(query) = file
            .queries
            .iter()
            .find(|query| query.name.value == plan.name)
        else {
            continue;
        };
        for (stage, budget) in query.stages.iter().zip(&plan.budgets) {
            let Some(all_stages) = models.stages.get(&stage.model.value) else {
                continue;
            };
            let count = stage
                .exit
                .as_ref()
                .map_or(all_stages.len(), |exit| exit.value as usize + 1);
            all.push(Asked {
                name: format!("{}.{}", plan.name, stage.name.value),
                model: stage.model.value.clone(),
                stages: &all_stages[..count],
                rate: Rate::from_hz(query.asked.rate.hz() * stage.per_query),
                deadline: budget.deadline,
            });
        }
    }
    all
}

/// Why no partition serves a session even if it does nothing else.
fn unreachable(asked: &Asked<'_>, models: &Models) -> Option<FleetCause> {
    let of_one = |kind| Some(models.times(asked.stages, kind)?.time(1)?.saturating_mul(2));
    let needed = (0..models.kinds.len()).filter_map(of_one).min()?;
    let deadline = asked.deadline;
    (needed > deadline).then_some(FleetCause::Unreachable { needed, deadline })
}
