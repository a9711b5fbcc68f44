//! A load that keeps the queues full: one device in virtual time; reserved tasks whose frames
//! all come at once, each period; and clients of all other tasks that submit a frame as soon as
//! one is answered. For the benchmark of `step` and the test that it allocates nothing, so nothing
//! is allocated here either once it runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_core::{
    ACCURACY_BINS, Action, ActionId, Actions, Answer, Answers, Arrival, BatchTime, ClientId,
    Confidence, Config, Contract, Criticality, Delivery, Event, Finished, Infer, Instant,
    ModelConfig, ModelId, Nanos, PartitionConfig, PartitionId, Partitioning, PolicySpec,
    PunctualConfig, Scheduler, StageConfig, StageId, StageTime, TaskConfig, TaskId, Ticket, Units,
    Verdict, Weights,
};

/// Places in each task's queue.
const QUEUE: u16 = 8;
/// Models, each asked by every fourth task.
const MODELS: usize = 4;
const STAGE: Nanos = Nanos::from_micros(1_000);
const PREPARATION: Nanos = Nanos::from_micros(100);
/// From the order to stop until the device is free.
const STOPPING: Nanos = Nanos::from_micros(100);

/// Half of the tasks, two of each four, are reserved and fill 60% of the partition, a quarter is
/// real-time without a reservation, a quarter best-effort.
fn config(tasks: usize, contract: Contract) -> Config {
    let reserved = tasks.div_ceil(2) as u64;
    // Two mandatory stages at most: reserved * 2 * STAGE / period = 0.6.
    let period = STAGE.saturating_mul(reserved * 2 * 10 / 6);
    let partitions = partitions(contract.partitioning, tasks as u16);
    let assigned = match contract.partitioning {
        Partitioning::PerTask => |task: usize| task as u16,
        _ => |_| 0,
    };
    // A policy that pages weights holds three models of four; `punctual` keeps those of reserved
    // tasks for good, and here each model has one.
    let paged = contract.pages_weights && !contract.promises;
    Config {
        pages: if paged { MODELS as u32 - 1 } else { 0 },
        tasks: (0..tasks)
            .map(|index| TaskConfig {
                partition: PartitionId(assigned(index)),
                ..task(index, period)
            })
            .collect(),
        models: vec![model(partitions.len(), paged); MODELS],
        partitions,
        request_buffers: tasks as u16 * QUEUE,
        dispatch_cost: Nanos::from_micros(20),
        egress_bound: Nanos::from_micros(200),
    }
}

/// Homes of a plan with places, and the units of each.
const HOMES: u16 = 4;
const HOME_UNITS: u16 = 2;

/// The same tasks on four homes, with 17 places: cells of one unit, the homes, wider ranges, the whole.
fn with_places(mut config: Config, tasks: usize) -> Config {
    let all = HOMES * HOME_UNITS;
    let range = |first, count| Units { first, count };
    let homes = (0..HOMES).map(|home| range(home * HOME_UNITS, HOME_UNITS));
    let cells = (0..all).map(|first| range(first, 1));
    let wide = [(0, 4), (2, 4), (4, 4), (0, 6)].map(|(first, count)| range(first, count));
    let places = cells
        .chain(homes.clone())
        .chain(wide)
        .chain([range(0, all)]);
    let ranges: Vec<Units> = homes.chain(places).collect();
    let like = config.partitions[0].clone();
    let partition = |&units: &Units| PartitionConfig {
        units,
        ..like.clone()
    };
    config.partitions = ranges.iter().map(partition).collect();
    for model in &mut config.models {
        let places = usize::from(HOMES)..ranges.len();
        model.places = places.map(|place| PartitionId(place as u16)).collect();
        for time in model.stages.iter_mut().flat_map(|stage| &mut stage.times) {
            let home = time.on[0].budget.as_nanos();
            let on = |range: &Units| {
                // More units help, but not in proportion.
                let budget =
                    Nanos::new(home * (2 + u64::from(range.count)) / (2 * u64::from(range.count)));
                let max_seen = budget.saturating_mul(2);
                StageTime { budget, max_seen }
            };
            time.on = ranges.iter().map(on).collect();
        }
    }
    // Each home has a quarter of the reserved tasks, and is filled as one partition with all would be.
    let reserved = tasks.div_ceil(2) as u64;
    let period = STAGE.saturating_mul(reserved * 2 * 10 / 6 / u64::from(HOMES));
    for (index, task) in config.tasks.iter_mut().enumerate() {
        *task = TaskConfig {
            partition: PartitionId((index / 4) as u16 % HOMES),
            ..self::task(index, period)
        };
    }
    config
}

