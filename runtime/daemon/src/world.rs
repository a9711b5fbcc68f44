//! The scheduler's world in the daemon: rings to the other threads, and the device.

mod lending;
mod outputs;
mod probes;
mod queries;
mod weights;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use punctual_core::{
    Action, ActionId, Arrival, ClientId, Criticality, Event, Infer, Instant, ModelId, PartitionId,
    Rejection, Reply, RequestId, Scheduler, TaskId, Ticket, Verdict,
};
use punctual_device::Device;
use punctual_events::RtEvent;
use punctual_executor::{Events, Step, World};
use punctual_ipc::OutputAreas;
use punctual_platform::heartbeat::Heartbeat;
use punctual_platform::poll::Waker;
use punctual_platform::stall::Attention;
use punctual_platform::{Doorbell, clock};
use punctual_recording::ring::StepSink;
use rtrb::{Consumer, Producer};

use crate::channels::{SchedulerClientEnds, SchedulerEnds};
use crate::crops::Pipeline;
use crate::drain::DrainOrder;
use crate::messages::{
    Answered, Inbound, IntakeOrder, Outbound, Payload, Prepared, Refusal, Refused,
};
use crate::metrics::{LateSpan, Metrics, Outcome, RunningStage, StageKey, count};
use crate::recorder::BoxSink;
use crate::rt_events::emit;
use crate::starved::{HELD_NS_MIN, Starvable};
use lending::MemberTasks;
pub use lending::TaskOfBuffer;
use outputs::{ClientAreas, Delivered, Places, Returned};
pub use outputs::{LentAreas, TaskOutputs};
use probes::{Probes, Work};
use queries::{News, Queries, Turns};
pub use weights::WeightTracker;

/// The scheduler thread's ends of everything.
pub struct DaemonWorld<D> {
    device: D,
    pub bell: Arc<Doorbell>,
    clients: Box<[ClientLink]>,
    /// One for each pipeline.
    turns: Box<[Turns]>,
    metrics: Arc<Metrics>,
    drain: Arc<DrainOrder>,
    /// Whether the scheduler was told to shed best-effort work.
    shedding: bool,
    /// Whether it was told to drain.
    draining: bool,
    /// Of the thread that drives this world.
    pub heart: Arc<Heartbeat>,
    /// One entry a partition: the actions the device holds, to know which one an event is about.
    held: Box<[Held]>,
    trackers: Trackers,
    /// Actions that the device refused and whose failure the scheduler does not know yet.
    refused: heapless::Vec<ActionId, REFUSED_MAX>,
    /// One entry a partition.
    starvable: Box<[Starvable]>,
    probes: Probes,
    /// None: nothing is recorded.
    recorder: Option<StepSink>,
    /// None: no boxes are recorded.
    boxes: Option<BoxSink>,
    start: Start,
    /// Woken when a task has become ready.
    housekeeping: Option<Waker>,
    /// The task whose conduct is copied next.
    conduct_from: usize,
}

/// What the scheduler knows of its devices' start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Nothing yet.
    Unheard,
    /// It is being told what they have.
    Heard,
    /// All that they had said when they were polled first.
    Known,
}

/// What buffers, areas, weights and models are used for.
pub struct Trackers {
    pub weights: WeightTracker,
    /// By model: the tasks that run its stages.
    pub running: Box<[Box<[TaskId]>]>,
    pub outputs: LentAreas,
    /// None without places.
    pub tasks: Option<TaskOfBuffer>,
}

/// Room for refused actions: a step orders at most one action a partition and one load, and they
/// are told at the next wait. The plan has at most 32 partitions.
const REFUSED_MAX: usize = 64;

