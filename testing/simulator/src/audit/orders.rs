//! Preparations and stages as they are ordered.

use punctual_core::{BatchTime, Criticality, Infer, PartitionId, RequestId, TaskId};

use super::auditor::{Auditor, Subject};
use super::floor::wrong_window;
use super::request_log::{Key, Place, Refusal};
use super::violation::Violation;

impl Auditor {
    /// A request buffer is given, and the intake is to fill it.
    pub(super) fn ordered_preparation(
        &mut self,
        request: RequestId,
        task: TaskId,
        key: Key,
    ) -> Result<(), Violation> {
        let asked = self.subject == Subject::Arrived(key);
        let waits = self.log.open.get(&key);
        let waits = waits.filter(|s| s.place == Place::Arriving);
        if self.draining || !asked || waits.is_none_or(|s| !self.may_take(task, s.origin)) {
            return Err(Violation::UnaskedPreparation { task });
        }
        if !self.is_ready(task) {
            return Err(Violation::PreparedUnready { task });
        }
        let inside = self.log.inside[task.index()];
        let queue_max = self.task(task).queue_max;
        let mut in_flight = self.floor.flights.values();
        let touched = in_flight.any(|f| f.infer.members.iter().any(|m| m.buffer == request.buffer));
        match self.log.give(key, request, task) {
            Err(Refusal::StaleName) => return Err(Violation::StaleName { task, request }),
            Err(Refusal::InUse) => return Err(Violation::BufferInUse { task, request }),
            Ok(()) if touched => return Err(Violation::BufferInUse { task, request }),
            Ok(()) => {}
        }
        if inside >= usize::from(queue_max) {
            return Err(Violation::QueueBound {
                task,
                open: inside + 1,
                queue_max,
            });
        }
        Ok(())
    }

    /// Whether a frame of `origin` may run under a task: its own, or one that the plan lets `origin` offload to.
    fn may_take(&self, task: TaskId, origin: TaskId) -> bool {
        task == origin || self.punctual && self.task(origin).offload_to == Some(task)
    }

    pub(super) fn ordered(&mut self, infer: &Infer) -> Result<(), Violation> {
        let new = self.floor.is_new(infer.id);
        let action = infer.id;
        let Some(time) = self.time_of(infer).filter(|_| new) else {
            return Err(Violation::UnknownPlace { action });
        };
        let on = time.on[infer.partition.index()];
        let sized = self.check_batch(infer);
        let loaded = self.check_loaded(infer);
        let members = self.check_members(infer);
        for id in &infer.members {
            if let Some((_, submission)) = self.log.find(*id)
                && submission.place == Place::Waiting
            {
                submission.place = Place::Running(action);
            }
        }
        let homes = self.homes_of(infer);
        if infer.criticality == Criticality::RealTime {
            self.claims.flight(&homes, true);
        }
        let budget = match infer.criticality {
            Criticality::RealTime => {
                // Of other policies' stages nothing is claimed, and what they take for lost does not depend on it.
                if self.punctual && !self.loaded.is_measured(infer.model, infer.stage) {
                    self.loaded.allowed(infer.model, on.budget)
                } else {
                    let conduct = &self.conduct;
                    conduct.allowed(infer.partition, infer.model, on.budget)
                }
            }
            // No promise relies upon how long it takes.
            Criticality::BestEffort => on.budget,
        };
        let longest = on.max_seen.max(on.budget);
        let placed = self.floor.take_off(self.now, infer, homes, budget, longest);
        let as_measured = self.loaded.is_measured(infer.model, infer.stage);
        if let Some(flight) = self.floor.flights.get_mut(&action.0) {
            flight.as_measured = as_measured;
        }
        // It decides when there is something to start, never ahead of that.
        let opens_late = self.punctual && infer.window.earliest > self.now;
        let placed = placed.and(if opens_late {
            Err(wrong_window(self.now, infer))
        } else {
            Ok(())
        });
        let weights = if self.memory.is_present(infer.model) {
            Ok(())
        } else {
            Err(Violation::WrongWeights { model: infer.model })
        };
        for violation in [members, placed, weights, loaded]
            .into_iter()
            .filter_map(Result::err)
        {
            self.found(violation);
        }
        sized
    }

