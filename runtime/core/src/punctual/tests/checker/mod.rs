//! An independent checker of the invariants: it sees only the plan, the events that go into the
//! scheduler and the actions that come out, and keeps books of its own.

mod allowances;
mod memory;
mod violation;

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use memory::Memory;
pub use violation::Violation;

use crate::{
    Action, Answer, ClientId, Config, Criticality, Event, Failure, Infer, Instant, ModelConfig,
    ModelId, Nanos, PunctualConfig, Rejection, Reply, RequestId, StageId, TaskId, Ticket, Verdict,
};

#[derive(Clone, Debug)]
struct Open {
    client: ClientId,
    /// Order of arrival.
    order: u64,
    /// Under whose rules it is: its own task's, or those of the one that it was spilled to.
    task: TaskId,
    /// Who submitted it.
    origin: TaskId,
    id: Option<RequestId>,
    deadline: Option<Instant>,
    prepared: bool,
    running: bool,
    gone: bool,
    next_stage: u8,
    answer: Option<(StageId, Answer)>,
    /// A model that its task runs has lost its promises.
    demoted: bool,
    /// The earliest deadline that was promised to those whose place it took.
    place: Option<Instant>,
}

#[derive(Clone, Debug)]
struct InFlight {
    infer: Infer,
    told: bool,
}

/// The books.
#[derive(Clone, Debug)]
pub struct Checker {
    config: Config,
    open: BTreeMap<(u16, u64), Open>,
    by_buffer: BTreeMap<u16, (u16, u64)>,
    names: BTreeSet<(u16, u32)>,
    in_flight: Vec<Option<InFlight>>,
    /// Handed over ahead.
    ahead: Vec<Option<InFlight>>,
    memory: Memory,
    arrivals: u64,
    /// Partitions and models.
    demoted: BTreeSet<(u16, u16)>,
    draining: bool,
    /// Best-effort work is given up.
    shedding: bool,
    /// Whether a late or dropped accepted request is a violation: yes as long as the world keeps its bounds.
    pub world_keeps_bounds: bool,
    /// The policy's parameters of these names.
    waiting: bool,
    launch_lead: Nanos,
    /// Verdicts of accepted real-time requests that were not `OnTime`.
    pub misses: u64,
    /// Real-time requests whose deadline was promised.
    pub promised: u64,
    /// Frames rejected, or dropped after they were accepted, by the task that submitted them.
    pub refused: Vec<u64>,
    /// Preparations by another task than the one that submitted the frame.
    pub spilled: u64,
}

/// Whether a model's stage runs as that of another, or of itself.
fn runs_as(models: &[ModelConfig], model: ModelId, stage: u8, as_model: ModelId) -> bool {
    let stage = &models[model.index()].stages[usize::from(stage)];
    stage.runs_as.unwrap_or(model) == as_model
}

fn key(ticket: Ticket) -> (u16, u64) {
    (ticket.client.0, ticket.sequence)
}

impl Checker {
    pub fn new(config: &Config, parameters: &PunctualConfig) -> Self {
        Self {
            open: BTreeMap::new(),
            by_buffer: BTreeMap::new(),
            names: BTreeSet::new(),
            in_flight: std::vec![None; config.partitions.len()],
            ahead: std::vec![None; config.partitions.len()],
            memory: Memory::new(config),
            arrivals: 0,
            demoted: BTreeSet::new(),
            draining: false,
            shedding: false,
            world_keeps_bounds: true,
            waiting: parameters.waiting,
            launch_lead: parameters.launch_lead,
            misses: 0,
            promised: 0,
            refused: std::vec![0; config.tasks.len()],
            spilled: 0,
            config: config.clone(),
        }
    }