/// What the scheduler's thread has to do with one client slot.
struct ClientLink {
    inbound: Consumer<Inbound>,
    outbound: Producer<Outbound>,
    port: Waker,
    orders: Producer<IntakeOrder>,
    prepared: Consumer<Prepared>,
    intake_bell: Arc<Doorbell>,
    /// Where the payload of each of its slots' present submission lies.
    payloads: Box<[Payload]>,
    /// Where the outputs of its answers go; none if it gets none.
    areas: Option<ClientAreas>,
    places: Places,
    /// Of its frames, if tasks after the one that it submits to look at crops of them.
    queries: Option<Queries>,
    /// Which of the pipelines' turns its frames have.
    turns: usize,
    newcomers: Consumer<OutputAreas>,
    areas_returned: Producer<OutputAreas>,
    /// Submissions without a verdict.
    open: u32,
    /// The client closed its connection; when nothing is open any more its parts are handed back.
    gone: bool,
}

impl ClientLink {
    fn new(ends: SchedulerClientEnds) -> Self {
        Self {
            inbound: ends.inbound,
            outbound: ends.outbound,
            port: ends.port,
            orders: ends.orders,
            prepared: ends.prepared,
            intake_bell: ends.intake_bell,
            payloads: vec![Payload::default(); usize::from(ends.slots)].into(),
            areas: None,
            places: Places::new(ends.slots, ends.parts),
            queries: None,
            turns: 0,
            newcomers: ends.areas,
            areas_returned: ends.areas_returned,
            open: 0,
            gone: false,
        }
    }

    /// Takes over the areas of a client that came since. Housekeeping hands them over before the port gets the client.
    fn welcome(&mut self) {
        if self.areas.is_none()
            && let Ok(areas) = self.newcomers.pop()
        {
            self.areas = Some(self.places.take(areas));
        }
    }

    /// Whether nothing touches the parts of its client any more.
    fn is_done(&self) -> bool {
        let areas = self.areas.as_ref();
        self.open == 0 && areas.is_none_or(|areas| areas.areas.are_all_back())
    }
}

/// The actions in a device's hands on one partition; it holds at most two.
#[derive(Clone, Debug, Default)]
struct Held {
    actions: [Option<HeldAction>; 2],
}

#[derive(Clone, Debug)]
struct HeldAction {
    id: ActionId,
    ordered_ns: u64,
    key: StageKey,
    criticality: Criticality,
    /// Of its members; empty without places.
    tasks: MemberTasks,
}

impl Held {
    fn add(&mut self, action: HeldAction) {
        if let Some(place) = self.actions.iter_mut().find(|place| place.is_none()) {
            *place = Some(action);
        }
    }

    fn is_empty(&self) -> bool {
        self.actions.iter().all(Option::is_none)
    }

    fn oldest(&self) -> Option<&HeldAction> {
        let held = self.actions.iter().flatten();
        held.min_by_key(|action| action.ordered_ns)
    }

    /// Whether one was ordered before this.
    fn has_from_before(&self, ns: u64) -> bool {
        let mut held = self.actions.iter().flatten();
        held.any(|action| action.ordered_ns < ns)
    }

    /// The action `id` if it was here; it no longer is.
    fn take(&mut self, id: ActionId) -> Option<HeldAction> {
        let mut places = self.actions.iter_mut();
        places.find_map(|place| place.take_if(|held| held.id == id))
    }
}

impl<D: Device> World for DaemonWorld<D> {
    fn now(&self) -> Instant {
        Instant::from_nanos(clock::now_ns())
    }

