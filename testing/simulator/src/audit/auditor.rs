//! The auditor's way through the record: events, and what each step made of them.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{
    Action, ActionId, Config, Contract, Event, Instant, ModelId, Nanos, PartitionId, Partitioning,
    RequestId, TaskConfig, TaskId,
};

use super::claims::{Broken, Claims, Gap, everything_once, is_real_time};
use super::demotion::Conduct;
use super::floor::Floor;
use super::queries::{Audited, Member};
use super::readiness::Loaded;
use super::request_log::{Key, Place, RequestLog, Submission, key};
use super::violation::{Findings, Violation};
use super::weights::Memory;
use crate::observer::Observer;

/// What the step under way is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A submission arrived; it has to be decided upon.
    Arrived(Key),
    /// A request's input is there, and readable.
    Prepared(Key),
    /// A request's input could not be read.
    Unreadable(Key),
    /// A device reported an action as failed.
    Failed(ActionId),
    /// A device brought a model's weights.
    Loaded(ModelId),
    /// A device could not bring a model's weights.
    NotLoaded(ModelId),
    Other,
}

/// What is known of one run. The page of [`super`] says what is checked.
#[derive(Clone, Debug)]
pub struct Auditor {
    pub(super) config: Config,
    /// The default policy, which alone makes promises.
    pub(super) punctual: bool,
    /// No frame is answered before all of its network can run.
    pub(super) runs_whole: bool,
    /// Stages may run on places.
    pub(super) lends: bool,
    /// Batches shrink as members leave them.
    pub(super) shrinks_batches: bool,
    /// Promised work may wait for a frame to share a batch with.
    pub(super) may_wait: bool,
    /// How many real-time requests were promised their deadlines.
    promised: u64,
    pub(super) now: Instant,
    pub(super) subject: Subject,
    pub(super) log: RequestLog,
    pub(super) floor: Floor,
    pub(super) memory: Memory,
    pub(super) claims: Claims,
    pub(super) conduct: Conduct,
    pub(super) loaded: Loaded,
    pub(super) pipelines: Vec<Audited>,
    /// The open frames and parts of queries.
    pub(super) members: BTreeMap<Key, Member>,
    pub(super) findings: Findings,
    /// Members of the action that failed in this step.
    pub(super) failed: Vec<RequestId>,
    pub(super) draining: bool,
    /// Best-effort work must be given up.
    pub(super) shedding: bool,
    /// Partitions whose threads the machine does not run.
    pub(super) starved: BTreeSet<PartitionId>,
    pub(super) arrivals: u64,
    /// Frames that made way in this step to the one that was prepared.
    pub(super) made_way: Vec<(Key, Submission)>,
    /// The newest submission that was taken on, by client and task.
    pub(super) taken_on: BTreeMap<(u16, u16), u64>,
    /// Buffers that only conforming requests may take, by task.
    pub(super) kept: Vec<usize>,
    /// H of the bound on verdicts.
    pub(super) patience: Nanos,
    /// Time that the device's faults have taken so far.
    pub(super) stolen: Nanos,
}

impl Auditor {
    /// Starts the audit of a run under `config`, by a policy of this contract.
    #[must_use]
    pub fn new(config: &Config, contract: Contract) -> Self {
        let punctual = contract.promises;
        let shared = contract.partitioning == Partitioning::PerTask;
        // One action runs; with a lead, the next may be there already.
        let depth = if contract.launch_lead > Nanos::ZERO {
            2
        } else {
            1
        };
        Self {
            punctual,
            runs_whole: contract.runs_whole,
            lends: contract.lends,
            shrinks_batches: contract.shrinks_batches,
            may_wait: batches(config),
            promised: 0,
            now: Instant::ZERO,
            subject: Subject::Other,
            log: RequestLog::new(config.request_buffers, config.tasks.len()),
            floor: Floor::new(config, shared, depth),
            memory: Memory::new(config),
            claims: Claims::new(config, punctual),
            conduct: Conduct::new(contract.demotion),
            loaded: Loaded::default(),
            pipelines: Vec::new(),
            members: BTreeMap::new(),
            findings: Findings::default(),
            failed: Vec::new(),
            draining: false,
            shedding: false,
            starved: BTreeSet::new(),
            arrivals: 0,
            made_way: Vec::new(),
            taken_on: BTreeMap::new(),
            kept: config
                .tasks
                .iter()
                .map(|t| if punctual { kept(t) } else { 0 })
                .collect(),
            patience: everything_once(config),
            stolen: Nanos::ZERO,
            config: config.clone(),
        }
    }

