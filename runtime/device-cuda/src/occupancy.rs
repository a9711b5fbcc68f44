//! Which TPCs are taken: by real-time launches, as their notices say, and by fillers, as they hold them.
//!
//! A filler's launch and a real-time one must not both believe that a TPC is theirs alone. Each side
//! says first what it takes, and then looks at what the other said; so one of the two sees the other
//! (label OCCUPANCY, as in Dekker's algorithm). A filler that sees a claim withdraws its own; a real-time leader never
//! waits: it calls the filler off, whose launch empties itself by its guard.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use punctual_core::Instant;

use crate::padding::{Demand, InDriver, LaunchBoard, TpcSet, grant};

/// Notices and holds of one device.
#[derive(Debug)]
pub(crate) struct Occupancy {
    board: LaunchBoard,
    holds: Box<[Hold]>,
}

/// What a filling partition has taken for its launch. Written by its leader alone, but for `unwelcome`.
#[derive(Debug, Default)]
struct Hold {
    /// TPCs 0 to 63.
    low: AtomicU64,
    /// TPCs 64 to 127.
    high: AtomicU64,
    /// When it should have given them back, in nanoseconds.
    until_ns: AtomicU64,
    /// A real-time launch wants some of them.
    unwelcome: AtomicBool,
}

impl Hold {
    // Relaxed: the fences of OCCUPANCY order these words with the notices. A set that is half of one choice and half
    // of the next contains every TPC of whichever is in force while it is read on the far side of a fence.

    fn set(&self, tpcs: TpcSet, until: Instant) {
        // Who reads one of them anew and the other not yet calls a filler off without need, at worst: a filler that
        // takes TPCs looks at the notices again, behind its fence.
        self.until_ns.store(until.as_nanos(), Ordering::Relaxed);
        self.low.store(tpcs as u64, Ordering::Relaxed);
        self.high.store((tpcs >> 64) as u64, Ordering::Relaxed);
    }

    fn get(&self) -> TpcSet {
        let high = u128::from(self.high.load(Ordering::Relaxed));
        high << 64 | u128::from(self.low.load(Ordering::Relaxed))
    }

    fn until(&self) -> Instant {
        Instant::from_nanos(self.until_ns.load(Ordering::Relaxed))
    }
}

impl Occupancy {
    /// `fillers` filling partitions in addition to those of `board`.
    pub(crate) fn new(board: LaunchBoard, fillers: usize) -> Self {
        Self {
            board,
            holds: (0..fillers).map(|_| Hold::default()).collect(),
        }
    }

    /// A real-time leader is about to hand the launch at place `at` of its list over: the TPCs to confine it to. `call_off` is
    /// called with each filler that is in the way of what is in the driver and did not know yet.
    pub(crate) fn post(
        &self,
        partition: usize,
        demand: Option<&Demand>,
        at: u32,
        in_driver: &mut InDriver,
        now: Instant,
        call_off: impl FnMut(usize),
    ) -> TpcSet {
        let claim = match demand {
            Some(demand) => self.board.post(partition, demand, in_driver, now),
            None => self.board.post_unknown(partition),
        };
        in_driver.push(at, claim);
        // OCCUPANCY: pairs with the fence in `take`.
        fence(Ordering::SeqCst);
        self.call_off(in_driver, now, call_off);
        claim.tpcs
    }

    /// Calls `call_off` with each filler that is in the way of what is in the driver and did not know yet.
    pub(crate) fn call_off(
        &self,
        in_driver: &InDriver,
        now: Instant,
        mut call_off: impl FnMut(usize),
    ) {
        for (filler, hold) in self.holds.iter().enumerate() {
            // Relaxed: a wish, that the filler's leader sees when it looks.
            if in_driver.conflict(hold.get(), hold.until(), now)
                && !hold.unwelcome.swap(true, Ordering::Relaxed)
            {
                call_off(filler);
            }
        }
    }

    /// A real-time stage is over.
    pub(crate) fn take_down(&self, partition: usize) {
        self.board.take_down(partition);
    }

