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
use crate::ids::{ModelId, PartitionId, TaskId};
use crate::punctual::Punctual;
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::ledger::Note;
use crate::punctual::lifecycle::queues::BestEffortJob;
use crate::punctual::lifecycle::requests::State;
use crate::punctual::partition::Partitions;
use crate::punctual::profile_monitor::Offence;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::Kind;
use crate::punctual::tables::{Row, Tables};
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::View;
use crate::time::Nanos;
use crate::time::ns;

impl Punctual {
    /// Takes a model's promises on a partition from it.
    pub(super) fn demote(
        &mut self,
        index: usize,
        model: ModelId,
        offence: Offence,
        actions: &mut Actions,
    ) {
        let conduct = &mut self.partitions[index].profiles;
        conduct.set_demoted(model, true, self.now);
        actions.push(Action::Demote(Demotion {
            partition: PartitionId(index as u16),
            model,
            overran: offence.overran,
            of: offence.of,
            worst: offence.worst,
        }));
        for task in self.tables.running(index, model) {
            self.life.ledger.note(task, Note::Demoted);
        }
        for buffer in 0..self.life.requests.buffers() {
            let request = self.life.requests.get(buffer);
            if !self.tables.runs(request.task, index, model) {
                continue;
            }
            match request.state {
                State::Mandatory | State::Running => self.life.demote(buffer, &self.tables),
                State::Optional => {
                    self.life.withdraw(buffer, &self.tables);
                    self.life.answer(buffer, self.now, actions);
                }
                // What is taken on from now on is judged then.
                State::Free
                | State::Preparing
                | State::AwaitingWeights
                | State::BestEffort
                | State::Locked => {}
            }
        }
    }

    /// Gives a model its promises on a partition back.
    pub(super) fn reinstate(&mut self, index: usize, model: ModelId, actions: &mut Actions) {
        let conduct = &mut self.partitions[index].profiles;
        conduct.set_demoted(model, false, self.now);
        actions.push(Action::Reinstate {
            partition: PartitionId(index as u16),
            model,
        });
        for task in self.tables.running(index, model) {
            self.life.ledger.note(task, Note::Reinstated);
        }
    }
}

impl Tables {
    /// The real-time tasks that run a model's stages on a partition.
    fn running(&self, index: usize, model: ModelId) -> impl Iterator<Item = TaskId> {
        let tasks = (0..self.tasks().len()).map(|task| TaskId(task as u16));
        tasks.filter(move |task| self.runs(*task, index, model))
    }

    /// Whether a real-time task runs a model's stages on a partition.
    fn runs(&self, task: TaskId, index: usize, model: ModelId) -> bool {
        let table = self.task(task);
        let mut rows = self.rows_of(table).iter();
        table.is_real_time()
            && table.partition.index() == index
            && rows.any(|row| self.row(row.runs_as).model == model)
    }
}

impl Partitions {
    /// Whether a real-time task is promised nothing, as a model that it runs is demoted.
    pub fn is_demoted(&self, task: TaskId, tables: &Tables) -> bool {
        let table = tables.task(task);
        let conduct = &self[table.partition.index()].profiles;
        let mut rows = tables.rows_of(table).iter();
        conduct.any_demoted()
            && table.is_real_time()
            && rows.any(|row| conduct.is_demoted(tables.row(row.runs_as).model))
    }
}

impl View<'_> {
    /// The time that a stage of a demoted model may take, if any waits: the least slack, none while
    /// the partition's share is spent.
    pub fn room_for_demoted(&self, scan: &mut SlackScan) -> i64 {
        let waits = self.queues.best_effort().iter().any(|w| w.demoted);
        if !waits || self.share_is_spent(Voluntary::Depth) {
            return i64::MIN;
        }
        self.scan(scan, self.now, None);
        scan.least()
    }

    /// C' of a stage alone.
    pub fn stretched_cost(&self, row: Row) -> Nanos {
        let row = self.tables.row(row);
        let conduct = &self.partition.profiles;
        let stretched = conduct.stretched(row.model, row.budget[0]) + self.tables.dispatch_cost();
        stretched.max(row.cost_alone())
    }

    /// A stage of a demoted model, alone, in `room`.
    pub fn demoted_choice(&self, head: &BestEffortJob, room: i64) -> Choice {
        Choice {
            kind: Kind::Demoted,
            row: head.row,
            size: 0,
            members: core::iter::once(head.buffer).collect(),
            spare: room - ns(self.stretched_cost(head.row)),
        }
    }
}
