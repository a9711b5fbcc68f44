//! `nexus`: the dispatcher of a Nexus back end (Nexus, SOSP 2019, sections 4.3 and 6.3). A *session* is
//! the requests for one model with one deadline; a device serves its sessions in turn, a batch each (the
//! duty cycle). A session's *target* is the batch size that its share of the cycle was planned for.
//!
//! **Early drop**, when a session's turn has come: a window as long as the target slides over the
//! queue; it stops at the first request whose deadline leaves time to run the whole window, and
//! all before that one are dropped. So no small, inefficient batch is run for the sake of a
//! request that is nearly late, and the queue catches up.
//!
//! **Lazy drop**, for comparison: requests are dropped once their deadline has passed, and the
//! first of the others fixes the batch: as large as its deadline allows, at least one.
//!
//! Left open by the source: a queue shorter than the target is a window of its length, and the policy does
//! not wait for it to fill; a session with an empty queue passes its turn on. A target that is not
//! given is the largest batch of which two fit the deadline (section 4.1: who just missed a batch
//! waits for the next), which is right for a session that has its partition to itself; for shared
//! ones the planner computes the targets. Networks run to the last exit.

use serde::{Deserialize, Serialize};

use crate::lines::{Line, Lines};
use punctual_core::{
    Actions, BATCH_MAX, Config, ConfigError, Contract, Instant, PartitionId, Partitioning, Policy,
    PolicySpec, Rejection, TaskId,
};
use punctual_policy_seeb::batch_runner::{Baseline, BaselineRules, BatchRunner};

/// When requests that cannot be on time are given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NexusDrop {
    /// As soon as they would make a batch smaller than it should be.
    #[default]
    Early,
    /// When their deadline has passed.
    Lazy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct NexusConfig {
    /// When requests are dropped.
    pub drop: NexusDrop,
    /// Target batch size of each task's session, by task; 0 or missing: computed.
    pub targets: Vec<u8>,
}

impl PolicySpec for NexusConfig {
    fn name(&self) -> &'static str {
        "nexus"
    }

    fn summary(&self) -> &'static str {
        "sessions in turn, planned batch sizes, early drop (Nexus)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(Partitioning::Whole)
    }

    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        self.obeys(self.broken_rule(config.tasks.len()))
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Nexus::new(config, self))
    }
}

impl NexusConfig {
    /// The first rule that a parameter breaks.
    fn broken_rule(&self, tasks: usize) -> Option<&'static str> {
        if self.targets.len() > tasks {
            return Some("targets: there must be no more than tasks");
        }
        let possible = |size: &u8| usize::from(*size) <= BATCH_MAX;
        (!self.targets.iter().all(possible)).then_some("targets: each must be at most 32")
    }
}

#[derive(Debug)]
struct Nexus {
    drop: NexusDrop,
    sessions: Lines,
    /// Target batch size of each session.
    targets: Box<[usize]>,
    /// By partition: the session whose turn is next.
    turns: Box<[usize]>,
}

impl Nexus {
    fn new(config: &Config, parameters: &NexusConfig) -> Self {
        let sessions = Lines::by(config, |task| (task.partition, task.model, task.deadline));
        let mut targets: Box<[usize]> = sessions.iter().map(target).collect();
        for (task, &given) in parameters.targets.iter().enumerate() {
            if given > 0 {
                let session = sessions.of(TaskId(task as u16));
                targets[session] = usize::from(given).min(sessions.get(session).batch_max);
            }
        }
        Self {
            drop: parameters.drop,
            turns: vec![0; config.partitions.len()].into(),
            sessions,
            targets,
        }
    }

    /// Serves the next session of a free partition that has requests.
    fn take_turn(
        &mut self,
        runner: &mut BatchRunner,
        partition: PartitionId,
        actions: &mut Actions,
    ) {
        let first = self.turns[partition.index()];
        for session in (first..self.sessions.len()).chain(0..first) {
            if self.sessions.get(session).partition != partition {
                continue;
            }
            let (passed, members) = self.window(runner, session);
            let line = self.sessions.get_mut(session);
            for _ in 0..passed {
                let buffer = line.pop().expect("the window is inside the queue");
                runner.reject(buffer, Rejection::NoSlack, actions);
            }
            if members > 0 {
                self.turns[partition.index()] = session + 1;
                let members = line.take(members);
                runner.start(partition, members, true, Instant::FAR_FUTURE, actions);
                return;
            }
        }
    }

    /// How many requests to drop from the front of a session, and how many to run after them.
    fn window(&self, runner: &BatchRunner, session: usize) -> (usize, usize) {
        let (line, target) = (self.sessions.get(session), self.targets[session]);
        match self.drop {
            NexusDrop::Early => early(runner, line, target),
            NexusDrop::Lazy => (0, lazy(runner, line, target)),
        }
    }
}

/// The first window all of which ends before the deadline of its first request.
fn early(runner: &BatchRunner, line: &Line, target: usize) -> (usize, usize) {
    for (passed, buffer) in line.iter().enumerate() {
        let window = target.min(line.len() - passed);
        if runner.now + line.time(window) <= runner.request(buffer).due {
            return (passed, window);
        }
    }
    (line.len(), 0)
}

/// The largest batch that ends before the deadline of the first request; one if none does.
fn lazy(runner: &BatchRunner, line: &Line, target: usize) -> usize {
    let Some(head) = line.head() else { return 0 };
    let due = runner.request(head).due;
    let fits = |&members: &usize| runner.now + line.time(members) <= due;
    let most = target.min(line.len());
    (1..=most).rev().find(fits).unwrap_or(1)
}

/// The largest batch b with 2 L(b) within the deadline; at least one.
fn target(session: &Line) -> usize {
    let fits = |&members: &usize| {
        let twice = session.time(members).saturating_mul(2);
        session.deadline.is_none_or(|deadline| twice <= deadline)
    };
    (1..=session.batch_max).rev().find(fits).unwrap_or(1)
}

impl BaselineRules for Nexus {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        self.sessions.insert(runner, buffer);
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        self.sessions.remove(runner, buffer);
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        if self.drop == NexusDrop::Lazy {
            self.sessions.reject_late(runner, actions);
        }
        for index in 0..runner.config.partitions.len() {
            let partition = PartitionId(index as u16);
            if runner.is_free(partition) {
                self.take_turn(runner, partition, actions);
            }
        }
    }

    fn next_timer(&self, _runner: &BatchRunner) -> Option<Instant> {
        None
    }
}