    /// Books one step.
    pub fn observe(
        &mut self,
        now: Instant,
        event: &Event,
        actions: &[Action],
    ) -> Result<(), Violation> {
        let arrived = self.book_event(now, event);
        let mut to_prepare = arrived;
        for action in actions {
            match action {
                Action::Prepare {
                    request,
                    task,
                    ticket,
                } => {
                    if to_prepare.take() != Some(key(*ticket)) {
                        return Err(Violation::UnaskedPreparation);
                    }
                    self.book_preparation(*request, *task, *ticket)?;
                }
                Action::Infer(infer) => self.book_infer(now, infer)?,
                Action::Demote(demotion) => self.demote(demotion.partition, demotion.model)?,
                Action::Reinstate { partition, model } => self.reinstate(*partition, *model)?,
                Action::Load { id, model } => self.memory.load(now, *id, *model)?,
                Action::Unload { model } => {
                    if self.is_relied_upon(*model) {
                        return Err(Violation::Paging);
                    }
                    self.memory.unload(*model)?;
                }
                Action::Preempt { partition, action } => {
                    let Some(Some(running)) = self.in_flight.get_mut(partition.index()) else {
                        return Err(Violation::WrongPreemption);
                    };
                    let best_effort = running.infer.criticality == Criticality::BestEffort;
                    if running.infer.id != *action || !best_effort || running.told {
                        return Err(Violation::WrongPreemption);
                    }
                    running.told = true;
                }
                Action::Reply(reply) => {
                    if Some(key(reply.ticket)) == to_prepare {
                        to_prepare = None;
                    }
                    self.book_reply(now, event, reply)?;
                }
            }
        }
        if to_prepare.is_some() {
            return Err(Violation::Lost);
        }
        self.promised += self.promised_in(event);
        self.check_places(now, event)?;
        self.check_shedding()?;
        self.check_priorities()
    }

    /// How many promises a step made that is over: to the request that was prepared, or to those whose weights came.
    fn promised_in(&self, event: &Event) -> u64 {
        let model = |open: &Open| self.config.tasks[open.task.index()].model;
        let promised = |open: &&Open| {
            let just = match event {
                Event::Prepared { request, .. } => open.id == Some(*request),
                Event::Loaded { action, .. } => self.memory.brought(*action) == Some(model(open)),
                _ => false,
            };
            just && open.prepared && open.next_stage == 0 && self.memory.is_present(model(open))
        };
        let open = self.open.values().filter(promised);
        open.filter(|open| self.real_time(open.task)).count() as u64
    }

    /// At the end of a run, after a drain.
    pub fn finish(&self) -> Result<(), Violation> {
        if self.open.is_empty() && self.by_buffer.is_empty() {
            Ok(())
        } else {
            Err(Violation::Lost)
        }
    }

    /// Whether an action that was ordered reads a model's weights, or one that was accepted will.
    fn is_relied_upon(&self, model: ModelId) -> bool {
        let orders = self.in_flight.iter().chain(&self.ahead).flatten();
        let mut open = self.open.values();
        orders.into_iter().any(|o| o.infer.model == model)
            || open.any(|o| o.next_stage > 0 && self.config.tasks[o.task.index()].model == model)
    }

    fn real_time(&self, task: TaskId) -> bool {
        self.config.tasks[task.index()].criticality == Criticality::RealTime
    }

    fn book_event(&mut self, now: Instant, event: &Event) -> Option<(u16, u64)> {
        match event {
            Event::Arrived(arrival) => {
                let own = self.config.tasks[arrival.task.index()].deadline;
                let own = own.map(|d| arrival.captured.min(now) + d);
                let deadline = match (own, arrival.deadline) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                let open = Open {
                    client: arrival.ticket.client,
                    order: self.arrivals,
                    task: arrival.task,
                    origin: arrival.task,
                    id: None,
                    deadline,
                    prepared: false,
                    running: false,
                    gone: false,
                    next_stage: 0,
                    answer: None,
                    demoted: false,
                    place: None,
                };
                self.arrivals += 1;
                self.open.insert(key(arrival.ticket), open);
                return Some(key(arrival.ticket));
            }
            Event::Prepared { request, .. } => {
                if let Some(open) = self.by_buffer.get(&request.buffer) {
                    let open = self.open.get_mut(open).expect("a buffer's holder is open");
                    open.prepared |= open.id == Some(*request);
                    let task = open.task;
                    let demoted = self.is_demoted(task);
                    self.holder(request.buffer).expect("just seen").demoted |= demoted;
                }
            }
            Event::Finished(finished) => {
                let members = self.land(finished.action);
                let (tasks, models) = (self.config.tasks.clone(), self.config.models.clone());
                if members.len() == finished.members.len() {
                    for (id, answer) in members.iter().zip(&finished.members) {
                        let open = self.holder(id.buffer).expect("members are open");
                        let answers = models[tasks[open.task.index()].model.index()].stages
                            [usize::from(open.next_stage)]
                        .answers;
                        if answers {
                            open.answer = Some((StageId(open.next_stage), *answer));
                        }
                        open.next_stage += 1;
                    }
                }
            }
            Event::NotRun { action } | Event::Preempted { action } | Event::Failed { action } => {
                self.land(*action);
                self.memory.over(*action, false);
            }
            Event::ClientGone { client } => {
                for (_, open) in self.open.iter_mut().filter(|(k, _)| k.0 == client.0) {
                    open.gone = true;
                }
            }
            Event::Tick => {}
            Event::Loaded { action, .. } => {
                self.memory.over(*action, true);
                let tasks: Vec<TaskId> = self.open.values().map(|open| open.task).collect();
                let demoted: Vec<bool> = tasks.iter().map(|&task| self.is_demoted(task)).collect();
                for (open, demoted) in self.open.values_mut().zip(demoted) {
                    open.demoted |= demoted && open.next_stage == 0;
                }
            }
            Event::Drain => self.draining = true,
            Event::Shed { hold } => self.shedding = *hold,
        }
        None
    }

