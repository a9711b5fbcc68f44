//! A device on a virtual clock: stages take the time that the plan's table says, with seeded
//! variation, and nothing is computed. Same seed, same actions, same events.

use punctual_core::{
    ActionId, Answer, Criticality, Event, Finished, Infer, Instant, ModelConfig, ModelId, Nanos,
    PartitionConfig, PartitionId, RequestId, StageId,
};

use crate::device::{Device, Refusal};
use crate::random::SplitMix64;

/// Where the answers of a device without a network come from.
pub trait Oracle {
    /// What the exit of `stage` says of `request`. Must not depend on anything but its arguments,
    /// so that a stage that was preempted answers the same when it runs again.
    fn answer(&mut self, request: RequestId, model: ModelId, stage: StageId) -> Answer;
}

impl<F: FnMut(RequestId, ModelId, StageId) -> Answer> Oracle for F {
    fn answer(&mut self, request: RequestId, model: ModelId, stage: StageId) -> Answer {
        self(request, model, stage)
    }
}

/// How long a stage really takes, as a share of its budget: uniform between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variation {
    /// Thousandths of the budget at least.
    pub least_permille: u64,
    /// Thousandths of the budget at most; above 1000, stages overrun.
    pub most_permille: u64,
}

impl Variation {
    /// Every stage takes exactly its budget.
    pub const NONE: Self = Self {
        least_permille: 1000,
        most_permille: 1000,
    };
}

/// A device in virtual time. Its clock stands still until [`advance_to`](Self::advance_to).
pub struct VirtualDevice<O> {
    now: Instant,
    models: Vec<ModelConfig>,
    partitions: Vec<Partition>,
    request_buffers: u16,
    variation: Variation,
    random: SplitMix64,
    oracle: O,
}

struct Partition {
    preemption_bound: Nanos,
    running: Option<Running>,
    next: Option<Next>,
    /// Events not polled yet, with their times; at most one for each of the two actions held.
    ready: heapless::Deque<(Instant, Event), 2>,
}

/// The action that is to follow.
struct Next {
    infer: Infer,
    preempted: bool,
}

struct Running {
    infer: Infer,
    started: Instant,
    ends: Instant,
    /// Told to stop; `ends` is then when it does.
    preempted: bool,
}

impl<O: Oracle> VirtualDevice<O> {
    /// A device for these models (with execution times on each of the partitions), idle at
    /// instant zero.
    pub fn new(
        models: Vec<ModelConfig>,
        partitions: &[PartitionConfig],
        request_buffers: u16,
        variation: Variation,
        seed: u64,
        oracle: O,
    ) -> Self {
        Self {
            now: Instant::ZERO,
            models,
            partitions: partitions
                .iter()
                .map(|partition| Partition {
                    preemption_bound: partition.preemption_bound,
                    running: None,
                    next: None,
                    ready: heapless::Deque::new(),
                })
                .collect(),
            request_buffers,
            variation,
            random: SplitMix64::new(seed),
            oracle,
        }
    }

    /// The device's clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// When the device has something to report next: now or earlier if it already has; none if it
    /// holds nothing.
    pub fn next_event(&self) -> Option<Instant> {
        self.partitions
            .iter()
            .filter_map(|partition| {
                let ready = partition.ready.front().map(|(at, _)| *at);
                let ends = partition.running.as_ref().map(|running| running.ends);
                ready.or(ends)
            })
            .min()
    }

    /// Lets time pass; what ends until then becomes ready.
    ///
    /// # Panics
    /// If `now` lies before the device's clock.
    pub fn advance_to(&mut self, now: Instant) {
        assert!(now >= self.now, "the clock went backwards");
        self.now = now;
        for index in 0..self.partitions.len() {
            while let Some(running) = self.partitions[index]
                .running
                .take_if(|running| running.ends <= now)
            {
                let at = running.ends;
                let event = self.end(running);
                self.partitions[index].report(at, event);
                if let Some(next) = self.partitions[index].next.take() {
                    self.follow(index, next, at);
                }
            }
        }
    }

    fn end(&mut self, running: Running) -> Event {
        let Running {
            infer,
            started,
            ends,
            preempted,
        } = running;
        if preempted {
            return Event::Preempted { action: infer.id };
        }
        Event::Finished(Finished {
            action: infer.id,
            started,
            measured: ends.since(started),
            members: infer
                .members
                .iter()
                .map(|&request| self.oracle.answer(request, infer.model, infer.stage))
                .collect(),
        })
    }

