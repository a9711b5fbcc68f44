//! One partition, and the relations between partitions that share compute units.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use crate::action::Failure;
use crate::ids::ActionId;
use crate::punctual::gaps::Gaps;
use crate::punctual::lender::Lender;
use crate::punctual::lifecycle::requests::{Requests, State};
use crate::punctual::load::{Load, load_of};
use crate::punctual::profile_monitor::ProfileMonitor;
use crate::punctual::scale::{Change, ScaleEstimator};
use crate::punctual::slot::{Ended, Kind, Lost, Running, Slot};
use crate::punctual::tables::Tables;
use crate::punctual::utilization::{UtilizationCap, Voluntary};
use crate::time::{Instant, Nanos};

/// The state of one partition, except its queues.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Partition {
    slot: Slot,
    scale: ScaleEstimator,
    profiles: ProfileMonitor,
    cap: UtilizationCap,
    gaps: Gaps,
    lender: Lender,
    load: usize,
    waits: Option<Instant>,
    /// An event of this step may allow or require a decision here.
    dirty: bool,
    /// Partitions that share compute units with it.
    overlapping: Box<[u16]>,
    /// Other partitions on which its requests may run: places on other compute units.
    away: Box<[u16]>,
    /// When a decision is due here, if no event comes before.
    timer: Option<Instant>,
    /// The machine does not run its threads ([`Event::Starved`](crate::Event::Starved)).
    starved: bool,
}

impl Partition {
    /// Whether it has the same neighbours as another, and as many models.
    fn fits(&self, other: &Self) -> bool {
        self.overlapping == other.overlapping
            && self.away == other.away
            && self.profiles.fits(&other.profiles)
            && self.scale.is_sound()
    }

    pub fn new(
        slot: Slot,
        profiles: ProfileMonitor,
        cap: UtilizationCap,
        overlapping: Box<[u16]>,
        away: Box<[u16]>,
    ) -> Self {
        Self {
            slot,
            scale: ScaleEstimator::default(),
            profiles,
            cap,
            gaps: Gaps::new(),
            lender: Lender::default(),
            load: 0,
            waits: None,
            dirty: false,
            overlapping,
            away,
            timer: None,
            starved: false,
        }
    }

    /// Requests a decision about this partition before the step ends.
    pub fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether a decision was requested. Clears the request.
    pub fn take_dirty(&mut self) -> bool {
        core::mem::take(&mut self.dirty)
    }

    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    #[cfg(test)]
    pub fn slot_mut(&mut self) -> &mut Slot {
        &mut self.slot
    }

    /// Adds an action to its slot.
    pub fn start(&mut self, action: Running) {
        self.slot.start(action);
    }

    /// Preempts its best-effort action.
    pub fn preempt(&mut self, now: Instant) -> ActionId {
        self.slot.preempt(now)
    }

    /// Removes an action that the device reported.
    pub fn end(&mut self, action: ActionId, now: Instant, tables: &Tables) -> Option<Ended> {
        self.slot.end(action, now, tables)
    }

    /// Its action that should have ended by now, if that was not counted yet.
    pub fn count_overrun(&mut self, now: Instant) -> Option<&Running> {
        self.slot.count_overrun(now)
    }

    /// Declares an action lost if the device should have reported it long ago.
    pub fn give_up(&mut self, now: Instant) -> Option<Lost> {
        self.slot.give_up(now)
    }

    /// The scale level of its budgets.
    pub fn level(&self) -> usize {
        self.scale.level()
    }

    pub fn set_level(&mut self, level: usize, now: Instant) {
        self.scale.set_level(level, now);
    }

    /// What follows for the scale from a measured time.
    pub fn sample(&mut self, measured: Nanos, budget: Nanos, now: Instant) -> Change {
        self.scale.sample(measured, budget, now)
    }

    pub fn profiles(&self) -> &ProfileMonitor {
        &self.profiles
    }

