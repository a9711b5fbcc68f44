//! What a device in virtual time cannot know by itself: how long things take, how they end, and what the exits say.

use punctual_core::{
    Answer, Infer, Instant, ModelId, Nanos, PartitionConfig, RequestId, StageId, StageTime,
};
use punctual_types::Random;

/// Where the answers of a device without a network come from.
pub trait Oracle {
    /// What the exit of `stage` answers for `request`. Must not depend on anything but its arguments,
    /// so that a stage that was preempted answers the same when it runs again.
    fn answer(&mut self, request: RequestId, model: ModelId, stage: StageId) -> Answer;
}

impl<F: FnMut(RequestId, ModelId, StageId) -> Answer> Oracle for F {
    fn answer(&mut self, request: RequestId, model: ModelId, stage: StageId) -> Answer {
        self(request, model, stage)
    }
}

/// How long things really take, and how they end.
pub trait Timing {
    /// What becomes of an action that starts at `started`, of which the plan knows `time`.
    fn course(&mut self, infer: &Infer, started: Instant, time: StageTime) -> Course;

    /// From its preemption to the end of a best-effort action.
    fn stopping(&mut self, partition: &PartitionConfig) -> Nanos;

    /// How long a transfer of weights takes that starts at `started` and has the budget `load`.
    fn transfer(&mut self, _model: ModelId, _started: Instant, load: Nanos) -> Nanos {
        load
    }

    /// From now on, a request buffer holds this picture.
    fn shows(&mut self, _buffer: u16, _sample: u32) {}
}

/// What becomes of an action that nothing disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Time from its start to its end, when it has its compute units for itself; at least 1 ns.
    pub took: Nanos,
    /// What is reported then.
    pub ending: Ending,
}

/// What a device reports at the end of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answers.
    Finished,
    /// That it failed.
    Failed,
    /// Nothing, ever, though the partition is free again: a lost completion.
    Lost,
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

    /// As a timing whose draws follow from `seed`.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Uniform {
        Uniform {
            variation: self,
            random: Random::new(seed),
        }
    }
}

/// Stages vary uniformly around their budget, stopping takes anything up to its bound, and nothing fails.
#[derive(Clone, Debug)]
pub struct Uniform {
    variation: Variation,
    random: Random,
}

impl Timing for Uniform {
    fn course(&mut self, _: &Infer, _: Instant, time: StageTime) -> Course {
        let Variation {
            least_permille,
            most_permille,
        } = self.variation;
        let permille = least_permille + self.random.below(most_permille - least_permille + 1);
        Course {
            took: Nanos::new((time.budget.as_nanos() * permille / 1000).max(1)),
            ending: Ending::Finished,
        }
    }

    fn stopping(&mut self, partition: &PartitionConfig) -> Nanos {
        let bound = partition.preemption_bound.as_nanos();
        Nanos::new(self.random.below(bound.saturating_add(1)))
    }
}