    /// The partitions of tasks that depend on the end of an action.
    fn homes_of(&mut self, infer: &Infer) -> Vec<PartitionId> {
        let tasks = self.config.tasks.iter();
        let homes = tasks.map(|task| task.partition);
        let mut homes: Vec<PartitionId> = homes
            .filter(|&home| self.floor.overlap(home, infer.partition))
            .collect();
        for member in &infer.members {
            if let Some((_, submission)) = self.log.find(*member) {
                homes.push(self.config.tasks[submission.task.index()].partition);
            }
        }
        homes.push(infer.partition);
        homes.sort_unstable();
        homes.dedup();
        homes
    }

    /// Whether the plan offers a model a place that is none of its tasks' partitions.
    fn is_place(&self, infer: &Infer) -> bool {
        let model = self.config.models.get(infer.model.index());
        let offered = model.is_some_and(|model| model.places.contains(&infer.partition));
        let keeps_profile = !self.conduct.is_demoted(infer.partition, infer.model)
            && self.loaded.is_measured(infer.model, infer.stage);
        self.lends && offered && keeps_profile
    }

    /// The profile's entry for what is to run; none if there is none.
    pub(super) fn time_of(&self, infer: &Infer) -> Option<BatchTime> {
        let model = self.config.models.get(infer.model.index())?;
        let stage = model.stages.get(infer.stage.index())?;
        let time = stage.times.iter().find(|t| t.batch == infer.batch)?;
        (infer.partition.index() < time.on.len()).then(|| time.clone())
    }

    fn check_batch(&self, infer: &Infer) -> Result<(), Violation> {
        let stage = &self.config.models[infer.model.index()].stages[infer.stage.index()];
        let members = infer.members.len();
        let mut sizes = stage.times.iter().map(|t| t.batch);
        let smallest = sizes.find(|&b| usize::from(b) >= members);
        let fits = members > 0 && members <= usize::from(infer.batch);
        // Some run a batch on with places that became empty (BranchyNet does).
        if !fits || self.shrinks_batches && smallest != Some(infer.batch) {
            return Err(Violation::WrongBatch {
                action: infer.id,
                batch: infer.batch,
                members,
            });
        }
        Ok(())
    }

    fn check_members(&mut self, infer: &Infer) -> Result<(), Violation> {
        let action = infer.id;
        let stopped = infer.criticality == Criticality::BestEffort;
        let lent = self.is_place(infer) && infer.criticality == Criticality::RealTime;
        let mut seen: Vec<RequestId> = Vec::with_capacity(infer.members.len());
        for &member in &infer.members {
            let Some((_, submission)) = self.log.find(member) else {
                return Err(Violation::MemberNotReady { action, member });
            };
            let ready = submission.place == Place::Waiting && !submission.gone;
            if !ready || seen.contains(&member) {
                return Err(Violation::MemberNotReady { action, member });
            }
            seen.push(member);
            let (id, next_stage) = (submission.task, submission.next_stage);
            // A stage that does not run as it was measured is not preempted, whatever its task.
            let demoted = submission.demoted;
            let to_its_end = !stopped && (demoted || self.is_unmeasured(id));
            let task = self.task(id);
            let criticality = if self.punctual {
                task.criticality == infer.criticality || to_its_end
            } else {
                // Others may treat best-effort work like any other, but never the other way.
                task.criticality == Criticality::BestEffort || !stopped
            };
            let placed = !self.punctual || lent || task.partition == infer.partition;
            let stages = &self.config.models[task.model.index()].stages;
            let shared = stages.get(usize::from(next_stage)).and_then(|s| s.runs_as);
            // Only the default policy mixes models.
            let shared = shared.filter(|_| self.punctual);
            let model = shared.unwrap_or(task.model) == infer.model;
            if !model || next_stage != infer.stage.0 || !criticality || !placed {
                return Err(Violation::WrongMember { action, member });
            }
            if infer.batch > task.batch_max {
                return Err(Violation::WrongBatch {
                    action,
                    batch: infer.batch,
                    members: infer.members.len(),
                });
            }
        }
        Ok(())
    }
}
