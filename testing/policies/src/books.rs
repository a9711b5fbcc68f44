//! What every policy owes the world, booked from plan, events and decisions alone.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{
    Action, ActionId, Answer, Arrival, ClientId, Config, Contract, Criticality, Delivery, Event,
    Failure, Infer, Instant, ModelId, Partitioning, Rejection, Reply, RequestId, StageId, TaskId,
    Verdict,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// An arrival that got neither a buffer nor a verdict, or a preparation nobody asked for.
    Arrival,
    /// A request buffer that does not exist, is held by another, or a name used before.
    Buffer,
    /// A partition that is busy, or overlaps one that is.
    Partition,
    /// A member that is not there, not prepared, twice in a batch, or whose client is gone.
    Member,
    /// A model, stage or criticality that is not the member's next.
    Stage,
    /// A batch size that is not compiled, not the smallest that holds the members, or larger than
    /// a member's task allows.
    Batch,
    /// A window that begins before now or ends before it begins.
    Window,
    /// An order to stop what is not best-effort work in flight, or a second one.
    Preemption,
    /// Weights loaded beyond the pages, twice, unloaded while needed, or needed while absent.
    Weights,
    /// A verdict on something that is not open, or whose buffer is still being touched.
    Reply,
    /// A verdict or an answer that does not fit what happened.
    Verdict,
    /// A submission without a verdict at the end.
    Lost,
}

#[derive(Debug)]
struct Open {
    task: TaskId,
    client: ClientId,
    deadline: Option<Instant>,
    id: Option<RequestId>,
    prepared: bool,
    running: bool,
    gone: bool,
    next_stage: u8,
    answer: Option<(StageId, Answer)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Residence {
    Absent,
    Coming(ActionId),
    Here,
}

#[derive(Debug)]
pub struct Books {
    config: Config,
    contract: Contract,
    /// By sequence number of the ticket, which the world never uses twice.
    open: BTreeMap<u64, Open>,
    held: BTreeMap<u16, u64>,
    names: BTreeSet<(u16, u32)>,
    in_flight: Vec<Infer>,
    told: BTreeSet<u64>,
    residence: Vec<Residence>,
    actions: BTreeSet<u64>,
    draining: bool,
    shedding: bool,
    /// How many actions a partition may hold: one that runs, and the policy's look-ahead.
    pub depth: usize,
    /// Answers given, by task.
    pub answered: Vec<u64>,
}

impl Books {
    pub fn new(config: &Config, contract: Contract) -> Self {
        let at_first = |paged: bool| match paged {
            true => Residence::Absent,
            false => Residence::Here,
        };
        let models = config.models.iter();
        Self {
            residence: models.map(|m| at_first(m.weights.is_some())).collect(),
            answered: vec![0; config.tasks.len()],
            config: config.clone(),
            contract,
            open: BTreeMap::new(),
            held: BTreeMap::new(),
            names: BTreeSet::new(),
            in_flight: Vec::new(),
            told: BTreeSet::new(),
            actions: BTreeSet::new(),
            draining: false,
            shedding: false,
            depth: 1,
        }
    }

    pub fn step(&mut self, now: Instant, event: &Event, actions: &[Action]) -> Result<(), Breach> {
        self.book_event(now, event);
        let mut arrived = match event {
            Event::Arrived(arrival) => Some(arrival.ticket.sequence),
            _ => None,
        };
        for action in actions {
            match action {
                Action::Prepare {
                    request, ticket, ..
                } => {
                    if arrived.take() != Some(ticket.sequence) || self.draining {
                        return Err(Breach::Arrival);
                    }
                    self.prepare(*request, ticket.sequence)?;
                }
                Action::Infer(infer) => self.infer(now, infer)?,
                Action::Preempt { action, .. } => self.preempt(*action)?,
                Action::Load { id, model } => self.load(*id, *model)?,
                Action::Unload { model } => self.unload(*model)?,
                // Who promises nothing has nothing to take back.
                Action::Demote(_) | Action::Reinstate { .. } => return Err(Breach::Verdict),
                Action::Reply(reply) => {
                    if arrived == Some(reply.ticket.sequence) {
                        arrived = None;
                    }
                    self.reply(now, event, reply)?;
                }
            }
        }
        match arrived {
            Some(_) => Err(Breach::Arrival),
            None => Ok(()),
        }
    }

    /// After a drain, when nothing happens any more.
    pub fn end(&self) -> Result<(), Breach> {
        match self.open.is_empty() && self.held.is_empty() {
            true => Ok(()),
            false => Err(Breach::Lost),
        }
    }