/// One for all tasks, all ranges of four units (the first of them all four), or one a task.
fn partitions(kind: Partitioning, tasks: u16) -> Vec<PartitionConfig> {
    let whole = Units { first: 0, count: 4 };
    let units = match kind {
        Partitioning::Planned | Partitioning::Whole => vec![whole],
        Partitioning::PerTask => vec![whole; usize::from(tasks)],
        Partitioning::Ranges => {
            let from = |count| (0..=4 - count).map(move |first| Units { first, count });
            (1..=4).rev().flat_map(from).collect()
        }
    };
    let partition = |units| PartitionConfig {
        units,
        preemption_bound: Nanos::from_micros(200),
        share_max: 1000,
    };
    units.into_iter().map(partition).collect()
}

/// Requests that the clients of many models have open.
const OPEN: u16 = 64;

/// A task for each of `models`, none reserved; a tenth of their weights fits.
fn paged_config(models: usize, contract: Contract) -> Config {
    let tasks = config(UNRESERVED + 1, contract);
    let partitions = tasks.partitions.len();
    Config {
        pages: (models as u32).div_ceil(10),
        tasks: (0..models)
            .map(|model| TaskConfig {
                model: ModelId(model as u16),
                mandatory_exit: StageId(0),
                ..tasks.tasks[UNRESERVED].clone()
            })
            .collect(),
        models: vec![model(partitions, true); models],
        request_buffers: OPEN,
        ..tasks
    }
}

/// A real-time task without a reservation.
const UNRESERVED: usize = 2;

fn is_reserved(task: usize) -> bool {
    task % 4 < 2
}

fn task(index: usize, period: Nanos) -> TaskConfig {
    let (criticality, reserved, deadline) = match index % 4 {
        0 | 1 => (Criticality::RealTime, true, Some(period.saturating_mul(2))),
        2 => (
            Criticality::RealTime,
            false,
            Some(period.saturating_mul(30)),
        ),
        _ => (Criticality::BestEffort, false, None),
    };
    TaskConfig {
        model: ModelId((index / 2 % MODELS) as u16),
        partition: PartitionId(0),
        criticality,
        deadline,
        period,
        burst: 1,
        jitter: Nanos::from_micros(500),
        prepare: PREPARATION,
        mandatory_exit: StageId((index % 2) as u8),
        threshold: Confidence(60_000),
        threshold_min: match criticality {
            Criticality::RealTime => Confidence(60_000),
            Criticality::BestEffort => Confidence(0),
        },
        batch_max: 8,
        queue_max: QUEUE,
        reserved,
        answers: Answers::Final,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    }
}

/// Three stages at batch sizes 1, 2, 4 and 8.
fn model(partitions: usize, paged: bool) -> ModelConfig {
    let accuracy = |exit: u16| [40_000 + 5_000 * exit; ACCURACY_BINS];
    let stage = |exit: u16| StageConfig {
        times: [1, 2, 4, 8]
            .map(|batch: u8| {
                let budget = Nanos::new(STAGE.as_nanos() * (u64::from(batch) * 3 + 2) / 5);
                BatchTime {
                    batch,
                    on: vec![
                        StageTime {
                            budget,
                            max_seen: budget.saturating_mul(2),
                        };
                        partitions
                    ],
                }
            })
            .to_vec(),
        accuracy: accuracy(exit),
        deeper: (exit + 1..3).map(accuracy).collect(),
        follows: [[u16::MAX / ACCURACY_BINS as u16; ACCURACY_BINS]; ACCURACY_BINS],
        answers: true,
        runs_as: None,
    };
    ModelConfig {
        stages: (0..3).map(stage).collect(),
        weights: paged.then_some(Weights {
            pages: 1,
            load: STAGE,
        }),
        places: Vec::new(),
    }
}