    fn holder(&mut self, buffer: u16) -> Option<&mut Open> {
        let key = self.by_buffer.get(&buffer)?;
        self.open.get_mut(key)
    }

    fn land(&mut self, action: crate::ActionId) -> Vec<RequestId> {
        for partition in 0..self.in_flight.len() {
            let here =
                |place: &Option<InFlight>| place.as_ref().is_some_and(|r| r.infer.id == action);
            let landed = if here(&self.ahead[partition]) {
                self.ahead[partition].take()
            } else if here(&self.in_flight[partition]) {
                let ahead = self.ahead[partition].take();
                core::mem::replace(&mut self.in_flight[partition], ahead)
            } else {
                None
            };
            if let Some(landed) = landed {
                for id in &landed.infer.members {
                    self.holder(id.buffer).expect("members are open").running = false;
                }
                return landed.infer.members.iter().copied().collect();
            }
        }
        Vec::new()
    }

    fn book_preparation(
        &mut self,
        id: RequestId,
        task: TaskId,
        ticket: Ticket,
    ) -> Result<(), Violation> {
        let origin = self.open[&key(ticket)].origin;
        let spill = self.config.tasks[origin.index()].spill;
        if task != origin && spill != Some(task) {
            return Err(Violation::WrongTaker);
        }
        if id.buffer >= self.config.request_buffers {
            return Err(Violation::NoSuchBuffer);
        }
        if self.by_buffer.contains_key(&id.buffer) {
            return Err(Violation::BufferInUse);
        }
        if !self.names.insert((id.buffer, id.generation)) {
            return Err(Violation::StaleName);
        }
        let inside = self
            .open
            .values()
            .filter(|o| o.task == task && o.id.is_some())
            .count();
        if inside >= usize::from(self.config.tasks[task.index()].queue_max) {
            return Err(Violation::QueueBound);
        }
        self.spilled += u64::from(task != origin);
        self.by_buffer.insert(id.buffer, key(ticket));
        let open = self.open.get_mut(&key(ticket)).expect("it just arrived");
        open.id = Some(id);
        open.task = task;
        Ok(())
    }

    fn book_infer(&mut self, now: Instant, infer: &Infer) -> Result<(), Violation> {
        let partition = infer.partition.index();
        let units = |index: usize| self.config.partitions[index].units;
        let busy = self.in_flight.iter().enumerate();
        let mut busy = busy.filter(|(_, action)| action.is_some());
        if partition >= self.in_flight.len()
            || busy.any(|(index, _)| {
                units(index).overlaps(units(partition))
                    && !(index == partition && self.is_ahead(index))
            })
        {
            return Err(Violation::PartitionBusy);
        }
        let window = infer.window;
        if window.earliest != now || window.latest < window.earliest {
            return Err(Violation::WrongWindow);
        }
        let stage = &self.config.models[infer.model.index()].stages[infer.stage.index()];
        let smallest = stage
            .times
            .iter()
            .map(|t| t.batch)
            .find(|&b| usize::from(b) >= infer.members.len());
        if infer.members.is_empty() || smallest != Some(infer.batch) {
            return Err(Violation::WrongBatch);
        }
        if !self.memory.is_present(infer.model) {
            return Err(Violation::Paging);
        }
        let (tasks, models) = (self.config.tasks.clone(), self.config.models.clone());
        let places = self.places();
        for id in &infer.members {
            let Some(open) = self.holder(id.buffer) else {
                return Err(Violation::MemberNotReady);
            };
            if open.id != Some(*id) || !open.prepared || open.running || open.gone {
                return Err(Violation::MemberNotReady);
            }
            let task = &tasks[open.task.index()];
            if !runs_as(&models, task.model, open.next_stage, infer.model)
                || !places[open.task.index()].contains(&infer.partition)
                || task.criticality != infer.criticality
                || open.next_stage != infer.stage.0
            {
                return Err(Violation::WrongStage);
            }
            if infer.batch > task.batch_max.max(1) {
                return Err(Violation::WrongBatch);
            }
            open.running = true;
        }
        let in_flight = InFlight {
            infer: infer.clone(),
            told: false,
        };
        let place = if self.in_flight[partition].is_none() {
            &mut self.in_flight[partition]
        } else {
            &mut self.ahead[partition]
        };
        *place = Some(in_flight);
        Ok(())
    }

