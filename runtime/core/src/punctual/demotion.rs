//! Demotion: a model that breaks its profile loses its promises, so that other models keep theirs.
//!
//! A model is demoted on a partition when enough of its newest real-time stages there overran. They must have
//! overrun because of the model, not because of the machine (`profile_monitor`). From then on, the tasks that run its stages
//! there get no promises. Their frames wait in the best-effort queue, and run alone, up to their mandatory
//! exit. A stage starts only if SAFE holds after it: C' <= S, as for optional work, where C' is the
//! budget stretched to the longest time in the model's window. Earlier promises are withdrawn, and their
//! requests wait in that queue, too. A request that waits for a deeper answer gets its present one.
//!
//! The reservations of these tasks stay counted in F, and no other task is promised that time. So SAFE holds
//! at once when the model has kept its budgets for long enough and is *reinstated*.
//!
//! Other tasks are harmed by no more than the overruns before the demotion. The slack absorbs each of these,
//! and the debt of its task pays for it (`overrun`). Afterwards only a stage that takes longer than C' can harm
//! them: assumption 1 of the proof holds for a demoted model with C' in the place of C.
//!
//! If a stretched stage never finds that much slack, the model does not run again, and stays demoted until the
//! plan is loaded anew. To test it at the expense of others would break their promises.

use crate::action::{Action, Demotion};
use crate::actions::Actions;
use crate::ids::{ModelId, PartitionId, TaskId};
use crate::punctual::Punctual;
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::ledger::Note;
use crate::punctual::lifecycle::queues::BestEffortJob;
use crate::punctual::lifecycle::requests::State;
use crate::punctual::partition::Partitions;
use crate::punctual::profile_monitor::OverrunRecord;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::Kind;
use crate::punctual::tables::{Row, Tables};
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::View;
use crate::time::Nanos;
use crate::time::ns;

impl Punctual {
    /// Withdraws the promises to the tasks that run a model on a partition.
    pub(super) fn demote(
        &mut self,
        index: usize,
        model: ModelId,
        overrun_record: OverrunRecord,
        actions: &mut Actions,
    ) {
        // A place: no task has promises there, and nothing would reinstate the model.
        if self.tables.in_real_time(index, model).next().is_none() {
            return;
        }
        let monitor = self.partitions[index].profiles_mut();
        monitor.set_demoted(model, true, self.now);
        actions.push(Action::Demote(Demotion {
            partition: PartitionId(index as u16),
            model,
            overran: overrun_record.overran,
            of: overrun_record.of,
            worst: overrun_record.worst,
        }));
        for task in self.tables.in_real_time(index, model) {
            self.life.ledger.note(task, Note::Demoted);
        }
        self.withdraw_promises(
            |tables, task| tables.is_in_real_time(task, index) && tables.runs(task, model),
            actions,
        );
    }

    /// Withdraws the promises to the open requests of the tasks that it concerns.
    pub(super) fn withdraw_promises(
        &mut self,
        concerns: impl Fn(&Tables, TaskId) -> bool,
        actions: &mut Actions,
    ) {
        for buffer in 0..self.life.requests.buffers() {
            let request = self.life.requests.get(buffer);
            if !concerns(&self.tables, request.task) {
                continue;
            }
            let counts = self.life.has_mandatory_answer(buffer, &self.tables);
            match request.state {
                // It holds the answer that counts, and a deeper stage would take longer than its gate assumes.
                State::Optional | State::BestEffort if counts => {
                    self.life.withdraw(buffer, &self.tables);
                    self.life.answer(buffer, self.now, actions);
                }
                State::Mandatory | State::Running | State::BestEffort if !request.demoted => {
                    self.life.demote(buffer, &self.tables);
                }
                // These get no promise later, because `promises_to` is tested when they are ready.
                State::Free | State::Preparing | State::AwaitingWeights | State::Locked => {}
                // They have none.
                State::Mandatory | State::Running | State::Optional | State::BestEffort => {}
            }
        }
    }

    /// Restores the promises to the tasks that run a model on a partition. Their reservations stayed counted
    /// in F, so SAFE holds without a test.
    pub(super) fn reinstate(&mut self, index: usize, model: ModelId, actions: &mut Actions) {
        let monitor = self.partitions[index].profiles_mut();
        monitor.set_demoted(model, false, self.now);
        actions.push(Action::Reinstate {
            partition: PartitionId(index as u16),
            model,
        });
        for task in self.tables.in_real_time(index, model) {
            self.life.ledger.note(task, Note::Reinstated);
        }
    }
}

impl Tables {
    /// The real-time tasks that run a model's stages on a partition.
    fn in_real_time(&self, index: usize, model: ModelId) -> impl Iterator<Item = TaskId> {
        let tasks = self.running(model).iter().copied();
        tasks.filter(move |task| self.is_in_real_time(*task, index))
    }

    fn is_in_real_time(&self, task: TaskId, index: usize) -> bool {
        let table = self.task(task);
        table.is_real_time() && table.partition.index() == index
    }
}

impl Partitions {
    /// Whether a task's requests run alone and in the slack, because a real-time task's model is demoted, or its mandatory
    /// exit does not run as it was measured.
    pub fn is_demoted(&self, task: TaskId, tables: &Tables) -> bool {
        let table = tables.task(task);
        let monitor = self[table.partition.index()].profiles();
        let mut rows = tables.rows_of(table).iter();
        let breaks_profile = monitor.any_demoted()
            && table.is_real_time()
            && rows.any(|row| monitor.is_demoted(tables.row(row.runs_as).model));
        breaks_profile || table.waits_for_slack()
    }
}

impl View<'_> {
    /// The time that a stage of a demoted model may take: the least slack. `i64::MIN` if no such stage
    /// waits, so that no scan is made for nothing, and while the utilization cap is used up.
    pub fn slack_for_demoted(&self, scan: &mut SlackScan) -> i64 {
        let waits = self.queues.best_effort().iter().any(|job| job.demoted);
        if !waits || self.share_is_spent(Voluntary::Depth) {
            return i64::MIN;
        }
        self.scan(scan, self.now, None);
        scan.least()
    }

    /// C' of a stage alone.
    pub fn stretched_cost(&self, row: Row) -> Nanos {
        let row = self.tables.row(row);
        let stretched = if self.readiness.is_measured(row) {
            let monitor = self.partition.profiles();
            monitor.stretched(row.model, row.budget[0])
        } else {
            self.readiness.stretched(row.model, row.budget[0])
        };
        let stretched = stretched + self.tables.dispatch_cost();
        // The scale of the partition may exceed what the model's own window shows.
        stretched.max(row.cost_alone())
    }

    /// A stage of a demoted model. It runs alone: C' stretches the budget of one request.
    pub fn demoted_choice(&self, head: &BestEffortJob, room: i64) -> Choice {
        debug_assert!(
            head.demoted,
            "only stages of demoted models use stretched budgets"
        );
        Choice {
            kind: Kind::Demoted,
            home: self.index,
            row: head.row,
            size: 0,
            members: core::iter::once(head.buffer).collect(),
            start_slack: room - ns(self.stretched_cost(head.row)),
        }
    }
}
