//! Requests at planned times, served in this process: the production loop and scheduler on the CPU device,
//! without clients. What is late to come is never waited for: the next request comes when it was planned.

use std::collections::VecDeque;
use std::sync::Arc;

use hdrhistogram::Histogram;
use punctual_core::{
    Action, ActionId, Arrival, ClientId, Config, Event, Failure, Infer, Instant, ModelId, Nanos,
    Reply, RequestId, TaskId, Ticket, Verdict,
};
use punctual_device::{Device, HostedDevice, InputBuffers};
use punctual_device_cpu::CpuDevice;
use punctual_executor::{Events, World};
use punctual_platform::{Doorbell, clock};

/// When a request comes, and which task's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// After the start.
    pub after: Nanos,
    pub task: TaskId,
}

#[derive(Debug)]
pub struct Tally {
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    pub rejected: u64,
    pub failed: u64,
    /// Requests that found the weights of their model when they came.
    pub hits: u64,
    /// Requests that did not.
    pub misses: u64,
    /// Models whose pages were freed for others.
    pub evictions: u64,
    /// From the planned time to the answer, in nanoseconds; answered requests only.
    pub latency: Histogram<u64>,
    /// How long loads took, in nanoseconds.
    pub loads: Histogram<u64>,
    /// How many stages ran, and for how many requests.
    pub actions: u64,
    pub members: u64,
}

impl Tally {
    fn new() -> Self {
        Self {
            submitted: 0,
            on_time: 0,
            late: 0,
            rejected: 0,
            failed: 0,
            hits: 0,
            misses: 0,
            evictions: 0,
            latency: histogram(),
            loads: histogram(),
            actions: 0,
            members: 0,
        }
    }

    /// Requests without a verdict: must be 0.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.submitted - self.on_time - self.late - self.rejected - self.failed
    }
}

/// Nanoseconds, up to an hour, to a thousandth.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that a histogram can have")
}

pub struct OpenLoop<'a> {
    device: CpuDevice,
    inputs: InputBuffers,
    bell: Arc<Doorbell>,
    started: Instant,
    coming: std::slice::Iter<'a, Planned>,
    model_of_task: Vec<ModelId>,
    /// What every request shows, by model: `[channel][row][column]`.
    pictures: &'a [Vec<f32>],
    /// By model: resident, on its way, or paged and away.
    places: Vec<Place>,
    ready: VecDeque<Event>,
    drain_sent: bool,
    /// The outcomes of the requests so far.
    pub tally: Tally,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Pinned,
    Absent,
    Coming(ActionId),
    Here,
}

impl<'a> OpenLoop<'a> {
    /// A world that begins now. `pictures` are by model of `config`.
    pub fn new(
        config: &Config,
        device: CpuDevice,
        bell: Arc<Doorbell>,
        pictures: &'a [Vec<f32>],
        coming: &'a [Planned],
    ) -> Self {
        let paged =
            |model: &punctual_core::ModelConfig| config.pages > 0 && model.weights.is_some();
        let place = |model| {
            if paged(model) {
                Place::Absent
            } else {
                Place::Pinned
            }
        };
        Self {
            inputs: device.shell().input_buffers(),
            device,
            bell,
            started: Instant::from_nanos(clock::now_ns()),
            coming: coming.iter(),
            model_of_task: config.tasks.iter().map(|task| task.model).collect(),
            pictures,
            places: config.models.iter().map(place).collect(),
            ready: VecDeque::new(),
            drain_sent: false,
            tally: Tally::new(),
        }
    }

    /// The device, when all is over.
    pub fn into_parts(self) -> (CpuDevice, Tally) {
        (self.device, self.tally)
    }

    fn next_arrival(&self) -> Option<Instant> {
        let next = self.coming.as_slice().first()?;
        Some(self.started + next.after)
    }