    fn wait(&mut self, until: Option<Instant>, events: &mut Events) {
        // The count is read before the rings, so that a ring in between is not missed.
        let seen = self.bell.count();
        self.heart.working();
        self.begin();
        let room = events.room();
        self.collect(events);
        if events.room() < room {
            return;
        }
        self.begin();
        let until = until.map(Instant::as_nanos);
        let bound = self.drain.bound_ns();
        let until = until.into_iter().chain(bound).min();
        let look = self.probes.watch(self.work(), clock::now_ns());
        let until = until.into_iter().chain(look).min();
        self.heart.waiting();
        self.bell.wait(seen, until);
        self.heart.working();
        self.probes.woke(clock::now_ns());
        self.collect(events);
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Prepare {
                request,
                task,
                ticket,
            } => {
                self.trackers.weights.asked(*task, &self.metrics.paging);
                if let Some(tasks) = &mut self.trackers.tasks {
                    tasks.set(*request, *task);
                }
                self.prepare(*request, *task, *ticket);
            }
            Action::Infer(infer) => self.infer(infer),
            Action::Preempt { partition, action } => self.device.preempt(*partition, *action),
            Action::Deliver(reply) => self.deliver(reply),
            Action::Reply(reply) => self.reply(reply),
            Action::Load { id, model } => self.load(*id, *model),
            Action::Unload { model } => self.unload(*model),
            Action::Demote(demotion) => emit((*demotion).into()),
            Action::Reinstate { partition, model } => emit(RtEvent::Reinstated {
                partition: *partition,
                model: *model,
            }),
        }
    }

    fn stepped(&mut self, scheduler: &Scheduler, step: &Step<'_>) {
        self.metrics.decisions.record(step.took.as_nanos());
        if let Some(recorder) = &mut self.recorder {
            recorder.write(step.now, step.took, step.event, step.actions, scheduler);
        }
        if let Event::Readiness(said) = step.event {
            // Only these: there may be thousands, and a start says something of each model.
            let tasks = self.trackers.running[said.model.index()].iter().copied();
            self.metrics.copy_readiness(scheduler, tasks.clone());
            self.tell_readiness(tasks);
        }
        // Nothing else reports overruns.
        if matches!(step.event, Event::Finished(_)) {
            self.conduct_from = self.metrics.copy_conduct(scheduler, self.conduct_from);
        }
    }

    fn ended(&self) -> bool {
        self.drain
            .bound_ns()
            .is_some_and(|bound| clock::now_ns() >= bound)
    }
}

impl<D: Device> DaemonWorld<D> {
    /// The world at the ready signal: no client is connected, nothing runs.
    pub fn new(
        ends: SchedulerEnds,
        device: D,
        partitions: usize,
        trackers: Trackers,
        metrics: Arc<Metrics>,
        drain: Arc<DrainOrder>,
    ) -> Self {
        Self {
            device,
            bell: ends.bell,
            clients: ends.clients.into_iter().map(ClientLink::new).collect(),
            turns: Box::default(),
            metrics,
            drain,
            shedding: false,
            draining: false,
            heart: Arc::default(),
            trackers,
            held: vec![Held::default(); partitions].into(),
            refused: heapless::Vec::new(),
            starvable: (0..partitions).map(|_| Starvable::default()).collect(),
            probes: Probes::default(),
            recorder: None,
            boxes: None,
            start: Start::Unheard,
            housekeeping: None,
            conduct_from: 0,
        }
    }

    /// With the pipelines of the clients' frames, by client; at the start, before there are clients.
    pub fn of_pipelines(mut self, pipelines: Vec<Option<Pipeline>>) -> Self {
        let mut firsts: Vec<(TaskId, usize)> = Vec::new();
        for (client, pipeline) in self.clients.iter_mut().zip(pipelines) {
            let slots = client.payloads.len();
            let Some(pipeline) = pipeline else {
                continue;
            };
            let first = pipeline.first;
            let known = firsts.iter().position(|(task, _)| *task == first);
            client.turns = known.unwrap_or(firsts.len());
            match known {
                Some(at) => firsts[at].1 += slots,
                None => firsts.push((first, slots)),
            }
            client.queries = Some(Queries::new(pipeline, slots as u16));
        }
        let turns = firsts.into_iter();
        self.turns = turns
            .map(|(_, slots)| Turns::with_capacity(slots))
            .collect();
        self
    }

    /// With what can be seen of the partitions' cores, by probes that pay this attention.
    pub fn on_partitions(self, starvable: Box<[Starvable]>, attention: Arc<Attention>) -> Self {
        assert_eq!(starvable.len(), self.held.len(), "one entry a partition");
        Self {
            starvable,
            probes: Probes::paying(attention),
            ..self
        }
    }

    /// Wakes this thread when a task has become ready.
    pub fn telling(self, housekeeping: Waker) -> Self {
        Self {
            housekeeping: Some(housekeeping),
            ..self
        }
    }

