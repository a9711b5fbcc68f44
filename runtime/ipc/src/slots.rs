//! The daemon's own record of a client's slots. Nothing in here is shared with the client; the
//! generations are published to it.
//!
//! Port and intake look at it, each from its own thread. A use of a slot is named
//! by (slot, sequence), since a sequence is never used twice.

use punctual_platform::atomics::{AtomicU64, Ordering};

use crate::descriptor::Descriptor;

/// The generation of a slot that was never used. Not zero, so that a zeroed descriptor is stale.
pub(crate) const FIRST_GENERATION: u32 = 1;

#[derive(Debug)]
pub(crate) struct SlotTable {
    slots: Box<[Slot]>,
}

#[derive(Debug)]
struct Slot {
    /// generation ‖ (1 if submitted, 0 if with the client).
    state: AtomicU64,
    /// Of the submission that uses it. Written before `state` says submitted.
    sequence: AtomicU64,
}

const SUBMITTED: u64 = 1;

const fn state(generation: u32, submitted: u64) -> u64 {
    (generation as u64) << 32 | submitted
}

/// Why a submission cannot have the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// It holds a submission that was not released yet.
    InUse,
    /// The client's generation is not this one.
    Stale { current: u32 },
}

impl SlotTable {
    pub(crate) fn new(slots: u16) -> Self {
        let slot = |_| Slot {
            state: AtomicU64::new(state(FIRST_GENERATION, 0)),
            sequence: AtomicU64::new(0),
        };
        Self {
            slots: (0..slots).map(slot).collect(),
        }
    }

    /// The slot now holds this submission.
    pub(crate) fn take(&self, d: &Descriptor, generation: u32) -> Result<(), Unavailable> {
        let slot = &self.slots[usize::from(d.slot)];
        // Acquire pairs with the AcqRel in `release`: the thread that released is done with the sequence.
        let now = slot.state.load(Ordering::Acquire);
        if now & SUBMITTED != 0 {
            return Err(Unavailable::InUse);
        }
        let current = (now >> 32) as u32;
        if current != generation {
            return Err(Unavailable::Stale { current });
        }
        // Before the state, whose Release publishes it: `holding` reads it after the state.
        slot.sequence.store(d.sequence, Ordering::Relaxed);
        // Release pairs with the Acquire in `holding`. Only the port makes this step, so no
        // compare-and-swap is needed.
        slot.state
            .store(state(current, SUBMITTED), Ordering::Release);
        Ok(())
    }

    /// Whether the slot holds this submission.
    pub(crate) fn holds(&self, slot: u16, sequence: u64) -> bool {
        self.holding(slot, sequence).is_some()
    }

    /// Intake or port, whichever is first: the slot is the client's again. The generation to
    /// publish; none if the slot does not hold this submission (any more).
    pub(crate) fn release(&self, slot: u16, sequence: u64) -> Option<u32> {
        let now = self.holding(slot, sequence)?;
        let next = ((now >> 32) as u32).wrapping_add(1);
        // AcqRel pairs with the Acquire in `take`. The state names the use, so a release by
        // another thread meanwhile makes this fail.
        self.slots[usize::from(slot)]
            .state
            .compare_exchange(now, state(next, 0), Ordering::AcqRel, Ordering::Relaxed)
            .ok()
            .map(|_| next)
    }

    /// How many hold a submission.
    pub(crate) fn in_use(&self) -> usize {
        // Relaxed: a count, from which nothing about other memory follows.
        let submitted = |slot: &&Slot| slot.state.load(Ordering::Relaxed) & SUBMITTED != 0;
        self.slots.iter().filter(submitted).count()
    }

    /// The slot's state, if it holds this submission.
    fn holding(&self, slot: u16, sequence: u64) -> Option<u64> {
        let slot = self.slots.get(usize::from(slot))?;
        // Acquire pairs with the Release in `take`: the sequence is this use's or a later one's,
        // which is another.
        let now = slot.state.load(Ordering::Acquire);
        (now & SUBMITTED != 0 && slot.sequence.load(Ordering::Relaxed) == sequence).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::Crop;

    fn submission(sequence: u64, slot: u16) -> Descriptor {
        Descriptor {
            sequence,
            captured_ns: 0,
            deadline_ns: None,
            slot,
            crop: Crop { x: 3, y: 4 },
            egress_ns: 0,
            task: 0,
        }
    }

    #[test]
    fn a_slot_goes_round_and_its_generation_rises() {
        let table = SlotTable::new(2);
        for use_ in 0..5 {
            let generation = FIRST_GENERATION + use_;
            let d = submission(u64::from(use_), 1);
            assert_eq!(table.take(&d, generation), Ok(()));
            assert_eq!(table.take(&d, generation), Err(Unavailable::InUse));
            assert!(table.holds(1, d.sequence));
            assert_eq!(table.in_use(), 1);
            assert_eq!(table.release(1, d.sequence), Some(generation + 1));
            assert_eq!(table.release(1, d.sequence), None);
            assert!(!table.holds(1, d.sequence));
            assert_eq!(table.in_use(), 0);
        }
    }

    #[test]
    fn stale_generations_and_stale_sequences_are_noticed() {
        let table = SlotTable::new(1);
        table.take(&submission(1, 0), FIRST_GENERATION).unwrap();
        table.release(0, 1).unwrap();
        let stale = Err(Unavailable::Stale { current: 2 });
        assert_eq!(table.take(&submission(2, 0), FIRST_GENERATION), stale);
        table.take(&submission(2, 0), 2).unwrap();
        assert!(!table.holds(0, 1) && table.holds(0, 2));
        assert_eq!(table.release(0, 1), None);
        assert_eq!(table.release(7, 2), None, "no such slot");
    }

    #[test]
    fn of_two_threads_that_release_exactly_one_does() {
        const ROUNDS: u64 = if cfg!(miri) { 20 } else { 1_000 };
        let table = SlotTable::new(1);
        let barrier = std::sync::Barrier::new(2);
        let released = |table: &SlotTable| {
            let mut count = 0;
            for round in 1..=ROUNDS {
                if barrier.wait().is_leader() {
                    table.take(&submission(round, 0), round as u32).unwrap();
                }
                barrier.wait();
                count += u64::from(table.release(0, round).is_some());
            }
            count
        };
        let sum = std::thread::scope(|scope| {
            let other = scope.spawn(|| released(&table));
            released(&table) + other.join().unwrap()
        });
        assert_eq!(sum, ROUNDS);
    }
}
