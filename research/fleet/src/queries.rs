//! Queries: the division of their deadlines, and all that is asked in the end.

use punctual_core::Nanos;
use serde::Serialize;

use crate::packing::{BatchTimes, Flow, Rate, Session, even_split, split};
use punctual_diagnostics::{Invalid, Problems, Spanned};
use punctual_plan::ModelRule;

use crate::file::{File, RawQuery};
use crate::models::{Kind, Models, Stage};
use crate::rule::FleetRule;

/// A query's deadline, divided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryPlan {
    pub name: String,
    pub deadline: Nanos,
    pub budgets: Vec<Budget>,
    pub boards: f64,
    /// The same with equal parts; none if they are too short for a stage.
    pub boards_if_even: Option<f64>,
}

/// A stage's part of a deadline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    pub stage: String,
    pub deadline: Nanos,
}

/// Requests for a model, by their deadline.
pub(crate) struct Asked<'m> {
    pub(crate) name: String,
    pub(crate) model: String,
    /// The model's stages up to the exit that is asked for.
    pub(crate) stages: &'m [Stage],
    pub(crate) rate: Rate,
    pub(crate) deadline: Nanos,
}

/// Divides the deadline of each query whose models are known.
pub(crate) fn divide(file: &File, models: &Models, problems: &mut Problems<'_>) -> Vec<QueryPlan> {
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
            let cause = FleetRule::NotForkJoin { query: query_name };
            problems.add(&query.name.place, cause);
        }
        return None;
    };
    let mut costs = Vec::new();
    for stage in &query.stages {
        let found = stages(models, file, &stage.model, stage.exit.as_ref(), problems);
        let rate = Rate::from_hz(query.asked.rate.hz() * stage.per_query);
        costs.push(found.map(|stages| Cost::of(stages, rate, file, models)));
    }
    let costs: Vec<Cost> = costs.into_iter().collect::<Option<_>>()?;
    let boards = |stage: usize, budget| costs[stage].boards(budget);
    let deadline = query.asked.deadline;
    let Some(found) = split(&flow, boards, deadline, file.segments) else {
        let cause = FleetRule::QueryUnreachable { deadline };
        problems.add(&query.name.place, cause);
        return None;
    };
    let even = even_split(&flow, boards, deadline).devices;
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
                problems.add(&at.place, Invalid::Unresolved { what, name, known });
            }
        }
        after.push(before);
    }
    all_known.then_some(after)
}

/// What stages cost at a rate.
struct Cost {
    rate: Rate,
    /// L(b) on each kind of partition.
    times: Vec<Option<BatchTimes>>,
    /// The part of its board that a partition of each kind is.
    shares: Vec<f64>,
}

impl Cost {
    fn of(stages: &[Stage], rate: Rate, file: &File, models: &Models) -> Self {
        let share = |kind: &Kind| {
            let partitions = &file.boards[kind.board].partitions;
            let units: u32 = partitions.iter().map(|units| u32::from(*units)).sum();
            f64::from(kind.units) / f64::from(units.max(1))
        };
        Self {
            rate,
            times: (0..models.kinds.len())
                .map(|kind| models.times(stages, kind))
                .collect(),
            shares: models.kinds.iter().map(share).collect(),
        }
    }

    /// Boards that are kept busy within a budget. At high rates this is what Nexus minimises; at
    /// low ones it also counts that there is no time to wait for a full batch.
    fn boards(&self, budget: Nanos) -> f64 {
        let session = Session {
            deadline: budget,
            rate: self.rate,
            times: self.times.clone(),
            weights: Vec::new(),
        };
        let on = |(kind, share): (usize, &f64)| Some(session.busy_alone(kind)? * share);
        let all = self.shares.iter().enumerate().filter_map(on);
        all.fold(f64::INFINITY, f64::min)
    }
}

/// The stages of a model up to an exit; notes if there is no such model or exit.
fn stages<'m>(
    models: &'m Models,
    file: &File,
    model: &Spanned<String>,
    exit: Option<&Spanned<u64>>,
    problems: &mut Problems<'_>,
) -> Option<&'m [Stage]> {
    let known = file.models.iter().map(|raw| &raw.name.value);
    let name = model.resolve("model", known, problems)?;
    // A model with a problem was noted already.
    let stages = models.stages.get(name)?;
    let last = stages.len() - 1;
    let Some(exit) = exit else {
        return Some(stages);
    };
    let within = usize::try_from(exit.value)
        .ok()
        .and_then(|exit| stages.get(..=exit));
    if within.is_none() {
        let (exit_value, last) = (exit.value, last as u8);
        let cause = ModelRule::NoSuchExit {
            exit: exit_value,
            last,
        };
        problems.add(&exit.place, cause);
    }
    within
}

/// All sessions of the file, and a session for each stage of each divided query.
pub(crate) fn asked<'m>(
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
            problems.add(&session.name.place, cause);
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
fn unreachable(asked: &Asked<'_>, models: &Models) -> Option<FleetRule> {
    let of_one = |kind| Some(models.times(asked.stages, kind)?.time(1)?.saturating_mul(2));
    let needed = (0..models.kinds.len()).filter_map(of_one).min()?;
    let deadline = asked.deadline;
    (needed > deadline).then_some(FleetRule::Unreachable { needed, deadline })
}
