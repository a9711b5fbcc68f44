//! Monitors whether models keep their profiles, and finds the cause when their stages overrun.
//!
//! All promises depend on budgets. Slack and the debt of its task absorb a single overrun (`overrun`); in the
//! worst case a request is dropped. The scale absorbs slowness of the machine (`scale`). A model that breaks
//! its profile repeatedly would cost all other models their time in both ways. So this module records the
//! newest real-time stages of each model on each partition. When stages ran longer than their budgets at the
//! present scale, it compares the models:
//!
//! - The model is the cause if the other models overran less than half as often in the same time. Only models
//!   that overran less often than it count, with four stages or more in all. They ran on the same cores in the
//!   same time, so the machine was not the cause.
//! - The machine is the cause if they overran as often, or if there are no other models. Then the scale rises.
//! - If no other model ran in that time, the cause is unknown. An overrun then changes neither the scale nor
//!   the model's promises, until half of the window has overrun: then the scale rises.
//!
//! `demotion` applies the consequences.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

use crate::ids::ModelId;
use crate::punctual::parameters::{PunctualConfig, WINDOW_MAX};
use crate::punctual::tables::SCALES;
use crate::time::{Instant, Nanos};

/// The fewest stages of other models that a model is compared with.
const COMPARED_MIN: u32 = 4;

/// The ratio of a stage that took exactly its budget.
const WHOLE: u64 = SCALES[0];

/// One real-time stage.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stage {
    at: Instant,
    /// Measured time to budget, without the scale, in the unit of [`SCALES`].
    ratio: u32,
    /// Longer than the budget at the scale of that time.
    overran: bool,
}

/// A model on a partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    newest: heapless::Deque<Stage, WINDOW_MAX>,
    demoted: bool,
    /// Stages within their budgets since the last overrun, and the time of that overrun.
    within_budget: u32,
    within_budget_since: Instant,
}

/// The cause of the overruns in a model's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// There are no overruns.
    None,
    Model,
    Machine,
    /// No other model ran in the same time, or too few stages of others.
    Unknown,
}

/// The time of a stage that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub took: Nanos,
    /// As profiled.
    pub budget: Nanos,
    /// It took longer than its budget at the present scale.
    pub overran: bool,
}

/// All models on one partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProfileMonitor {
    records: Box<[Record]>,
    window: usize,
    demoted: usize,
}

/// The consequence of a stage for its partition and its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileOutcome {
    /// The scale of the partition uses the stage as a sample.
    Learn,
    /// It does not: the time of one model says nothing about the machine.
    Ignore,
    /// It does not, and the model loses its promises.
    Demote(OverrunRecord),
    /// It does not, and the model gets its promises back.
    Reinstate,
}

/// The overruns in the window of a model that is demoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverrunRecord {
    pub overran: u8,
    pub of: u8,
    /// The longest stage, in thousandths of its budget.
    pub worst: u32,
}

impl ProfileMonitor {
    /// Whether it watches as many models, and as long, as another.
    pub fn fits(&self, other: &Self) -> bool {
        self.records.len() == other.records.len() && self.window == other.window
    }

    pub fn new(models: usize, parameters: &PunctualConfig) -> Self {
        let record = Record {
            newest: heapless::Deque::new(),
            demoted: false,
            within_budget: 0,
            within_budget_since: Instant::ZERO,
        };
        Self {
            records: alloc::vec![record; models].into(),
            // `PunctualConfig::broken_rule` has checked it. The ring has no more places.
            window: usize::from(parameters.demote_of).clamp(1, WINDOW_MAX),
            demoted: 0,
        }
    }

    /// Records a stage and decides its consequence.
    pub fn assess(
        &mut self,
        model: ModelId,
        stage: Measured,
        parameters: &PunctualConfig,
        now: Instant,
    ) -> ProfileOutcome {
        self.record(model, stage, now);
        // A demoted model neither loses more nor says anything about the machine.
        if self.is_demoted(model) {
            return if self.may_be_reinstated(model, parameters, now) {
                ProfileOutcome::Reinstate
            } else {
                ProfileOutcome::Ignore
            };
        }
        if !stage.overran {
            return ProfileOutcome::Learn;
        }
        match self.cause(model) {
            Cause::None | Cause::Machine => ProfileOutcome::Learn,
            Cause::Unknown if self.half_overran(model) => ProfileOutcome::Learn,
            Cause::Unknown => ProfileOutcome::Ignore,
            Cause::Model => {
                let overrun_record = self.overrun_record(model);
                if overrun_record.overran >= parameters.demote_overruns {
                    ProfileOutcome::Demote(overrun_record)
                } else {
                    ProfileOutcome::Ignore
                }
            }
        }
    }