    /// What the scheduler takes for granted before its devices have said anything.
    pub fn assume(&self, scheduler: &Scheduler) {
        self.metrics
            .copy_readiness(scheduler, self.metrics.task_ids());
    }

    pub fn recorded_by(self, recorder: Option<StepSink>, boxes: Option<BoxSink>) -> Self {
        Self {
            recorder,
            boxes,
            ..self
        }
    }

    /// Once the scheduler was told all that its devices had said: from here on, what is told of tasks is true.
    fn begin(&mut self) {
        if self.start == Start::Heard {
            self.start = Start::Known;
            self.tell_readiness(self.metrics.task_ids());
        }
    }

    fn tell_readiness(&self, tasks: impl Iterator<Item = TaskId>) {
        if self.start == Start::Known
            && self.metrics.note_readiness(clock::now_ns(), tasks)
            && let Some(housekeeping) = &self.housekeeping
        {
            housekeeping.wake();
        }
    }

    fn work(&self) -> Work {
        if self.held.iter().any(|held| !held.is_empty()) {
            Work::Runs
        } else if self.clients.iter().any(|client| client.open > 0) {
            Work::Waits
        } else {
            Work::None
        }
    }

    /// Which partitions the machine stopped to run, or runs again.
    fn tell_starvation(&mut self, events: &mut Events) {
        let now_ns = clock::now_ns();
        let before_ns = now_ns.saturating_sub(HELD_NS_MIN);
        let partitions = self.starvable.iter_mut().zip(&self.held);
        for (id, (partition, held)) in (0..).map(PartitionId).zip(partitions) {
            if events.room() == 0 {
                return;
            }
            let leader_starves = self.drain.starved.contains(id);
            let is_held = held.has_from_before(before_ns);
            if let Some(starved) = partition.news(is_held, leader_starves, now_ns) {
                events.push(Event::Starved {
                    partition: id,
                    starved,
                });
            }
        }
    }

    /// Takes out of the rings what fits: first events that free capacity, then arrivals, which need it.
    fn collect(&mut self, events: &mut Events) {
        let hold = self.drain.shed.holds();
        if hold != self.shedding && events.room() > 0 {
            self.shedding = hold;
            events.push(Event::Shed { hold });
        }
        if !self.draining && self.drain.bound_ns().is_some() && events.room() > 0 {
            self.draining = true;
            events.push(Event::Drain);
        }
        // Before the tick that may find an action lost.
        self.tell_starvation(events);
        while events.room() > 0
            && let Some(action) = self.refused.pop()
        {
            events.push(Event::Failed { action });
        }
        while events.room() > 0 {
            let Some(event) = self.device.poll() else {
                if self.start == Start::Unheard {
                    self.start = Start::Heard;
                }
                break;
            };
            self.count_device_event(&event);
            events.push(event);
        }
        for client in &mut self.clients {
            while events.room() > 0
                && let Ok(prepared) = client.prepared.pop()
            {
                events.push(Event::Prepared {
                    request: prepared.request,
                    measured: prepared.measured,
                    ready: prepared.ready,
                });
            }
        }
        // Before arrivals, which need them: stages and preparations of requests that are over may have ended.
        self.take_areas_back();
        for pipeline in 0..self.turns.len() {
            while events.room() > 0
                && let Some(event) = self.news_of_parts(pipeline)
            {
                events.push(event);
            }
        }
        for client in 0..self.clients.len() {
            while events.room() > 0
                && let Ok(inbound) = self.clients[client].inbound.pop()
            {
                let client = ClientId(client as u16);
                if let Some(event) = self.learn(client, inbound) {
                    events.push(event);
                }
            }
        }
    }