    /// All TPCs of the device, if there is no real-time launch: fillers run at the same time then, and the device
    /// decides whose blocks run where (REEF's normal mode). They are the filler's until it
    /// [gives them back](Self::give_back), or takes others.
    pub(crate) fn take_all(&self, filler: usize) -> Option<TpcSet> {
        let all = self.board.quiet()?;
        let hold = &self.holds[filler];
        let before = (hold.get(), hold.until());
        hold.set(all, Instant::FAR_FUTURE);
        // OCCUPANCY: pairs with the fence in `post`.
        fence(Ordering::SeqCst);
        if self.board.quiet().is_none() {
            // What is in the driver still runs there.
            hold.set(before.0, before.1);
            return None;
        }
        Some(all)
    }

    /// TPCs for a filler's launch, if REEF's rule grants any now; they are its own until it
    /// [gives them back](Self::give_back). A launch without a measured time runs alone.
    pub(crate) fn take(
        &self,
        filler: usize,
        demand: Option<&Demand>,
        now: Instant,
    ) -> Option<TpcSet> {
        let mut left = self.board.left();
        let held = self.held_beside(filler);
        // One at a time while real-time work runs: each shares the memory with it.
        if left.until.is_some() && held != 0 {
            return None;
        }
        left.tpcs &= !held;
        let tpcs = match demand {
            Some(demand) => grant(&left, demand, now)?,
            None if left.until.is_none() && left.tpcs != 0 => left.tpcs,
            None => return None,
        };
        let until = demand.map_or(Instant::FAR_FUTURE, |demand| {
            now + demand.on(tpcs.count_ones())
        });
        self.holds[filler].set(tpcs, until);
        // OCCUPANCY: pairs with the fence in `post`, and with this one of another filler.
        fence(Ordering::SeqCst);
        let still = self.board.left().tpcs & !self.held_beside(filler);
        if tpcs & !still != 0 {
            self.give_back(filler);
            return None;
        }
        Some(tpcs)
    }