    /// Submissions that have no verdict yet.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    fn book_event(&mut self, now: Instant, event: &Event) {
        match event {
            Event::Arrived(arrival) => self.arrived(now, arrival),
            Event::Prepared { request, .. } => {
                if let Some(open) = self.holder(*request) {
                    open.prepared = true;
                }
            }
            Event::Finished(finished) => {
                let members = self.land(finished.action);
                if members.len() == finished.members.len() {
                    for (id, answer) in members.iter().zip(&finished.members) {
                        let open = self.holder(*id).expect("a member is open");
                        open.answer = Some((StageId(open.next_stage), *answer));
                        open.next_stage += 1;
                    }
                }
            }
            Event::NotRun { action } | Event::Preempted { action } => drop(self.land(*action)),
            Event::Failed { action } => {
                self.land(*action);
                self.end_load(*action, Residence::Absent);
            }
            Event::Loaded { action, .. } => self.end_load(*action, Residence::Here),
            Event::ClientGone { client } => {
                for open in self.open.values_mut().filter(|o| o.client == *client) {
                    open.gone = true;
                }
            }
            Event::Tick => {}
            Event::Drain => self.draining = true,
            Event::Shed { hold } => self.shedding = *hold,
        }
    }

    fn arrived(&mut self, now: Instant, arrival: &Arrival) {
        let own = self.config.tasks[arrival.task.index()].deadline;
        let own = own.map(|d| arrival.captured.min(now) + d);
        let open = Open {
            task: arrival.task,
            client: arrival.ticket.client,
            deadline: own.into_iter().chain(arrival.deadline).min(),
            id: None,
            prepared: false,
            running: false,
            gone: false,
            next_stage: 0,
            answer: None,
        };
        self.open.insert(arrival.ticket.sequence, open);
    }

    fn holder(&mut self, id: RequestId) -> Option<&mut Open> {
        let sequence = self.held.get(&id.buffer)?;
        self.open.get_mut(sequence).filter(|o| o.id == Some(id))
    }

    fn land(&mut self, action: ActionId) -> Vec<RequestId> {
        let Some(at) = self.in_flight.iter().position(|i| i.id == action) else {
            return Vec::new();
        };
        let infer = self.in_flight.remove(at);
        for id in &infer.members {
            self.holder(*id).expect("a member is open").running = false;
        }
        infer.members.iter().copied().collect()
    }

    fn prepare(&mut self, id: RequestId, sequence: u64) -> Result<(), Breach> {
        let exists = id.buffer < self.config.request_buffers;
        let free = self.held.insert(id.buffer, sequence).is_none();
        if !exists || !free || !self.names.insert((id.buffer, id.generation)) {
            return Err(Breach::Buffer);
        }
        self.open.get_mut(&sequence).ok_or(Breach::Arrival)?.id = Some(id);
        Ok(())
    }

    fn infer(&mut self, now: Instant, infer: &Infer) -> Result<(), Breach> {
        self.claim_partition(infer)?;
        if infer.window.earliest < now || infer.window.latest < infer.window.earliest {
            return Err(Breach::Window);
        }
        if self.residence[infer.model.index()] != Residence::Here {
            return Err(Breach::Weights);
        }
        let stage = &self.config.models[infer.model.index()].stages[infer.stage.index()];
        let mut sizes = stage.times.iter().map(|t| t.batch);
        let holds = |b: u8| usize::from(b) >= infer.members.len();
        let wanted = match self.batches_keep_their_size() {
            true => sizes.find(|&b| b == infer.batch && holds(b)),
            false => sizes.find(|&b| holds(b)),
        };
        if infer.members.is_empty() || wanted != Some(infer.batch) {
            return Err(Breach::Batch);
        }
        for id in &infer.members {
            self.claim_member(*id, infer)?;
        }
        self.in_flight.push(infer.clone());
        Ok(())
    }

    /// Whether a batch may be larger than its members need, as others have left it.
    fn batches_keep_their_size(&self) -> bool {
        !self.contract.shrinks_batches
    }

    fn claim_partition(&mut self, infer: &Infer) -> Result<(), Breach> {
        let shared = self.contract.partitioning == Partitioning::PerTask;
        let plan = &self.config.partitions;
        let here = plan.get(infer.partition.index()).ok_or(Breach::Partition)?;
        let mut queued = 0;
        for other in &self.in_flight {
            if other.partition == infer.partition {
                queued += 1;
            } else if !shared && plan[other.partition.index()].units.overlaps(here.units) {
                return Err(Breach::Partition);
            }
        }
        match queued < self.depth && self.actions.insert(infer.id.0) {
            true => Ok(()),
            false => Err(Breach::Partition),
        }
    }