    /// After the drain: what ports took before they saw the order.
    pub fn refuse_the_rest(&mut self) {
        for pipeline in 0..self.turns.len() {
            while let Some(turn) = self.turns[pipeline].pop() {
                if let Some(queries) = &mut self.clients[turn.client.index()].queries {
                    queries.give_up(turn.slot);
                }
                self.end_if_over(turn.client, turn.slot);
            }
        }
        for client in 0..self.clients.len() {
            while let Ok(inbound) = self.clients[client].inbound.pop() {
                match inbound {
                    Inbound::Arrived { arrival, .. } => {
                        self.metrics.submitted(arrival.task, arrival.ticket.client);
                        self.refuse(&arrival, Refused::Draining);
                    }
                    Inbound::Gone => {
                        self.clients[client].gone = true;
                        self.retire_if_done(ClientId(client as u16));
                    }
                }
            }
        }
    }

    fn take_areas_back(&mut self) {
        while let Some(returned) = self.trackers.outputs.returned() {
            let Returned {
                ticket,
                area,
                memory,
            } = returned;
            let client = &mut self.clients[ticket.client.index()];
            if ticket.part == 0
                && let Some(queries) = &mut client.queries
            {
                let payload = client.payloads[usize::from(ticket.slot)];
                let area = Some(memory.as_slice());
                queries.look(ticket, &payload, area, |task| {
                    self.metrics.part_left_out(task)
                });
            }
            if let Some(areas) = &mut client.areas {
                areas.areas.put_back(area, memory);
            }
            self.retire_if_done(ticket.client);
        }
    }

    /// What the scheduler is to know next of crops of a pipeline's frames.
    fn news_of_parts(&mut self, pipeline: usize) -> Option<Event> {
        let now = Instant::from_nanos(clock::now_ns());
        loop {
            let clients = &self.clients;
            let turn = self.turns[pipeline].next(now, |turn| {
                let queries = clients[turn.client.index()].queries.as_ref();
                queries.is_some_and(|queries| queries.is_known(turn.slot))
            })?;
            let link = &mut self.clients[turn.client.index()];
            match link.queries.as_mut()?.news(turn.slot, link.gone) {
                News::Burst(event) => return Some(event),
                News::Part(arrival) => {
                    self.metrics.part_found(arrival.task);
                    let has_outputs = self.trackers.outputs.has_outputs(arrival.task);
                    if let Some(areas) = link.areas.as_mut().filter(|_| has_outputs)
                        && !areas.reserve(&arrival.ticket)
                    {
                        self.refuse_part(&arrival, Refused::NoArea);
                        continue;
                    }
                    return Some(Event::Arrived(arrival));
                }
                News::Told => {
                    self.turns[pipeline].remove(turn.client, turn.slot);
                    self.end_if_over(turn.client, turn.slot);
                }
            }
        }
    }

    fn refuse_part(&mut self, arrival: &Arrival, reason: Refused) {
        let ticket = &arrival.ticket;
        self.metrics.part_refused(arrival.task, reason);
        self.refused(arrival, reason);
        let rejected = Verdict::Rejected(Rejection::QueueFull);
        self.part_over(ticket, rejected);
    }

    /// A part of a frame has its verdict: perhaps all of the frame has.
    fn part_over(&mut self, ticket: &Ticket, verdict: Verdict) {
        let client = &mut self.clients[ticket.client.index()];
        if let Some(queries) = &mut client.queries {
            queries.part_over(ticket, verdict);
        }
        self.end_if_over(ticket.client, ticket.slot);
    }

    /// What the scheduler is to know of it; none of a submission that is refused here.
    fn learn(&mut self, client: ClientId, inbound: Inbound) -> Option<Event> {
        Some(match inbound {
            Inbound::Arrived { arrival, payload } => {
                self.metrics.submitted(arrival.task, arrival.ticket.client);
                let client = &mut self.clients[client.index()];
                client.welcome();
                if let Some(areas) = &mut client.areas
                    && !areas.reserve(&arrival.ticket)
                {
                    self.refuse(&arrival, Refused::NoArea);
                    return None;
                }
                client.payloads[usize::from(payload.slot)] = payload;
                client.open += 1;
                let Some(queries) = &mut client.queries else {
                    return Some(Event::Arrived(arrival));
                };
                let (first, turn) = queries.begin(arrival);
                self.turns[client.turns].push(turn);
                Event::Arrived(first)
            }
            Inbound::Gone => {
                self.clients[client.index()].gone = true;
                self.retire_if_done(client);
                Event::ClientGone { client }
            }
        })
    }