/// What is going to happen; the earliest first.
struct Entry {
    at: Reverse<(Instant, u64)>,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

pub struct Due {
    pub now: Instant,
    pub event: Event,
}

pub struct Load {
    scheduler: Scheduler,
    actions: Actions,
    outside: Outside,
}

impl Load {
    pub fn new(tasks: usize) -> Self {
        Self::of(tasks, &PunctualConfig::default())
    }

    /// The same load for another policy.
    pub fn of(tasks: usize, policy: &dyn PolicySpec) -> Self {
        Self::on(tasks, config(tasks, policy.contract()), policy)
    }

    /// As much load on each of four homes, with 17 places. At least 16 tasks: a home has four.
    pub fn on_places(tasks: usize) -> Self {
        let policy = PunctualConfig::default();
        let config = config(tasks, policy.contract());
        Self::on(tasks, with_places(config, tasks), &policy)
    }

    /// Clients with a few requests open for any of `models`; a tenth of the weights is there.
    pub fn of_paged(models: usize, policy: &dyn PolicySpec) -> Self {
        let config = paged_config(models, policy.contract());
        let mut load = Self::on(0, config, policy);
        load.outside.asked = Some(models as u16);
        for _ in 0..OPEN {
            let task = load.outside.next_task(TaskId(0));
            load.outside.submit(task, Nanos::ZERO);
        }
        load
    }

    fn on(tasks: usize, config: Config, policy: &dyn PolicySpec) -> Self {
        let partitions = config.partitions.len();
        let mut outside = Outside {
            // Each place of a queue has its frame or its preparation on the agenda; then there
            // are the ends of the actions in flight, and their stops, and a transfer a model.
            agenda: BinaryHeap::with_capacity(
                tasks * usize::from(QUEUE) * 2 + 4 * partitions + MODELS + 2 * usize::from(OPEN),
            ),
            period: config.tasks[0].period,
            times: config.models[0].stages[0].times.clone(),
            scheduled: 0,
            random: 1,
            now: Instant::ZERO,
            in_flight: Vec::with_capacity(partitions),
            asked: None,
            replies: (0, 0),
        };
        for task in 0..tasks {
            let frames = if is_reserved(task) { 1 } else { QUEUE };
            for _ in 0..frames {
                outside.submit(TaskId(task as u16), Nanos::ZERO);
            }
        }
        Self {
            actions: Actions::for_config(&config),
            scheduler: Scheduler::new(&config, policy).expect("the plan is feasible"),
            outside,
        }
    }

    pub fn open(&self) -> usize {
        self.scheduler.open()
    }

    /// Verdicts so far, and how many of them were on time.
    pub fn replies(&self) -> (u64, u64) {
        self.outside.replies
    }

    pub fn next_step(&mut self) -> Due {
        self.outside.next_step(self.scheduler.next_timer())
    }

    /// Takes the step: this, and nothing else, is what is measured.
    #[inline(never)]
    pub fn decide(&mut self, due: &Due) {
        self.scheduler.step(due.now, &due.event, &mut self.actions);
    }

    /// The scheduler, and what it decided last.
    pub fn decided(&self) -> (&Scheduler, &Actions) {
        (&self.scheduler, &self.actions)
    }

