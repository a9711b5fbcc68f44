//! What became of each frame of a recording.

use std::collections::BTreeMap;

use punctual_core::{
    Action, Answer, Arrival, ClientId, Config, Event, Finished, Infer, Instant, ModelId, Nanos,
    Readiness, Reply, RequestId, StageId, Ticket,
};
use punctual_recording::{End, Entry, Step};
use punctual_simulator::arrivals::Preparation;
use punctual_simulator::recorded::{Measurements, Ran, StageRun};

use super::{Error, Opened};

/// Most frames that are played: each takes some hundred bytes.
const FRAMES_MAX: usize = 4_000_000;

/// The frames of a recording, and how long everything took.
#[derive(Debug, Default)]
pub struct Log {
    /// Those with a verdict, by rising time of submission.
    pub frames: Vec<Frame>,
    pub times: BTreeMap<StageRun, Measurements>,
    pub transfers: BTreeMap<ModelId, Vec<Nanos>>,
    /// Clients that disconnected, by the numbers of [`Frame::client`].
    pub gone: Vec<(Instant, ClientId)>,
    /// When best-effort work was shed.
    pub holds: Vec<(Instant, Instant)>,
    /// What devices could run of their models while a start went on.
    pub readiness: Vec<(Instant, Readiness)>,
    /// When it begins.
    pub begins: Instant,
    pub omitted: Omitted,
}

/// What a recording has, or lacks, that is not played.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Omitted {
    /// Frames without a verdict when it ends.
    pub open: u64,
    /// Verdicts on frames that arrived before it begins.
    pub unseen: u64,
    /// Steps that were not recorded.
    pub lost_steps: u64,
    /// Stages that failed or did not begin in their window.
    pub failures: u64,
    /// Why the file ends before its writer ended it.
    pub cut: Option<String>,
}

/// A frame with its verdict.
#[derive(Debug)]
pub struct Frame {
    pub arrival: Arrival,
    /// Its client, by a number that no other client has.
    pub client: ClientId,
    pub submitted: Instant,
    pub preparation: Option<Preparation>,
    /// By stage, as far as it came.
    pub stages: Vec<Reached>,
    pub verdict: Option<Reply>,
    /// When that was given.
    pub ended: Instant,
}

/// What a stage of a frame came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    pub answer: Option<Answer>,
    pub ran: Option<Ran>,
}

/// An action that was ordered.
struct Ordered {
    run: StageRun,
    budget: Nanos,
    /// Positions of its members' frames; none: they arrived before the recording begins.
    members: Vec<Option<usize>>,
}

/// A ticket, in an order.
type TicketKey = (u16, u16, u64);

const fn ticket_key(ticket: Ticket) -> TicketKey {
    (ticket.client.0, ticket.slot, ticket.sequence)
}

/// A request, in an order.
type RequestKey = (u16, u32);

const fn request_key(request: RequestId) -> RequestKey {
    (request.buffer, request.generation)
}

/// A log that is being read.
struct Reader<'c> {
    config: &'c Config,
    log: Log,
    /// Positions of the frames without a verdict.
    open: BTreeMap<TicketKey, usize>,
    requests: BTreeMap<RequestKey, usize>,
    actions: BTreeMap<u64, Ordered>,
    loads: BTreeMap<u64, ModelId>,
    hold_since: Option<Instant>,
    /// The connection that each client's frames come by.
    connections: BTreeMap<ClientId, ClientId>,
    /// How many connections there were.
    connected: u16,
    begun: bool,
    last: Instant,
}

