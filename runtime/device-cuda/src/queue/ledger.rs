//! Which launches of a list were handed to the driver, and where to resume after an eviction. Knows no
//! driver: what the device says comes in as numbers.

use thiserror::Error;

/// The word that takes the smallest index of an evicted launch, when none was.
pub const NONE_EVICTED: u32 = u32::MAX;

/// Which launches of a stage the driver has, numbered by their place in its list.
///
/// The driver holds launches `..next`; the rest never left the host, so dropping them is forgetting
/// them. Of those in the driver at most `bound` have not begun, so an eviction has few to empty.
#[derive(Clone, Debug)]
pub struct Ledger {
    bound: u32,
    /// The first launch of this pass.
    from: u32,
    /// The next launch to hand over.
    next: u32,
    end: u32,
}

/// The device says something that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the device reports launch {first} as the first evicted, of {from} to {next} that were handed over"
)]
pub struct NotHandedOver {
    pub first: u32,
    /// The first launch that was handed over.
    pub from: u32,
    /// Behind the last launch that was.
    pub next: u32,
}

impl Ledger {
    /// Nothing to hand over yet. `bound` launches may wait in the driver; at least one may.
    #[must_use]
    pub fn new(bound: u32) -> Self {
        Self {
            bound: bound.max(1),
            from: 0,
            next: 0,
            end: 0,
        }
    }

    /// Begins a pass over launches `from..end`; nothing of an earlier pass is in the driver.
    ///
    /// # Panics
    /// If it would begin behind its end.
    pub fn begin(&mut self, from: u32, end: u32) {
        assert!(from <= end, "from launch {from} of {end}");
        (self.from, self.next, self.end) = (from, from, end);
    }

    /// The launch to hand over now, if there is one left and the driver may have it. `begun` launches
    /// of the list have begun, as the device says.
    pub fn hand_over(&mut self, begun: u32) -> Option<u32> {
        // A word of the device's is never trusted further than it can be right.
        let begun = begun.clamp(self.from, self.next);
        let launch = self.next;
        if launch == self.end || launch - begun >= self.bound {
            return None;
        }
        self.next += 1;
        Some(launch)
    }

    /// Whether all of the list is in the driver.
    #[must_use]
    pub fn all_handed_over(&self) -> bool {
        self.next == self.end
    }

