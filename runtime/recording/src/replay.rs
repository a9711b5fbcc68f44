//! Whether the scheduler decides the same again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_core::{
    Action, Actions, Arrival, Config, ConfigError, Event, PolicySpec, Scheduler, StateError,
};

use crate::entry::{Entry, Step};
use crate::read::ReadError;

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("the plan of the recording: {0}")]
    Plan(#[from] ConfigError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("segment {segment}: {source}")]
    State { segment: u64, source: StateError },
    #[error("segment {segment} begins with another state than the steps before it lead to")]
    OtherState { segment: u64 },
    #[error(
        "step {step} of segment {segment} decided otherwise: after {event:?} now {found:?}, recorded {recorded:?}"
    )]
    Differs {
        segment: u64,
        step: u64,
        event: Box<Event>,
        recorded: Vec<Action>,
        found: Vec<Action>,
    },
    #[error("step {step} of segment {segment} names what the plan does not have: {event:?}")]
    OtherPlan {
        segment: u64,
        step: u64,
        event: Box<Event>,
    },
    #[error(
        "step {step} of segment {segment} breaks the scheduler: the recording is damaged, or this is a defect of Punctual"
    )]
    Broken { segment: u64, step: u64 },
}

/// What was replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub segments: u64,
    pub steps: u64,
    pub actions: u64,
    /// Steps whose state is unknown, as steps before them are lost.
    pub skipped: u64,
    pub lost: u64,
}

/// Lets the scheduler take each recorded step again, and compares its actions.
///
/// # Errors
/// The first entry that cannot be read, or at which it differs.
pub fn replay(
    entries: impl IntoIterator<Item = Result<Entry, ReadError>>,
    config: &Config,
    policy: &dyn PolicySpec,
) -> Result<Replayed, ReplayError> {
    let mut replay = Replay {
        config,
        policy,
        scheduler: None,
        segment: 0,
        actions: Actions::for_config(config),
        steps: 0,
        done: Replayed::default(),
    };
    for entry in entries {
        match entry? {
            Entry::Segment { number, state } => replay.begin(number, state)?,
            Entry::Step(step) => replay.step(step)?,
            Entry::Lost { steps } => {
                replay.done.lost = replay.done.lost.saturating_add(steps);
                replay.scheduler = None;
            }
            Entry::Sent(_) => {}
        }
    }
    Ok(replay.done)
}

struct Replay<'p> {
    config: &'p Config,
    policy: &'p dyn PolicySpec,
    /// None while the state is unknown.
    scheduler: Option<Scheduler>,
    segment: u64,
    actions: Actions,
    /// Of the segment.
    steps: u64,
    done: Replayed,
}

impl Replay<'_> {
    fn begin(&mut self, segment: u64, state: Option<Vec<u8>>) -> Result<(), ReplayError> {
        let before = self.scheduler.take();
        self.scheduler = match (before, state) {
            (Some(scheduler), Some(state)) if scheduler.state().as_ref() != Some(&state) => {
                return Err(ReplayError::OtherState { segment });
            }
            (Some(scheduler), _) => Some(scheduler),
            (None, Some(state)) => {
                let restored = guarded(|| Scheduler::restore(self.config, self.policy, &state));
                let restored = restored.ok_or(ReplayError::Broken { segment, step: 0 })?;
                Some(restored.map_err(|source| ReplayError::State { segment, source })?)
            }
            (None, None) if segment == 0 && self.done.segments == 0 => {
                let made = guarded(|| Scheduler::new(self.config, self.policy));
                Some(made.ok_or(ReplayError::Broken { segment, step: 0 })??)
            }
            (None, None) => None,
        };
        self.segment = segment;
        self.steps = 0;
        self.done.segments += 1;
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), ReplayError> {
        let Some(scheduler) = &mut self.scheduler else {
            self.done.skipped += 1;
            return Ok(());
        };
        let (segment, at) = (self.segment, self.steps);
        self.steps += 1;
        let Step {
            now,
            event,
            actions: recorded,
            took: _,
        } = step;
        if !is_of(&event, self.config) {
            let event = Box::new(event);
            return Err(ReplayError::OtherPlan {
                segment,
                step: at,
                event,
            });
        }
        self.actions.clear();
        let decided = &mut self.actions;
        let taken = guarded(|| scheduler.step(now, &event, decided));
        taken.ok_or(ReplayError::Broken { segment, step: at })?;
        self.done.steps += 1;
        self.done.actions += recorded.len() as u64;
        if self.actions.iter().eq(&recorded) {
            return Ok(());
        }
        Err(ReplayError::Differs {
            segment,
            step: at,
            event: Box::new(event),
            recorded,
            found: self.actions.iter().cloned().collect(),
        })
    }
}

/// A damaged plan, state or event may break what the scheduler relies upon: none then, and it is not used again.
fn guarded<T>(take: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(take)).ok()
}

/// Whether an event names only what the plan has. Requests and actions that it does not have are stale to the scheduler.
fn is_of(event: &Event, config: &Config) -> bool {
    match event {
        Event::Arrived(Arrival { task, .. }) | Event::Burst { task, .. } => {
            task.index() < config.tasks.len()
        }
        Event::Starved { partition, .. } => partition.index() < config.partitions.len(),
        Event::Readiness(readiness) => readiness.model.index() < config.models.len(),
        _ => true,
    }
}
