//! How models keep their profiles, and whose fault it is when they do not.
//!
//! Everything that is promised rests on budgets. One overrun is borne by the slack, by the debt of
//! the task that caused it (`overrun`), in the worst case by a drop; slowness of the machine is borne
//! by the scale (`speed`). A model that breaks its profile again and again would make all others pay,
//! by either. So the newest real-time stages of each model on each partition are kept here, and when
//! enough of them ran longer than their budgets at the present scale, somebody is to blame:
//!
//! - *the model*, if those others that overran less often than it meanwhile did so less than half
//!   as often, in four stages at least: they ran on the same cores in the same time, so it was not
//!   the machine;
//! - *the machine*, if they overran as often, or there are no others. Then the scale rises.
//!
//! While nobody else ran, nothing is known, and an overrun neither raises the scale nor costs the
//! model anything, up to half a window of them.
//!
//! What is to be done about a model that is to blame is in `demotion`.

use alloc::boxed::Box;

use crate::ids::ModelId;
use crate::punctual::parameters::{PunctualConfig, WINDOW_MAX};
use crate::punctual::tables::SCALES;
use crate::time::{Instant, Nanos};

/// Fewest stages of others that bear witness.
const WITNESSES_MIN: u32 = 4;

/// What a stage that took its budget has for a ratio.
const WHOLE: u64 = SCALES[0];

/// One real-time stage.
#[derive(Clone, Copy, Debug)]
struct Stage {
    at: Instant,
    /// Measured time to budget, without the scale, in the unit of [`SCALES`].
    ratio: u32,
    /// Longer than the budget at the scale of then.
    overran: bool,
}

/// A model on a partition.
#[derive(Clone, Debug)]
struct Record {
    newest: heapless::Deque<Stage, WINDOW_MAX>,
    demoted: bool,
    /// Stages within budget since the last one that was not, and when that was.
    kept: u32,
    kept_since: Instant,
}

/// Who is to blame for a model's overruns of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// There are none.
    Nobody,
    Model,
    Machine,
    /// Nobody else ran meanwhile.
    Unknown,
}

/// All models on one partition.
#[derive(Clone, Debug)]
pub struct ProfileMonitor {
    records: Box<[Record]>,
    window: usize,
    demoted: usize,
}

/// What a stage of a model leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The scale of the partition learns from its time.
    Learn,
    /// It does not: what one model does says nothing of the machine.
    Ignore,
    /// Nor this time, and the model loses its promises.
    Demote(Offence),
    /// Nor this time, and the model gets its promises back.
    Reinstate,
}

/// What is told of a model that is demoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offence {
    pub overran: u8,
    pub of: u8,
    /// The longest against its budget, in thousandths.
    pub worst: u32,
}

impl ProfileMonitor {
    pub fn new(models: usize, parameters: &PunctualConfig) -> Self {
        let record = Record {
            newest: heapless::Deque::new(),
            demoted: false,
            kept: 0,
            kept_since: Instant::ZERO,
        };
        Self {
            records: alloc::vec![record; models].into(),
            window: usize::from(parameters.demote_of).clamp(1, WINDOW_MAX),
            demoted: 0,
        }
    }

    /// Books a stage that took `measured` of a profiled budget, and judges its model by it.
    pub fn judge(
        &mut self,
        model: ModelId,
        times: (Nanos, Nanos),
        overran: bool,
        parameters: &PunctualConfig,
        now: Instant,
    ) -> Judgement {
        self.book(model, times, overran, now);
        if self.is_demoted(model) {
            return match self.has_mended(model, parameters, now) {
                true => Judgement::Reinstate,
                false => Judgement::Ignore,
            };
        }
        if !overran {
            return Judgement::Learn;
        }
        match self.fault(model) {
            Fault::Nobody | Fault::Machine => Judgement::Learn,
            Fault::Unknown if self.is_hopeless(model) => Judgement::Learn,
            Fault::Unknown => Judgement::Ignore,
            Fault::Model => {
                let offence = self.offence(model);
                match offence.overran >= parameters.demote_overruns {
                    true => Judgement::Demote(offence),
                    false => Judgement::Ignore,
                }
            }
        }
    }

