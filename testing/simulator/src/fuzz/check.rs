//! Runs a case and says what is wrong with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use punctual_core::{Action, ConfigError, Event, Instant, PolicySpec, Scheduler};
use punctual_types::Random;

use super::Case;
use super::replayed;
use super::twin::Twinned;
use crate::arrivals::Pattern;
use crate::audit::{Auditor, Finding};
use crate::observer::Observer;
use crate::outcome::{Ending, Outcome};
use crate::run::{Settings, run_plan};
use crate::scenario::Scenario;
use crate::summary::Queries;

/// Why a case fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Violation(Finding),
    #[error("panicked: {0}")]
    Panic(String),
    /// The scheduler's recount of its own state contradicts it.
    #[error("after the step at {at:?}: {broken}")]
    State { broken: &'static str, at: Instant },
    /// The run did not come to its end.
    #[error("the run ended as {ending:?} at {at:?}")]
    Stuck { ending: Ending, at: Instant },
    /// Verdicts and submissions do not add up.
    #[error("{stray} stray verdicts, {stale} events that the scheduler could not place")]
    Untraced {
        stray: u64,
        /// Events about what is not open.
        stale: u64,
    },
    /// The queries on time are others than those that the auditor counts.
    #[error("queries: {counted:?}, by the auditor {audited:?}")]
    Queries {
        counted: Vec<Queries>,
        audited: Vec<Queries>,
    },
    /// Two runs of the same case differ.
    #[error("a second run differs from the first")]
    Nondeterministic,
    #[error("its recording, replayed: {0}")]
    Replay(String),
    /// The scheduler takes a plan that is not schedulable, or refuses one that is.
    #[error(
        "the plan is schedulable: {definition} by the definition, {scheduler} by the scheduler"
    )]
    Disagreement {
        /// What the auditor's reading of the definition says.
        definition: bool,
        scheduler: bool,
    },
    /// The case cannot be run at all: the fuzzer drew nonsense.
    #[error("refused: {0}")]
    Refused(String),
}

impl Failure {
    /// Whether another failure is of the same kind: what the shrinker must keep.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        use std::mem::discriminant;
        match (self, other) {
            (Self::Violation(a), Self::Violation(b)) => {
                discriminant(&a.violation) == discriminant(&b.violation)
            }
            (Self::Panic(a), Self::Panic(b)) | (Self::Replay(a), Self::Replay(b)) => {
                place(a) == place(b)
            }
            (Self::State { broken: a, .. }, Self::State { broken: b, .. }) => a == b,
            _ => discriminant(self) == discriminant(other),
        }
    }
}

/// The words of a message before its numbers.
fn place(message: &str) -> &str {
    let end = message.find(|c: char| c.is_ascii_digit());
    &message[..end.unwrap_or(message.len())]
}

/// What a case that passes has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub submitted: u64,
    pub on_time: u64,
    /// The scheduler's steps.
    pub steps: u64,
    /// Those that another task took on.
    pub offloaded: u64,
    pub demotions: u64,
    /// Those that a newer frame took the place of.
    pub superseded: u64,
    /// Frames of roots of pipelines, and those answered in time with all their parts.
    pub queries: u64,
    pub queries_on_time: u64,
    /// Times that a promise's assumption broke.
    pub gaps: u64,
    /// Steps that were compared with a recording of them.
    pub replayed: u64,
    /// The plan was refused, rightly.
    pub infeasible: bool,
}

/// Steps after which a case is taken for endless, beyond those that its closed loops may need.
const STEPS_MAX: u64 = 2_000_000;

/// Steps after which this case is taken for endless. A closed loop of which every request is rejected submits one
/// each `retry`, and each submission takes at most four steps: arrival, preparation, a timer, a completion.
fn steps_max(scenario: &Scenario) -> u64 {
    let retries = scenario.tasks.iter().map(|task| match task.pattern {
        Pattern::ClosedLoop {
            outstanding, retry, ..
        } => {
            let rounds = scenario.length.as_nanos() / retry.as_nanos().max(1);
            u64::from(outstanding) * rounds
        }
        _ => 0,
    });
    STEPS_MAX + 4 * retries.sum::<u64>()
}

/// The auditor, the scheduler's own recount after each step, and an end to it all.
struct Watch {
    auditor: Auditor,
    /// The first invariant that did not hold, and when.
    broken: Option<(&'static str, Instant)>,
    steps: u64,
    steps_max: u64,
}

impl Observer for Watch {
    fn event(&mut self, now: Instant, event: &Event) {
        self.steps += 1;
        assert!(self.steps < self.steps_max, "the run has no end");
        self.auditor.event(now, event);
    }

