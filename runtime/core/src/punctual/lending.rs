//! Lending: work of one home starts on idle compute units of others, as wide as it needs to be.
//!
//! A home would otherwise leave its compute units idle while another one's requests wait. And wide partitions
//! run networks inefficiently: a stage's time falls more slowly than its width rises. So each step first starts
//! what it can on *places* (`places`), the promised requests in EDF order and then the optional ones that gain
//! most for their width and time. Then the owners' dispatch runs, on homes that are idle as a whole.
//!
//! A start on a place is voluntary, so it is tested like an optional stage: with e its latest end, every home
//! whose compute units it takes, or that has promised work of its members left, must keep SAFE with
//! max(f, e) for f. A home that is busy until e anyway loses nothing (docs/proof.md, "Lending").
//!
//! The width is the narrowest on which the most urgent member can still reach its last exit. If none is wide
//! enough, it is the narrowest that reaches the deepest possible one. Wider places, then narrower ones, are
//! used if no such place is idle.

use crate::actions::Actions;
use crate::ids::ModelId;
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::queues::MandatoryJob;
use crate::punctual::mandatory::Promised;
use crate::punctual::places::{Set, bit};
use crate::punctual::slot::Kind;
use crate::punctual::tables::Row;
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::View;
use crate::time::{Instant, signed};

/// Work to start on a place.
struct Loan {
    place: usize,
    choice: Choice,
}

/// The homes whose slack scans are those of the present state, so that no scan is repeated.
#[derive(Default)]
struct Scanned(Set);

impl Punctual {
    /// Starts work on idle places while any may start.
    pub(super) fn lend(&mut self, actions: &mut Actions) {
        if self.places.is_empty() || !self.partitions.iter().any(|p| p.is_dirty()) {
            return;
        }
        // f first, because every test below starts from it.
        for index in 0..self.partitions.len() {
            if self.partitions[index].is_dirty() {
                self.watch_overrun(index, actions);
            }
        }
        let mut scanned = Scanned::default();
        while let Some(loan) = self.next_loan(&mut scanned) {
            let (place, home) = (loan.place, loan.choice.home);
            self.start(place, &loan.choice, self.now, actions);
            self.partitions[place].mark_dirty();
            self.partitions[home].mark_dirty();
            scanned.0 &= !bit(home);
            for under in self.places.homes_under(place) {
                scanned.0 &= !bit(under);
            }
        }
    }

    fn next_loan(&mut self, scanned: &mut Scanned) -> Option<Loan> {
        let idle = self.places.idle(&self.partitions);
        if idle == 0 {
            return None;
        }
        self.next_promised(idle, scanned)
            .or_else(|| self.next_optional(idle, scanned))
    }

    /// The promised request with the earliest deadline that may start on a place, with the others of its batch.
    fn next_promised(&mut self, idle: Set, scanned: &mut Scanned) -> Option<Loan> {
        let mut best: Option<(Instant, Loan)> = None;
        for home in self.places.homes() {
            for at in 0..self.life.queues[home].mandatory().len() {
                let job = self.life.queues[home].mandatory()[at];
                if best.as_ref().is_some_and(|(due, _)| *due <= job.due) {
                    break;
                }
                if let Some(loan) = self.promised_loan(home, at, &job, idle, scanned) {
                    best = Some((job.due, loan));
                    break;
                }
            }
        }
        best.map(|(_, loan)| loan)
    }

    /// The largest batch around a promised request that may start on an idle place, at the width that it needs.
    fn promised_loan(
        &mut self,
        home: usize,
        at: usize,
        job: &MandatoryJob,
        idle: Set,
        scanned: &mut Scanned,
    ) -> Option<Loan> {
        let view = self.view(home);
        if !view.may_lend(job) || !view.any_idle(job.row, idle) {
            return None;
        }
        let jobs = &view.queues.mandatory()[at..];
        let whole = jobs
            .iter()
            .filter(|j| j.promise == job.promise && !j.running);
        let (least, most) = whole.fold((0, u8::MAX), |(count, most), member| {
            (count + 1, most.min(member.batch_max))
        });
        let together = view.queues.batch_members(jobs, job, most).len();
        let row = view.tables.row(job.row);
        let (least, most) = (row.size_holding(least)?, row.size_holding(together));
        for size in (least..=most.unwrap_or(row.sizes.len() - 1)).rev() {
            let mut tried = Tried::new(self.view(home), job.row, size, job.due, idle);
            while let Some(place) = tried.next(&self.view(home)) {
                if let Some(choice) = self.promised_on(home, at, size, place, scanned) {
                    return Some(Loan { place, choice });
                }
            }
        }
        None
    }

