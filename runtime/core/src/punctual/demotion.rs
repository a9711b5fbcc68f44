//! A model that breaks its profile loses its promises, so that others keep theirs.
//!
//! When enough of a model's newest real-time stages on a partition overran and it is the model that is to
//! blame (`conduct`), it is *demoted* there: from then on tasks that run its stages there are promised
//! nothing. Their frames wait in line with best-effort work, alone, up to their mandatory exit, and a
//! stage of theirs starts only if it leaves every promise the time that it needs, its budget stretched to
//! the longest of the window: the gate of optional work, C' ≤ S with C' for C. What was promised to them
//! before is taken back and waits so too; what is answered already and waited to go deeper ends.
//!
//! Their reservations stay counted in F: nobody else is promised that time. So when the model has
//! kept its budgets for long enough it is *reinstated* at once, and SAFE holds as it did.
//!
//! Others are hurt by no more than the overruns that it took to see it, each borne by the slack and
//! paid for by the debt of its task (`overrun`), and afterwards by what a stage takes beyond the
//! longest of its window: assumption 1 holds for a demoted model with C' in the place of C.
//!
//! A model whose stretched stage never finds so much slack does not run any more, and stays demoted
//! until the plan is loaded anew: to try it out at the cost of others would break their promises.

use crate::action::{Action, Demotion};
use crate::actions::Actions;
use crate::event::Finished;
use crate::ids::{ModelId, PartitionId, TaskId};
use crate::punctual::Punctual;
use crate::punctual::conduct::{Fault, Offence};
use crate::punctual::dispatch::{Choice, ns};
use crate::punctual::ledger::Note;
use crate::punctual::queues::Waiting;
use crate::punctual::requests::{Request, State};
use crate::punctual::share::Voluntary;
use crate::punctual::slot::{Kind, Running};
use crate::punctual::tables::Row;
use crate::punctual::view::View;
use crate::time::Nanos;

impl Punctual {
    /// Books how a real-time stage kept its budget, and demotes or reinstates its model. Whether the
    /// partition's scale is to learn from it: not from what is one model's fault.
    pub(crate) fn book_conduct(
        &mut self,
        index: usize,
        running: &Running,
        finished: &Finished,
        actions: &mut Actions,
    ) -> bool {
        if !self.parameters.demotion {
            return true;
        }
        let row = self.tables.row(running.row);
        let (model, budget) = (row.model, row.budget[running.size]);
        let allowed = row.cost[running.size].saturating_sub(self.tables.dispatch_cost());
        let overran = finished.measured > allowed;
        let conduct = &mut self.partitions[index].conduct;
        conduct.book(model, (finished.measured, budget), overran, self.now);
        if conduct.is_demoted(model) {
            if conduct.has_mended(model, &self.parameters, self.now) {
                self.reinstate(index, model, actions);
            }
            return false;
        }
        if !overran {
            return true;
        }
        match conduct.fault(model) {
            Fault::Nobody | Fault::Machine => true,
            Fault::Unknown => conduct.is_hopeless(model),
            Fault::Model => {
                let offence = conduct.offence(model);
                if offence.overran >= self.parameters.demote_overruns {
                    self.demote(index, model, offence, actions);
                }
                false
            }
        }
    }

    fn demote(&mut self, index: usize, model: ModelId, offence: Offence, actions: &mut Actions) {
        let now = self.now;
        self.partitions[index].conduct.set_demoted(model, true, now);
        actions.push(Action::Demote(Demotion {
            partition: PartitionId(index as u16),
            model,
            overran: offence.overran,
            of: offence.of,
            worst: offence.worst,
        }));
        self.note_all_that_run(index, model, Note::Demoted);
        for buffer in 0..self.requests.buffers() {
            let request = *self.requests.get(buffer);
            if !self.runs(request.task, index, model) {
                continue;
            }
            match request.state {
                State::Pending => {
                    self.withdraw(buffer);
                    self.enqueue_demoted(&request, buffer);
                }
                State::Running => self.requests.mark_demoted(buffer),
                State::Parked => {
                    self.withdraw(buffer);
                    self.answer(buffer, actions);
                }
                // What is taken on from now on is judged then.
                State::Free
                | State::Preparing
                | State::Awaiting
                | State::Waiting
                | State::Locked => {}
            }
        }
    }

    fn reinstate(&mut self, index: usize, model: ModelId, actions: &mut Actions) {
        let now = self.now;
        let conduct = &mut self.partitions[index].conduct;
        conduct.set_demoted(model, false, now);
        actions.push(Action::Reinstate {
            partition: PartitionId(index as u16),
            model,
        });
        self.note_all_that_run(index, model, Note::Reinstated);
    }

    fn note_all_that_run(&mut self, index: usize, model: ModelId, note: Note) {
        for task in (0..self.rhythms.len()).map(|task| TaskId(task as u16)) {
            if self.runs(task, index, model) {
                self.ledger.note(task, note);
            }
        }
    }

    /// Whether a real-time task runs a model's stages on a partition.
    fn runs(&self, task: TaskId, index: usize, model: ModelId) -> bool {
        let table = self.tables.task(task);
        let mut rows = self.tables.rows_of(table).iter();
        self.is_real_time(task)
            && table.partition.index() == index
            && rows.any(|row| self.tables.row(row.runs_as).model == model)
    }

    /// Whether a real-time task is promised nothing, as a model that it runs is demoted.
    pub(crate) fn is_demoted(&self, task: TaskId) -> bool {
        let table = self.tables.task(task);
        let conduct = &self.partitions[table.partition.index()].conduct;
        let mut rows = self.tables.rows_of(table).iter();
        conduct.any_demoted()
            && self.is_real_time(task)
            && rows.any(|row| conduct.is_demoted(self.tables.row(row.runs_as).model))
    }

    /// Puts a request of a demoted model in line with best-effort work.
    pub(crate) fn enqueue_demoted(&mut self, request: &Request, buffer: u16) {
        self.requests.mark_demoted(buffer);
        let request = Request {
            demoted: true,
            ..*request
        };
        self.enqueue_best_effort(&request, buffer);
    }

    /// The time that a stage of a demoted model may take, if any waits: the least slack, none while
    /// the partition's share is spent.
    pub(crate) fn room_for_demoted(&mut self, index: usize) -> i64 {
        let partition = &self.partitions[index];
        let waits = partition.queues.waiting().iter().any(|w| w.demoted);
        if !waits || partition.share_is_spent(Voluntary::Depth, self.now) {
            return i64::MIN;
        }
        self.scan(index, self.now, None);
        self.partitions[index].scan.least()
    }
}

impl View<'_> {
    /// C' of a stage alone.
    pub fn stretched_cost(&self, row: Row) -> Nanos {
        let row = self.tables.row(row);
        let conduct = &self.partition.conduct;
        let stretched = conduct.stretched(row.model, row.budget[0]) + self.tables.dispatch_cost();
        stretched.max(row.cost_alone())
    }

    /// A stage of a demoted model, alone, in `room`.
    pub fn demoted_choice(&self, head: &Waiting, room: i64) -> Choice {
        Choice {
            kind: Kind::Demoted,
            row: head.row,
            size: 0,
            members: core::iter::once(head.buffer).collect(),
            spare: room - ns(self.stretched_cost(head.row)),
        }
    }
}