    fn refuse(&mut self, arrival: &Arrival, reason: Refused) {
        let client = arrival.ticket.client;
        if self.metrics.refused(arrival.task, client, reason) {
            tell_first(&arrival.ticket, reason.into());
        }
        self.refused(arrival, reason);
    }

    /// Tells the client of a submission, or a crop of one, that the policy never sees.
    fn refused(&mut self, arrival: &Arrival, reason: Refused) {
        let queries = &self.clients[arrival.ticket.client.index()].queries;
        let part = queries.as_ref().and_then(|it| it.part(&arrival.ticket));
        let refusal = Refusal {
            task: arrival.task,
            ticket: arrival.ticket,
            reason,
            part,
            captured_ns: arrival.captured.as_nanos(),
            deadline_ns: arrival.deadline.map_or(0, Instant::as_nanos),
        };
        self.send(arrival.ticket.client, Outbound::Refused(refusal));
    }

    fn prepare(&mut self, request: RequestId, task: TaskId, ticket: Ticket) {
        let client = &mut self.clients[ticket.client.index()];
        let payload = client.payloads[usize::from(ticket.slot)];
        let queries = client.queries.as_ref();
        let payload = queries.map_or(payload, |it| it.payload(&ticket, task, payload));
        if task != payload.task {
            count(&self.metrics.task(payload.task).offloaded);
        }
        if let Some(areas) = &mut client.areas {
            self.trackers.outputs.lend(request, task, &ticket, areas);
        }
        let order = IntakeOrder::Prepare {
            request,
            task,
            payload,
        };
        client
            .orders
            .push(order)
            .expect("an intake's ring holds one order for each of its client's slots");
        client.intake_bell.ring();
    }

    fn infer(&mut self, infer: &Infer) {
        match self.device.submit(infer) {
            Ok(()) => {
                let metrics = &self.metrics.partitions[infer.partition.index()];
                count(&metrics.actions);
                metrics
                    .members
                    .fetch_add(infer.members.len() as u64, Relaxed);
                let tasks = self
                    .trackers
                    .tasks
                    .as_ref()
                    .map(|tasks| tasks.members(infer));
                self.held[infer.partition.index()].add(HeldAction {
                    id: infer.id,
                    ordered_ns: clock::now_ns(),
                    key: StageKey::of(infer),
                    criticality: infer.criticality,
                    tasks: tasks.unwrap_or_default(),
                });
                self.tell_running(infer.partition);
            }
            Err(_) => {
                // The scheduler and the device disagree about the plan: a defect of ours, but no
                // reason to take the other partitions down.
                emit(RtEvent::ActionRefused {
                    action: infer.id,
                    partition: infer.partition,
                });
                self.refused
                    .push(infer.id)
                    .expect("at most one refused action a partition between two waits");
                self.bell.ring();
            }
        }
    }

    /// What the partition runs: the older of the actions that it holds.
    fn tell_running(&self, partition: PartitionId) {
        let held = &self.held[partition.index()];
        let running = held.oldest().map(|action| RunningStage {
            model: action.key.model,
            stage: action.key.stage,
            batch: action.key.batch,
            criticality: action.criticality,
        });
        self.metrics.partitions[partition.index()]
            .running
            .is(running);
    }

    fn load(&mut self, action: ActionId, model: ModelId) {
        match self.device.load(action, model) {
            Ok(()) => self.trackers.weights.coming(action, model),
            Err(_) => {
                emit(RtEvent::WeightsRefused { model });
                self.refused
                    .push(action)
                    .expect("at most one refused load between two waits");
                self.bell.ring();
            }
        }
    }

