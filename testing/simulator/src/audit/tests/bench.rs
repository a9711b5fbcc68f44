//! The production loop over a small exact world, with a place for a planted fault between the
//! scheduler and the world.

use punctual_policy_seeb::SeebConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::{
    ACCURACY_BINS, Action, Actions, Answer, Answers, Arrival, BatchTime, ClientId, Confidence,
    Config, Criticality, Delivery, Event, Finished, Infer, Instant, ModelConfig, ModelId, Nanos,
    PartitionConfig, PartitionId, PolicySpec, PunctualConfig, Scheduler, StageConfig, StageId,
    StageTime, TaskConfig, TaskId, Ticket, Units,
};
use punctual_executor::{Events, World, drive};

use crate::audit::Auditor;

pub const fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

pub const fn at(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

/// Two stages, compiled for one and two, on one partition.
pub fn model(one: Nanos, two: Nanos) -> ModelConfig {
    let time = |batch, budget| BatchTime {
        batch,
        on: vec![StageTime {
            budget,
            max_seen: budget,
        }],
    };
    let stage = |deeper: usize| StageConfig {
        times: vec![time(1, one), time(2, two)],
        accuracy: [30_000 - 1_000 * deeper as u16; ACCURACY_BINS],
        deeper: vec![[30_000; ACCURACY_BINS]; deeper],
        follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
        answers: true,
        runs_as: None,
    };
    ModelConfig {
        stages: vec![stage(1), stage(0)],
        weights: None,
        places: Vec::new(),
    }
}

/// Reserved, every `period`, answered by its first exit within `period`.
pub fn task(model: u16, period: Nanos) -> TaskConfig {
    TaskConfig {
        model: ModelId(model),
        partition: PartitionId(0),
        criticality: Criticality::RealTime,
        deadline: Some(period),
        period,
        burst: 1,
        jitter: Nanos::ZERO,
        prepare: Nanos::ZERO,
        mandatory_exit: StageId(0),
        threshold: Confidence(60_000),
        threshold_min: Confidence(0),
        batch_max: 2,
        queue_max: 4,
        reserved: true,
        answers: Answers::Final,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    }
}

pub fn shipped() -> [Arc<dyn PolicySpec>; 2] {
    [
        Arc::new(PunctualConfig::default()),
        Arc::new(SeebConfig::default()),
    ]
}

/// Two reserved tasks (2 ms every 12 and every 20 ms) and a best-effort one in stages of 4 ms.
pub fn plan() -> Config {
    let best_effort = TaskConfig {
        criticality: Criticality::BestEffort,
        deadline: None,
        reserved: false,
        ..task(1, ms(1))
    };
    Config {
        tasks: vec![task(0, ms(12)), task(0, ms(20)), best_effort],
        models: vec![model(ms(2), ms(3)), model(ms(4), ms(6))],
        partitions: vec![PartitionConfig {
            units: Units { first: 0, count: 1 },
            preemption_bound: ms(1),
            share_max: 1000,
        }],
        request_buffers: 12,
        pages: 0,
        dispatch_cost: Nanos::ZERO,
        egress_bound: Nanos::ZERO,
    }
}

/// The scheduler, the world and the auditor of one run.
pub struct Bench {
    pub auditor: Auditor,
    /// What a planted fault makes of each order.
    pub orders: Box<dyn FnMut(Action) -> Vec<Action>>,
    /// What a planted fault makes of each report.
    pub reports: Box<dyn FnMut(&mut Event)>,
    /// How long a stage takes, given its budget.
    pub takes: fn(&Infer, Nanos) -> Nanos,
    /// Actions start when their windows begin, whatever they are.
    pub starts_at_window: bool,
    config: Config,
    policy: Arc<dyn PolicySpec>,
    now: Instant,
    agenda: BTreeMap<(Instant, u64), Event>,
    ends: BTreeMap<u64, (Instant, u64)>,
    scheduled: u64,
    stuck: bool,
}

impl Bench {
    /// A world as `config` describes it.
    pub fn new(config: &Config) -> Self {
        Self::under(config, Arc::new(PunctualConfig::default()))
    }

    /// The same under another policy than `punctual`.
    pub fn under(config: &Config, policy: Arc<dyn PolicySpec>) -> Self {
        Self {
            auditor: Auditor::new(config, policy.contract()),
            policy,
            orders: Box::new(|action| vec![action]),
            reports: Box::new(|_| {}),
            takes: |_, budget| budget,
            starts_at_window: false,
            config: config.clone(),
            now: Instant::ZERO,
            agenda: BTreeMap::new(),
            ends: BTreeMap::new(),
            scheduled: 0,
            stuck: false,
        }
    }

    pub fn schedule(&mut self, at: Instant, event: Event) -> (Instant, u64) {
        let key = (at, self.scheduled);
        self.scheduled += 1;
        self.agenda.insert(key, event);
        key
    }

    /// A frame captured and submitted at `at`.
    pub fn frame(&mut self, task: u16, at: Instant) {
        self.frame_captured(task, at, at);
    }

    /// A frame submitted at `at`, captured before that.
    pub fn frame_captured(&mut self, task: u16, at: Instant, captured: Instant) {
        let ticket = Ticket {
            client: ClientId(task),
            slot: 0,
            part: 0,
            sequence: self.scheduled,
        };
        let arrival = Arrival {
            task: TaskId(task),
            ticket,
            captured,
            deadline: None,
            egress: Nanos::ZERO,
        };
        self.schedule(at, Event::Arrived(arrival));
    }

    /// Frames of the three tasks of [`plan`] for 120 ms.
    pub fn frames(&mut self) {
        self.frame(2, at(0));
        for n in 0..10 {
            self.frame(0, at(1 + 12 * n));
        }
        for n in 0..6 {
            self.frame(1, at(1 + 20 * n));
            self.frame(2, at(4 + 20 * n));
        }
    }

    /// Runs to the end of a drain at `end`, with a scheduler made for `believed`.
    pub fn run(&mut self, believed: &Config, end: Instant) {
        self.schedule(end, Event::Drain);
        let mut scheduler = Scheduler::new(believed, &*self.policy).expect("the plan is valid");
        let mut events = Events::with_capacity(1);
        let mut actions = Actions::for_config(believed);
        drive(&mut scheduler, self, &mut events, &mut actions);
        let now = self.now;
        self.auditor.finish(now);
    }

    fn infer(&mut self, infer: &Infer) {
        let stage = &self.config.models[infer.model.index()].stages[infer.stage.index()];
        let time = stage.times.iter().find(|t| t.batch == infer.batch);
        let on = time.and_then(|time| time.on.get(infer.partition.index()));
        let budget = on.map_or(Nanos::ZERO, |on| on.budget);
        let measured = (self.takes)(infer, budget);
        let answer = Answer {
            class: 1,
            confidence: Confidence(20_000),
        };
        let started = if self.starts_at_window {
            infer.window.earliest
        } else {
            self.now
        };
        let finished = Finished {
            action: infer.id,
            started,
            measured,
            members: infer.members.iter().map(|_| answer).collect(),
        };
        let end = self.schedule(started + measured, Event::Finished(finished));
        self.ends.insert(infer.id.0, end);
    }
}

impl World for Bench {
    fn now(&self) -> Instant {
        self.now
    }

    fn wait(&mut self, until: Option<Instant>, events: &mut Events) {
        let next = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let mut event = match (next, until) {
            (None, None) => {
                self.stuck = true;
                return;
            }
            (Some(next), until) if until.is_none_or(|until| next <= until) => {
                let ((at, _), event) = self.agenda.pop_first().expect("just seen");
                self.now = self.now.max(at);
                event
            }
            (_, until) => {
                self.now = self.now.max(until.expect("one of the two"));
                Event::Tick
            }
        };
        (self.reports)(&mut event);
        self.auditor.event(self.now, &event);
        events.push(event);
    }

    fn carry_out(&mut self, action: &Action) {
        for action in (self.orders)(action.clone()) {
            self.auditor.action(self.now, &action);
            match &action {
                Action::Prepare { request, .. } => {
                    let prepared = Event::Prepared {
                        request: *request,
                        measured: Nanos::ZERO,
                        ready: Ok(()),
                    };
                    self.schedule(self.now, prepared);
                }
                Action::Infer(infer) => self.infer(infer),
                Action::Preempt { partition, action } => {
                    let stop = self.config.partitions[partition.index()].preemption_bound;
                    let end = self.ends[&action.0];
                    if end.0 > self.now + stop {
                        self.agenda.remove(&end);
                        self.schedule(self.now + stop, Event::Preempted { action: *action });
                    }
                }
                Action::Load { .. }
                | Action::Unload { .. }
                | Action::Demote(_)
                | Action::Reinstate { .. }
                | Action::Deliver(_)
                | Action::Reply(_) => {}
            }
        }
    }

    fn ended(&self) -> bool {
        self.stuck
    }
}