    pub fn profiles_mut(&mut self) -> &mut ProfileMonitor {
        &mut self.profiles
    }

    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    pub fn gaps_mut(&mut self) -> &mut Gaps {
        &mut self.gaps
    }

    pub fn lender(&self) -> &Lender {
        &self.lender
    }

    pub fn lender_mut(&mut self) -> &mut Lender {
        &mut self.lender
    }

    /// How much mandatory work arrives, in steps of the price table ([`load_of`]).
    pub fn load(&self) -> usize {
        self.load
    }

    /// When time is left again for `work`, if no real-time work runs until then.
    pub fn share_recovers_at(&self, work: Voluntary) -> Instant {
        self.cap.recovers_at(work)
    }

    /// Until when a mandatory batch waits for one more member.
    pub fn waits(&self) -> Option<Instant> {
        self.waits
    }

    pub fn wait_until(&mut self, waits: Option<Instant>) {
        self.waits = waits;
    }

    /// Whether the machine does not run its threads.
    pub fn is_starved(&self) -> bool {
        self.starved
    }

    pub fn set_starved(&mut self, starved: bool) {
        self.starved = starved;
    }

    pub fn rearm(&mut self, timer: Option<Instant>) {
        self.timer = timer;
    }

    pub fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Partitions that share compute units with it.
    pub fn overlapping(&self) -> &[u16] {
        &self.overlapping
    }
}

/// All partitions.
///
/// Promises: two partitions that share compute units never run at the same time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Partitions(Box<[Partition]>);

impl Partitions {
    /// Whether they are the same compute units as another's.
    pub fn fit(&self, other: &Self) -> bool {
        let mut all = self.iter().zip(other.iter());
        self.len() == other.len() && all.all(|(own, other)| own.fits(other))
    }

    pub fn new(partitions: impl Iterator<Item = Partition>) -> Self {
        Self(partitions.collect())
    }

    /// Requests a decision about each partition whose timer is due.
    pub fn wake(&mut self, now: Instant) {
        for partition in self.iter_mut() {
            partition.dirty |= partition.timer.is_some_and(|timer| timer <= now);
        }
    }

    /// Computes the present load of each partition: the mandatory work of its real-time tasks' arrivals.
    pub fn update_loads(&mut self, tables: &Tables, load: &Load) {
        for (index, partition) in self.iter_mut().enumerate() {
            let here = tables.tasks().iter().enumerate();
            let here =
                here.filter(|(_, table)| table.partition.index() == index && table.is_real_time());
            let work = here.map(|(task, table)| table.work().saturating_mul(load.per_second(task)));
            partition.load = load_of(work.fold(Nanos::ZERO, |sum, work| sum + work));
        }
    }

    /// The partition on which an action is in flight.
    pub fn running(&self, action: ActionId) -> Option<usize> {
        let here = |p: &Partition| p.slot.in_flight().any(|r| r.id == action);
        self.iter().position(here)
    }

    /// Requests decisions after an action ended on a partition: there, and on partitions that share its
    /// compute units.
    pub fn mark_dirty_around(&mut self, index: usize) {
        for at in 0..self[index].overlapping.len() {
            let other = usize::from(self[index].overlapping[at]);
            self[other].mark_dirty();
        }
        self[index].mark_dirty();
    }

    /// Whether an action may start on a partition: nothing runs on partitions that share its compute units, and
    /// nothing that runs elsewhere has to end before.
    pub fn may_start(&self, index: usize) -> bool {
        let mut others = self.around(index);
        others.all(|other| other.slot.running().is_none()) && self.pinning(index).next().is_none()
    }

    /// The slots of actions on other compute units whose members have promised work left for this partition.
    /// The EDF head may not run at the same time as them: it would not be the earliest once they have ended.
    fn pinning(&self, index: usize) -> impl Iterator<Item = &Slot> {
        let away = self[index].away.iter();
        let away = away.map(|&other| &self[usize::from(other)].slot);
        away.filter(move |slot| slot.pins(index))
    }