impl Log {
    /// Reads a recording to its end.
    ///
    /// # Errors
    /// If it cannot be read, has too many frames, or names what its plan does not have.
    pub fn of(opened: &Opened<'_>) -> Result<Self, Error> {
        let mut reader = Reader {
            config: &opened.setting.config,
            log: Self::default(),
            open: BTreeMap::new(),
            requests: BTreeMap::new(),
            actions: BTreeMap::new(),
            loads: BTreeMap::new(),
            hold_since: None,
            connections: BTreeMap::new(),
            connected: 0,
            begun: false,
            last: Instant::ZERO,
        };
        let mut entries = opened.recording.entries();
        for entry in entries.by_ref() {
            let entry = entry.map_err(|source| Error::Read {
                path: opened.path.to_owned(),
                source,
            })?;
            match entry {
                Entry::Step(step) => reader.step(&step, opened)?,
                Entry::Lost { steps } => reader.lost(steps),
                Entry::Segment { .. } | Entry::Sent(_) => {}
            }
        }
        let mut log = reader.finish();
        if let Some(End::Cut { why }) = entries.end() {
            log.omitted.cut = Some(why.clone());
        }
        Ok(log)
    }
}

impl Reader<'_> {
    fn step(&mut self, step: &Step, opened: &Opened<'_>) -> Result<(), Error> {
        let now = step.now;
        if !self.begun {
            self.begun = true;
            self.log.begins = now;
        }
        self.last = self.last.max(now);
        if let Event::Arrived(arrival) = &step.event {
            self.arrived(now, arrival, opened)?;
        }
        self.reported(now, &step.event);
        step.actions
            .iter()
            .for_each(|action| self.ordered(now, action));
        Ok(())
    }

    fn arrived(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        opened: &Opened<'_>,
    ) -> Result<(), Error> {
        let (path, tasks) = (opened.path.to_owned(), self.config.tasks.len());
        if arrival.task.index() >= tasks {
            let task = arrival.task.0;
            return Err(Error::OtherPlan { path, task, tasks });
        }
        if self.log.frames.len() >= FRAMES_MAX {
            let limit = FRAMES_MAX;
            return Err(Error::Frames { path, limit });
        }
        self.open
            .insert(ticket_key(arrival.ticket), self.log.frames.len());
        let client = self.connection(arrival.ticket.client);
        self.log.frames.push(Frame {
            arrival: *arrival,
            client,
            submitted: now,
            preparation: None,
            stages: Vec::new(),
            verdict: None,
            ended: now,
        });
        Ok(())
    }

    /// A number of its own for each connection: the daemon gives a client's number to another when it disconnects.
    fn connection(&mut self, client: ClientId) -> ClientId {
        let connected = &mut self.connected;
        *self.connections.entry(client).or_insert_with(|| {
            let next = ClientId(*connected);
            *connected = connected.saturating_add(1);
            next
        })
    }

    fn reported(&mut self, now: Instant, event: &Event) {
        match event {
            Event::Prepared {
                request,
                measured,
                ready,
            } => {
                if let Some(frame) = self.requests.get(&request_key(*request)) {
                    self.log.frames[*frame].preparation = Some(Preparation {
                        took: *measured,
                        readable: ready.is_ok(),
                    });
                }
            }
            Event::Finished(finished) => self.finished(finished),
            Event::NotRun { action } | Event::Failed { action } => {
                self.actions.remove(&action.0);
                self.loads.remove(&action.0);
                self.log.omitted.failures += 1;
            }
            Event::Preempted { action } => {
                self.actions.remove(&action.0);
            }
            Event::Loaded { action, measured } => {
                if let Some(model) = self.loads.remove(&action.0) {
                    self.log.transfers.entry(model).or_default().push(*measured);
                }
            }
            Event::ClientGone { client } => {
                if let Some(connection) = self.connections.remove(client) {
                    self.log.gone.push((now, connection));
                }
            }
            Event::Shed { hold: true } => {
                self.hold_since.get_or_insert(now);
            }
            Event::Shed { hold: false } => {
                if let Some(since) = self.hold_since.take() {
                    self.log.holds.push((since, now));
                }
            }
            Event::Readiness(said) => self.log.readiness.push((now, *said)),
            Event::Arrived(_)
            | Event::Burst { .. }
            | Event::Tick
            | Event::Drain
            | Event::Starved { .. } => {}
        }
    }

    fn finished(&mut self, finished: &Finished) {
        let Some(ordered) = self.actions.remove(&finished.action.0) else {
            return;
        };
        let (run, took) = (ordered.run, finished.measured);
        let measured = self.log.times.entry(run);
        let measured = measured.or_insert_with(|| Measurements::with(ordered.budget));
        measured.took.push(took);
        for (frame, answer) in ordered.members.iter().zip(&finished.members) {
            let Some(frame) = frame else { continue };
            let stages = &mut self.log.frames[*frame].stages;
            if stages.len() <= run.stage.index() {
                stages.resize(run.stage.index() + 1, Reached::default());
            }
            stages[run.stage.index()] = Reached {
                answer: Some(*answer),
                ran: Some(Ran { run, took }),
            };
        }
    }

    fn ordered(&mut self, now: Instant, action: &Action) {
        match action {
            Action::Prepare {
                request, ticket, ..
            } => {
                if let Some(frame) = self.open.get(&ticket_key(*ticket)) {
                    self.requests.insert(request_key(*request), *frame);
                }
            }
            Action::Infer(infer) => {
                if let Some(ordered) = self.inferred(infer) {
                    self.actions.insert(infer.id.0, ordered);
                }
            }
            Action::Load { id, model } => {
                self.loads.insert(id.0, *model);
            }
            Action::Reply(reply) => self.replied(now, reply),
            Action::Unload { .. }
            | Action::Demote(_)
            | Action::Reinstate { .. }
            | Action::Preempt { .. }
            | Action::Deliver(_) => {}
        }
    }

    /// None of what the plan does not have.
    fn inferred(&self, infer: &Infer) -> Option<Ordered> {
        let partition = self.config.partitions.get(infer.partition.index())?;
        let model = self.config.models.get(infer.model.index())?;
        let stage = model.stages.get(infer.stage.index())?;
        let time = stage.times.iter().find(|time| time.batch == infer.batch)?;
        let members = infer.members.iter();
        let frame = |id: &RequestId| self.requests.get(&request_key(*id)).copied();
        Some(Ordered {
            run: StageRun {
                model: infer.model,
                stage: infer.stage,
                batch: infer.batch,
                units: partition.units.count,
            },
            budget: time.on.get(infer.partition.index())?.budget,
            members: members.map(frame).collect(),
        })
    }

    fn replied(&mut self, now: Instant, reply: &Reply) {
        if let Some(request) = reply.request {
            self.requests.remove(&request_key(request));
        }
        let Some(frame) = self.open.remove(&ticket_key(reply.ticket)) else {
            self.log.omitted.unseen += 1;
            return;
        };
        let frame = &mut self.log.frames[frame];
        frame.verdict = Some(*reply);
        frame.ended = now;
    }

    /// What is open has its verdict among the steps that are lost, or behind them.
    fn lost(&mut self, steps: u64) {
        let omitted = &mut self.log.omitted;
        omitted.lost_steps = omitted.lost_steps.saturating_add(steps);
        self.open.clear();
        self.requests.clear();
        self.actions.clear();
        self.loads.clear();
    }

    fn finish(mut self) -> Log {
        if let Some(since) = self.hold_since {
            self.log.holds.push((since, self.last));
        }
        let arrived = self.log.frames.len();
        self.log.frames.retain(|frame| frame.verdict.is_some());
        self.log.omitted.open = (arrived - self.log.frames.len()) as u64;
        self.log.frames.sort_by_key(|frame| frame.submitted);
        self.log
    }
}

impl Omitted {
    /// What people should know, a sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let counted = [
            (self.open, "frames have no verdict in it, and are left out"),
            (
                self.unseen,
                "verdicts are on frames that arrived before it, which are left out",
            ),
            (
                self.lost_steps,
                "steps of it are lost, with the frames that arrived in them",
            ),
            (
                self.failures,
                "stages or transfers failed or did not begin, which is not repeated",
            ),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let mut notes: Vec<String> = counted
            .map(|(count, what)| format!("the recording: {count} {what}"))
            .collect();
        if let Some(why) = &self.cut {
            notes.push(format!(
                "the recording was cut off ({why}): what lies behind is lost"
            ));
        }
        notes
    }
}

impl Frame {
    /// The exit of its answer, if it has one.
    #[must_use]
    pub fn exit(&self) -> Option<StageId> {
        let (exit, _) = self.verdict?.answer?;
        Some(exit)
    }
}
