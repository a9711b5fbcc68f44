//! Emulated workers, as in Clockwork's section 6.6: they take orders and report, in virtual time,
//! what a device would, and compute nothing. The networks are the six of its Table 1 (on a V100),
//! over and over; clients ask each at random times, popularity falling as rank^-0.9.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_core::{
    ACCURACY_BINS, Action, Actions, Answer, Answers, Arrival, BatchTime, ClientId, Confidence,
    Config, Criticality, Delivery, Event, Finished, Infer, Instant, ModelConfig, ModelId, Nanos,
    PartitionConfig, PartitionId, PolicySpec, Scheduler, StageConfig, StageId, StageTime,
    TaskConfig, TaskId, Ticket, Units, Verdict, Weights,
};

/// Weights in MB and their transfer in us, and the execution in us at batches of 1, 2, 4, 8 and 16.
const TABLE_1: [(u32, u64, [u64; 5]); 6] = [
    (57, 4_500, [5_180, 6_290, 8_570, 12_820, 21_850]),
    (96, 7_770, [4_460, 6_850, 10_990, 16_450, 26_170]),
    (19, 1_550, [1_290, 1_920, 3_130, 5_710, 11_620]),
    (47, 3_810, [1_270, 1_860, 2_730, 4_060, 7_020]),
    (103, 8_330, [2_610, 3_780, 5_610, 9_130, 15_670]),
    (241, 19_580, [7_710, 11_140, 16_210, 26_480, 44_600]),
];
const BATCHES: [u8; 5] = [1, 2, 4, 8, 16];
/// Section 5.2: pages are of 16 MB.
const PAGE_MB: u32 = 16;
const SLO: Nanos = Nanos::from_millis(100);

#[derive(Clone, Copy)]
pub struct Setting {
    pub models: usize,
    /// Partitions that share one memory.
    pub workers: u16,
    /// Pages of that memory; 0: all weights are resident.
    pub pages: u32,
    /// Requests a second, over all models.
    pub rate: f64,
}

impl Setting {
    fn config(&self) -> Config {
        let partition = |worker| PartitionConfig {
            units: Units {
                first: worker,
                count: 1,
            },
            preemption_bound: Nanos::ZERO,
            share_max: 1000,
        };
        Config {
            tasks: (0..self.models).map(task).collect(),
            models: (0..self.models).map(|index| self.model(index)).collect(),
            partitions: (0..self.workers).map(partition).collect(),
            request_buffers: u16::MAX,
            pages: self.pages,
            dispatch_cost: Nanos::ZERO,
            egress_bound: Nanos::ZERO,
        }
    }

    fn model(&self, index: usize) -> ModelConfig {
        let (megabytes, transfer, times) = TABLE_1[index % TABLE_1.len()];
        let time = |(&batch, us): (&u8, u64)| BatchTime {
            batch,
            on: vec![
                StageTime {
                    budget: Nanos::from_micros(us),
                    max_seen: Nanos::from_micros(us),
                };
                usize::from(self.workers)
            ],
        };
        ModelConfig {
            stages: vec![StageConfig {
                times: BATCHES.iter().zip(times).map(time).collect(),
                accuracy: [60_000; ACCURACY_BINS],
                deeper: Vec::new(),
                follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
                answers: true,
                runs_as: None,
            }],
            weights: (self.pages > 0).then(|| Weights {
                pages: megabytes.div_ceil(PAGE_MB),
                load: Nanos::from_micros(transfer),
            }),
            places: Vec::new(),
        }
    }
}

