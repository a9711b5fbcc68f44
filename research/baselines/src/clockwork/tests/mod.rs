//! Decisions of `clockwork`, by hand.

mod choice;
mod figure_four;
mod paging;

use crate::ClockworkConfig;
use punctual_core::{
    ACCURACY_BINS, Action, ActionId, Actions, Answer, Answers, Arrival, BatchTime, ClientId,
    Confidence, Config, Criticality, Delivery, Event, Finished, Infer, Instant, ModelConfig,
    ModelId, Nanos, PartitionConfig, PartitionId, RequestId, Scheduler, StageConfig, StageId,
    StageTime, TaskConfig, TaskId, Ticket, Units, Verdict, Weights,
};

/// A network of one stage with times in ms by batch size; `weights`: pages and transfer in ms.
fn model(times: &[(u8, u64)], weights: Option<(u32, u64)>) -> ModelConfig {
    let time = |&(batch, ms): &(u8, u64)| BatchTime {
        batch,
        on: [StageTime {
            budget: Nanos::from_millis(ms),
            max_seen: Nanos::from_millis(ms),
        }]
        .into(),
    };
    ModelConfig {
        stages: [StageConfig {
            times: times.iter().map(time).collect(),
            accuracy: [60_000; ACCURACY_BINS],
            deeper: Vec::new(),
            follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
            answers: true,
            runs_as: None,
        }]
        .into(),
        weights: weights.map(|(pages, load)| Weights {
            pages,
            load: Nanos::from_millis(load),
        }),
        places: Vec::new(),
    }
}

/// A task a model, with a deadline of its own for each request.
fn config(models: Vec<ModelConfig>, pages: u32) -> Config {
    let task = |model: usize| TaskConfig {
        model: ModelId(model as u16),
        partition: PartitionId(0),
        criticality: Criticality::RealTime,
        deadline: Some(Nanos::from_millis(10_000)),
        period: Nanos::from_millis(1),
        burst: 1,
        jitter: Nanos::ZERO,
        prepare: Nanos::ZERO,
        mandatory_exit: StageId(0),
        threshold: Confidence::ONE,
        threshold_min: Confidence::default(),
        batch_max: 16,
        queue_max: 32,
        reserved: false,
        answers: Answers::Final,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    };
    Config {
        tasks: (0..models.len()).map(task).collect(),
        models,
        partitions: [PartitionConfig {
            units: Units { first: 0, count: 1 },
            preemption_bound: Nanos::ZERO,
            share_max: 1000,
        }]
        .into(),
        request_buffers: 64,
        pages,
        dispatch_cost: Nanos::ZERO,
        egress_bound: Nanos::ZERO,
    }
}

/// A controller, and the world as the test tells it. Times are in ms.
struct Told {
    scheduler: Scheduler,
    actions: Actions,
    /// Submissions so far: the sequence number of the last.
    sequence: u64,
    names: Vec<(RequestId, u64)>,
}

/// What the controller did in a step, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    /// Model, requests by sequence number, latest.
    Infer(u16, Vec<u64>, u64),
    Load(u16),
    Unload(u16),
    Reply(u64, Verdict),
}

impl Told {
    fn new(config: Config) -> Self {
        Self::with(config, ClockworkConfig::default())
    }

    fn with(config: Config, parameters: ClockworkConfig) -> Self {
        Self {
            actions: Actions::for_config(&config),
            scheduler: Scheduler::new(&config, &parameters).expect("a valid plan"),
            sequence: 0,
            names: Vec::new(),
        }
    }

    /// A request for a model at `now`, to end by `deadline`.
    fn request(&mut self, now: u64, model: u16, deadline: u64) -> Vec<Did> {
        self.sequence += 1;
        let arrival = Arrival {
            task: TaskId(model),
            ticket: Ticket {
                client: ClientId(model),
                slot: self.sequence as u16,
                part: 0,
                sequence: self.sequence,
            },
            captured: at(now),
            deadline: Some(at(deadline)),
            egress: Nanos::ZERO,
        };
        self.arrives(now, arrival)
    }

    fn arrives(&mut self, now: u64, arrival: Arrival) -> Vec<Did> {
        self.tell(now, &Event::Arrived(arrival));
        let prepare = self.actions.iter().find_map(|action| match action {
            Action::Prepare { request, .. } => Some(*request),
            _ => None,
        });
        let Some(request) = prepare else {
            return self.did();
        };
        self.names.push((request, arrival.ticket.sequence));
        let prepared = Event::Prepared {
            request,
            measured: Nanos::ZERO,
            ready: Ok(()),
        };
        self.tell(now, &prepared);
        self.did()
    }

    /// The batch that was started last ended after `took` ms.
    fn finished(&mut self, now: u64, infer: &Infer, took: u64) -> Vec<Did> {
        let answer = Answer {
            class: 1,
            confidence: Confidence::ONE,
        };
        let finished = Event::Finished(Finished {
            action: infer.id,
            started: at(now - took),
            measured: Nanos::from_millis(took),
            members: infer.members.iter().map(|_| answer).collect(),
        });
        self.tell(now, &finished);
        self.did()
    }

    fn loaded(&mut self, now: u64, action: ActionId, took: u64) -> Vec<Did> {
        let measured = Nanos::from_millis(took);
        self.tell(now, &Event::Loaded { action, measured });
        self.did()
    }

    fn tell(&mut self, now: u64, event: &Event) {
        self.actions.clear();
        self.scheduler.step(at(now), event, &mut self.actions);
        // As the loop does once nothing more has happened at that moment.
        if self.scheduler.next_timer() == Some(at(now)) {
            let tick = &Event::Tick;
            self.scheduler.step(at(now), tick, &mut self.actions);
        }
    }

    /// The batch that this step started.
    fn infer(&self) -> Infer {
        let infer = self.actions.iter().find_map(|action| match action {
            Action::Infer(infer) => Some(infer.clone()),
            _ => None,
        });
        infer.expect("a batch was started")
    }

    /// The transfer that this step started.
    fn load(&self) -> ActionId {
        let load = self.actions.iter().find_map(|action| match action {
            Action::Load { id, .. } => Some(*id),
            _ => None,
        });
        load.expect("a transfer was started")
    }

    fn sequence_of(&self, request: RequestId) -> u64 {
        let name = self.names.iter().find(|(id, _)| *id == request);
        name.expect("it was prepared").1
    }

    fn did(&self) -> Vec<Did> {
        self.actions
            .iter()
            .map(|action| self.in_short(action))
            .collect()
    }

    fn in_short(&self, action: &Action) -> Did {
        match action {
            Action::Infer(infer) => Did::Infer(
                infer.model.0,
                infer
                    .members
                    .iter()
                    .map(|id| self.sequence_of(*id))
                    .collect(),
                infer.window.latest.as_nanos() / 1_000_000,
            ),
            Action::Load { model, .. } => Did::Load(model.0),
            Action::Unload { model } => Did::Unload(model.0),
            Action::Reply(reply) => Did::Reply(reply.ticket.sequence, reply.verdict),
            Action::Prepare { .. }
            | Action::Preempt { .. }
            | Action::Deliver(_)
            | Action::Demote(_)
            | Action::Reinstate { .. } => {
                unreachable!("preparations are answered at once, nothing is preempted or promised")
            }
        }
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}
