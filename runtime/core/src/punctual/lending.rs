//! Lending: work of one home starts on idle compute units, its own or others', as wide as it needs to be.
//!
//! Without it a home leaves its compute units idle while requests of another one wait. And wide partitions run
//! networks inefficiently, because a stage's time falls more slowly than its width rises. So each step first starts
//! what it can on *places* (`places`): promised requests in EDF order, then the optional ones that gain most for
//! their width and time. After that the owners' dispatch runs, on homes that are idle as a whole.
//!
//! A start on a place is voluntary, and is tested like an optional stage. With e its latest end, each home
//! whose compute units it takes, or that has promised work of its members left, must keep SAFE with
//! max(f, e) for f. A home that is busy until e anyway loses nothing (docs/proof.md, "Lending").

use core::ops::Range;

use crate::actions::Actions;
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::mandatory::{Member, Promised};
use crate::punctual::optional::OptionalBatch;
use crate::punctual::partition::Partition;
use crate::punctual::places::{Set, bit, members, use_allowed};
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::Kind;
use crate::punctual::tables::Row;
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::{Shared, View, shared};
use crate::time::{Instant, Nanos, signed};

/// How many promised requests of a home are tried in a step: the cost of a decision must not grow with the
/// length of a queue.
const TRIED_MAX: usize = 8;

/// Work to start on a place.
struct Loan {
    place: usize,
    choice: Choice,
}

/// A loan of optional work with its gain and its cost: width times time.
struct OptionalLoan {
    gain: u128,
    cost: u128,
    loan: Loan,
}

struct Search<'a> {
    shared: Shared<'a>,
    /// By partition.
    scans: &'a mut [SlackScan],
    /// By partition: the latest end of foreign work with which SAFE holds.
    limits: &'a mut [Instant],
    /// The homes whose scans and limits are those of the present state.
    scanned: &'a mut Set,
    /// The partitions whose compute units are all idle.
    idle: Set,
}

impl Punctual {
    /// Starts work on idle places while any may start.
    pub(super) fn lend(&mut self, actions: &mut Actions) {
        if !self.partitions.iter().any(Partition::is_dirty) {
            return;
        }
        let mut scanned = 0;
        while let Some(Loan { place, choice }) = self.search(&mut scanned).next() {
            self.start(place, &choice, self.now, actions);
            self.partitions[place].mark_dirty();
            self.partitions[choice.home].mark_dirty();
            // The queue of the one has changed, and f of the others.
            scanned &= !(bit(choice.home) | self.places.homes_under(place));
        }
    }

    fn search<'a>(&'a mut self, scanned: &'a mut Set) -> Search<'a> {
        Search {
            idle: self
                .places
                .idle(|at| self.partitions[at].slot().running().is_some()),
            shared: shared!(self),
            scans: &mut self.scans,
            limits: &mut self.limits,
            scanned,
        }
    }
}

impl<'a> Search<'a> {
    fn next(&mut self) -> Option<Loan> {
        if self.idle == 0 {
            return None;
        }
        self.promised().or_else(|| self.optional())
    }

    /// The promised request with the earliest deadline that may start on a place, with the others of its batch.
    fn promised(&mut self) -> Option<Loan> {
        let closed = self.closed(View::lends_to_promised);
        let mut best: Option<(Instant, Loan)> = None;
        for home in self.shared.places.homes() {
            let open = self.open(home, closed);
            let view = self.shared.of(home);
            let waiting = view.queues.mandatory().iter().enumerate();
            let waiting = waiting.filter(|(_, job)| !job.running).take(TRIED_MAX);
            for (at, job) in waiting {
                if best.as_ref().is_some_and(|(due, _)| *due <= job.due) {
                    break;
                }
                if let Some(loan) = self.promised_job(view, at, open) {
                    best = Some((job.due, loan));
                    break;
                }
            }
        }
        best.map(|(_, loan)| loan)
    }

    /// The largest batch around a promised request that may start on an open place.
    fn promised_job(&mut self, view: View<'a>, at: usize, open: Set) -> Option<Loan> {
        let jobs = &view.queues.mandatory()[at..];
        let (job, row) = (&jobs[0], view.tables.row(jobs[0].row));
        let offered = view.offered(job.row) & open;
        // A joint promise runs whole, so it is tried at its first member only.
        if offered == 0 || job.joint && !view.queues.is_first_of_promise(at) {
            return None;
        }
        let whole = jobs.iter();
        let whole = whole.filter(|other| other.promise == job.promise && !other.running);
        let (count, batch_max) = whole.fold((0, u8::MAX), |(count, most), member| {
            (count + 1, most.min(member.batch_max))
        });
        let least = row.size_holding(count)?;
        let together = view.queues.batch_members(jobs, job, batch_max).len();
        let most = row.size_holding(together).unwrap_or(row.sizes.len() - 1);
        (least..=most).rev().find_map(|size| {
            view.by_preference(job.row, size, job.due, offered, self.idle)
                .find_map(|place| {
                    let choice = self.promised_on(view, at, size, place)?;
                    Some(Loan { place, choice })
                })
        })
    }