    /// A batch of a compiled size around the promised request at a position, on a place, if it may start there.
    fn promised_on(
        &mut self,
        home: usize,
        at: usize,
        size: usize,
        place: usize,
        scanned: &mut Scanned,
    ) -> Option<Choice> {
        let view = self.view(home);
        let jobs = &view.queues.mandatory()[at..];
        let job = jobs[0];
        let row = view.tables.row(view.tables.row_at(place, job.row));
        let (places, cost) = (row.sizes[size], row.cost[size]);
        let end = self.now + cost;
        if end > job.due {
            return None;
        }
        let members = view.queues.batch_members(jobs, &job, places);
        let filled = size == 0 || members.len() > usize::from(row.sizes[size - 1]);
        if !filled && !job.joint {
            return None;
        }
        let onward = row.onward();
        if members.iter().any(|(due, ..)| end + onward > *due) {
            return None;
        }
        let pins = view.queues.mandatory().iter();
        let pins = pins
            .filter(|j| j.rest.as_nanos() > 0)
            .any(|j| members.iter().any(|(_, _, buffer)| *buffer == j.buffer));
        let buffers = members.iter().map(|(_, _, buffer)| *buffer).collect();
        for under in self.places.homes_under(place) {
            let extras = under == home || !self.view(under).share_is_spent(Voluntary::Extras);
            if !extras || under != home && !self.keeps_safe(under, end, &Promised::new(), scanned) {
                return None;
            }
        }
        let at_home = pins || self.places.overlap(place, home);
        if at_home && !self.keeps_safe(home, end, &members, scanned) {
            return None;
        }
        Some(Choice {
            kind: Kind::Mandatory,
            home,
            row: self.tables.row_at(place, job.row),
            size,
            members: buffers,
            start_slack: 0,
        })
    }

    /// Whether SAFE holds on a home if work that ends at `end` takes compute units of it. `credited` leaves its
    /// queue: the charge of each counts from its deadline on.
    fn keeps_safe(
        &mut self,
        home: usize,
        end: Instant,
        credited: &Promised,
        scanned: &mut Scanned,
    ) -> bool {
        let free = self.view(home).free_from();
        if end <= free || self.ablations.has(Ablation::UngatedLending) {
            return true;
        }
        self.scan_once(home, free, scanned);
        self.scans[home].least_after(credited, signed(end, free)) >= 0
    }

    fn scan_once(&mut self, home: usize, free: Instant, scanned: &mut Scanned) {
        if scanned.0 & bit(home) == 0 {
            let (view, scan) = self.look(home);
            view.scan(scan, free, None);
            scanned.0 |= bit(home);
        }
    }

    /// The optional batch that gains most for its width and time, of those that may start on a place.
    fn next_optional(&mut self, idle: Set, scanned: &mut Scanned) -> Option<Loan> {
        let mut best: Option<(u128, u128, Loan)> = None;
        for home in self.places.homes() {
            let view = self.view(home);
            let overloaded = view.parameters.mandatory_first && view.queues.has_waiting_extra();
            if overloaded || view.share_is_spent(Voluntary::Depth) {
                continue;
            }
            let mut at = 0;
            while let Some(first) = self.life.queues[home].optional().get(at) {
                let group = (first.row, first.cohort);
                let len = self.life.queues[home].optional()[at..]
                    .iter()
                    .take_while(|job| (job.row, job.cohort) == group)
                    .count();
                let range = at..at + len;
                at += len;
                if !self.view(home).any_idle(group.0, idle) {
                    continue;
                }
                let sizes = self.tables.row(group.0).sizes.len();
                for size in 0..sizes {
                    if size > 0 && usize::from(self.tables.row(group.0).sizes[size - 1]) >= len {
                        break;
                    }
                    let Some((gain, cost, loan)) =
                        self.optional_loan(home, range.clone(), size, idle, scanned)
                    else {
                        continue;
                    };
                    if best.as_ref().is_none_or(|(g, c, _)| gain * c > g * cost) {
                        best = Some((gain, cost, loan));
                    }
                }
            }
        }
        best.map(|(_, _, loan)| loan)
    }