    fn record(&mut self, model: ModelId, stage: Measured, now: Instant) {
        let Measured {
            took,
            budget,
            overran,
        } = stage;
        // Rounded up, so that a budget that `stretched` scales by it is no shorter than the measured time.
        let ratio = (u128::from(took.as_nanos()) * u128::from(WHOLE))
            .div_ceil(u128::from(budget.as_nanos().max(1)));
        let record = &mut self.records[model.index()];
        if record.newest.len() == self.window {
            record.newest.pop_front();
        }
        let stage = Stage {
            at: now,
            ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
            overran,
        };
        let full = record.newest.push_back(stage);
        assert!(full.is_ok(), "the window is no longer than the ring");
        if overran {
            (record.within_budget, record.within_budget_since) = (0, now);
        } else {
            record.within_budget = record.within_budget.saturating_add(1);
        }
    }

    /// The cause of the overruns in a model's window.
    fn cause(&self, model: ModelId) -> Cause {
        let own = &self.records[model.index()].newest;
        let Some(since) = own.iter().find(|s| s.overran).map(|s| s.at) else {
            return Cause::None;
        };
        let (overran, of) = count(own.iter());
        let (mut alone, mut theirs, mut theirs_of) = (true, 0, 0);
        let mut as_bad = false;
        for (index, other) in self.records.iter().enumerate() {
            // A demoted model overruns for a reason of its own, so it is no measure of the machine.
            if index == model.index() || other.demoted || other.newest.is_empty() {
                continue;
            }
            alone = false;
            // Only stages since the model's first overrun: earlier ones may have run on a faster machine.
            let (over, all) = count(other.newest.iter().filter(|s| s.at >= since));
            // Rates are compared by cross-multiplication. A model that overran as often is left out of the
            // sum: two models that break their profiles must not excuse each other before a third.
            if over * of < overran * all {
                (theirs, theirs_of) = (theirs + over, theirs_of + all);
            } else {
                as_bad |= all > 0;
            }
        }
        match () {
            () if alone => Cause::Machine,
            () if theirs_of >= COMPARED_MIN && 2 * theirs * of < overran * theirs_of => {
                Cause::Model
            }
            () if theirs_of >= COMPARED_MIN || theirs_of == 0 && as_bad => Cause::Machine,
            () => Cause::Unknown,
        }
    }

    /// The overruns in a model's window.
    fn overrun_record(&self, model: ModelId) -> OverrunRecord {
        let newest = &self.records[model.index()].newest;
        let (overran, of) = count(newest.iter());
        let worst = u64::from(newest.iter().map(|s| s.ratio).max().unwrap_or(0)) * 1_000 / WHOLE;
        OverrunRecord {
            overran: overran as u8,
            of: of as u8,
            worst: u32::try_from(worst).unwrap_or(u32::MAX),
        }
    }

    /// Whether half of a model's window overran. Then the scale uses its stages even if the cause is unknown.
    fn half_overran(&self, model: ModelId) -> bool {
        let (overran, _) = count(self.records[model.index()].newest.iter());
        overran as usize * 2 >= self.window
    }

    /// C' without the dispatch cost: a budget of a demoted model, scaled by the longest ratio in its window,
    /// and never shorter than the budget. Saturates, which rejects.
    pub fn stretched(&self, model: ModelId, budget: Nanos) -> Nanos {
        let newest = self.records[model.index()].newest.iter();
        let worst = newest.map(|s| u64::from(s.ratio)).max().unwrap_or(WHOLE);
        let wide = u128::from(budget.as_nanos()) * u128::from(worst.max(WHOLE));
        Nanos::new(u64::try_from(wide.div_ceil(u128::from(WHOLE))).unwrap_or(u64::MAX))
    }

    pub const fn any_demoted(&self) -> bool {
        self.demoted > 0
    }

    pub fn is_demoted(&self, model: ModelId) -> bool {
        self.records[model.index()].demoted
    }

    /// Whether a demoted model has kept its budgets for enough stages in a row, and for long enough.
    fn may_be_reinstated(&self, model: ModelId, parameters: &PunctualConfig, now: Instant) -> bool {
        let record = &self.records[model.index()];
        record.within_budget >= u32::from(parameters.reinstate_after)
            && now.since(record.within_budget_since) >= parameters.reinstate_calm
    }

    /// Demotes a model, or reinstates it.
    pub fn set_demoted(&mut self, model: ModelId, demoted: bool, now: Instant) {
        let record = &mut self.records[model.index()];
        debug_assert_ne!(
            record.demoted, demoted,
            "{model:?} changes to the state that it has"
        );
        record.demoted = demoted;
        (record.within_budget, record.within_budget_since) = (0, now);
        if demoted {
            self.demoted += 1;
        } else {
            self.demoted -= 1;
            // Its old overruns must not demote it again.
            record.newest.clear();
        }
    }
}