    /// Holds the policy to work that never waits for a frame to share a batch with.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.may_wait = false;
        self
    }

    /// Records a whole step.
    ///
    /// # Errors
    /// The first violation found so far.
    pub fn step(
        &mut self,
        now: Instant,
        event: &Event,
        actions: &[Action],
    ) -> Result<(), Violation> {
        self.event(now, event);
        for action in actions {
            self.action(now, action);
        }
        self.close_step();
        self.outcome()
    }

    /// # Errors
    /// The first violation found so far.
    pub fn outcome(&self) -> Result<(), Violation> {
        let first = self.findings.first();
        first.map_or(Ok(()), |finding| Err(finding.violation))
    }

    /// Records an event, when the scheduler learns of it. Its actions follow.
    pub fn event(&mut self, now: Instant, event: &Event) {
        self.close_step();
        self.pass_time(now);
        self.subject = Subject::Other;
        self.failed.clear();
        match event {
            Event::Arrived(arrival) => self.arrived(arrival),
            Event::Prepared { request, ready, .. } => self.prepared(*request, *ready),
            Event::Finished(finished) => self.finished(finished),
            Event::NotRun { action } => self.did_not_end(*action, Some(Broken::NotStarted)),
            Event::Preempted { action } => self.did_not_end(*action, None),
            Event::Failed { action } => {
                if let Some(model) = self.memory.loaded(*action, false) {
                    self.subject = Subject::NotLoaded(model);
                } else {
                    self.subject = Subject::Failed(*action);
                    self.did_not_end(*action, Some(Broken::DeviceFailed));
                }
            }
            Event::Loaded { action, .. } => {
                if let Some(model) = self.memory.loaded(*action, true) {
                    self.subject = Subject::Loaded(model);
                }
            }
            Event::ClientGone { client } => {
                let of_client = |k: &&Key| k.0 == client.0;
                let keys: Vec<Key> = self.log.open.keys().filter(of_client).copied().collect();
                for key in keys {
                    if let Some(submission) = self.log.open.get_mut(&key) {
                        submission.gone = true;
                    }
                }
                self.query_client_gone(client.0);
            }
            Event::Burst {
                task,
                captured,
                requests,
            } => {
                let config = &self.config.tasks[task.index()];
                self.claims.announced(*task, config, *captured, *requests);
                self.parts_announced(*task, *captured, *requests);
            }
            Event::Tick => {}
            Event::Drain => self.draining = true,
            Event::Shed { hold } => self.shedding = *hold,
            Event::Starved { partition, starved } => {
                if *starved {
                    self.starved.insert(*partition)
                } else {
                    self.starved.remove(partition)
                };
            }
            Event::Readiness(said) => self.said_ready(said),
        }
    }

    /// Records an order of the current step.
    pub fn action(&mut self, now: Instant, action: &Action) {
        if now > self.now {
            // A timer's step: nothing else makes the scheduler act.
            self.event(now, &Event::Tick);
        }
        let outcome = match action {
            Action::Prepare {
                request,
                task,
                ticket,
            } => self.ordered_preparation(*request, *task, key(*ticket)),
            Action::Infer(infer) => self.ordered(infer),
            Action::Preempt { partition, action } => {
                if self.floor.tell(self.now, *partition, *action) {
                    Ok(())
                } else {
                    Err(Violation::WrongPreemption { action: *action })
                }
            }
            Action::Load { id, model } => {
                if self.floor.is_new(*id) {
                    self.memory.load(self.now, *id, *model)
                } else {
                    Err(Violation::UnknownPlace { action: *id })
                }
            }
            Action::Unload { model } => {
                let flights = self.floor.flights.values();
                let in_use = flights.into_iter().any(|f| f.infer.model == *model);
                let mut open = self.log.open.values();
                // Others promise nothing, and load again what is still wanted.
                let relied_upon = self.punctual
                    && open.any(|s| {
                        (s.mandatory || s.next_stage > 0) && self.task(s.task).model == *model
                    });
                self.memory.unload(*model, in_use || relied_upon)
            }
            Action::Demote(demotion) => self.demoted(demotion),
            Action::Reinstate { partition, model } => self.reinstated(*partition, *model),
            Action::Deliver(reply) => self.delivered(reply),
            Action::Reply(reply) => self.verdict(reply),
        };
        if let Err(violation) = outcome {
            self.found(violation);
        }
    }

    /// Ends the audit at the end of the run: nothing may be open.
    pub fn finish(&mut self, now: Instant) {
        self.close_step();
        self.pass_time(now);
        let open: Vec<Key> = self.log.open.keys().copied().collect();
        for key in open {
            let Some(submission) = self.log.close(key) else {
                continue;
            };
            self.found(Violation::Lost {
                task: submission.origin,
                sequence: key.2,
                arrived: submission.arrived,
            });
        }
        self.finish_queries();
    }

    /// Submissions without a verdict.
    #[must_use]
    pub fn open(&self) -> usize {
        self.log.open.len()
    }

    /// How many real-time requests were promised their deadlines so far.
    #[must_use]
    pub const fn promised(&self) -> u64 {
        self.promised
    }

    #[must_use]
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The spans in which nothing was claimed because an assumption was broken; the first thousand.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.claims.gaps
    }

    pub(super) fn found(&mut self, violation: Violation) {
        self.findings.add(self.now, violation);
    }

    pub(super) fn task(&self, task: TaskId) -> &TaskConfig {
        &self.config.tasks[task.index()]
    }

    /// What has to be true once a step's actions are all known.
    fn close_step(&mut self) {
        if self.punctual {
            self.check_deliveries();
        }
        match std::mem::replace(&mut self.subject, Subject::Other) {
            Subject::Arrived(key) => {
                let open = self.log.open.get(&key);
                if let Some(undecided) = open.filter(|s| s.place == Place::Arriving) {
                    let task = undecided.task;
                    let sequence = key.2;
                    self.log.close(key);
                    self.found(Violation::Undecided { task, sequence });
                }
            }
            Subject::Prepared(key) => {
                self.promise(key);
                self.take_places(key);
            }
            Subject::Loaded(model) => {
                // Those that this step has started waited until then.
                let waits = |s: &Submission| {
                    matches!(s.place, Place::Waiting | Place::Running(_))
                        && !s.mandatory
                        && s.next_stage == 0
                        && self.task(s.task).model == model
                };
                let open = self.log.open.iter().filter(|(_, s)| waits(s));
                let mut keys: Vec<(u64, Key)> = open.map(|(key, s)| (s.order, *key)).collect();
                keys.sort_unstable();
                for (_, key) in keys {
                    self.promise(key);
                }
                self.take_places_of(model);
            }
            Subject::Unreadable(_)
            | Subject::Failed(_)
            | Subject::NotLoaded(_)
            | Subject::Other => {}
        }
        // No frame was prepared, or it does not take the place of those: they made way to no frame.
        let to_nobody = std::mem::take(&mut self.made_way);
        for (key, older) in to_nobody {
            let (task, sequence) = (older.origin, key.2);
            self.found(Violation::SupersededByNobody { task, sequence });
        }
        self.check_shedding();
        self.check_priorities();
        self.claims.settle(self.now);
    }

    /// A request was taken on, if it is still there: its deadline is promised, unless it still waits for weights.
    fn promise(&mut self, key: Key) {
        let demoted = self.log.open.get(&key).map(|s| s.task);
        let demoted = demoted.is_some_and(|task| self.is_demoted(task));
        let Some(submission) = self.log.open.get_mut(&key) else {
            return;
        };
        if demoted {
            return self.take_back(key);
        }
        let task = &self.config.tasks[submission.task.index()];
        let there = !self.punctual || self.memory.is_present(task.model);
        if there && is_real_time(task) && submission.answer.is_none() {
            submission.mandatory = true;
            self.promised += 1;
            submission.promised_in = self.claims.epoch(task.partition);
            self.claims.mandatory(task.partition, true);
        }
    }
}

impl Observer for Auditor {
    fn event(&mut self, now: Instant, event: &Event) {
        Self::event(self, now, event);
    }

    fn action(&mut self, now: Instant, action: &Action) {
        Self::action(self, now, action);
    }

    fn end(&mut self, now: Instant) {
        self.finish(now);
    }
}

/// Whether any two frames can share a batch.
fn batches(config: &Config) -> bool {
    config.tasks.iter().any(|task| {
        let first = &config.models[task.model.index()].stages[0];
        first.times.len() > 1 && task.batch_max > 1
    })
}

/// Buffers and queue places that only a task's conforming requests may take.
fn kept(task: &TaskConfig) -> usize {
    let Some(deadline) = task.deadline.filter(|_| task.reserved) else {
        return 0;
    };
    let span = (deadline + task.jitter).as_nanos();
    let periods = span.div_ceil(task.period.as_nanos().max(1));
    usize::try_from(periods)
        .unwrap_or(usize::MAX)
        .saturating_add(1)
        .saturating_mul(usize::from(task.burst))
}