    /// A group of optional requests in one compiled batch size, on the first place that it may take.
    fn optional_loan(
        &mut self,
        home: usize,
        group: core::ops::Range<usize>,
        size: usize,
        idle: Set,
        scanned: &mut Scanned,
    ) -> Option<(u128, u128, Loan)> {
        let view = self.view(home);
        let jobs = &view.queues.optional()[group.clone()];
        let first = jobs.first()?;
        let row = first.row;
        let mut tried = Tried::new(view, row, size, first.due, idle);
        while let Some(place) = tried.next(&self.view(home)) {
            let cost = self.tables.row(self.tables.row_at(place, row)).cost[size];
            if !self.place_is_free_for_depth(home, place, self.now + cost, scanned) {
                continue;
            }
            let view = self.view(home);
            let jobs = &view.queues.optional()[group.clone()];
            let at = view.tables.row_at(place, row);
            if let Some((gain, choice)) = view.optional_on(jobs, at, size, view.now) {
                let width = u128::from(self.places.width(place));
                let cost = u128::from(cost.as_nanos().max(1));
                return Some((gain, width * cost, Loan { place, choice }));
            }
        }
        None
    }

    /// Whether optional work may take a place until `end`.
    fn place_is_free_for_depth(
        &mut self,
        home: usize,
        place: usize,
        end: Instant,
        scanned: &mut Scanned,
    ) -> bool {
        for under in self.places.homes_under(place) {
            let view = self.view(under);
            if under != home
                && (!view.queues.best_effort().is_empty() || view.share_is_spent(Voluntary::Depth))
            {
                return false;
            }
            if !self.keeps_safe(under, end, &Promised::new(), scanned) {
                return false;
            }
        }
        true
    }
}

/// The idle places for a batch, in the order in which they are tried.
struct Tried {
    /// Places not tried yet.
    left: Set,
    idle: Set,
    row: Row,
    preferred: u16,
}

impl Tried {
    fn new(view: View<'_>, row: Row, size: usize, due: Instant, idle: Set) -> Self {
        let model = view.tables.row(row).model;
        let places = view.places.of(view.index, model);
        let offered = places.iter().fold(0, |set, &place| set | bit(place.into()));
        Self {
            left: offered & idle,
            idle,
            row,
            preferred: view.width_needed(places, row, size, due),
        }
    }

    /// The next place: of the preferred width, then wider, then narrower. Of equal widths, one of the own home,
    /// then the one that leaves most other places idle.
    fn next(&mut self, view: &View<'_>) -> Option<usize> {
        let model = view.tables.row(self.row).model;
        let places = view.places.of(view.index, model).iter();
        let places = places.map(|&place| usize::from(place));
        let best = places
            .filter(|&place| self.left & bit(place) != 0 && view.may_take(place, model))
            .min_by_key(|&place| {
                let width = view.places.width(place);
                let narrower = width < self.preferred;
                let distance = width.abs_diff(self.preferred);
                let foreign = !view.places.overlap(place, view.index);
                (
                    narrower,
                    distance,
                    foreign,
                    view.places.blocked(place, self.idle),
                )
            })?;
        self.left &= !bit(best);
        Some(best)
    }
}

impl View<'_> {
    /// Whether a promised request may run on a place: it waits, and it is the first of a joint promise.
    fn may_lend(&self, job: &MandatoryJob) -> bool {
        let first = |j: &&MandatoryJob| j.promise == job.promise && !j.running;
        !job.running
            && (!job.joint
                || self
                    .queues
                    .mandatory()
                    .iter()
                    .find(first)
                    .is_some_and(|j| j.buffer == job.buffer))
    }

    fn any_idle(&self, row: Row, idle: Set) -> bool {
        let model = self.tables.row(row).model;
        let mut places = self.places.of(self.index, model).iter();
        places.any(|&place| idle & bit(place.into()) != 0)
    }

    /// Whether work of this home may run on a partition at all: its model keeps its profile there, and the budgets
    /// there are scaled as much as those of the home.
    fn may_take(&self, place: usize, model: ModelId) -> bool {
        !self.partitions[place].profiles.is_demoted(model)
            && self.tables.level(place) >= self.tables.level(self.index)
    }

    /// The narrowest width at which a request reaches its last exit by its deadline if it starts now; else the
    /// narrowest at which it reaches the deepest exit that it can.
    fn width_needed(&self, places: &[u16], row: Row, size: usize, due: Instant) -> u16 {
        let left = due.since(self.now);
        let mut best = (0, u16::MAX);
        for &place in places {
            let at = self.tables.row_at(place.into(), row);
            let width = self.places.width(place.into());
            if self.tables.to_last(at, size) <= left {
                return width;
            }
            let depth = self.tables.stages_within(at, size, left);
            if depth > best.0 || best.1 == u16::MAX {
                best = (depth, width);
            }
        }
        best.1
    }
}