    /// Where to resume when the driver has run empty after an eviction: everything before was carried
    /// out, whole and once. `first` is the first evicted launch as the device noted it, or
    /// [`NONE_EVICTED`].
    ///
    /// Launches run one after the other, and a queue's epoch never returns: once a block has found
    /// it changed, so does every later one. So all launches before the first evicted ran to their
    /// end, and none behind it wrote anything.
    pub fn resume_at(&self, first: u32) -> Result<u32, NotHandedOver> {
        match first {
            NONE_EVICTED => Ok(self.next),
            first if (self.from..self.next).contains(&first) => Ok(first),
            first => Err(NotHandedOver {
                first,
                from: self.from,
                next: self.next,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// Blocks of each launch of the model device.
    const BLOCKS: u32 = 3;

    /// What a launch did, in order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum LaunchOutcome {
        Whole(u32),
        Cut(u32),
    }

    /// A device that carries out one launch after the other, block by block, and reads the epoch at the
    /// start of each block: what the kernels do.
    struct ModelDevice {
        epoch: u32,
        in_driver: VecDeque<(u32, u32)>,
        /// Of the front launch: blocks that ended, and how many of them wrote.
        blocks: (u32, u32),
        begun: u32,
        first_evicted: u32,
        deeds: Vec<LaunchOutcome>,
    }

    impl ModelDevice {
        fn step(&mut self) {
            let Some(&(index, epoch)) = self.in_driver.front() else {
                return;
            };
            if self.blocks.0 == 0 {
                self.begun = index + 1;
            }
            self.blocks.0 += 1;
            if epoch == self.epoch {
                self.blocks.1 += 1;
            } else {
                self.first_evicted = self.first_evicted.min(index);
            }
            if self.blocks.0 == BLOCKS {
                match self.blocks.1 {
                    0 => {}
                    BLOCKS => self.deeds.push(LaunchOutcome::Whole(index)),
                    _ => self.deeds.push(LaunchOutcome::Cut(index)),
                }
                self.blocks = (0, 0);
                self.in_driver.pop_front();
            }
        }

        /// Launches in the driver that have not begun.
        fn waiting(&self) -> usize {
            self.in_driver.len() - usize::from(self.blocks.0 > 0)
        }
    }

    /// What the leader does, one act at a time.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        HandOver,
        Device,
        Preempt,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            4 => Just(Act::HandOver),
            8 => Just(Act::Device),
            1 => Just(Act::Preempt),
        ];
        proptest::collection::vec(act, 0..200)
    }

    proptest! {
        #[test]
        fn every_launch_runs_whole_once_and_in_order_whatever_is_evicted(
            acts in acts(),
            bound in 0_u32..5,
            end in 0_u32..12,
        ) {
            let mut device = ModelDevice {
                epoch: 7,
                in_driver: VecDeque::new(),
                blocks: (0, 0),
                begun: 0,
                first_evicted: NONE_EVICTED,
                deeds: Vec::new(),
            };
            let mut ledger = Ledger::new(bound);
            ledger.begin(0, end);
            let mut epoch = device.epoch;
            // What is left of the list is carried out at the end.
            let rest = std::iter::repeat_n([Act::HandOver, Act::Device], 200).flatten();
            for act in acts.into_iter().chain(rest) {
                match act {
                    Act::HandOver => {
                        if let Some(index) = ledger.hand_over(device.begun) {
                            device.in_driver.push_back((index, epoch));
                            prop_assert!(device.waiting() <= bound.max(1) as usize);
                        }
                    }
                    Act::Device => device.step(),
                    Act::Preempt => {
                        device.epoch += 1;
                        while !device.in_driver.is_empty() {
                            device.step();
                        }
                        let at = ledger.resume_at(device.first_evicted).expect("handed over");
                        device.first_evicted = NONE_EVICTED;
                        device.begun = at;
                        epoch = device.epoch;
                        ledger.begin(at, end);
                    }
                }
            }
            prop_assert!(ledger.all_handed_over() && device.in_driver.is_empty());
            let whole: Vec<u32> = device.deeds.iter().filter_map(|deed| match deed {
                LaunchOutcome::Whole(index) => Some(*index),
                LaunchOutcome::Cut(_) => None,
            }).collect();
            prop_assert_eq!(whole, (0..end).collect::<Vec<_>>());
            // One that was cut is the next to run whole: nothing ran on what it left half written.
            for (at, deed) in device.deeds.iter().enumerate() {
                if let LaunchOutcome::Cut(index) = deed {
                    let next = device.deeds.get(at + 1);
                    let again = [Some(&LaunchOutcome::Whole(*index)), Some(&LaunchOutcome::Cut(*index))];
                    prop_assert!(again.contains(&next), "{:?}", device.deeds);
                }
            }
        }
    }

    #[test]
    fn a_bound_counts_launches_that_have_not_begun() {
        let mut ledger = Ledger::new(2);
        ledger.begin(0, 5);
        let handed = |ledger: &mut Ledger, begun| -> Vec<u32> {
            std::iter::from_fn(|| ledger.hand_over(begun)).collect()
        };
        assert_eq!(handed(&mut ledger, 0), [0, 1]);
        assert_eq!(handed(&mut ledger, 1), [2]);
        assert_eq!(handed(&mut ledger, 3), [3, 4]);
        assert!(ledger.all_handed_over());
    }

    #[test]
    fn a_word_beyond_what_was_handed_over_counts_as_all_of_it() {
        let mut ledger = Ledger::new(1);
        ledger.begin(2, 9);
        assert_eq!(ledger.hand_over(100), Some(2));
        assert_eq!(ledger.hand_over(100), Some(3));
        assert_eq!(ledger.hand_over(0), None);
    }

    #[test]
    fn a_launch_that_was_not_handed_over_cannot_have_been_evicted() {
        let mut ledger = Ledger::new(3);
        ledger.begin(2, 9);
        assert_eq!(ledger.hand_over(0), Some(2));
        assert_eq!(ledger.resume_at(2), Ok(2));
        assert_eq!(ledger.resume_at(NONE_EVICTED), Ok(3));
        for first in [1, 3] {
            let error = ledger.resume_at(first).expect_err("not handed over");
            assert_eq!(
                error,
                NotHandedOver {
                    first,
                    from: 2,
                    next: 3
                }
            );
        }
    }
}