fn task(index: usize) -> TaskConfig {
    TaskConfig {
        model: ModelId(index as u16),
        partition: PartitionId(0),
        criticality: Criticality::RealTime,
        deadline: Some(SLO),
        period: Nanos::new(1),
        burst: 1,
        jitter: Nanos::ZERO,
        prepare: Nanos::ZERO,
        mandatory_exit: StageId(0),
        threshold: Confidence::ONE,
        threshold_min: Confidence::ONE,
        batch_max: 16,
        queue_max: 1024,
        reserved: false,
        answers: Answers::Final,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
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

/// Clients and workers around a scheduler.
pub struct Emulated {
    scheduler: Scheduler,
    actions: Actions,
    outside: Outside,
}

struct Outside {
    agenda: BinaryHeap<Entry>,
    /// Mean time between two requests of a task, in ns.
    gaps: Vec<f64>,
    scheduled: u64,
    random: u64,
    now: Instant,
    replies: u64,
    on_time: u64,
}

impl Emulated {
    pub fn new(setting: Setting, policy: &dyn PolicySpec) -> Self {
        let config = setting.config();
        let popularity: Vec<f64> = (1..=setting.models)
            .map(|r| (r as f64).powf(-0.9))
            .collect();
        let all: f64 = popularity.iter().sum();
        let gaps = popularity
            .iter()
            .map(|p| 1e9 * all / (p * setting.rate))
            .collect();
        // The next request of each task, the preparation of each open one, an end an action.
        let agenda = setting.models + usize::from(u16::MAX) + usize::from(setting.workers) + 1;
        let mut outside = Outside {
            agenda: BinaryHeap::with_capacity(agenda),
            gaps,
            scheduled: 0,
            random: 1,
            now: Instant::ZERO,
            replies: 0,
            on_time: 0,
        };
        for task in 0..setting.models {
            outside.next_request(TaskId(task as u16));
        }
        Self {
            actions: Actions::for_config(&config),
            scheduler: Scheduler::new(&config, policy).expect("the plan is valid"),
            outside,
        }
    }

    /// Verdicts so far, and how many of them were on time.
    pub fn replies(&self) -> (u64, u64) {
        (self.outside.replies, self.outside.on_time)
    }

    pub fn next_event(&mut self) -> Event {
        self.outside.next_event(self.scheduler.next_timer())
    }

    /// The decision: this, and nothing else, is what is measured.
    #[inline(never)]
    pub fn decide(&mut self, event: &Event) {
        let now = self.outside.now;
        self.scheduler.step(now, event, &mut self.actions);
    }

    /// Lets the decisions have their consequences.
    pub fn carry_out(&mut self) {
        for action in &self.actions {
            self.outside.carry_out(action);
        }
        self.actions.clear();
    }
}

impl Outside {
    fn next_event(&mut self, timer: Option<Instant>) -> Event {
        let next = self.agenda.peek().expect("clients never stop").at.0.0;
        if let Some(timer) = timer.filter(|timer| *timer < next) {
            self.now = self.now.max(timer);
            return Event::Tick;
        }
        let Entry { at, event } = self.agenda.pop().expect("just seen");
        self.now = at.0.0;
        if let Event::Arrived(arrival) = &event {
            self.next_request(arrival.task);
        }
        event
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Prepare { request, .. } => {
                let prepared = Event::Prepared {
                    request: *request,
                    measured: Nanos::ZERO,
                    ready: Ok(()),
                };
                self.schedule(Nanos::ZERO, prepared);
            }
            Action::Infer(infer) => self.infer(infer),
            Action::Load { id, model } => {
                let measured = Nanos::from_micros(TABLE_1[model.index() % TABLE_1.len()].1);
                let loaded = Event::Loaded {
                    action: *id,
                    measured,
                };
                self.schedule(measured, loaded);
            }
            Action::Reply(reply) => {
                self.replies += 1;
                self.on_time += u64::from(reply.verdict == Verdict::OnTime);
            }
            Action::Unload { .. }
            | Action::Preempt { .. }
            | Action::Demote(_)
            | Action::Deliver(_)
            | Action::Reinstate { .. } => {}
        }
    }

    fn infer(&mut self, infer: &Infer) {
        let size = BATCHES.iter().position(|&batch| batch == infer.batch);
        let times = TABLE_1[infer.model.index() % TABLE_1.len()].2;
        // 97% to 100% of the profile.
        let profiled = times[size.expect("a compiled size")] * 1_000;
        let measured = Nanos::new(profiled - (self.unit() * 0.03 * profiled as f64) as u64);
        let answer = Answer {
            class: 0,
            confidence: Confidence::ONE,
        };
        let finished = Finished {
            action: infer.id,
            started: self.now,
            measured,
            members: infer.members.iter().map(|_| answer).collect(),
        };
        self.schedule(measured, Event::Finished(finished));
    }

    fn next_request(&mut self, task: TaskId) {
        let gap = -self.gaps[task.index()] * (1.0 - self.unit()).ln();
        let gap = Nanos::new(gap as u64);
        let arrival = Arrival {
            task,
            ticket: Ticket {
                client: ClientId(task.0),
                slot: 0,
                part: 0,
                sequence: self.scheduled,
            },
            captured: self.now + gap,
            deadline: None,
            egress: Nanos::ZERO,
        };
        self.schedule(gap, Event::Arrived(arrival));
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

    /// Uniform in [0, 1): the xorshift64 sequence.
    fn unit(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}