    /// f: upper bound on when a partition is free, if nothing more is started. It covers all that
    /// [`Self::may_start`] waits for.
    pub fn free_from(&self, index: usize, now: Instant, tables: &Tables) -> Instant {
        let others = self.around(index).map(|other| &other.slot);
        let slots = core::iter::once(&self[index].slot).chain(others);
        let ends = slots.chain(self.pinning(index));
        let ends = ends.map(|slot| slot.busy_until(now, tables));
        ends.fold(now, Instant::max)
    }

    /// Whether a lost action locks a partition, or compute units of it.
    pub fn is_locked(&self, index: usize) -> bool {
        self[index].slot.is_lost() || self.around(index).any(|other| other.slot.is_lost())
    }

    /// Why what waits for a partition fails that a lost action locks.
    pub fn failure(&self, index: usize) -> Failure {
        let here = core::iter::once(&self[index]).chain(self.around(index));
        let mut lost = here.filter(|partition| partition.slot.is_lost()).peekable();
        let is_locked = lost.peek().is_some();
        if is_locked && lost.all(|partition| partition.starved) {
            Failure::Starved
        } else {
            Failure::Device
        }
    }

    /// Whether real-time work has used enough of a partition's time that the policy gives up `work`. Best-effort
    /// work does not count: it runs at ordinary priority (decision 3), so the kernel does not throttle it.
    pub fn share_is_spent(&self, index: usize, work: Voluntary, now: Instant) -> bool {
        let partition = &self[index];
        let since = |p: &Partition| {
            let running = p.slot.running();
            let running = running.filter(|r| r.kind != Kind::BestEffort);
            running.map(|r| r.ordered)
        };
        // If something runs here, nothing runs on partitions that share units.
        let busy_since = since(partition).or_else(|| self.around(index).filter_map(since).min());
        partition.cap.is_spent(work, now, busy_since)
    }

    /// Records that real-time work ran on the compute units of a partition, and so on those of all partitions
    /// that share some.
    pub fn count_busy(&mut self, index: usize, from: Instant, to: Instant) {
        self[index].cap.ran(from, to);
        for at in 0..self[index].overlapping.len() {
            let other = usize::from(self[index].overlapping[at]);
            self[other].cap.ran(from, to);
        }
    }

    /// Whether work of others runs on compute units of a partition.
    pub fn is_lent(&self, index: usize) -> bool {
        let mut others = self.around(index).filter_map(|p| p.slot.running());
        others.any(|running| running.home != index)
    }

    fn around(&self, index: usize) -> impl Iterator<Item = &Partition> {
        let others = self[index].overlapping.iter();
        others.map(|&other| &self[usize::from(other)])
    }

    /// Checks the partitions against each other and against the requests.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self, requests: &Requests) -> Result<(), &'static str> {
        let mut members = 0;
        for (index, partition) in self.iter().enumerate() {
            partition.slot.check(requests)?;
            members += partition
                .slot
                .in_flight()
                .map(|r| r.members.len())
                .sum::<usize>();
            if partition.dirty {
                return Err("a partition that was dirty got no decision");
            }
            let runs = partition.slot.running().is_some();
            if runs
                && self
                    .around(index)
                    .any(|other| other.slot.running().is_some())
            {
                return Err("two partitions that share compute units run");
            }
        }
        let held = (0..requests.buffers()).filter(|&buffer| {
            let state = requests.get(buffer).state;
            matches!(state, State::Running | State::Locked)
        });
        if held.count() != members {
            return Err("a request runs in no action, or in two");
        }
        Ok(())
    }
}

impl Deref for Partitions {
    type Target = [Partition];
    fn deref(&self) -> &[Partition] {
        &self.0
    }
}

impl DerefMut for Partitions {
    fn deref_mut(&mut self) -> &mut [Partition] {
        &mut self.0
    }
}

/// What [`Partitions::check`] must find, and how a test plants it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Partition>] = &[
    ("two partitions that share compute units run", |it| {
        it.overlapping = Box::new([0])
    }),
    ("a partition that was dirty got no decision", |it| {
        it.mark_dirty()
    }),
];
