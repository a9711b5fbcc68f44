//! Kernel padding (REEF, section 5) by masks: while real-time launches run, best-effort launches
//! fill the TPCs that they leave.
//!
//! REEF fuses kernels and tells blocks by their compute unit. Here each launch has a mask of TPCs of its
//! own, so nothing is fused: a real-time launch is confined to as many TPCs as it needs to be as fast, and
//! posts that on the [`LaunchBoard`]; before each best-effort launch its leader looks there and
//! is [granted](grant) TPCs by REEF's rule, of those that no real-time launch has. A best-effort launch that runs longer
//! than expected is evicted by its guard when a real-time launch wants its TPCs.
//!
//! Granting allocates nothing, waits for nothing and takes well under a microsecond (`benches/padding.rs`).

use std::sync::atomic::{AtomicU64, Ordering};

use heapless::Deque;
use punctual_core::{Instant, Nanos};

/// A set of TPCs: bit `n` is TPC `n`.
pub type TpcSet = u128;

/// What a launch takes of the device, from its list and its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Its profiled time, alone.
    pub time: Nanos,
    /// TPCs on which it is as fast as that; at least one.
    pub enough: u32,
}

impl Demand {
    /// How long it takes on `tpcs` TPCs at most: on fewer than enough, its blocks take turns.
    #[must_use]
    pub fn on(&self, tpcs: u32) -> Nanos {
        let tpcs = u64::from(tpcs.max(1));
        let longer = self.time.saturating_mul(u64::from(self.enough)).as_nanos();
        Nanos::new(longer.div_ceil(tpcs).max(self.time.as_nanos()))
    }
}

/// The lowest `count` TPCs of a set; all of it, if it has no more.
#[must_use]
pub fn lowest(set: TpcSet, count: u32) -> TpcSet {
    let mut rest = set;
    for _ in 0..count {
        rest &= rest.wrapping_sub(1);
    }
    set & !rest
}

/// A launch that was handed over, as it should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What it is confined to: the lowest of its partition.
    pub tpcs: TpcSet,
    pub begins: Instant,
    pub ends: Instant,
}

/// The launches of a stage that are in the driver and may not have ended. Its leader's alone.
#[derive(Debug, Default)]
pub struct InDriver {
    /// The oldest first, each with its place in the list.
    claims: Deque<(u32, Claim), IN_DRIVER_MAX>,
}

/// More than wait in the driver. Of still more the oldest count as one.
const IN_DRIVER_MAX: usize = 16;

impl InDriver {
    /// Another stage begins.
    pub fn clear(&mut self) {
        self.claims.clear();
    }

    /// `begun` launches of the list have begun: all but the last of them have ended, and that one runs.
    pub fn note_begun(&mut self, begun: u32) {
        while self.claims.front().is_some_and(|(at, _)| at + 1 < begun) {
            self.claims.pop_front();
        }
        if let Some((at, claim)) = self.claims.front_mut()
            && *at + 1 == begun
        {
            claim.begins = Instant::ZERO;
        }
    }

    /// The launch at this place of the list is handed over.
    pub fn push(&mut self, at: u32, claim: Claim) {
        if self.claims.is_full()
            && let Some((_, oldest)) = self.claims.pop_front()
            && let Some((_, next)) = self.claims.front_mut()
        {
            next.tpcs |= oldest.tpcs;
            next.begins = next.begins.min(oldest.begins);
        }
        let pushed = self.claims.push_back((at, claim));
        debug_assert!(pushed.is_ok(), "there is room");
    }

    /// When the last of them should end.
    fn ends(&self) -> Option<Instant> {
        self.claims.back().map(|(_, claim)| claim.ends)
    }

    /// What any of them has.
    fn tpcs(&self) -> TpcSet {
        let claims = self.claims.iter();
        claims.fold(0, |tpcs, (_, claim)| tpcs | claim.tpcs)
    }

    /// Whether what should hold these TPCs until then, and holds them now, is in the way of any of them: a launch that
    /// should have begun by now may be waiting for it.
    #[must_use]
    pub fn conflict(&self, tpcs: TpcSet, until: Instant, now: Instant) -> bool {
        let until = until.max(now);
        let mut claims = self.claims.iter();
        claims.any(|(_, claim)| claim.tpcs & tpcs != 0 && claim.begins < until)
    }
}

