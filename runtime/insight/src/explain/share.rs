//! How much of each partition's time real-time work has used: beyond its share, frames without a reservation are rejected.

use punctual_core::{Config, Criticality, Instant, PartitionId, UtilizationCap, Voluntary};
use punctual_recording::frames::{Follower, Outcome, Run};

use super::bounds::Bounds;

/// The scheduler's own count, from the runs of a recording. One that begins in the middle counts from there.
pub struct Shares {
    caps: Vec<UtilizationCap>,
}

impl Shares {
    pub fn of(config: &Config) -> Self {
        let caps = config.partitions.iter();
        Self {
            caps: caps
                .map(|plan| UtilizationCap::new(plan.share_max))
                .collect(),
        }
    }

    /// Counts a run that has ended.
    pub fn run(&mut self, run: &Run, bounds: Bounds<'_>) {
        let Some(end) = &run.end else { return };
        if run.criticality == Criticality::BestEffort || end.outcome == Outcome::NotRun {
            return;
        }
        for (id, cap) in (0..).map(PartitionId).zip(&mut self.caps) {
            if bounds.overlap(id, run.partition) {
                cap.ran(run.ordered, end.learned);
            }
        }
    }

    /// Whether frames beyond the reservations of a partition got no time.
    pub fn is_spent(
        &self,
        partition: PartitionId,
        now: Instant,
        bounds: Bounds<'_>,
        follower: &Follower,
    ) -> bool {
        let busy = follower.running().filter(|run| {
            run.criticality == Criticality::RealTime && bounds.overlap(run.partition, partition)
        });
        let since = busy.map(|run| run.ordered).min();
        let cap = self.caps.get(partition.index());
        cap.is_some_and(|cap| cap.is_spent(Voluntary::Extras, now, since))
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ActionId, ModelId, Nanos, PartitionConfig, StageId, Units, Window};
    use punctual_recording::frames::RunEnd;

    use super::*;

    /// Three partitions, of which the first two share a compute unit; real-time work may use nine tenths of each.
    fn config() -> Config {
        let on = |first, count| PartitionConfig {
            units: Units { first, count },
            preemption_bound: Nanos::ZERO,
            share_max: 900,
        };
        Config {
            tasks: Vec::new(),
            models: Vec::new(),
            partitions: vec![on(0, 2), on(1, 1), on(2, 1)],
            request_buffers: 1,
            pages: 0,
            dispatch_cost: Nanos::ZERO,
            egress_bound: Nanos::ZERO,
        }
    }

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn run(criticality: Criticality, outcome: Outcome) -> Run {
        Run {
            action: ActionId(0),
            partition: PartitionId(0),
            model: ModelId(0),
            stage: StageId(0),
            batch: 1,
            members: Vec::new(),
            criticality,
            ordered: at(0),
            window: Window {
                earliest: at(0),
                latest: at(0),
            },
            time: None,
            end: Some(RunEnd {
                learned: at(150),
                outcome,
            }),
        }
    }

    #[test]
    fn real_time_work_uses_the_share_of_all_partitions_with_its_compute_units() {
        let (config, finished) = (
            config(),
            Outcome::Finished {
                started: at(0),
                measured: Nanos::ZERO,
            },
        );
        let bounds = Bounds { config: &config };
        let follower = Follower::new(&config);
        let spent = |run: &Run, now| {
            let mut shares = Shares::of(&config);
            shares.run(run, bounds);
            [0, 1, 2].map(|id| shares.is_spent(PartitionId(id), now, bounds, &follower))
        };
        let busy = run(Criticality::RealTime, finished);
        assert_eq!(spent(&busy, at(150)), [true, true, false]);
        // 15 ms are in a bucket of 10, and an idle millisecond takes out 0.9.
        assert_eq!(spent(&busy, at(156)), [false; 3]);
        let best_effort = run(Criticality::BestEffort, finished);
        assert_eq!(spent(&best_effort, at(150)), [false; 3]);
        let not_run = run(Criticality::RealTime, Outcome::NotRun);
        assert_eq!(spent(&not_run, at(150)), [false; 3]);
    }
}