/// The number of stages that overran, and the number of all.
fn count<'s>(stages: impl Iterator<Item = &'s Stage>) -> (u32, u32) {
    stages.fold((0, 0), |(overran, of), stage| {
        (overran + u32::from(stage.overran), of + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ModelId = ModelId(0);
    const B: ModelId = ModelId(1);
    const C: ModelId = ModelId(2);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// A stage that took this part of its budget.
    fn took(percent: u64) -> Measured {
        Measured {
            took: Nanos::new(percent),
            budget: Nanos::new(100),
            overran: percent > 100,
        }
    }

    /// Each millisecond one stage of each model, in percent of its budget.
    fn courses(percent: [&[u64]; 3]) -> ProfileMonitor {
        let mut monitor = ProfileMonitor::new(3, &PunctualConfig::default());
        let longest = percent.iter().map(|p| p.len()).max().unwrap_or(0);
        for step in 0..longest {
            for (model, course) in percent.iter().enumerate() {
                if let Some(&percent) = course.get(step) {
                    let model = ModelId(model as u16);
                    monitor.record(model, took(percent), at(step as u64));
                }
            }
        }
        monitor
    }

    #[test]
    fn a_model_that_overruns_while_another_keeps_its_budgets_is_the_cause() {
        let monitor = courses([&[300; 5], &[90; 5], &[]]);
        assert_eq!(monitor.cause(A), Cause::Model);
        assert_eq!(monitor.cause(B), Cause::None);
        let overrun_record = monitor.overrun_record(A);
        assert_eq!(
            (
                overrun_record.overran,
                overrun_record.of,
                overrun_record.worst
            ),
            (5, 5, 3_000)
        );
    }

    #[test]
    fn when_all_overrun_it_is_the_machine() {
        let monitor = courses([&[300; 8], &[200; 8], &[110; 8]]);
        for model in [A, B, C] {
            assert_eq!(monitor.cause(model), Cause::Machine);
        }
    }

    #[test]
    fn when_all_overrun_now_and_then_it_is_the_machine() {
        let monitor = courses([
            &[200, 90, 90, 200, 90, 90, 200, 90],
            &[90, 200, 90, 90, 200, 90, 90, 200],
            &[90, 90, 200, 90, 90, 200, 90, 90],
        ]);
        for model in [A, B, C] {
            assert_ne!(monitor.cause(model), Cause::Model, "{model:?}");
        }
    }

    #[test]
    fn two_models_that_overrun_are_both_the_cause_if_a_third_does_not() {
        let monitor = courses([&[300; 8], &[150; 8], &[90; 8]]);
        assert_eq!(monitor.cause(A), Cause::Model);
        assert_eq!(monitor.cause(B), Cause::Model);
    }

    #[test]
    fn without_stages_of_other_models_no_model_is_the_cause() {
        assert_eq!(courses([&[300; 8], &[], &[]]).cause(A), Cause::Machine);
        // The other model ran before.
        let mut monitor = courses([&[90; 4], &[90; 4], &[]]);
        for step in 10..20 {
            monitor.record(A, took(300), at(step));
        }
        assert_eq!(monitor.cause(A), Cause::Unknown);
        assert!(monitor.half_overran(A));
    }

    #[test]
    fn a_demoted_model_is_not_compared_with_and_starts_afresh_when_it_is_reinstated() {
        let mut monitor = courses([&[300; 8], &[90; 8], &[]]);
        monitor.set_demoted(B, true, at(8));
        assert_eq!(monitor.cause(A), Cause::Machine);
        monitor.set_demoted(A, true, at(8));
        let parameters = PunctualConfig::default();
        for step in 0..u64::from(parameters.reinstate_after) {
            assert!(!monitor.may_be_reinstated(A, &parameters, at(10_000)));
            monitor.record(A, took(80), at(9 + step));
        }
        assert!(!monitor.may_be_reinstated(A, &parameters, at(9)));
        assert!(monitor.may_be_reinstated(A, &parameters, at(10_000)));
        monitor.set_demoted(A, false, at(10_000));
        assert_eq!(monitor.cause(A), Cause::None);
    }

    #[test]
    fn budgets_are_stretched_to_the_longest_of_the_window() {
        let monitor = courses([&[90, 310, 200], &[], &[]]);
        let stretched = monitor.stretched(A, Nanos::new(1_000));
        assert!(
            (3_100..=3_101).contains(&stretched.as_nanos()),
            "{stretched:?}"
        );
        assert_eq!(monitor.stretched(B, Nanos::new(1_000)), Nanos::new(1_000));
    }
}