/// What the real-time partitions run right now. Each has a notice that its leader alone writes.
#[derive(Debug)]
pub struct LaunchBoard {
    all: TpcSet,
    notices: Box<[Notice]>,
}

/// A partition's TPCs, and its launches as one word: how many TPCs they have, and their end.
#[derive(Debug)]
struct Notice {
    tpcs: TpcSet,
    launch: AtomicU64,
}

/// Ends are noted in units of this: 48 bits of them are two years.
const TICK_SHIFT: u32 = 8;

/// What the real-time launches leave free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// TPCs that no real-time launch has.
    pub tpcs: TpcSet,
    /// The end of the real-time launch that ends first; none if there is none.
    pub until: Option<Instant>,
}

impl LaunchBoard {
    /// A board for the TPCs of the device and those of its real-time partitions. Two that share TPCs never launch at
    /// the same time: the scheduler sees to that.
    #[must_use]
    pub fn new(all: TpcSet, partitions: &[TpcSet]) -> Self {
        let notice = |&tpcs: &TpcSet| Notice {
            tpcs,
            launch: AtomicU64::new(0),
        };
        Self {
            all,
            notices: partitions.iter().map(notice).collect(),
        }
    }

    /// A partition's leader hands a launch over, behind those of its launches that are in the driver: how it will run. What
    /// any of them has is not left to others.
    pub fn post(
        &self,
        partition: usize,
        demand: &Demand,
        before: &InDriver,
        now: Instant,
    ) -> Claim {
        let notice = &self.notices[partition];
        let tpcs = lowest(notice.tpcs, demand.enough);
        let own = tpcs.count_ones().max(1);
        let begins = before.ends().map_or(now, |ends| ends.max(now));
        let claim = Claim {
            tpcs,
            begins,
            ends: begins + demand.on(own),
        };
        let end = claim.ends.as_nanos() >> TICK_SHIFT;
        let count = own.max(before.tpcs().count_ones());
        // Relaxed: the word says all; nothing else is published by it. A leader that reads the last
        // launch's word a moment too long chooses as it would have chosen a moment earlier.
        let word = (end.max(1) << 16) | u64::from(count);
        notice.launch.store(word, Ordering::Relaxed);
        claim
    }

    /// A partition's leader launches a kernel without a measured time: it has all of its TPCs, from now on, and no
    /// best-effort launch begins while it runs.
    pub fn post_unknown(&self, partition: usize) -> Claim {
        let notice = &self.notices[partition];
        let count = u64::from(notice.tpcs.count_ones());
        // The word says that it ended long ago, so rule one admits no best-effort launch while it runs.
        let word = (1 << 16) | count;
        // Relaxed: as in `post`.
        notice.launch.store(word, Ordering::Relaxed);
        Claim {
            tpcs: notice.tpcs,
            begins: Instant::ZERO,
            ends: Instant::ZERO,
        }
    }

    /// The TPCs that a partition's launches have.
    #[must_use]
    pub fn posted(&self, partition: usize) -> TpcSet {
        let notice = &self.notices[partition];
        // Relaxed: as in `post`.
        let word = notice.launch.load(Ordering::Relaxed);
        lowest(notice.tpcs, (word & 0xff) as u32)
    }

    /// A partition's stage is over.
    pub fn take_down(&self, partition: usize) {
        // Relaxed: as in `post`.
        self.notices[partition].launch.store(0, Ordering::Relaxed);
    }

    /// All TPCs of the device, if there is no real-time launch.
    #[must_use]
    pub fn quiet(&self) -> Option<TpcSet> {
        // Relaxed: as in `post`.
        let is_down = |notice: &Notice| notice.launch.load(Ordering::Relaxed) == 0;
        self.notices.iter().all(is_down).then_some(self.all)
    }

