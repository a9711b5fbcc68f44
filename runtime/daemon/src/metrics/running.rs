//! What a partition runs at the moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual_core::{Criticality, ModelId, StageId};

/// Written by the scheduler's thread, read by others. One word, so that a reader sees one stage or another.
#[derive(Debug, Default)]
pub struct Running(
    /// 0: nothing. Relaxed: it orders nothing else.
    AtomicU64,
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningStage {
    pub model: ModelId,
    pub stage: StageId,
    pub batch: u8,
    pub criticality: Criticality,
}

const SOMETHING: u64 = 1 << 63;
const BEST_EFFORT: u64 = 1 << 62;

impl Running {
    pub fn is(&self, stage: Option<RunningStage>) {
        self.0.store(stage.map_or(0, RunningStage::word), Relaxed);
    }

    pub fn now(&self) -> Option<RunningStage> {
        let word = self.0.load(Relaxed);
        (word & SOMETHING != 0).then(|| RunningStage::of(word))
    }
}

impl RunningStage {
    fn word(self) -> u64 {
        let criticality = match self.criticality {
            Criticality::RealTime => 0,
            Criticality::BestEffort => BEST_EFFORT,
        };
        let [stage, batch] = [self.stage.0, self.batch].map(u64::from);
        SOMETHING | criticality | u64::from(self.model.0) << 16 | stage << 8 | batch
    }

    fn of(word: u64) -> Self {
        Self {
            model: ModelId((word >> 16) as u16),
            stage: StageId((word >> 8) as u8),
            batch: word as u8,
            criticality: if word & BEST_EFFORT == 0 {
                Criticality::RealTime
            } else {
                Criticality::BestEffort
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_read_as_it_was_written() {
        let running = Running::default();
        assert_eq!(running.now(), None);
        for criticality in [Criticality::RealTime, Criticality::BestEffort] {
            let stage = RunningStage {
                model: ModelId(u16::MAX),
                stage: StageId(200),
                batch: 0,
                criticality,
            };
            running.is(Some(stage));
            assert_eq!(running.now(), Some(stage));
        }
        running.is(None);
        assert_eq!(running.now(), None);
    }
}
