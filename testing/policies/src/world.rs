//! Clients, an intake and a device in virtual time; the auditor looks at every step.

use std::ops::{Deref, DerefMut};

use punctual_core::{
    Action, Actions, Config, Event, Instant, PolicySpec, PunctualConfig, Rejection, Reply,
    Scheduler, TaskId, Verdict,
};
use punctual_simulator::audit::{Auditor, Violation};

use crate::environment::Environment;
pub use crate::environment::{Ending, Exact, Nature, UNSURE};

/// Steps after which a run that should have ended is taken for one that never will.
const STEPS_MAX: u64 = 1_000_000;

#[derive(Debug)]
pub struct World<N> {
    pub scheduler: Scheduler,
    pub auditor: Auditor,
    environment: Environment<N>,
    /// A fault planted into the decisions of a step before anybody sees them.
    pub tamper: Option<fn(&mut Vec<Action>)>,
    actions: Actions,
    steps: u64,
}

impl<N: Nature> World<N> {
    /// Under the default policy.
    ///
    /// # Panics
    /// If the plan does not pass.
    pub fn new(config: Config, nature: N) -> Self {
        Self::with(config, PunctualConfig::default(), nature)
    }

    /// Under the default policy with other parameters.
    ///
    /// # Panics
    /// If the plan does not pass.
    pub fn with(config: Config, parameters: PunctualConfig, nature: N) -> Self {
        let mut world = Self::under(config, &parameters, nature);
        if !parameters.waiting {
            world.auditor = world.auditor.without_waiting();
        }
        world
    }

    /// Under any policy.
    ///
    /// # Panics
    /// If the policy does not take the plan.
    pub fn under(config: Config, policy: &dyn PolicySpec, nature: N) -> Self {
        Self {
            scheduler: Scheduler::new(&config, policy).expect("the plan is valid"),
            auditor: Auditor::new(&config, policy.contract()),
            actions: Actions::for_config(&config),
            environment: Environment::new(config, nature),
            tamper: None,
            steps: 0,
        }
    }

    /// Runs until nothing is left to happen or `end` has come. Timers due before the next event
    /// tick; at equal times events come first.
    ///
    /// # Errors
    /// What the auditor found first.
    ///
    /// # Panics
    /// If the scheduler's own counters do not add up, or a timer is not over after its tick.
    pub fn run_until(&mut self, end: Instant) -> Result<(), Violation> {
        while let Some(event) = self.environment.next(self.scheduler.next_timer(), end) {
            self.step(&event)?;
            let after = self.scheduler.next_timer();
            assert!(
                event != Event::Tick || after.is_none_or(|t| t > self.now),
                "a tick leaves its timer at {after:?} when it is {:?}",
                self.now
            );
        }
        Ok(())
    }

    /// Shuts down, runs to the end, and checks that nothing is left.
    ///
    /// # Errors
    /// What the auditor found first.
    ///
    /// # Panics
    /// If no event is left, but the scheduler is not drained.
    pub fn drain(&mut self) -> Result<(), Violation> {
        self.step(&Event::Drain)?;
        self.run_until(Instant::from_nanos(u64::MAX / 2))?;
        self.auditor.finish(self.now);
        self.auditor.outcome()?;
        assert!(
            self.scheduler.drained(),
            "no event is left, but the scheduler is not drained"
        );
        Ok(())
    }

    /// One step, audited and carried out.
    ///
    /// # Errors
    /// What the auditor found first.
    ///
    /// # Panics
    /// If the scheduler's own counters do not add up.
    pub fn step(&mut self, event: &Event) -> Result<(), Violation> {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "the run does not end");
        self.actions.clear();
        self.scheduler.step(self.now, event, &mut self.actions);
        let mut actions: Vec<Action> = self.actions.iter().cloned().collect();
        if let Some(tamper) = self.tamper {
            tamper(&mut actions);
        }
        self.auditor.step(self.now, event, &actions)?;
        for action in actions {
            self.carry_out(action);
        }
        if self.tamper.is_none() {
            self.check_counters();
        }
        Ok(())
    }

    /// The scheduler's counters agree with themselves and with the auditor's log.
    fn check_counters(&self) {
        let mut open = 0;
        for task in 0..self.config.tasks.len() {
            let c = self.scheduler.counters(TaskId(task as u16));
            let verdicts = c.on_time + c.late + c.rejected() + c.failed();
            assert_eq!(c.submitted, verdicts + c.open, "{c:?}");
            open += c.open;
        }
        assert_eq!(open, self.scheduler.open() as u64);
        assert_eq!(open, self.auditor.open() as u64);
    }

    /// Frames of a task without an answer, except superseded ones.
    pub fn refused(&self, task: TaskId) -> usize {
        let superseded = Verdict::Rejected(Rejection::Superseded);
        let refused = |(_, reply): &(Instant, Reply)| {
            reply.task == task && reply.answer.is_none() && reply.verdict != superseded
        };
        self.replies().filter(refused).count()
    }

    /// Frames prepared for another task than the one that they were submitted to.
    pub fn offloaded(&self) -> u64 {
        let tasks = 0..self.config.tasks.len() as u16;
        let counters = tasks.map(|task| self.scheduler.counters(TaskId(task)));
        counters.map(|counters| counters.offloaded).sum()
    }
}

impl<N> Deref for World<N> {
    type Target = Environment<N>;
    fn deref(&self) -> &Environment<N> {
        &self.environment
    }
}

impl<N> DerefMut for World<N> {
    fn deref_mut(&mut self) -> &mut Environment<N> {
        &mut self.environment
    }
}
