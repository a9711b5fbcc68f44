//! Many cases, one after the other.

use std::fmt;
use std::sync::Arc;

use punctual_core::PolicySpec;

use super::check::{Failure, Passed, check, check_recorded};
use super::{Case, shrink};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    pub cases: u64,
    /// Most runs that go into shrinking a failing case.
    pub tries: u32,
    /// Whether every case goes through a recording, not only some.
    pub recorded: bool,
}

impl Campaign {
    fn check(self) -> fn(&Case) -> Result<Passed, Failure> {
        if self.recorded { check_recorded } else { check }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub cases: u64,
    /// Of these, plans that were rightly refused.
    pub infeasible: u64,
    pub submitted: u64,
    pub on_time: u64,
    /// The scheduler's steps.
    pub steps: u64,
    /// Those that another task took on than their own.
    pub offloaded: u64,
    pub demotions: u64,
    /// Those that a newer frame took the place of.
    pub superseded: u64,
    /// Frames of roots of pipelines, and those answered in time with all their parts.
    pub queries: u64,
    pub queries_on_time: u64,
    /// Times that an assumption of the guarantee broke.
    pub gaps: u64,
    /// Steps that were compared with a recording of them.
    pub replayed: u64,
    pub failures: Vec<Found>,
}

/// A failing case. Others that fail in the same way under the same policy are only counted.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed of the first such case.
    pub seed: u64,
    /// The smallest case found that fails like it.
    pub case: Case,
    pub failure: Failure,
    /// The seeds of more of them.
    pub others: Vec<u64>,
}

impl Report {
    fn count(&mut self, passed: Passed) {
        self.infeasible += u64::from(passed.infeasible);
        self.submitted += passed.submitted;
        self.on_time += passed.on_time;
        self.steps += passed.steps;
        self.offloaded += passed.offloaded;
        self.demotions += passed.demotions;
        self.superseded += passed.superseded;
        self.queries += passed.queries;
        self.queries_on_time += passed.queries_on_time;
        self.gaps += passed.gaps;
        self.replayed += passed.replayed;
    }

    fn add(&mut self, case: &Case, failure: &Failure, plan: Campaign) {
        let like = |found: &&mut Found| {
            found.failure.is_like(failure) && found.case.policy.name() == case.policy.name()
        };
        if let Some(known) = self.failures.iter_mut().find(like) {
            return known.others.push(case.seed);
        }
        let (smallest, failure) = shrink(case, failure, plan.tries, plan.check());
        self.failures.push(Found {
            seed: case.seed,
            case: smallest,
            failure,
            others: Vec::new(),
        });
    }
}

/// Runs a campaign with these policies (and `punctual` with any parameters) until it is over or
/// `goes_on` says no; it is asked after each case and told the report so far.
pub fn campaign(
    plan: Campaign,
    policies: &[Arc<dyn PolicySpec>],
    mut goes_on: impl FnMut(&Report) -> bool,
) -> Report {
    let mut report = Report::default();
    for seed in plan.first..plan.first.saturating_add(plan.cases) {
        let case = Case::draw(seed, policies);
        match plan.check()(&case) {
            Ok(passed) => report.count(passed),
            Err(failure) => report.add(&case, &failure, plan),
        }
        report.cases += 1;
        if !goes_on(&report) {
            break;
        }
    }
    report
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} cases ({} plans refused as infeasible): {} submissions, {} answered in time, {} \
             offloaded, {} superseded, {} of {} queries in time, {} models demoted, {} steps, {} replayed from recordings, {} broken assumptions, {} kinds of failures",
            self.cases,
            self.infeasible,
            self.submitted,
            self.on_time,
            self.offloaded,
            self.superseded,
            self.queries_on_time,
            self.queries,
            self.demotions,
            self.steps,
            self.replayed,
            self.gaps,
            self.failures.len()
        )?;
        for found in &self.failures {
            let (seed, others) = (found.seed, found.others.len());
            writeln!(f, "\nseed {seed} (and {others} like it): {}", found.failure)?;
            writeln!(f, "again: punctual simulate --fuzz 1 --seed {seed}")?;
            write!(f, "{}", found.case)?;
        }
        Ok(())
    }
}
