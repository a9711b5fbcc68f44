//! The scheduler, open to tests, in an environment of virtual time. The auditor, which checks what is
//! promised, is above this crate: here only missed deadlines are counted.

use core::ops::{Deref, DerefMut};
use std::vec::Vec;

use super::environment::Environment;
pub use super::environment::{Ending, Exact, Nature};
use crate::policy::Policy as _;
use crate::punctual::Punctual;
use crate::{
    Action, Actions, Config, Criticality, Event, Failure, Instant, PunctualConfig, Rejection,
    Reply, TaskId, Verdict,
};

#[derive(Clone, Debug)]
pub struct World<N> {
    pub scheduler: Punctual,
    environment: Environment<N>,
    /// Accepted real-time requests that are late, or given up after that.
    pub misses: u64,
    actions: Actions,
}

impl<N: Nature> World<N> {
    pub fn new(config: Config, nature: N) -> Self {
        Self::with(config, PunctualConfig::default(), nature)
    }

    pub fn with(config: Config, parameters: PunctualConfig, nature: N) -> Self {
        Self {
            scheduler: Punctual::new(&config, parameters).expect("the plan is valid"),
            actions: Actions::for_config(&config),
            environment: Environment::new(config, nature),
            misses: 0,
        }
    }

    /// Runs until nothing is left to happen or `end` has come.
    pub fn run_until(&mut self, end: Instant) {
        while let Some(event) = self.environment.next(self.scheduler.next_timer(), end) {
            self.step(&event);
        }
    }

    /// Makes one step and carries out its actions.
    pub fn step(&mut self, event: &Event) {
        self.actions.clear();
        let now = self.now;
        self.scheduler.step(now, event, &mut self.actions);
        let actions: Vec<Action> = self.actions.iter().cloned().collect();
        for action in actions {
            if let Action::Reply(reply) = &action {
                self.misses += u64::from(self.breaks_a_promise(event, reply));
            }
            self.carry_out(action);
        }
    }

    fn breaks_a_promise(&self, event: &Event, reply: &Reply) -> bool {
        let task = &self.config.tasks[reply.task.index()];
        // The task's own model, or that of the task that it offloads to.
        let paged = |id: TaskId| {
            let model = self.config.tasks[id.index()].model;
            self.config.models[model.index()].weights.is_some()
        };
        let waits_for_weights = paged(reply.task) || task.offload_to.is_some_and(paged);
        let undecided = matches!(event, Event::Arrived(_) | Event::Prepared { .. });
        let broken = match reply.verdict {
            Verdict::Late | Verdict::Failed(Failure::Shed) => true,
            Verdict::Rejected(Rejection::Superseded) => false,
            Verdict::Rejected(_) => !undecided && !waits_for_weights,
            _ => false,
        };
        broken && task.criticality == Criticality::RealTime
    }

    /// Drains and runs to the end.
    pub fn drain(&mut self) {
        self.step(&Event::Drain);
        self.run_until(Instant::FAR_FUTURE);
        assert!(
            self.scheduler.drained(),
            "no event is left, but the scheduler is not drained"
        );
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