    fn action(&mut self, now: Instant, action: &Action) {
        self.auditor.action(now, action);
    }

    fn stepped(&mut self, now: Instant, scheduler: &Scheduler) {
        if self.broken.is_none() {
            self.broken = scheduler.check().err().map(|broken| (broken, now));
        }
    }

    fn end(&mut self, now: Instant) {
        self.auditor.finish(now);
    }
}

/// Runs a case; for some seeds through a recording, or a second time with a copy of the policy that is made from its states.
pub fn check(case: &Case) -> Result<Passed, Failure> {
    checked(case, case.seed % 32 == 1)
}

/// The same, through a recording whatever the seed.
pub fn check_recorded(case: &Case) -> Result<Passed, Failure> {
    checked(case, true)
}

fn checked(case: &Case, recorded: bool) -> Result<Passed, Failure> {
    let once = |policy: &dyn PolicySpec, recorded: bool| {
        catch_unwind(AssertUnwindSafe(|| run(case, policy, recorded)))
            .unwrap_or_else(|panic| Err(Failure::Panic(message(panic.as_ref()))))
    };
    let first = once(&*case.policy, recorded)?;
    if case.seed.is_multiple_of(16) {
        let twinned = Twinned {
            of: Arc::clone(&case.policy),
            every: 1 + case.seed / 16 % 50,
        };
        if once(&twinned, false)?.1 != first.1 {
            return Err(Failure::Nondeterministic);
        }
    }
    Ok(first.0)
}

fn run(
    case: &Case,
    policy: &dyn PolicySpec,
    recorded: bool,
) -> Result<(Passed, Option<Outcome>), Failure> {
    let config = case.config();
    let watch = Watch {
        auditor: Auditor::new(&config, case.policy.contract())
            .with_pipelines(case.scenario.pipelines()),
        broken: None,
        steps: 0,
        steps_max: steps_max(&case.scenario),
    };
    let recording = recorded.then(|| replayed::begin(case, &config));
    let mut observers = (watch, recording);
    let settings = Settings {
        seed: case.seed,
        keep_requests: true,
    };
    let definition = !case.promises() || case.is_schedulable();
    let scenario = &case.scenario;
    let arrivals = scenario
        .arrivals(1.0, &Random::new(case.seed))
        .map_err(|error| Failure::Refused(error.to_string()))?;
    let ran = run_plan(
        scenario,
        &config,
        policy,
        arrivals,
        settings,
        &mut observers,
    );
    let (watch, recording) = observers;
    if let Some((broken, at)) = watch.broken {
        return Err(Failure::State { broken, at });
    }
    let outcome = match ran {
        Ok(_) if !definition => {
            return Err(Failure::Disagreement {
                definition,
                scheduler: true,
            });
        }
        Ok(outcome) => outcome,
        Err(ConfigError::Infeasible { .. }) if definition => {
            return Err(Failure::Disagreement {
                definition,
                scheduler: false,
            });
        }
        Err(ConfigError::Infeasible { .. }) => {
            let infeasible = Passed {
                infeasible: true,
                ..Passed::default()
            };
            return Ok((infeasible, None));
        }
        Err(error) => return Err(Failure::Refused(error.to_string())),
    };
    if outcome.ending != Ending::Drained {
        return Err(Failure::Stuck {
            ending: outcome.ending,
            at: outcome.ended,
        });
    }
    if let Some(finding) = watch.auditor.findings().first() {
        return Err(Failure::Violation(*finding));
    }
    let (stray, stale) = (outcome.effort.stray_replies, outcome.effort.stale_events);
    if stray + stale > 0 {
        return Err(Failure::Untraced { stray, stale });
    }
    let audited = watch.auditor.queries();
    if audited != outcome.queries {
        let counted = outcome.queries;
        return Err(Failure::Queries { counted, audited });
    }
    let steps = outcome.effort.steps;
    let replayed = recording.map_or(Ok(0), |recording| {
        replayed::differences(recording, &config, policy, steps)
    })?;
    let passed = Passed {
        submitted: outcome.total.submitted,
        on_time: outcome.total.on_time,
        steps,
        offloaded: outcome.effort.offloaded,
        demotions: outcome.effort.demotions,
        superseded: outcome.total.rejected.superseded,
        queries: outcome.queries.iter().map(|of| of.submitted).sum(),
        queries_on_time: outcome.queries.iter().map(|of| of.on_time).sum(),
        gaps: watch.auditor.gaps().len() as u64,
        replayed,
        infeasible: false,
    };
    Ok((passed, Some(outcome)))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "(no message)".to_owned())
}
