//! From steps to segments, each with the state that it begins with.
//!
//! The scheduler's thread writes no states: they are long. A second scheduler, the *twin*, takes each recorded step again, on an
//! ordinary thread, and has the same state. That it decides the same is a check of both.

use std::sync::Arc;

use punctual_core::{Actions, Config, ConfigError, Instant, Nanos, PolicySpec, Scheduler};

use crate::entry::{Entry, Note, Sent, Step};
use crate::pictures::{Boxes, Picture};
use crate::ring::Told;
use crate::segment::Segment;

/// The length of a segment.
pub const SEGMENT: Nanos = Nanos::from_millis(1_000);

/// Makes segments of steps.
pub struct Collector {
    config: Config,
    policy: Arc<dyn PolicySpec>,
    /// None once steps were lost, or decided otherwise: the state is unknown until the scheduler says it.
    twin: Option<Twin>,
    segment: Segment,
    differing: u64,
}

struct Twin {
    scheduler: Scheduler,
    actions: Actions,
}

impl Twin {
    /// None if the policy keeps no states, of which it would be.
    fn new(config: &Config, scheduler: Scheduler) -> Option<Self> {
        let actions = Actions::for_config(config);
        let keeps_states = scheduler.state().is_some();
        keeps_states.then_some(Self { scheduler, actions })
    }

    /// Whether it decides the same.
    fn agrees(&mut self, step: &Step) -> bool {
        self.actions.clear();
        self.scheduler
            .step(step.now, &step.event, &mut self.actions);
        self.actions.iter().eq(&step.actions)
    }
}

impl Collector {
    /// Begins with a scheduler that was just made of these.
    ///
    /// # Errors
    /// Those of [`Scheduler::new`].
    pub fn new(config: &Config, policy: Arc<dyn PolicySpec>) -> Result<Self, ConfigError> {
        let scheduler = Scheduler::new(config, &*policy)?;
        Ok(Self {
            config: config.clone(),
            policy,
            twin: Twin::new(config, scheduler),
            segment: Segment::new(0, Instant::ZERO, None),
            differing: 0,
        })
    }

    /// Takes the next step in; the segment before it, or with it, if that is complete.
    pub fn step(&mut self, told: Told) -> Option<Segment> {
        let Told {
            lost_before,
            step,
            state,
        } = told;
        let now = step.now;
        if self.segment.is_empty() {
            self.segment.begins(step.now);
        }
        let is_over = now.since(self.segment.from) >= SEGMENT;
        let complete = (is_over && state.is_none()).then(|| self.next(now));
        if lost_before > 0 {
            self.twin = None;
            self.segment.push(&Entry::Lost { steps: lost_before });
        }
        if let Some(twin) = &mut self.twin
            && !twin.agrees(&step)
        {
            self.differing += 1;
            self.twin = None;
        }
        self.segment.push(&Entry::Step(step));
        let Some(state) = state else {
            return complete;
        };
        // Steps were lost, and the scheduler said where it is now: the next segment begins there.
        let restored = Scheduler::restore(&self.config, &*self.policy, &state).ok();
        self.twin = restored.and_then(|scheduler| Twin::new(&self.config, scheduler));
        Some(self.next(now))
    }

    pub fn sent(&mut self, sent: Sent) {
        self.segment.push(&Entry::Sent(sent));
    }

    pub fn note(&mut self, note: Note) {
        self.segment.note(note);
    }

    pub fn picture(&mut self, picture: Picture) {
        self.segment.picture(picture);
    }

    pub fn boxes(&mut self, boxes: Boxes) {
        self.segment.boxes(boxes);
    }

    /// What was collected since the last segment; the next one begins at `now`.
    pub fn next(&mut self, now: Instant) -> Segment {
        let state = self.twin.as_ref().and_then(|twin| twin.scheduler.state());
        let next = Segment::new(self.segment.number + 1, now, state);
        std::mem::replace(&mut self.segment, next)
    }

    /// How often the twin decided otherwise: a defect of Punctual, or of the machine.
    #[must_use]
    pub const fn differing(&self) -> u64 {
        self.differing
    }
}