    fn follow(&mut self, index: usize, next: Next, at: Instant) {
        if next.preempted {
            let action = next.infer.id;
            self.partitions[index].report(at, Event::Preempted { action });
        } else {
            self.start(index, next.infer, at);
        }
    }

    /// Starts an action on a partition that is free from `free` on, unless its window is over.
    fn start(&mut self, index: usize, infer: Infer, free: Instant) {
        let started = free.max(infer.window.earliest);
        if started > infer.window.latest {
            let event = Event::NotRun { action: infer.id };
            self.partitions[index].report(free, event);
            return;
        }
        let budget = self.budget(index, &infer);
        let Variation {
            least_permille,
            most_permille,
        } = self.variation;
        let permille = least_permille + self.random.below(most_permille - least_permille + 1);
        let took = Nanos::new((budget.as_nanos() * permille / 1000).max(1));
        self.partitions[index].running = Some(Running {
            infer,
            started,
            ends: started + took,
            preempted: false,
        });
    }

    fn budget(&self, partition: usize, infer: &Infer) -> Nanos {
        self.models[infer.model.index()].stages[infer.stage.index()]
            .times
            .iter()
            .find(|time| time.batch == infer.batch)
            .expect("checked by `refusal`")
            .on[partition]
            .budget
    }

    fn refusal(&self, infer: &Infer) -> Option<Refusal> {
        let Some(partition) = self.partitions.get(infer.partition.index()) else {
            return Some(Refusal::UnknownPartition(infer.partition));
        };
        let Some(model) = self.models.get(infer.model.index()) else {
            return Some(Refusal::UnknownModel(infer.model));
        };
        let Some(stage) = model.stages.get(infer.stage.index()) else {
            return Some(Refusal::UnknownStage {
                model: infer.model,
                stage: infer.stage,
            });
        };
        if !stage.times.iter().any(|time| time.batch == infer.batch) {
            return Some(Refusal::UnknownBatch {
                model: infer.model,
                batch: infer.batch,
            });
        }
        if let Some(refusal) = Refusal::of_members(infer, self.request_buffers) {
            return Some(refusal);
        }
        (partition.held() >= 2).then_some(Refusal::Busy(infer.partition))
    }
}

impl Partition {
    fn held(&self) -> usize {
        usize::from(self.running.is_some()) + usize::from(self.next.is_some()) + self.ready.len()
    }

    fn report(&mut self, at: Instant, event: Event) {
        // `submit` keeps `held` at 2 or less, and each action held is reported once.
        assert!(
            self.ready.push_back((at, event)).is_ok(),
            "more events than actions"
        );
    }
}

impl<O: Oracle> Device for VirtualDevice<O> {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        if let Some(refusal) = self.refusal(infer) {
            return Err(refusal);
        }
        let index = infer.partition.index();
        if self.partitions[index].running.is_none() {
            self.start(index, infer.clone(), self.now);
        } else {
            self.partitions[index].next = Some(Next {
                infer: infer.clone(),
                preempted: false,
            });
        }
        Ok(())
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        let now = self.now;
        let Some(partition) = self.partitions.get_mut(partition.index()) else {
            return;
        };
        let until_free = Nanos::new(
            self.random
                .below(partition.preemption_bound.as_nanos().saturating_add(1)),
        );
        if let Some(running) = partition.running.as_mut()
            && running.infer.id == action
            && running.infer.criticality == Criticality::BestEffort
            && !running.preempted
            && now + until_free < running.ends
        {
            running.preempted = true;
            // An action that waits for its window stops at once, as one between operators.
            running.ends = now + until_free;
        } else if let Some(next) = partition.next.as_mut()
            && next.infer.id == action
            && next.infer.criticality == Criticality::BestEffort
        {
            // Reported in its turn, when the one before it ends.
            next.preempted = true;
        }
    }

    fn poll(&mut self) -> Option<Event> {
        let earliest = self
            .partitions
            .iter_mut()
            .filter(|partition| {
                partition
                    .ready
                    .front()
                    .is_some_and(|(at, _)| *at <= self.now)
            })
            .min_by_key(|partition| partition.ready.front().map(|(at, _)| *at))?;
        earliest.ready.pop_front().map(|(_, event)| event)
    }
}
