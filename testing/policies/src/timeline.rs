//! A plan played in exact virtual time, for worked examples: each stage takes its budget, each
//! preparation none, and what ran when is written down.
use std::collections::BTreeMap;

use punctual_core::{
    ACCURACY_BINS, Action, Actions, Answer, Answers, Arrival, BatchTime, ClientId, Confidence,
    Config, Criticality, Delivery, Event, Finished, Infer, Instant, ModelConfig, ModelId, Nanos,
    PartitionConfig, PartitionId, PolicySpec, Reply, RequestId, Scheduler, StageConfig, StageId,
    StageTime, TaskConfig, TaskId, Ticket, Units,
};

/// A network of `stages` stages, compiled for these batches, with the budget in ms of each (stage, batch, units).
pub struct Network<'a> {
    pub stages: usize,
    pub batches: &'a [u8],
    pub time: &'a dyn Fn(usize, u8, u16) -> u64,
}

impl Network<'_> {
    fn model(&self, ranges: &[Units]) -> ModelConfig {
        let time = |stage, batch, units| {
            let budget = Nanos::from_millis((self.time)(stage, batch, units));
            StageTime {
                budget,
                max_seen: budget,
            }
        };
        let batch_time = |stage, batch| BatchTime {
            batch,
            on: ranges.iter().map(|r| time(stage, batch, r.count)).collect(),
        };
        let stage = |stage| StageConfig {
            times: self.batches.iter().map(|&b| batch_time(stage, b)).collect(),
            accuracy: [0; ACCURACY_BINS],
            deeper: vec![[0; ACCURACY_BINS]; self.stages - 1 - stage],
            follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
            answers: true,
            runs_as: None,
        };
        ModelConfig {
            stages: (0..self.stages).map(stage).collect(),
            weights: None,
            places: Vec::new(),
        }
    }
}

/// A task of that model, with a deadline in ms that is its period as well. Every exit counts.
pub fn task(model: u16, deadline: u64) -> TaskConfig {
    TaskConfig {
        model: ModelId(model),
        partition: PartitionId(0),
        criticality: Criticality::RealTime,
        deadline: Some(Nanos::from_millis(deadline)),
        period: Nanos::from_millis(deadline),
        burst: 1,
        jitter: Nanos::ZERO,
        prepare: Nanos::ZERO,
        mandatory_exit: StageId(0),
        threshold: Confidence::ONE,
        threshold_min: Confidence(0),
        batch_max: 32,
        queue_max: 64,
        reserved: false,
        answers: Answers::Final,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    }
}

/// Every contiguous range of a device of `units` units.
pub fn all_ranges(units: u16) -> Vec<Units> {
    let from = |first| (1..=units - first).map(move |count| Units { first, count });
    (0..units).flat_map(from).collect()
}

/// A plan without costs of dispatch and egress.
pub fn plan(ranges: &[Units], networks: &[Network], tasks: Vec<TaskConfig>) -> Config {
    let partition = |&units| PartitionConfig {
        units,
        preemption_bound: Nanos::ZERO,
        share_max: 1000,
    };
    Config {
        tasks,
        models: networks.iter().map(|n| n.model(ranges)).collect(),
        partitions: ranges.iter().map(partition).collect(),
        request_buffers: 64,
        pages: 0,
        dispatch_cost: Nanos::ZERO,
        egress_bound: Nanos::ZERO,
    }
}

/// A stage that ran: when it began, in ms, and the order.
pub struct Ran {
    pub at: u64,
    pub infer: Infer,
    /// The members' sequence numbers: the positions of their arrivals in the list given.
    pub members: Vec<u64>,
}

#[derive(Default)]
pub struct Timeline {
    pub ran: Vec<Ran>,
    /// Replies by the position of the arrival, with the time in ms.
    pub replies: BTreeMap<u64, (u64, Reply)>,
}

/// What may happen next, in the order in which simultaneous things happen.
enum Next {
    Ended(Box<Infer>, Instant),
    Arrives(u64, TaskId),
}

/// Confidence of a request, by position of its arrival, at an exit.
pub type Confidences<'a> = &'a dyn Fn(u64, usize) -> Confidence;

/// Plays `arrivals` (time in ms, task), in order of time, until all have their verdicts.
pub fn play(
    config: &Config,
    policy: &dyn PolicySpec,
    arrivals: &[(u64, u16)],
    confidence: Confidences,
) -> Timeline {
    stretched(config, policy, arrivals, confidence, &|_| 1)
}