    fn claim_member(&mut self, id: RequestId, infer: &Infer) -> Result<(), Breach> {
        let open = self.holder(id).ok_or(Breach::Member)?;
        if !open.prepared || open.running || open.gone {
            return Err(Breach::Member);
        }
        open.running = true;
        let (next_stage, task) = (open.next_stage, open.task);
        let task = &self.config.tasks[task.index()];
        let real_time = task.criticality == Criticality::RealTime;
        let preemptible = infer.criticality == Criticality::BestEffort;
        if task.model != infer.model || next_stage != infer.stage.0 || real_time && preemptible {
            return Err(Breach::Stage);
        }
        match infer.batch <= task.batch_max.max(1) {
            true => Ok(()),
            false => Err(Breach::Batch),
        }
    }

    fn preempt(&mut self, action: ActionId) -> Result<(), Breach> {
        let running = self.in_flight.iter().find(|i| i.id == action);
        let stoppable = running.is_some_and(|i| i.criticality == Criticality::BestEffort);
        match stoppable && self.told.insert(action.0) {
            true => Ok(()),
            false => Err(Breach::Preemption),
        }
    }

    fn load(&mut self, id: ActionId, model: ModelId) -> Result<(), Breach> {
        if self.residence[model.index()] != Residence::Absent || !self.actions.insert(id.0) {
            return Err(Breach::Weights);
        }
        self.residence[model.index()] = Residence::Coming(id);
        let models = self.config.models.iter().zip(&self.residence);
        let taken = models.filter(|(_, r)| **r != Residence::Absent);
        let taken: u32 = taken.filter_map(|(m, _)| m.weights).map(|w| w.pages).sum();
        match taken <= self.config.pages {
            true => Ok(()),
            false => Err(Breach::Weights),
        }
    }

    fn end_load(&mut self, action: ActionId, then: Residence) {
        let mut models = self.residence.iter_mut();
        if let Some(residence) = models.find(|r| **r == Residence::Coming(action)) {
            *residence = then;
        }
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Breach> {
        let needed = self.in_flight.iter().any(|i| i.model == model);
        let paged = self.config.models[model.index()].weights.is_some();
        let residence = &mut self.residence[model.index()];
        if needed || !paged || *residence != Residence::Here {
            return Err(Breach::Weights);
        }
        *residence = Residence::Absent;
        Ok(())
    }

    fn reply(&mut self, now: Instant, event: &Event, reply: &Reply) -> Result<(), Breach> {
        let open = self.open.remove(&reply.ticket.sequence);
        let open = open.ok_or(Breach::Reply)?;
        if open.id != reply.request || open.task != reply.task {
            return Err(Breach::Reply);
        }
        if let Some(id) = open.id {
            self.held.remove(&id.buffer);
            if open.running || !open.prepared {
                return Err(Breach::Reply);
            }
        }
        match self.fits(now, event, reply, &open) {
            true => Ok(()),
            false => Err(Breach::Verdict),
        }
    }

    /// Whether verdict and answer fit what happened.
    fn fits(&mut self, now: Instant, event: &Event, reply: &Reply, open: &Open) -> bool {
        let task = &self.config.tasks[open.task.index()];
        let by = now + self.config.egress_bound;
        let in_time = open.deadline.is_none_or(|deadline| by <= deadline);
        let arriving = matches!(event, Event::Arrived(_)) && open.id.is_none();
        let deep_enough = open
            .answer
            .is_some_and(|(exit, _)| exit >= task.mandatory_exit);
        let answered = matches!(reply.verdict, Verdict::OnTime | Verdict::Late);
        self.answered[open.task.index()] += u64::from(answered);
        if reply.answer != open.answer.filter(|_| answered) {
            return false;
        }
        match reply.verdict {
            Verdict::OnTime => deep_enough && in_time && !open.gone,
            Verdict::Late => deep_enough && !in_time && !open.gone,
            Verdict::Rejected(Rejection::Draining) => self.draining && arriving,
            Verdict::Rejected(Rejection::QueueFull) => arriving,
            Verdict::Rejected(Rejection::Superseded) => {
                task.delivery == Delivery::LatestFrame && open.next_stage == 0 && !open.gone
            }
            Verdict::Rejected(Rejection::Shedding) => {
                self.shedding && task.criticality == Criticality::BestEffort
            }
            Verdict::Rejected(_) | Verdict::Failed(Failure::Shed) => !open.gone,
            Verdict::Failed(Failure::ClientGone) => open.gone,
            Verdict::Failed(Failure::Payload) => matches!(event, Event::Prepared { ok: false, .. }),
            Verdict::Failed(Failure::Device) => {
                matches!(event, Event::Failed { .. } | Event::Finished(_))
            }
        }
    }
}
