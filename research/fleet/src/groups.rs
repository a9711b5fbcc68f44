//! Which requests are batched together: those of one model with one deadline, and those with one
//! deadline whose networks begin alike.

use std::collections::BTreeMap;

use punctual_core::Nanos;
use serde::Serialize;

use crate::packing::{BatchTimes, Branch, Rate, Session, combine};

use crate::models::{Models, Stage};
use crate::queries::Asked;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionPlan {
    pub session: usize,
    /// The models in it; several share their first stages.
    pub members: Vec<Member>,
    /// How many stages are run for all members in one batch.
    pub shared_stages: usize,
    /// All members' requests.
    pub rate_hz: Rate,
    /// From a request to its answer, at most.
    pub deadline: Nanos,
}

/// All requests of one model with one deadline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Member {
    /// The sessions and stages of queries (`QUERY.STAGE`) that it is for.
    pub names: Vec<String>,
    pub model: String,
    pub exit: usize,
    pub rate_hz: Rate,
}

pub(crate) struct Grouped {
    members: Vec<Member>,
    shared_stages: usize,
    deadline: Nanos,
    times: Vec<Option<BatchTimes>>,
    weights: Vec<usize>,
}

impl Grouped {
    /// For the packing, and for the plan.
    pub(crate) fn into_session(self, number: usize) -> (Session, SessionPlan) {
        let rates = self.members.iter().map(|member| member.rate_hz);
        let rate = rates.fold(Rate::ZERO, |sum, rate| sum + rate);
        let session = Session {
            deadline: self.deadline,
            rate,
            times: self.times,
            weights: self.weights,
        };
        let plan = SessionPlan {
            session: number,
            members: self.members,
            shared_stages: self.shared_stages,
            rate_hz: rate,
            deadline: self.deadline,
        };
        (session, plan)
    }
}

/// All requests of one model up to one exit with one deadline.
struct Same<'m> {
    member: Member,
    stages: &'m [Stage],
    deadline: Nanos,
}

/// Batches together what can be, in the order in which it was asked for.
pub(crate) fn group(asked: Vec<Asked<'_>>, models: &Models, prefixes: bool) -> Vec<Grouped> {
    let mut families: Vec<Vec<Same<'_>>> = Vec::new();
    let mut known: BTreeMap<(Nanos, usize), usize> = BTreeMap::new();
    for same in merge_same(asked) {
        let key = (same.deadline, same.stages[0].block);
        match known.get(&key) {
            Some(&family) if prefixes => families[family].push(same),
            _ => {
                known.insert(key, families.len());
                families.push(vec![same]);
            }
        }
    }
    let mut groups = Vec::new();
    for family in families {
        match together(&family, models) {
            Some(group) => groups.push(group),
            None => groups.extend(family.into_iter().map(|same| apart(same, models))),
        }
    }
    groups
}

fn merge_same(asked: Vec<Asked<'_>>) -> Vec<Same<'_>> {
    let mut all: Vec<Same<'_>> = Vec::new();
    for asked in asked {
        let exit = asked.stages.len() - 1;
        let found = all.iter_mut().find(|same| {
            let member = &same.member;
            (&member.model, member.exit, same.deadline) == (&asked.model, exit, asked.deadline)
        });
        if let Some(same) = found {
            same.member.names.push(asked.name);
            same.member.rate_hz = same.member.rate_hz + asked.rate;
            continue;
        }
        all.push(Same {
            member: Member {
                names: vec![asked.name],
                model: asked.model,
                exit,
                rate_hz: asked.rate,
            },
            stages: asked.stages,
            deadline: asked.deadline,
        });
    }
    all
}

fn apart(same: Same<'_>, models: &Models) -> Grouped {
    let kinds = 0..models.kinds.len();
    Grouped {
        shared_stages: same.stages.len(),
        deadline: same.deadline,
        times: kinds.map(|kind| models.times(same.stages, kind)).collect(),
        weights: same.stages.iter().map(|stage| stage.block).collect(),
        members: vec![same.member],
    }
}

/// A family with equal first stages as one session, if that takes less time than apart.
fn together(family: &[Same<'_>], models: &Models) -> Option<Grouped> {
    let (first, others) = family.split_first()?;
    if others.is_empty() {
        return None;
    }
    let equal = |other: &Same<'_>| {
        let pairs = first.stages.iter().zip(other.stages);
        pairs
            .take_while(|(one, two)| one.block == two.block)
            .count()
    };
    let shared = others.iter().map(equal).min()?;
    let combined = |kind| {
        let own = |same: &Same<'_>| {
            let rest = &same.stages[shared..];
            let times = models.times(rest, kind);
            // A branch that was not measured here cannot run here.
            (rest.is_empty() || times.is_some()).then_some(Branch {
                rate: same.member.rate_hz,
                times,
            })
        };
        let branches: Option<Vec<Branch>> = family.iter().map(own).collect();
        combine(&models.times(&first.stages[..shared], kind)?, &branches?)
    };
    let times: Vec<Option<BatchTimes>> = (0..models.kinds.len()).map(combined).collect();
    if !saves_time(family, &times, models) {
        return None;
    }
    let mut weights: Vec<usize> = family
        .iter()
        .flat_map(|same| same.stages.iter().map(|stage| stage.block))
        .collect();
    weights.sort_unstable();
    weights.dedup();
    Some(Grouped {
        members: family.iter().map(|same| same.member.clone()).collect(),
        shared_stages: shared,
        deadline: first.deadline,
        times,
        weights,
    })
}

/// Whether every kind of partition that can serve the family apart is busy with it for less time
/// together. At high rates it need not be: what follows the shared stages is in smaller batches then.
fn saves_time(family: &[Same<'_>], times: &[Option<BatchTimes>], models: &Models) -> bool {
    let session = |same: &Same<'_>, rate, times| Session {
        deadline: same.deadline,
        rate,
        times: vec![times],
        weights: Vec::new(),
    };
    let all = family
        .iter()
        .fold(Rate::ZERO, |sum, same| sum + same.member.rate_hz);
    (0..models.kinds.len()).all(|kind| {
        let alone = |same: &Same<'_>| {
            let times = models.times(same.stages, kind);
            session(same, same.member.rate_hz, times).busy_alone(0)
        };
        let apart: Option<f64> = family.iter().map(alone).sum();
        let together = session(&family[0], all, times[kind].clone()).busy_alone(0);
        apart.is_none_or(|apart| together.is_some_and(|together| together < apart))
    })
}