    /// A batch around the promised request at a position, on a place, if it may start there.
    fn promised_on(
        &mut self,
        view: View<'a>,
        at: usize,
        size: usize,
        place: usize,
    ) -> Option<Choice> {
        let jobs = &view.queues.mandatory()[at..];
        let job = &jobs[0];
        let there = view.tables.row_at(place, job.row);
        let row = view.tables.row(there);
        let end = view.now + row.cost[size];
        if end + row.onward() > job.due {
            return None;
        }
        let members = view.queues.batch_members(jobs, job, row.sizes[size]);
        // If the next smaller size holds the same members, this one only pays for empty places.
        let filled = size == 0 || members.len() > usize::from(row.sizes[size - 1]);
        let in_time = |member: &Member| end + row.onward() <= member.due;
        if !filled || !members.iter().all(in_time) {
            return None;
        }
        let leaves_rest = jobs.iter().any(|other| {
            other.rest > Nanos::ZERO && members.iter().any(|member| member.buffer == other.buffer)
        });
        let takes_own = view.places.overlap(place, view.index);
        let mut start_slack = self.slack_of_owners(view.index, place, end);
        if leaves_rest || takes_own {
            start_slack = start_slack.min(self.slack_after(view.index, end, &members));
        }
        let due = members.iter().map(|member| member.due).min()?;
        start_slack = start_slack.min(signed(due, end + row.onward()));
        (start_slack >= 0).then(|| Choice {
            kind: Kind::Mandatory,
            home: view.index,
            row: there,
            size,
            members: members.iter().map(|member| member.buffer).collect(),
            start_slack,
        })
    }

    /// The optional batch that gains most for its width and time, of those that may start on a place.
    fn optional(&mut self) -> Option<Loan> {
        let closed = self.closed(View::lends_to_optional);
        let mut best: Option<OptionalLoan> = None;
        for home in self.shared.places.homes() {
            let view = self.shared.of(home);
            if !view.runs_optional() {
                continue;
            }
            let open = self.open(home, closed);
            let jobs = view.queues.optional();
            let mut at = 0;
            for group in jobs.chunk_by(|a, b| (a.row, a.cohort) == (b.row, b.cohort)) {
                let range = at..at + group.len();
                at = range.end;
                let offered = view.offered(group[0].row) & open;
                let row = view.tables.row(group[0].row);
                let most = row.size_holding(group.len());
                for size in 0..=most.unwrap_or(row.sizes.len() - 1) {
                    let found = self.optional_group(view, range.clone(), size, offered);
                    let better = |new: &OptionalLoan| {
                        best.as_ref()
                            .is_none_or(|best| new.gain * best.cost > best.gain * new.cost)
                    };
                    best = found.filter(better).or(best);
                }
            }
        }
        best.map(|best| best.loan)
    }

    /// A group of optional requests in one compiled batch size, on the first place that it may take.
    fn optional_group(
        &mut self,
        view: View<'a>,
        group: Range<usize>,
        size: usize,
        offered: Set,
    ) -> Option<OptionalLoan> {
        let jobs = &view.queues.optional()[group];
        let (row, first_due) = (jobs[0].row, jobs[0].due);
        let mut places = view.by_preference(row, size, first_due, offered, self.idle);
        places.find_map(|place| {
            let there = view.tables.row_at(place, row);
            let end = view.now + view.tables.row(there).cost[size];
            let mut start_slack = self.slack_of_owners(view.index, place, end);
            if view.places.overlap(place, view.index) {
                start_slack = start_slack.min(self.slack_at(view.index, end));
            }
            if start_slack < 0 {
                return None;
            }
            let OptionalBatch {
                gain,
                cost,
                mut choice,
                ..
            } = view.optional_on(jobs, there, size, view.now, |_| true)?;
            choice.start_slack = choice.start_slack.min(start_slack);
            Some(OptionalLoan {
                gain,
                cost: u128::from(view.places.width(place)) * cost,
                loan: Loan { place, choice },
            })
        })
    }