    /// Lets the decisions have their consequences.
    pub fn carry_out(&mut self) {
        for action in &self.actions {
            self.outside.carry_out(action);
        }
        self.actions.clear();
    }
}

/// Clients, the intake and the device.
struct Outside {
    agenda: BinaryHeap<Entry>,
    period: Nanos,
    times: Vec<BatchTime>,
    scheduled: u64,
    random: u64,
    now: Instant,
    in_flight: Vec<ActionId>,
    /// How many tasks each client asks in turn; none: its own.
    asked: Option<u16>,
    replies: (u64, u64),
}

impl Outside {
    fn next_step(&mut self, timer: Option<Instant>) -> Due {
        loop {
            let next = self.agenda.peek().map(|entry| entry.at.0.0);
            if let Some(timer) = timer.filter(|timer| next.is_none_or(|next| *timer < next)) {
                self.now = self.now.max(timer);
                let event = Event::Tick;
                return Due {
                    now: self.now,
                    event,
                };
            }
            let Entry { at, event } = self.agenda.pop().expect("clients never stop");
            self.now = self.now.max(at.0.0);
            let ended = match &event {
                Event::Finished(finished) => Some(finished.action),
                Event::Preempted { action } => Some(*action),
                _ => None,
            };
            // An action ends once: at its own end, or at its stop.
            if ended.is_some_and(|id| !self.in_flight.contains(&id)) {
                continue;
            }
            self.in_flight.retain(|id| Some(*id) != ended);
            return Due {
                now: self.now,
                event,
            };
        }
    }

    fn carry_out(&mut self, action: &Action) {
        if let Action::Reply(reply) = action {
            self.replies.0 += 1;
            self.replies.1 += u64::from(reply.verdict == Verdict::OnTime);
        }
        match action {
            Action::Prepare { request, .. } => {
                let prepared = Event::Prepared {
                    request: *request,
                    measured: PREPARATION,
                    ready: Ok(()),
                };
                self.schedule(PREPARATION, prepared);
            }
            Action::Infer(infer) => self.infer(infer),
            Action::Load { id, .. } => {
                let loaded = Event::Loaded {
                    action: *id,
                    measured: STAGE,
                };
                self.schedule(STAGE, loaded);
            }
            Action::Unload { .. }
            | Action::Demote(_)
            | Action::Reinstate { .. }
            | Action::Deliver(_) => {}
            Action::Preempt { action, .. } => {
                let action = *action;
                self.schedule(STOPPING, Event::Preempted { action });
            }
            Action::Reply(reply) if self.asked.is_none() && is_reserved(reply.task.index()) => {
                let next = reply.captured + self.period;
                self.submit(reply.task, next.since(self.now));
            }
            Action::Reply(reply) => {
                let pause = match reply.verdict {
                    Verdict::Rejected(_) => Nanos::new(self.random() % self.period.as_nanos()),
                    _ => Nanos::ZERO,
                };
                let task = self.next_task(reply.task);
                self.submit(task, pause);
            }
        }
    }

    fn infer(&mut self, infer: &Infer) {
        let time = self.times.iter().find(|t| t.batch == infer.batch);
        let time = time.expect("a compiled size").on[infer.partition.index()];
        let budget = time.budget.as_nanos();
        // 70% to 100% of the budget.
        let measured = Nanos::new(budget - self.random() % (budget * 3 / 10));
        let members = infer.members.iter().map(|_| Answer {
            class: 0,
            confidence: Confidence(self.random() as u16),
        });
        let finished = Finished {
            action: infer.id,
            measured,
            members: members.collect(),
            started: self.now,
        };
        self.in_flight.push(infer.id);
        self.schedule(measured, Event::Finished(finished));
    }

    /// What the client of a task asks next: most often one of the first.
    fn next_task(&mut self, task: TaskId) -> TaskId {
        let Some(tasks) = self.asked else {
            return task;
        };
        let among = self.random() % u64::from(tasks) + 1;
        TaskId((self.random() % among) as u16)
    }

    fn submit(&mut self, task: TaskId, pause: Nanos) {
        let arrival = Arrival {
            task,
            ticket: Ticket {
                client: ClientId(task.0),
                slot: 0,
                part: 0,
                sequence: self.scheduled,
            },
            captured: self.now + pause,
            deadline: None,
            egress: Nanos::ZERO,
        };
        self.schedule(pause, Event::Arrived(arrival));
    }

    fn schedule(&mut self, after: Nanos, event: Event) {
        assert!(
            self.agenda.len() < self.agenda.capacity(),
            "the agenda is full"
        );
        let at = Reverse((self.now + after, self.scheduled));
        self.scheduled += 1;
        self.agenda.push(Entry { at, event });
    }

    /// The xorshift64 sequence.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
