//! What the plan and the policy's parameters allow: where a task may run, what may wait.

use std::vec::Vec;

use super::{Checker, Open, Violation};
use crate::{Criticality, Delivery, Event, Instant, ModelId, Nanos, PartitionId, TaskId};

impl Checker {
    /// Books that `older` made way: to the request that was prepared in this step, which has to keep what was
    /// promised to it, or before its own preparation ended. False: there is none that it may make way to.
    pub(super) fn hand_over(&mut self, event: &Event, older: &Open) -> bool {
        let latest = self.config.tasks[older.origin.index()].delivery == Delivery::LatestFrame;
        let real_time = self.real_time(older.task);
        let weights = self.config.tasks[older.task.index()].model;
        let promised =
            real_time && !older.demoted && older.prepared && self.memory.is_present(weights);
        let prepared = match event {
            Event::Prepared { request, .. } => Some(*request),
            _ => None,
        };
        if older.id.is_some() && older.id == prepared {
            return latest;
        }
        let newer = self.open.values_mut().find(|open| {
            // Those whose weights came in this step were prepared before.
            (open.client, open.origin) == (older.client, older.origin)
                && open.order > older.order
                && open.prepared
                && (prepared.is_none() || open.id == prepared)
        });
        let Some(newer) = newer else {
            return false;
        };
        if promised {
            let places = [newer.place, older.place, older.deadline];
            newer.place = places.into_iter().flatten().min();
        }
        latest
    }

    /// Who took the place of others is through its mandatory part by the time promised to them.
    pub(super) fn check_places(&self, now: Instant, event: &Event) -> Result<(), Violation> {
        let by = now + self.config.egress_bound;
        let late = |open: &Open| {
            let mandatory = self.config.tasks[open.task.index()].mandatory_exit;
            let on_its_way = open.next_stage <= mandatory.0 && !open.demoted;
            on_its_way && open.place.is_some_and(|place| place < by)
        };
        let ends = matches!(event, Event::Finished(_) | Event::Tick);
        match ends && self.world_keeps_bounds && self.open.values().any(late) {
            true => Err(Violation::Missed),
            false => Ok(()),
        }
    }

    /// A model's tasks on a partition are promised nothing from now on.
    pub(super) fn demote(
        &mut self,
        partition: PartitionId,
        model: ModelId,
    ) -> Result<(), Violation> {
        let exists = partition.index() < self.config.partitions.len()
            && model.index() < self.config.models.len();
        if !exists || !self.demoted.insert((partition.0, model.0)) {
            return Err(Violation::WrongDemotion);
        }
        let tasks = 0..self.config.tasks.len() as u16;
        let demoted: Vec<bool> = tasks.map(|task| self.is_demoted(TaskId(task))).collect();
        for open in self.open.values_mut().filter(|open| open.prepared) {
            open.demoted |= demoted[open.task.index()];
        }
        Ok(())
    }

    pub(super) fn reinstate(&mut self, at: PartitionId, model: ModelId) -> Result<(), Violation> {
        match self.demoted.remove(&(at.0, model.0)) {
            true => Ok(()),
            false => Err(Violation::WrongDemotion),
        }
    }

    /// Whether a model that a real-time task runs is demoted where the task may be.
    pub(super) fn is_demoted(&self, task: TaskId) -> bool {
        let places = &self.places()[task.index()];
        let own = &self.config.tasks[task.index()];
        let stages = &self.config.models[own.model.index()].stages;
        let runs = |model: u16| {
            let mut models = stages
                .iter()
                .map(|stage| stage.runs_as.unwrap_or(own.model));
            models.any(|as_model| as_model.0 == model)
        };
        let here = |at: u16| places.contains(&PartitionId(at));
        let mut demoted = self.demoted.iter();
        self.real_time(task) && demoted.any(|&(at, model)| here(at) && runs(model))
    }

    /// While best-effort work is given up, none runs that was not told to stop, and none waits.
    pub(super) fn check_shedding(&self) -> Result<(), Violation> {
        let best_effort = |criticality| criticality == Criticality::BestEffort;
        let mut orders = self.in_flight.iter().flatten();
        let runs = orders.any(|o| best_effort(o.infer.criticality) && !o.told);
        let mut open = self.open.values();
        let waits = open.any(|o| !self.real_time(o.task) && o.prepared && !o.running);
        match self.shedding && (runs || waits) {
            true => Err(Violation::BestEffortWhileShed),
            false => Ok(()),
        }
    }

    /// Promised work neither waits for an idle partition nor behind best-effort work that was not told to stop.
    pub(super) fn check_priorities(&self) -> Result<(), Violation> {
        if !self.config.layouts.is_empty() {
            // While the layout changes, promised work waits; that it is in time is checked.
            return Ok(());
        }
        for open in self.open.values() {
            let task = &self.config.tasks[open.task.index()];
            let promised = self.real_time(open.task)
                && open.prepared
                && !open.running
                && !open.demoted
                && self.memory.is_present(task.model)
                && open.next_stage <= task.mandatory_exit.0;
            if !promised {
                continue;
            }
            match &self.in_flight[task.partition.index()] {
                None if self.may_wait() => {}
                None => return Err(Violation::IdleWhilePromised),
                Some(r) if r.infer.criticality == Criticality::BestEffort && !r.told => {
                    return Err(Violation::BestEffortInTheWay);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether one more action may be handed over ahead.
    pub(super) fn is_ahead(&self, partition: usize) -> bool {
        self.launch_lead > Nanos::ZERO && self.ahead[partition].is_none()
    }

    /// Whether promised work may wait for a frame that it could share a batch with.
    fn may_wait(&self) -> bool {
        let mut tasks = self.config.tasks.iter();
        self.waiting
            && tasks.any(|task| {
                let sizes = self.config.models[task.model.index()].stages[0].times.len();
                sizes > 1 && task.batch_max > 1
            })
    }

    /// The partitions that each task may run on, in one layout or another.
    pub(super) fn places(&self) -> Vec<Vec<PartitionId>> {
        let of = |(index, task): (usize, &crate::TaskConfig)| {
            let others = self.config.layouts.iter().map(|l| l.partitions[index]);
            others.chain([task.partition]).collect()
        };
        self.config.tasks.iter().enumerate().map(of).collect()
    }
}
