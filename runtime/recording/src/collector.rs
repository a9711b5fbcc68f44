//! From steps to segments, each with the state that it begins with.
//!
//! The scheduler's thread writes no states: they are long. A second scheduler, the *twin*, takes each recorded step again, on an
//! ordinary thread, and has the same state. That it decides the same is a check of both.

use punctual_core::{Actions, Config, ConfigError, Instant, Nanos, PolicySpec, Scheduler};

use crate::entry::{Entry, Sent, Step};
use crate::ring::Told;
use crate::segment::Segment;

/// The length of a segment.
pub const SEGMENT: Nanos = Nanos::from_millis(1_000);

/// Makes segments of steps.
pub struct Collector {
    /// None once steps were lost, or decided otherwise: the state is unknown from there on.
    twin: Option<Twin>,
    segment: Segment,
    differing: u64,
}

struct Twin {
    scheduler: Scheduler,
    actions: Actions,
}

impl Twin {
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
    pub fn new(config: &Config, policy: &dyn PolicySpec) -> Result<Self, ConfigError> {
        let scheduler = Scheduler::new(config, policy)?;
        let actions = Actions::for_config(config);
        Ok(Self {
            // Without states, it would be of no use.
            twin: scheduler
                .state()
                .is_some()
                .then_some(Twin { scheduler, actions }),
            segment: Segment::new(0, Instant::ZERO, None),
            differing: 0,
        })
    }

    /// Takes the next step in; the segment before it, if that is complete.
    pub fn step(&mut self, told: Told) -> Option<Segment> {
        let Told { lost_before, step } = told;
        if self.segment.is_empty() {
            self.segment.begins(step.now);
        }
        let is_over = step.now.since(self.segment.from) >= SEGMENT;
        let complete = is_over.then(|| self.next(step.now));
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
        complete
    }

    pub fn sent(&mut self, sent: Sent) {
        self.segment.push(&Entry::Sent(sent));
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