    fn book_reply(&mut self, now: Instant, event: &Event, reply: &Reply) -> Result<(), Violation> {
        let Some(open) = self.open.remove(&key(reply.ticket)) else {
            return Err(Violation::UnknownSubmission);
        };
        if open.id != reply.request || open.origin != reply.task {
            return Err(Violation::UnknownSubmission);
        }
        if let Some(id) = open.id {
            if open.running || !open.prepared {
                return Err(Violation::BufferTouched);
            }
            self.by_buffer.remove(&id.buffer);
        }
        let superseded = reply.verdict == Verdict::Rejected(Rejection::Superseded);
        if superseded && !self.hand_over(event, &open) {
            return Err(Violation::WrongVerdict);
        }
        if !superseded && !matches!(reply.verdict, Verdict::OnTime | Verdict::Late) {
            self.refused[open.origin.index()] += 1;
        }
        self.judge(now, event, reply, &open)
    }

    fn judge(
        &mut self,
        now: Instant,
        event: &Event,
        reply: &Reply,
        open: &Open,
    ) -> Result<(), Violation> {
        let task = &self.config.tasks[open.task.index()];
        let by = now + self.config.egress_bound;
        let in_time = open.deadline.is_none_or(|deadline| by <= deadline);
        let real_time = self.real_time(open.task);
        let arriving = matches!(event, Event::Arrived(a) if key(a.ticket) == key(reply.ticket));
        let preparing =
            matches!(event, Event::Prepared { request, .. } if open.id == Some(*request));
        let answered = matches!(reply.verdict, Verdict::OnTime | Verdict::Late);
        if answered != reply.answer.is_some() || answered && reply.answer != open.answer {
            return Err(Violation::WrongAnswer);
        }
        if reply
            .answer
            .is_some_and(|(exit, _)| exit.0 < task.mandatory_exit.0)
        {
            return Err(Violation::WrongAnswer);
        }
        let fits = match reply.verdict {
            Verdict::OnTime => in_time && !open.gone,
            Verdict::Late => !in_time && !open.gone,
            Verdict::Rejected(Rejection::Draining) => self.draining && arriving,
            Verdict::Rejected(Rejection::QueueFull) => arriving,
            Verdict::Rejected(Rejection::Superseded) => open.next_stage == 0,
            Verdict::Rejected(Rejection::Shedding) => self.shedding && !real_time,
            // Nothing is promised while the weights are not there.
            Verdict::Rejected(_) => {
                let waited = self.memory.is_paged(task.model) && open.next_stage == 0;
                arriving || preparing || waited || !real_time || open.demoted
            }
            Verdict::Failed(Failure::ClientGone) => open.gone,
            Verdict::Failed(Failure::Payload) => {
                preparing && matches!(event, Event::Prepared { ok: false, .. })
            }
            Verdict::Failed(Failure::Device) => {
                let lost = self.memory.is_paged(task.model) && self.memory.has_lost(now);
                lost || matches!(event, Event::Failed { .. } | Event::Finished(_))
            }
            Verdict::Failed(Failure::Shed) => real_time && !arriving,
        };
        if !fits {
            return Err(Violation::WrongVerdict);
        }
        let missed = matches!(
            reply.verdict,
            Verdict::Late | Verdict::Failed(Failure::Shed)
        );
        if real_time && !open.demoted && missed {
            self.misses += 1;
            if self.world_keeps_bounds {
                return Err(Violation::Missed);
            }
        }
        Ok(())
    }

    /// Submissions that have no verdict yet.
    pub fn open(&self) -> usize {
        self.open.len()
    }
}