/// The same, with stages that take a multiple of their budgets.
pub fn stretched(
    config: &Config,
    policy: &dyn PolicySpec,
    arrivals: &[(u64, u16)],
    confidence: Confidences,
    stretch: &dyn Fn(&Infer) -> u64,
) -> Timeline {
    let mut player = Player {
        config,
        scheduler: Scheduler::new(config, policy).expect("the plan of the example is valid"),
        actions: Actions::for_config(config),
        next: BTreeMap::new(),
        order: 0,
        names: BTreeMap::new(),
        timeline: Timeline::default(),
        stretch,
    };
    for (sequence, &(at, task)) in (0..).zip(arrivals) {
        player.plan(at_ms(at), Next::Arrives(sequence, TaskId(task)));
    }
    while player.timeline.replies.len() < arrivals.len() {
        let timer = player.scheduler.next_timer();
        let first = player.next.first_key_value().map(|(&(time, _), _)| time);
        match (first, timer) {
            (Some(first), timer) if timer.is_none_or(|timer| first <= timer) => {
                let (_, next) = player.next.pop_first().expect("there is a first");
                player.happen(first, next, confidence);
            }
            (_, Some(timer)) => player.step(timer, &Event::Tick),
            (_, None) => panic!("requests wait, and nothing is planned"),
        }
    }
    player.timeline
}

struct Player<'a> {
    config: &'a Config,
    scheduler: Scheduler,
    actions: Actions,
    next: BTreeMap<(Instant, u64), Next>,
    order: u64,
    names: BTreeMap<u16, u64>,
    timeline: Timeline,
    stretch: &'a dyn Fn(&Infer) -> u64,
}

impl Player<'_> {
    fn plan(&mut self, at: Instant, next: Next) {
        self.next.insert((at, self.order), next);
        self.order += 1;
    }

    fn happen(&mut self, now: Instant, next: Next, confidence: Confidences) {
        let event = match next {
            Next::Arrives(sequence, task) => Event::Arrived(Arrival {
                task,
                ticket: Ticket {
                    client: ClientId(0),
                    slot: 0,
                    part: 0,
                    sequence,
                },
                captured: now,
                deadline: None,
                egress: Nanos::ZERO,
            }),
            Next::Ended(infer, started) => {
                let exit = infer.stage.index();
                let answers = infer.members.iter().map(|member| Answer {
                    class: 0,
                    confidence: confidence(self.names[&member.buffer], exit),
                });
                Event::Finished(Finished {
                    action: infer.id,
                    started,
                    measured: now.since(started),
                    members: answers.collect(),
                })
            }
        };
        self.step(now, &event);
    }

    fn step(&mut self, now: Instant, event: &Event) {
        self.actions.clear();
        self.scheduler.step(now, event, &mut self.actions);
        let decided: Vec<Action> = self.actions.iter().cloned().collect();
        for action in decided {
            match action {
                Action::Prepare {
                    request, ticket, ..
                } => {
                    self.names.insert(request.buffer, ticket.sequence);
                    self.prepared(now, request);
                }
                Action::Infer(infer) => self.start(now, infer),
                Action::Reply(reply) => {
                    let told = (in_ms(now), reply);
                    self.timeline.replies.insert(reply.ticket.sequence, told);
                }
                other => panic!("not part of a worked example: {other:?}"),
            }
        }
    }

    fn prepared(&mut self, now: Instant, request: RequestId) {
        let measured = Nanos::ZERO;
        let ready = Ok(());
        self.step(
            now,
            &Event::Prepared {
                request,
                measured,
                ready,
            },
        );
    }

    fn start(&mut self, now: Instant, infer: Infer) {
        let times = &self.config.models[infer.model.index()].stages[infer.stage.index()].times;
        let size = times.iter().find(|time| time.batch == infer.batch);
        let budget = size.expect("a compiled size").on[infer.partition.index()].budget;
        let members = infer.members.iter();
        self.timeline.ran.push(Ran {
            at: in_ms(now),
            members: members.map(|member| self.names[&member.buffer]).collect(),
            infer: infer.clone(),
        });
        let took = budget.saturating_mul((self.stretch)(&infer));
        self.plan(now + took, Next::Ended(Box::new(infer), now));
    }
}

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Nanos::from_millis(ms)
}

fn in_ms(instant: Instant) -> u64 {
    instant.as_nanos() / 1_000_000
}