    /// Books a stage that took `measured` of a profiled budget.
    fn book(
        &mut self,
        model: ModelId,
        (measured, budget): (Nanos, Nanos),
        overran: bool,
        now: Instant,
    ) {
        // Rounded up: a budget stretched by it is no shorter than what was measured.
        let ratio = (u128::from(measured.as_nanos()) * u128::from(WHOLE))
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
            (record.kept, record.kept_since) = (0, now);
        } else {
            record.kept = record.kept.saturating_add(1);
        }
    }

    /// Who is to blame for a model's overruns in its window.
    fn fault(&self, model: ModelId) -> Fault {
        let own = &self.records[model.index()].newest;
        let Some(since) = own.iter().find(|s| s.overran).map(|s| s.at) else {
            return Fault::Nobody;
        };
        let (overran, of) = count(own.iter());
        let (mut alone, mut theirs, mut theirs_of) = (true, 0, 0);
        let mut as_bad = false;
        for (index, other) in self.records.iter().enumerate() {
            if index == model.index() || other.demoted || other.newest.is_empty() {
                continue;
            }
            alone = false;
            let (over, all) = count(other.newest.iter().filter(|s| s.at >= since));
            if over * of < overran * all {
                (theirs, theirs_of) = (theirs + over, theirs_of + all);
            } else {
                as_bad |= all > 0;
            }
        }
        match () {
            () if alone => Fault::Machine,
            () if theirs_of >= WITNESSES_MIN && 2 * theirs * of < overran * theirs_of => {
                Fault::Model
            }
            () if theirs_of >= WITNESSES_MIN || theirs_of == 0 && as_bad => Fault::Machine,
            () => Fault::Unknown,
        }
    }

    /// Overruns in a model's window, and what to say of them.
    fn offence(&self, model: ModelId) -> Offence {
        let newest = &self.records[model.index()].newest;
        let (overran, of) = count(newest.iter());
        let worst = u64::from(newest.iter().map(|s| s.ratio).max().unwrap_or(0)) * 1_000 / WHOLE;
        Offence {
            overran: overran as u8,
            of: of as u8,
            worst: u32::try_from(worst).unwrap_or(u32::MAX),
        }
    }

    /// Whether half of a model's window overran.
    fn is_hopeless(&self, model: ModelId) -> bool {
        let (overran, _) = count(self.records[model.index()].newest.iter());
        overran as usize * 2 >= self.window
    }

    /// A budget of a demoted model stretched to the longest of its window.
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

    /// Whether a demoted model has kept its budgets for `stages` in a row, and for `calm`.
    fn has_mended(&self, model: ModelId, parameters: &PunctualConfig, now: Instant) -> bool {
        let record = &self.records[model.index()];
        record.kept >= u32::from(parameters.reinstate_after)
            && now.since(record.kept_since) >= parameters.reinstate_calm
    }

    /// A model is demoted, or no longer: then it starts afresh.
    pub fn set_demoted(&mut self, model: ModelId, demoted: bool, now: Instant) {
        let record = &mut self.records[model.index()];
        debug_assert_ne!(record.demoted, demoted);
        record.demoted = demoted;
        (record.kept, record.kept_since) = (0, now);
        if demoted {
            self.demoted += 1;
        } else {
            self.demoted -= 1;
            record.newest.clear();
        }
    }
}

/// How many of some stages overran, and how many there are.
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

    /// Each millisecond one stage of each model, in per cent of its budget.
    fn courses(percent: [&[u64]; 3]) -> ProfileMonitor {
        let mut conduct = ProfileMonitor::new(3, &PunctualConfig::default());
        let longest = percent.iter().map(|p| p.len()).max().unwrap_or(0);
        for step in 0..longest {
            for (model, course) in percent.iter().enumerate() {
                if let Some(&percent) = course.get(step) {
                    let took = (Nanos::new(percent), Nanos::new(100));
                    let model = ModelId(model as u16);
                    conduct.book(model, took, percent > 100, at(step as u64));
                }
            }
        }
        conduct
    }

    #[test]
    fn a_model_that_overruns_while_another_keeps_its_budgets_is_to_blame() {
        let conduct = courses([&[300; 5], &[90; 5], &[]]);
        assert_eq!(conduct.fault(A), Fault::Model);
        assert_eq!(conduct.fault(B), Fault::Nobody);
        let offence = conduct.offence(A);
        assert_eq!((offence.overran, offence.of, offence.worst), (5, 5, 3_000));
    }

    #[test]
    fn when_all_overrun_it_is_the_machine() {
        let conduct = courses([&[300; 8], &[200; 8], &[110; 8]]);
        for model in [A, B, C] {
            assert_eq!(conduct.fault(model), Fault::Machine);
        }
    }

    #[test]
    fn when_all_overrun_now_and_then_it_is_the_machine() {
        let conduct = courses([
            &[200, 90, 90, 200, 90, 90, 200, 90],
            &[90, 200, 90, 90, 200, 90, 90, 200],
            &[90, 90, 200, 90, 90, 200, 90, 90],
        ]);
        for model in [A, B, C] {
            assert_ne!(conduct.fault(model), Fault::Model, "{model:?}");
        }
    }

    #[test]
    fn two_that_overrun_are_both_to_blame_if_a_third_does_not() {
        let conduct = courses([&[300; 8], &[150; 8], &[90; 8]]);
        assert_eq!(conduct.fault(A), Fault::Model);
        assert_eq!(conduct.fault(B), Fault::Model);
    }

    #[test]
    fn without_witnesses_nobody_is_blamed() {
        assert_eq!(courses([&[300; 8], &[], &[]]).fault(A), Fault::Machine);
        // The other one ran before.
        let mut conduct = courses([&[90; 4], &[90; 4], &[]]);
        for step in 10..20 {
            conduct.book(A, (Nanos::new(300), Nanos::new(100)), true, at(step));
        }
        assert_eq!(conduct.fault(A), Fault::Unknown);
        assert!(conduct.is_hopeless(A));
    }

    #[test]
    fn a_demoted_model_bears_no_witness_and_starts_afresh_when_it_is_reinstated() {
        let mut conduct = courses([&[300; 8], &[90; 8], &[]]);
        conduct.set_demoted(B, true, at(8));
        assert_eq!(conduct.fault(A), Fault::Machine);
        conduct.set_demoted(A, true, at(8));
        let parameters = PunctualConfig::default();
        for step in 0..u64::from(parameters.reinstate_after) {
            assert!(!conduct.has_mended(A, &parameters, at(10_000)));
            conduct.book(A, (Nanos::new(80), Nanos::new(100)), false, at(9 + step));
        }
        assert!(!conduct.has_mended(A, &parameters, at(9)));
        assert!(conduct.has_mended(A, &parameters, at(10_000)));
        conduct.set_demoted(A, false, at(10_000));
        assert_eq!(conduct.fault(A), Fault::Nobody);
    }

    #[test]
    fn budgets_are_stretched_to_the_longest_of_the_window() {
        let conduct = courses([&[90, 310, 200], &[], &[]]);
        let stretched = conduct.stretched(A, Nanos::new(1_000));
        assert!(
            (3_100..=3_101).contains(&stretched.as_nanos()),
            "{stretched:?}"
        );
        assert_eq!(conduct.stretched(B, Nanos::new(1_000)), Nanos::new(1_000));
    }
}