    fn held_beside(&self, filler: usize) -> TpcSet {
        let others = self
            .holds
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != filler);
        others.fold(0, |held, (_, hold)| held | hold.get())
    }

    /// Whether a real-time launch wants what the filler holds.
    pub(crate) fn is_unwelcome(&self, filler: usize) -> bool {
        // Relaxed: as in `post`.
        self.holds[filler].unwelcome.load(Ordering::Relaxed)
    }

    /// Nothing of the filler's is in the driver any more.
    pub(crate) fn give_back(&self, filler: usize) {
        let hold = &self.holds[filler];
        hold.set(0, Instant::FAR_FUTURE);
        // Relaxed: a wish that comes a moment later finds nothing to evict, and costs its filler a pass.
        hold.unwelcome.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::padding::tests::{NOW, demand};

    /// TPCs 0 to 3 are a real-time partition's, of 8.
    fn occupancy(fillers: usize) -> Occupancy {
        Occupancy::new(LaunchBoard::new(0xff, &[0x0f]), fillers)
    }

    /// A real-time launch with nothing before it; the fillers that it calls off.
    fn post(occupancy: &Occupancy, demand: Option<&Demand>) -> (TpcSet, Vec<usize>) {
        let mut called = Vec::new();
        let call_off = |filler| called.push(filler);
        let tpcs = occupancy.post(0, demand, 0, &mut InDriver::default(), NOW, call_off);
        (tpcs, called)
    }

    #[test]
    fn beside_real_time_launches_one_filler_at_a_time_has_what_they_leave() {
        let occupancy = occupancy(2);
        let posted = post(&occupancy, Some(&demand(2, 100)));
        assert_eq!(posted, (0b0011, vec![]));
        assert_eq!(occupancy.take(0, Some(&demand(2, 10)), NOW), Some(0b1100));
        assert_eq!(occupancy.take(1, Some(&demand(25, 10)), NOW), None);
        occupancy.give_back(0);
        assert_eq!(occupancy.take(1, Some(&demand(25, 10)), NOW), Some(0xfc));
        assert_eq!(occupancy.take(0, Some(&demand(1, 10)), NOW), None);
    }

    #[test]
    fn without_real_time_work_a_filler_has_all() {
        let occupancy = occupancy(1);
        assert_eq!(occupancy.take(0, Some(&demand(250, 10)), NOW), Some(0xff));
        assert!(!occupancy.is_unwelcome(0));
    }

    #[test]
    fn without_real_time_work_fillers_run_beside_each_other_until_there_is_some() {
        let occupancy = occupancy(2);
        for filler in [0, 1, 0] {
            assert_eq!(occupancy.take_all(filler), Some(0xff));
        }
        let (_, called) = post(&occupancy, Some(&demand(1, 100)));
        assert_eq!(called, [0, 1]);
        assert_eq!(occupancy.take_all(0), None);
        occupancy.give_back(0);
        assert_eq!(
            occupancy.take(0, Some(&demand(2, 10)), NOW),
            None,
            "the other has not left yet"
        );
        occupancy.give_back(1);
        assert_eq!(occupancy.take(0, Some(&demand(2, 10)), NOW), Some(0b0110));
        occupancy.take_down(0);
        assert_eq!(occupancy.take_all(0), Some(0xff));
    }

    #[test]
    fn a_launch_that_nobody_measured_runs_beside_nothing() {
        let occupancy = occupancy(1);
        assert_eq!(occupancy.take(0, None, NOW), Some(0xff));
        occupancy.give_back(0);
        post(&occupancy, Some(&demand(2, 100)));
        assert_eq!(occupancy.take(0, None, NOW), None);
        post(&occupancy, None);
        assert_eq!(occupancy.take(0, Some(&demand(1, 1)), NOW), None);
        occupancy.take_down(0);
        assert_eq!(occupancy.take(0, None, NOW), Some(0xff));
    }

    #[test]
    fn a_filler_in_the_way_is_called_off_once_and_one_beside_is_not() {
        let occupancy = occupancy(2);
        assert_eq!(occupancy.take(0, Some(&demand(2, 10)), NOW), Some(0b0011));
        assert_eq!(occupancy.take(1, Some(&demand(2, 10)), NOW), Some(0b1100));
        let launch = demand(1, 100);
        assert_eq!(post(&occupancy, Some(&launch)), (0b0001, vec![0]));
        assert_eq!(
            post(&occupancy, Some(&launch)),
            (0b0001, vec![]),
            "it knows"
        );
        assert!(occupancy.is_unwelcome(0) && !occupancy.is_unwelcome(1));
        occupancy.give_back(0);
        occupancy.give_back(1);
        assert_eq!(occupancy.take(0, Some(&demand(1, 10)), NOW), Some(0b0010));
        assert!(!occupancy.is_unwelcome(0), "its next launch is welcome");
    }

    #[test]
    fn a_filler_that_stays_too_long_is_called_off_when_a_launch_may_wait_for_it() {
        let occupancy = occupancy(1);
        let mut in_driver = InDriver::default();
        let at = |us| NOW + punctual_core::Nanos::from_micros(us);
        let none = |filler: usize| panic!("filler {filler} is called off");
        let first = demand(1, 100);
        occupancy.post(0, Some(&first), 0, &mut in_driver, NOW, none);
        assert_eq!(occupancy.take(0, Some(&demand(2, 50)), NOW), Some(0b0110));
        // Behind the first one: the filler should be gone by then.
        let second = demand(4, 100);
        occupancy.post(0, Some(&second), 1, &mut in_driver, at(10), none);
        occupancy.call_off(&in_driver, at(100), none);
        let mut called = Vec::new();
        occupancy.call_off(&in_driver, at(101), |filler| called.push(filler));
        assert_eq!(called, [0]);
        assert!(occupancy.is_unwelcome(0));
    }

    /// On threads, with real-time notices coming and going: no two fillers ever have the same TPC.
    #[test]
    fn one_of_two_that_want_a_tpc_sees_the_other() {
        const ROUNDS: u32 = 20_000;
        let occupancy = occupancy(2);
        let owners: [AtomicU32; 8] = std::array::from_fn(|_| AtomicU32::new(0));
        let all = |tpcs: TpcSet| (0..8).filter(move |tpc| tpcs >> tpc & 1 == 1);
        std::thread::scope(|scope| {
            for filler in 0..2 {
                let (occupancy, owners) = (&occupancy, &owners);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let wants = demand(1 + round % 5, 1);
                        let Some(tpcs) = occupancy.take(filler, Some(&wants), NOW) else {
                            continue;
                        };
                        for tpc in all(tpcs) {
                            assert_eq!(owners[tpc].fetch_add(1, Ordering::SeqCst), 0);
                        }
                        for tpc in all(tpcs) {
                            owners[tpc].fetch_sub(1, Ordering::SeqCst);
                        }
                        occupancy.give_back(filler);
                    }
                });
            }
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let wants = demand(1 + round % 4, 100);
                    post(&occupancy, Some(&wants));
                    occupancy.take_down(0);
                }
            });
        });
    }
}