    fn unload(&mut self, model: ModelId) {
        match self.device.unload(model) {
            Ok(()) => {
                self.trackers.weights.gone(model, &self.metrics.paging);
                emit(RtEvent::WeightsEvicted { model });
            }
            // The next load finds no room then, and fails.
            Err(_) => emit(RtEvent::WeightsRefused { model }),
        }
    }

    /// An answer before the verdict.
    fn deliver(&mut self, reply: &Reply) {
        let client = &mut self.clients[reply.ticket.client.index()];
        if client.gone {
            return;
        }
        let areas = client.areas.as_mut();
        let delivered = areas.and_then(|areas| self.trackers.outputs.hand_over(reply, areas));
        let answer = answered(reply, delivered);
        self.send(reply.ticket.client, Outbound::Answer(answer));
    }

    fn reply(&mut self, reply: &Reply) {
        let answered = self.answered(reply);
        if self.clients[reply.ticket.client.index()].queries.is_some() {
            return self.reply_of_query(answered);
        }
        self.conclude(answered, Outbound::Verdict);
    }

    /// A request of a frame that several tasks look at has its verdict.
    fn reply_of_query(&mut self, answered: Answered) {
        let ticket = answered.reply.ticket;
        let client = &mut self.clients[ticket.client.index()];
        let Some(queries) = &mut client.queries else {
            return;
        };
        if ticket.part > 0 {
            let part = queries.part(&ticket);
            self.metrics.part_concluded(&answered);
            self.send_part(Answered { part, ..answered });
            self.take_areas_back();
            return self.part_over(&ticket, answered.reply.verdict);
        }
        let answered = queries.answered(answered);
        let payload = client.payloads[usize::from(ticket.slot)];
        if answered.outputs.is_none() || client.gone {
            // No area with boxes comes back: without this the frame would wait for it.
            queries.look(ticket, &payload, None, |_| ());
        }
        if answered.reply.answer.is_some() {
            self.send_part(answered);
        }
        // With the area come the boxes, most often at once.
        self.take_areas_back();
    }

    fn send_part(&mut self, answered: Answered) {
        let client = answered.reply.ticket.client;
        if !self.clients[client.index()].gone {
            self.send(client, Outbound::Part(answered));
        }
    }

    /// The verdict on a frame whose parts all have theirs.
    fn end_if_over(&mut self, client: ClientId, slot: u16) {
        let link = &mut self.clients[client.index()];
        let queries = link.queries.as_mut();
        let queries = queries.filter(|queries| queries.is_over(slot));
        if let Some(whole) = queries.and_then(|it| it.conclude(slot, clock::now_ns())) {
            // Its last part may be over before it was looked for another.
            self.turns[link.turns].remove(client, slot);
            self.conclude(whole, Outbound::Whole);
        }
    }

    /// The verdict on a submission.
    fn conclude(&mut self, answered: Answered, outbound: fn(Answered) -> Outbound) {
        let reply = &answered.reply;
        if self.metrics.concluded(&answered) {
            tell_first(&reply.ticket, reply.verdict.into());
        }
        if reply.verdict == Verdict::Late {
            self.metrics.late.record(LateSpan {
                task: reply.task,
                start_ns: reply.captured.as_nanos(),
                end_ns: clock::now_ns(),
            });
        }
        let client = &mut self.clients[reply.ticket.client.index()];
        client.open = client
            .open
            .checked_sub(1)
            .expect("a verdict without a submission");
        let gone = client.gone;
        // Most often nothing runs for the request any more.
        self.take_areas_back();
        if gone {
            self.retire_if_done(reply.ticket.client);
            return;
        }
        self.send(reply.ticket.client, outbound(answered));
    }

    /// The verdict with the outputs that belong to it.
    fn answered(&mut self, reply: &Reply) -> Answered {
        let client = &mut self.clients[reply.ticket.client.index()];
        let areas = client.areas.as_mut();
        let delivered =
            areas.and_then(|areas| self.trackers.outputs.conclude(reply, client.gone, areas));
        if let (Some(boxes), Some(_)) = (&mut self.boxes, delivered) {
            let payload = client.payloads[usize::from(reply.ticket.slot)];
            let outputs = &self.trackers.outputs;
            outputs.look(reply, |area| boxes.write(reply, &payload, area));
        }
        answered(reply, delivered)
    }

