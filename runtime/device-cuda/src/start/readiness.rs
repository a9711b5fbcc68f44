//! How much of each model can run, as the thread that loads tells the one that submits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use punctual_core::{ModelId, Readiness, StageId};
use punctual_platform::Doorbell;

/// Written by the thread that loads. States, not a queue: who reads late reads the last one.
pub struct Board {
    /// Stages in the low byte; whether they are as they were measured, and whether they never will be, above it.
    models: Box<[AtomicU16]>,
    /// How often anything was said.
    changes: AtomicU64,
    /// Rung after each change.
    report: Arc<Doorbell>,
}

const AS_MEASURED: u16 = 1 << 8;
const STAYS_GENERAL: u16 = 1 << 9;

impl Board {
    /// Of models nothing of which is there.
    #[must_use]
    pub fn new(models: usize, report: Arc<Doorbell>) -> Self {
        Self {
            models: (0..models).map(|_| AtomicU16::new(0)).collect(),
            changes: AtomicU64::new(0),
            report,
        }
    }

    /// Says how much of a model can run from now on.
    pub fn say(&self, said: Readiness) {
        let flag = |holds: bool, flag| if holds { flag } else { 0 };
        let state = u16::from(said.stages)
            | flag(said.as_measured, AS_MEASURED)
            | flag(said.stays_general, STAYS_GENERAL);
        let model = said.model.index();
        // Release: pairs with the acquires in `state` and `poll` (label READY): what is said to be there is there.
        if self.models[model].swap(state, Ordering::Release) != state {
            self.changes.fetch_add(1, Ordering::Release);
            self.report.ring();
        }
    }

    fn state(&self, model: usize) -> u16 {
        // Acquire: label READY.
        let state = self.models.get(model);
        state.map_or(0, |state| state.load(Ordering::Acquire))
    }
}

/// The end of the thread that submits.
pub struct Follower {
    board: Arc<Board>,
    /// By model, what was told last; none: nothing yet.
    told: Box<[Option<u16>]>,
    /// The model to look at next.
    next: usize,
    /// The changes that were seen when the first one was looked at.
    seen: u64,
}

impl Follower {
    #[must_use]
    pub fn new(board: Arc<Board>) -> Self {
        Self {
            told: vec![None; board.models.len()].into(),
            next: 0,
            seen: 0,
            board,
        }
    }

    #[must_use]
    pub fn is_ready(&self, model: ModelId, stage: StageId) -> bool {
        let stages = self.board.state(model.index()) & u16::from(u8::MAX);
        stage.index() < usize::from(stages)
    }

    /// The next change. Of each model the first one says that nothing is there.
    pub fn poll(&mut self) -> Option<Readiness> {
        if self.next == self.told.len() {
            // Acquire: label READY. A change that comes while models are looked at is seen in the next round.
            let changes = self.board.changes.load(Ordering::Acquire);
            if changes == self.seen {
                return None;
            }
            (self.seen, self.next) = (changes, 0);
        }
        while let Some(told) = self.told.get_mut(self.next) {
            let model = self.next;
            self.next += 1;
            let state = told.map_or(0, |_| self.board.state(model));
            if told.replace(state) != Some(state) {
                return Some(Readiness {
                    model: ModelId(model as u16),
                    stages: state as u8,
                    as_measured: state & AS_MEASURED != 0,
                    stays_general: state & STAYS_GENERAL != 0,
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readiness(model: u16, stages: u8, as_measured: bool) -> Readiness {
        Readiness {
            model: ModelId(model),
            stages,
            as_measured,
            stays_general: false,
        }
    }

    #[test]
    fn nothing_is_told_to_be_there_first_and_then_each_change_once() {
        let board = Arc::new(Board::new(2, Arc::new(Doorbell::new())));
        let mut follower = Follower::new(board.clone());
        board.say(readiness(1, 1, false));
        assert_eq!(follower.poll(), Some(readiness(0, 0, false)));
        assert_eq!(follower.poll(), Some(readiness(1, 0, false)));
        assert_eq!(follower.poll(), Some(readiness(1, 1, false)));
        assert_eq!(follower.poll(), None);
        assert!(follower.is_ready(ModelId(1), StageId(0)));
        assert!(!follower.is_ready(ModelId(1), StageId(1)));
        assert!(!follower.is_ready(ModelId(0), StageId(0)));
        board.say(readiness(1, 2, false));
        board.say(readiness(1, 2, true));
        board.say(readiness(1, 2, true));
        assert_eq!(follower.poll(), Some(readiness(1, 2, true)));
        assert_eq!(follower.poll(), None);
        let general = Readiness {
            stays_general: true,
            ..readiness(0, 1, false)
        };
        board.say(general);
        assert_eq!(follower.poll(), Some(general));
        assert!(follower.is_ready(ModelId(0), StageId(0)));
    }
}