    #[must_use]
    pub fn left(&self) -> Left {
        let mut left = Left {
            tpcs: self.all,
            until: None,
        };
        for notice in &self.notices {
            // Relaxed: as in `post`.
            let word = notice.launch.load(Ordering::Relaxed);
            if word == 0 {
                continue;
            }
            left.tpcs &= !lowest(notice.tpcs, (word & 0xff) as u32);
            let end = Instant::from_nanos((word >> 16) << TICK_SHIFT);
            left.until = Some(left.until.map_or(end, |until| until.min(end)));
        }
        left
    }
}

/// TPCs for a best-effort launch, of what is left; none if it must wait. By REEF's first rule (section 5.2) it must end before the
/// real-time launches do, on the TPCs that it gets.
///
/// REEF's second rule is not needed: a best-effort kernel must not have a lower occupancy than the real-time one with which it
/// is fused, as both have the resources of the larger. Here nothing is fused, and no multiprocessor has blocks of both.
#[must_use]
pub fn grant(left: &Left, demand: &Demand, now: Instant) -> Option<TpcSet> {
    let tpcs = lowest(left.tpcs, demand.enough);
    let ends = now + demand.on(tpcs.count_ones());
    let in_time = left.until.is_none_or(|until| ends < until);
    (in_time && tpcs != 0).then_some(tpcs)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const NOW: Instant = Instant::from_nanos(1 << 20);

    pub(crate) fn demand(enough: u32, time_us: u64) -> Demand {
        Demand {
            time: Nanos::from_micros(time_us),
            enough,
        }
    }

    /// Nothing else of the partition is in the driver.
    fn post(board: &LaunchBoard, partition: usize, demand: &Demand) -> TpcSet {
        let before = InDriver::default();
        board.post(partition, demand, &before, NOW).tpcs
    }

    #[test]
    fn a_launch_is_no_faster_on_more_tpcs_than_enough_and_takes_turns_on_fewer() {
        let launch = demand(3, 50);
        assert_eq!(launch.on(8), Nanos::from_micros(50));
        assert_eq!(launch.on(3), Nanos::from_micros(50));
        assert_eq!(launch.on(2), Nanos::from_micros(75));
        assert_eq!(launch.on(1), Nanos::from_micros(150));
        assert_eq!(lowest(0b1011_0100, 2), 0b0001_0100);
        assert_eq!(lowest(0b11, 5), 0b11);
    }

    #[test]
    fn without_real_time_work_best_effort_takes_what_it_fills() {
        let board = LaunchBoard::new(0xff, &[0x0f]);
        let left = board.left();
        assert_eq!(left.until, None);
        assert_eq!(grant(&left, &demand(3, 1_000), NOW), Some(0b0000_0111));
        assert_eq!(grant(&left, &demand(25, 1_000), NOW), Some(0b1111_1111));
    }

    #[test]
    fn a_real_time_launch_is_confined_and_the_rest_is_left_until_it_is_taken_down() {
        let board = LaunchBoard::new(0xff, &[0x0f, 0xf0]);
        assert_eq!(board.posted(0), 0);
        assert_eq!(post(&board, 0, &demand(2, 100)), 0b0011);
        assert_eq!(board.posted(0), 0b0011);
        assert_eq!(post(&board, 1, &demand(100, 100)), 0xf0);
        let left = board.left();
        assert_eq!(left.tpcs, 0b1100);
        let end = left.until.expect("two launches");
        let expected = NOW + Nanos::from_micros(100);
        assert!(end <= expected && expected < end + Nanos::new(256));
        board.take_down(1);
        assert_eq!(board.left().tpcs, 0b1111_1100);
    }

    #[test]
    fn what_may_still_run_is_not_left_and_what_is_not_known_leaves_nothing_beside_it() {
        let board = LaunchBoard::new(0xff, &[0x0f]);
        let mut in_driver = InDriver::default();
        let post = |at, enough, in_driver: &mut InDriver| {
            let claim = board.post(0, &demand(enough, 100), in_driver, NOW);
            in_driver.push(at, claim);
            claim
        };
        post(0, 3, &mut in_driver);
        let second = post(1, 1, &mut in_driver);
        assert_eq!(second.tpcs, 0b0001);
        assert_eq!(second.begins, NOW + Nanos::from_micros(100));
        assert_eq!((board.posted(0), board.left().tpcs), (0b0111, 0b1111_1000));
        in_driver.note_begun(2);
        let third = post(2, 1, &mut in_driver);
        assert_eq!(board.posted(0), 0b0001, "the first has ended");
        assert_eq!(third.ends, NOW + Nanos::from_micros(300));
        assert_eq!(board.post_unknown(0).tpcs, 0x0f);
        assert_eq!(board.left().tpcs, 0xf0);
        assert_eq!(grant(&board.left(), &demand(1, 1), NOW), None);
    }

    #[test]
    fn in_the_way_is_what_still_holds_a_launchs_tpcs_when_it_begins() {
        let at = |us| NOW + Nanos::from_micros(us);
        let claim = |tpcs, begins_us| Claim {
            tpcs,
            begins: at(begins_us),
            ends: at(begins_us + 100),
        };
        let mut in_driver = InDriver::default();
        in_driver.push(0, claim(0b0001, 0));
        in_driver.push(1, claim(0b0111, 100));
        let conflict = |in_driver: &InDriver, tpcs, until_us, now_us| {
            in_driver.conflict(tpcs, at(until_us), at(now_us))
        };
        assert!(!conflict(&in_driver, 0b1000, 500, 0), "on other TPCs");
        assert!(!conflict(&in_driver, 0b0100, 90, 0), "it ends before");
        assert!(conflict(&in_driver, 0b0100, 110, 0));
        assert!(!conflict(&in_driver, 0b0100, 90, 100), "nothing waits yet");
        assert!(conflict(&in_driver, 0b0100, 90, 101), "it is overdue");
        in_driver.note_begun(2);
        assert!(conflict(&in_driver, 0b0100, 90, 0), "the launch has begun");
        assert!(!conflict(&in_driver, 0b1000, 90, 101));
    }

    #[test]
    fn of_too_many_launches_none_is_forgotten() {
        let mut in_driver = InDriver::default();
        for at in 0..40 {
            let claim = Claim {
                tpcs: 1 << at,
                begins: NOW,
                ends: NOW,
            };
            in_driver.push(at, claim);
        }
        assert_eq!(in_driver.tpcs(), (1 << 40) - 1);
    }

    #[test]
    fn a_launch_that_would_outlast_the_real_time_one_waits() {
        let board = LaunchBoard::new(0xff, &[0x0f]);
        post(&board, 0, &demand(4, 100));
        let left = board.left();
        let short = demand(2, 40);
        // Short enough on all that it could use, but not on the four TPCs that are left.
        let long = demand(12, 40);
        assert_eq!(grant(&left, &long, NOW), None);
        assert_eq!(grant(&left, &short, NOW), Some(0b0011_0000));
        let later = NOW + Nanos::from_micros(70);
        assert_eq!(grant(&left, &short, later), None);
    }

    /// Every grant that can be drawn from a small world: disjoint from others and from real-time work, and over in time.
    #[test]
    fn no_grant_shares_a_tpc_or_ends_late() {
        let mut granted = 0;
        for seed in 0..4_000_u32 {
            let draw = |salt: u32, limit: u32| {
                let mixed = (seed ^ salt.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
                (mixed ^ (mixed >> 13)) % limit
            };
            let any = |salt| demand(1 + draw(salt, 10), 1 + u64::from(draw(salt + 2, 90)));
            let board = LaunchBoard::new(0xfff, &[0x00f, 0x0f0]);
            let held = post(&board, 0, &any(1)) | post(&board, 1, &any(11));
            let mut left = board.left();
            let mut taken = held;
            for launch in [any(21), any(31), any(41)] {
                let Some(tpcs) = grant(&left, &launch, NOW) else {
                    continue;
                };
                assert_eq!(tpcs & taken, 0, "seed {seed}");
                assert_ne!(tpcs, 0, "seed {seed}");
                taken |= tpcs;
                left.tpcs &= !tpcs;
                let ends = NOW + launch.on(tpcs.count_ones());
                assert!(left.until.is_some_and(|until| ends < until), "seed {seed}");
                granted += 1;
            }
        }
        assert!(granted > 1_000, "{granted}");
    }
}