    /// Hands a gone client's pieces back once nothing touches them any more.
    fn retire_if_done(&mut self, client: ClientId) {
        let link = &mut self.clients[client.index()];
        if !link.gone || !link.is_done() {
            return;
        }
        link.gone = false;
        // One that is gone before its first submission has its areas still in the ring. Its port, which is told below, wakes
        // housekeeping.
        link.welcome();
        if let Some(areas) = link.areas.take() {
            let areas = link.places.clear(areas);
            let pushed = link.areas_returned.push(areas);
            assert!(
                pushed.is_ok(),
                "housekeeping takes areas back before it gives others"
            );
        }
        link.orders
            .push(IntakeOrder::Retire)
            .expect("an intake's ring holds one Retire beside its orders");
        link.intake_bell.ring();
        self.send(client, Outbound::Retire);
    }

    fn send(&mut self, client: ClientId, outbound: Outbound) {
        let client = &mut self.clients[client.index()];
        client
            .outbound
            .push(outbound)
            .expect("a port's ring holds all records of each unread submission, and a Retire");
        client.port.wake();
    }

    fn count_device_event(&mut self, event: &Event) {
        let load = match event {
            Event::Loaded { action, measured } => Some((*action, Some(*measured))),
            Event::Failed { action } => Some((*action, None)),
            _ => None,
        };
        if let Some((action, measured)) = load
            && let Some(model) = self
                .trackers
                .weights
                .over(action, measured, &self.metrics.paging)
        {
            match measured {
                Some(took) => emit(RtEvent::WeightsLoaded {
                    model,
                    took_us: took.as_nanos() / 1_000,
                }),
                None => emit(RtEvent::LoadFailed { model, action }),
            }
            return;
        }
        let (Event::Failed { action }
        | Event::NotRun { action }
        | Event::Preempted { action }
        | Event::Finished(punctual_core::Finished { action, .. })) = event
        else {
            return;
        };
        let mut held = self.held.iter_mut().enumerate();
        let Some((partition, held)) = held.find_map(|(at, held)| Some((at, held.take(*action)?)))
        else {
            return;
        };
        let metrics = &self.metrics.partitions[partition];
        let partition = PartitionId(partition as u16);
        self.tell_running(partition);
        match event {
            Event::Finished(finished) => {
                count(&metrics.finished);
                metrics
                    .busy_ns
                    .fetch_add(finished.measured.as_nanos(), Relaxed);
                if held.criticality == Criticality::BestEffort {
                    metrics
                        .best_effort_ns
                        .fetch_add(finished.measured.as_nanos(), Relaxed);
                }
                self.metrics.stages.finished(&held.key, finished.measured);
                if let Some(lending) = &self.metrics.lending {
                    lending.finished(partition, &held.tasks, finished.measured);
                }
            }
            Event::NotRun { .. } => count(&metrics.not_run),
            Event::Preempted { .. } => count(&metrics.preempted),
            _ => {
                count(&metrics.failed);
                emit(RtEvent::ActionFailed {
                    action: *action,
                    partition,
                });
            }
        }
    }
}

/// Says why the first frame of its client that ended so has no answer. Housekeeping counts the others.
pub fn tell_first(ticket: &Ticket, outcome: Outcome) {
    if let Some(reason) = outcome.reason() {
        emit(RtEvent::FrameUnanswered {
            client: ticket.client,
            sequence: ticket.sequence,
            reason,
        });
    }
}

fn answered(reply: &Reply, delivered: Option<Delivered>) -> Answered {
    Answered {
        reply: *reply,
        decided_ns: clock::now_ns(),
        outputs: delivered.map(|delivered| delivered.handed),
        not_finite: delivered.is_some_and(|delivered| delivered.not_finite),
        part: None,
        left_out: 0,
    }
}

#[cfg(test)]
mod tests;