    /// The homes that do not lend at present.
    fn closed(&self, lends: impl Fn(&View<'a>) -> bool) -> Set {
        let homes = self.shared.places.homes();
        let closed = homes.filter(|&home| !lends(&self.shared.of(home)));
        closed.fold(0, |set, home| set | bit(home))
    }

    /// The idle partitions that take compute units of no other home that is closed.
    fn open(&self, home: usize, closed: Set) -> Set {
        self.idle & !self.shared.places.touching(closed & !bit(home))
    }

    /// How much later than `end` work on a place may end without a negative slack on another home whose compute
    /// units it takes.
    fn slack_of_owners(&mut self, home: usize, place: usize, end: Instant) -> i64 {
        let owners = members(self.shared.places.homes_under(place) & !bit(home));
        let slacks = owners.map(|owner| self.slack_at(owner, end));
        slacks.min().unwrap_or(i64::MAX)
    }

    /// The same on one home, for work that leaves no promised work of it.
    fn slack_at(&mut self, home: usize, end: Instant) -> i64 {
        if self.is_ungated() {
            return i64::MAX;
        }
        signed(self.limit(home), end)
    }

    /// The same on a home for its own promised work. The charge of each member counts from its deadline on.
    fn slack_after(&mut self, home: usize, end: Instant, members: &Promised) -> i64 {
        if self.is_ungated() {
            return i64::MAX;
        }
        let free = self.shared.of(home).free_from();
        if end <= free {
            return signed(free, end);
        }
        self.limit(home);
        self.scans[home].least_after(members, signed(end, free))
    }

    /// The latest end of other work on a home's compute units with which SAFE holds: f and the least slack.
    fn limit(&mut self, home: usize) -> Instant {
        if *self.scanned & bit(home) == 0 {
            let view = self.shared.of(home);
            let free = view.free_from();
            view.scan(&mut self.scans[home], free, None);
            let least = self.scans[home].least().max(0);
            self.limits[home] = free + Nanos::new(least as u64);
            *self.scanned |= bit(home);
        }
        self.limits[home]
    }

    fn is_ungated(&self) -> bool {
        self.shared.ablations.has(Ablation::UngatedLending)
    }
}

impl View<'_> {
    /// Whether optional stages of this home may run at present. While a request beyond the reservations waits,
    /// its first answer is worth more (docs/decisions/0006).
    fn runs_optional(&self) -> bool {
        let overloaded = self.parameters.mandatory_first && self.queues.has_waiting_extra();
        !overloaded && !self.share_is_spent(Voluntary::Depth)
    }

    /// Whether this home lends its compute units to promised work of others. Not if that would take the time of
    /// best-effort work that uses it.
    fn lends_to_promised(&self) -> bool {
        let best_effort = !self.queues.best_effort().is_empty() && self.partition.gaps().fit();
        self.partition.lender().lends(self.now)
            && !best_effort
            && !self.share_is_spent(Voluntary::Extras)
    }

    /// Whether this home lends its compute units to optional work of others: not while best-effort work waits.
    fn lends_to_optional(&self) -> bool {
        self.partition.lender().lends(self.now)
            && self.queues.best_effort().is_empty()
            && !self.share_is_spent(Voluntary::Depth)
    }

    /// Whether work of this home waits while work of others is on its compute units.
    pub fn waits_for_others(&self) -> bool {
        let waits = self.queues.head().is_some() || !self.queues.optional().is_empty();
        waits && self.partitions.is_lent(self.index)
    }

    /// Where a stage may run, whatever runs there now.
    fn offered(&self, row: Row) -> Set {
        let model = self.tables.row(row).model;
        let places = self.places.of(self.index, model).iter();
        let places = places.map(|&place| usize::from(place));
        let kept = places.filter(|&place| !self.partitions[place].profiles().is_demoted(model));
        kept.fold(0, |set, place| set | bit(place))
    }

    /// The places of a set in the order in which a batch tries them: those of the width that it needs, then wider,
    /// then narrower ones. Of equal widths, one on the own home comes first, then the one that leaves most others
    /// idle.
    fn by_preference(
        &self,
        row: Row,
        size: usize,
        due: Instant,
        offered: Set,
        idle: Set,
    ) -> impl Iterator<Item = usize> {
        let needed = match offered {
            0 => 0,
            _ => self.width_needed(row, size, due),
        };
        let mut left = offered;
        let view = *self;
        core::iter::from_fn(move || {
            let places = members(left);
            let key = |&place: &usize| {
                let width = view.places.width(place);
                let foreign = !view.places.overlap(place, view.index);
                let blocked = view.places.blocked(place, idle);
                (width < needed, width.abs_diff(needed), foreign, blocked)
            };
            let next = places.min_by_key(key)?;
            left &= !bit(next);
            Some(next)
        })
        .filter(move |&place| view.pays(place, row, size))
    }

    /// The narrowest width at which a request reaches its last exit by its deadline if it starts now; else the
    /// narrowest at which it reaches the deepest exit that it can.
    fn width_needed(&self, row: Row, size: usize, due: Instant) -> u16 {
        let left = due.since(self.now);
        let model = self.tables.row(row).model;
        let mut deepest: Option<(usize, u16)> = None;
        for &place in self.places.of(self.index, model) {
            let at = self.tables.row_at(place.into(), row);
            let width = self.places.width(place.into());
            if self.tables.to_last(at, size) <= left {
                return width;
            }
            let depth = self.tables.stages_within(at, size, left);
            if deepest.is_none_or(|(most, _)| depth > most) {
                deepest = Some((depth, width));
            }
        }
        deepest.map_or(0, |(_, width)| width)
    }

    /// Whether a place is efficient enough for a stage.
    fn pays(&self, place: usize, row: Row, size: usize) -> bool {
        let used = |at: usize| {
            let there = self.tables.row(self.tables.row_at(at, row));
            u64::from(self.places.width(at)).saturating_mul(there.cost[size].as_nanos())
        };
        let on_own_units = self.places.overlap(place, self.index);
        used(place) <= use_allowed(used(self.index), on_own_units)
    }
}