    fn collect(&mut self, events: &mut Events) {
        while events.room() > 0
            && let Some(event) = self.ready.pop_front()
        {
            events.push(event);
        }
        while events.room() > 0
            && let Some(event) = self.device.poll()
        {
            self.record(&event);
            events.push(event);
        }
        while events.room() > 0 && self.next_arrival().is_some_and(|at| at <= self.now()) {
            let planned = self.coming.next().expect("it was there");
            let ticket = Ticket {
                client: ClientId(0),
                slot: 0,
                sequence: self.tally.submitted,
            };
            self.tally.submitted += 1;
            events.push(Event::Arrived(Arrival {
                task: planned.task,
                ticket,
                captured: self.started + planned.after,
                deadline: None,
                egress: Nanos::ZERO,
            }));
        }
        if events.is_empty() && !self.drain_sent && self.next_arrival().is_none() {
            self.drain_sent = true;
            events.push(Event::Drain);
        }
    }

    fn record(&mut self, event: &Event) {
        let (action, place) = match event {
            Event::Loaded { action, measured } => {
                self.tally.loads.saturating_record(measured.as_nanos());
                (*action, Place::Here)
            }
            Event::Failed { action } => (*action, Place::Absent),
            _ => return,
        };
        let coming = |place: &&mut Place| **place == Place::Coming(action);
        if let Some(of) = self.places.iter_mut().find(coming) {
            *of = place;
        }
    }

    fn prepare(&mut self, request: RequestId, task: TaskId) {
        let model = self.model_of_task[task.index()];
        match self.places[model.index()] {
            Place::Pinned | Place::Here => self.tally.hits += 1,
            Place::Absent | Place::Coming(_) => self.tally.misses += 1,
        }
        let began = self.now();
        let claim = self.inputs.claim(request.buffer, model);
        let ready = claim
            .map(|mut input| input.write_planar(&self.pictures[model.index()]))
            .map_err(|_| Failure::Payload);
        let measured = self.now().since(began);
        self.ready.push_back(Event::Prepared {
            request,
            measured,
            ready,
        });
    }

    fn infer(&mut self, infer: &Infer) {
        self.tally.actions += 1;
        self.tally.members += infer.members.len() as u64;
        if self.device.submit(infer).is_err() {
            self.ready.push_back(Event::Failed { action: infer.id });
        }
    }

    fn load(&mut self, action: ActionId, model: ModelId) {
        if self.device.load(action, model).is_ok() {
            self.places[model.index()] = Place::Coming(action);
        } else {
            self.ready.push_back(Event::Failed { action });
        }
    }

    fn reply(&mut self, reply: &Reply) {
        match reply.verdict {
            Verdict::OnTime => self.tally.on_time += 1,
            Verdict::Late => self.tally.late += 1,
            Verdict::Rejected(_) => self.tally.rejected += 1,
            Verdict::Failed(_) => self.tally.failed += 1,
        }
        if reply.answer.is_some() {
            let took = self.now().since(reply.captured);
            self.tally.latency.saturating_record(took.as_nanos());
        }
    }
}

impl World for OpenLoop<'_> {
    fn now(&self) -> Instant {
        Instant::from_nanos(clock::now_ns())
    }

    fn wait(&mut self, until: Option<Instant>, events: &mut Events) {
        let seen = self.bell.count();
        self.collect(events);
        if !events.is_empty() {
            return;
        }
        let next = until.into_iter().chain(self.next_arrival()).min();
        self.bell.wait(seen, next.map(Instant::as_nanos));
        self.collect(events);
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Prepare { request, task, .. } => self.prepare(*request, *task),
            Action::Infer(infer) => self.infer(infer),
            Action::Preempt { partition, action } => self.device.preempt(*partition, *action),
            Action::Load { id, model } => self.load(*id, *model),
            Action::Unload { model } => {
                if self.device.unload(*model).is_ok() {
                    self.places[model.index()] = Place::Absent;
                    self.tally.evictions += 1;
                }
            }
            Action::Demote(_) | Action::Reinstate { .. } | Action::Deliver(_) => {}
            Action::Reply(reply) => self.reply(reply),
        }
    }
}
