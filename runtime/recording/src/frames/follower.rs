//! The follower of a recording's entries.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use punctual_core::{
    Action, ActionId, Answer, Arrival, BatchTime, Config, Event, Infer, Instant, ModelId, Nanos,
    PartitionId, Reply, RequestId, StageId, StageTime, Ticket,
};

use crate::entry::{Entry, Sent, Step};
use crate::frames::{
    Delivered, Frame, FrameId, Item, Member, Note, Outcome, Preparation, PreparationEnd, Run,
    RunEnd, Sending, Share, Submission, Transfer, TransferEnd, What,
};

// What a plan can have at once is less than each of these. Only a damaged recording, or one with losses, has more: then the
// oldest go.

/// Open frames: one for each request buffer.
const OPEN_MAX: usize = 4096;
/// Actions, and transfers: two for each partition, and lost ones.
const RUNNING_MAX: usize = 1024;
/// Runs of a frame: one for each stage, and those that were preempted or did not run.
const RUNS_MAX: usize = 256;
/// Answers before the verdict: one for each exit.
const DELIVERIES_MAX: usize = punctual_core::STAGES_MAX;
/// Records that were sent before the recording had the step that decided them.
const EARLY_MAX: usize = 256;

/// Frames that have their verdict and wait for the rest.
const ENDED_MAX: usize = 256;

/// Follows a recording, entry by entry.
#[derive(Clone, Debug)]
pub struct Follower {
    plan: Config,
    now: Instant,
    /// By arrival.
    open: VecDeque<Submission>,
    /// In the order in which they were ordered, as the two below.
    running: VecDeque<Arc<Run>>,
    loading: VecDeque<Transfer>,
    /// By verdict.
    ended: VecDeque<Frame>,
    early: VecDeque<Sent>,
}

impl Follower {
    /// How long a frame that has its verdict waits for the rest, in the recording's time.
    pub(crate) const PATIENCE: Nanos = Nanos::from_millis(1_000);

    #[must_use]
    pub fn new(plan: &Config) -> Self {
        Self {
            plan: plan.clone(),
            now: Instant::ZERO,
            open: VecDeque::new(),
            running: VecDeque::new(),
            loading: VecDeque::new(),
            ended: VecDeque::new(),
            early: VecDeque::new(),
        }
    }

    /// The time of the newest step.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The frames without a verdict after the newest step, by arrival.
    pub fn open(&self) -> impl Iterator<Item = &Submission> {
        self.open.iter()
    }

    /// The stages that were ordered and have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.running.iter()
    }

    /// Takes the next entry in. What ends with it goes to `sink`.
    pub fn entry(&mut self, entry: &Entry, sink: &mut impl FnMut(Item)) {
        match entry {
            Entry::Segment { number, .. } => self.note(What::Segment { number: *number }, sink),
            Entry::Step(step) => self.step(step, sink),
            Entry::Lost { steps } => self.lost(*steps, sink),
            Entry::Sent(sent) => self.sent(sent, sink),
        }
    }

    /// As [`Follower::entry`], of a step.
    pub fn step(&mut self, step: &Step, sink: &mut impl FnMut(Item)) {
        self.now = step.now;
        let arrival = self.event(&step.event, sink);
        for action in &step.actions {
            self.action(action, arrival, sink);
        }
        self.release(sink);
    }

    /// As [`Follower::entry`], of a record that was sent.
    pub fn sent(&mut self, sent: &Sent, sink: &mut impl FnMut(Item)) {
        if !self.assign(sent) {
            push(&mut self.early, *sent, EARLY_MAX);
        }
        self.release(sink);
    }

    /// As [`Follower::entry`], of steps that are missing.
    pub fn lost(&mut self, steps: u64, sink: &mut impl FnMut(Item)) {
        for submission in &mut self.open {
            submission.is_whole = false;
        }
        self.note(What::Lost { steps }, sink);
    }

    /// The recording ends here: gives back all that is open.
    pub fn finish(mut self, sink: &mut impl FnMut(Item)) {
        let frames = mem::take(&mut self.ended).into_iter();
        frames.for_each(|frame| sink(Item::Frame(Box::new(frame))));
        let runs = mem::take(&mut self.running).into_iter();
        runs.for_each(|run| sink(Item::Run(run)));
        let transfers = mem::take(&mut self.loading).into_iter();
        transfers.for_each(|transfer| sink(Item::Transfer(transfer)));
        let open = mem::take(&mut self.open).into_iter();
        open.for_each(|submission| sink(Item::Open(Box::new(submission))));
    }

    fn note(&self, what: What, sink: &mut impl FnMut(Item)) {
        let at = self.now;
        sink(Item::Note(Note { at, what }));
    }

    /// Takes an event in. An arrival is returned: the actions of the step say what became of it.
    fn event<'e>(&mut self, event: &'e Event, sink: &mut impl FnMut(Item)) -> Option<&'e Arrival> {
        match event {
            Event::Arrived(arrival) => return Some(arrival),
            Event::Prepared {
                request,
                measured,
                ready,
            } => {
                let end = PreparationEnd {
                    learned: self.now,
                    measured: *measured,
                    ready: *ready,
                };
                self.prepared(*request, end);
            }
            Event::Finished(finished) => {
                let (started, measured) = (finished.started, finished.measured);
                let outcome = Outcome::Finished { started, measured };
                self.ran(finished.action, outcome, &finished.members, sink);
            }
            Event::NotRun { action } => self.ran(*action, Outcome::NotRun, &[], sink),
            Event::Preempted { action } => self.ran(*action, Outcome::Preempted, &[], sink),
            Event::Failed { action } => {
                self.ran(*action, Outcome::Failed, &[], sink);
                self.loaded(*action, None, sink);
            }
            Event::Loaded { action, measured } => self.loaded(*action, Some(*measured), sink),
            Event::ClientGone { client } => self.note(What::ClientGone { client: *client }, sink),
            Event::Burst { .. } | Event::Tick => {}
            Event::Drain => self.note(What::Drain, sink),
            Event::Shed { hold } => self.note(What::Shed { hold: *hold }, sink),
            Event::Starved { partition, starved } => {
                let (partition, starved) = (*partition, *starved);
                self.note(What::Starved { partition, starved }, sink);
            }
            Event::Readiness(said) => self.note(What::Ready(*said), sink),
        }
        None
    }

    fn action(&mut self, action: &Action, arrival: Option<&Arrival>, sink: &mut impl FnMut(Item)) {
        match action {
            Action::Prepare {
                request,
                task,
                ticket,
            } => {
                let arrival = arrival.filter(|arrival| arrival.ticket == *ticket);
                let preparation = Preparation {
                    request: *request,
                    task: *task,
                    ordered: self.now,
                    end: None,
                };
                self.admitted(arrival, preparation, sink);
            }
            Action::Infer(infer) => self.ordered(infer, sink),
            Action::Load { id, model } => {
                let transfer = Transfer {
                    action: *id,
                    model: *model,
                    ordered: self.now,
                    budget: self.load_budget(*model),
                    end: None,
                };
                let oldest = push(&mut self.loading, transfer, RUNNING_MAX);
                oldest.into_iter().for_each(|old| sink(Item::Transfer(old)));
            }
            Action::Unload { model } => self.note(What::Unloaded { model: *model }, sink),
            Action::Demote(demotion) => self.note(What::Demoted(*demotion), sink),
            Action::Reinstate { partition, model } => {
                let (partition, model) = (*partition, *model);
                self.note(What::Reinstated { partition, model }, sink);
            }
            Action::Preempt { partition, action } => {
                let (partition, action) = (*partition, *action);
                self.note(What::Preempted { partition, action }, sink);
            }
            Action::Deliver(reply) => self.delivered(reply),
            Action::Reply(reply) => self.replied(reply, arrival),
        }
    }

    /// A request got a buffer. A frame without its arrival is left out until its verdict says what it is.
    fn admitted(
        &mut self,
        arrival: Option<&Arrival>,
        preparation: Preparation,
        sink: &mut impl FnMut(Item),
    ) {
        let Some(arrival) = arrival else { return };
        // Its verdict is lost, as one buffer holds one request.
        let buffer = preparation.request.buffer;
        let holds = |open: &Submission| open.request().is_some_and(|id| id.buffer == buffer);
        let before = self.open.iter().position(holds);
        let before = before.and_then(|at| self.open.remove(at));
        let submission = Submission {
            preparation: Some(preparation),
            ..Submission::arrived(arrival, self.now)
        };
        let oldest = push(&mut self.open, submission, OPEN_MAX);
        for mut submission in before.into_iter().chain(oldest) {
            submission.is_whole = false;
            sink(Item::Open(Box::new(submission)));
        }
    }

    fn prepared(&mut self, request: RequestId, end: PreparationEnd) {
        let preparation = self
            .request(request)
            .and_then(|open| open.preparation.as_mut());
        if let Some(preparation) = preparation {
            preparation.end = Some(end);
        }
    }

    fn ordered(&mut self, infer: &Infer, sink: &mut impl FnMut(Item)) {
        let members = infer.members.iter().map(|&request| Member {
            request,
            frame: self.request(request).map(|open| open.id),
        });
        let run = Arc::new(Run {
            action: infer.id,
            partition: infer.partition,
            model: infer.model,
            stage: infer.stage,
            batch: infer.batch,
            members: members.collect(),
            criticality: infer.criticality,
            ordered: self.now,
            window: infer.window,
            time: self.time(infer),
            end: None,
        });
        for request in &infer.members {
            if let Some(open) = self.request(*request) {
                open.joins(&run);
            }
        }
        let oldest = push(&mut self.running, run, RUNNING_MAX);
        oldest.into_iter().for_each(|old| sink(Item::Run(old)));
    }

    /// An action ended. `answers` are in the order of its members.
    fn ran(
        &mut self,
        action: ActionId,
        outcome: Outcome,
        answers: &[Answer],
        sink: &mut impl FnMut(Item),
    ) {
        let Some(at) = self.running.iter().position(|run| run.action == action) else {
            return;
        };
        let Some(run) = self.running.remove(at) else {
            return;
        };
        let learned = self.now;
        let run = Arc::new(Run {
            end: Some(RunEnd { learned, outcome }),
            ..(*run).clone()
        });
        for (position, member) in run.members.iter().enumerate() {
            let answer = answers.get(position).copied();
            if let Some(submission) = self.any(member.request) {
                submission.ran(&run, answer);
            }
        }
        sink(Item::Run(run));
    }

    fn loaded(&mut self, action: ActionId, measured: Option<Nanos>, sink: &mut impl FnMut(Item)) {
        let mut loading = self.loading.iter();
        let at = loading.position(|transfer| transfer.action == action);
        let Some(mut transfer) = at.and_then(|at| self.loading.remove(at)) else {
            return;
        };
        let learned = self.now;
        transfer.end = Some(TransferEnd { learned, measured });
        sink(Item::Transfer(transfer));
    }

    fn delivered(&mut self, reply: &Reply) {
        let early = self.take_early(reply.ticket, false);
        let decided = self.now;
        let Some(open) = self.ticket(reply.ticket) else {
            return;
        };
        if open.deliveries.len() == DELIVERIES_MAX {
            open.is_whole = false;
            return;
        }
        open.deliveries.push(Delivered {
            decided,
            reply: *reply,
            sent: early,
        });
    }

    fn replied(&mut self, reply: &Reply, arrival: Option<&Arrival>) {
        let is_of =
            |open: &Submission| open.id.ticket == reply.ticket && open.request() == reply.request;
        let open = self.open.iter().position(is_of);
        let open = open.and_then(|at| self.open.remove(at));
        let arrival = arrival.filter(|arrival| arrival.ticket == reply.ticket);
        let submission = match (open, arrival) {
            (Some(open), _) => open,
            (None, Some(arrival)) => Submission::arrived(arrival, self.now),
            (None, None) => Submission::unseen(reply),
        };
        let sent = self.take_early(reply.ticket, true);
        self.ended.push_back(Frame {
            submission,
            decided: self.now,
            reply: *reply,
            sent,
        });
    }

    /// Gives a record that was sent to its frame, if the recording has the step that decided it.
    fn assign(&mut self, sent: &Sent) -> bool {
        let Some(place) = self.place(sent) else {
            return false;
        };
        *place = Some(Sending::of(*sent));
        true
    }

    fn place(&mut self, sent: &Sent) -> Option<&mut Option<Sending>> {
        if sent.is_final {
            let mut ended = self.ended.iter_mut().rev();
            let frame = ended.find(|frame| frame.awaits(sent))?;
            return Some(&mut frame.sent);
        }
        let of_ended = self.ended.iter_mut().map(|frame| &mut frame.submission);
        let mut all = of_ended.chain(&mut self.open).rev();
        let of = all.find(|submission| submission.id.ticket == sent.ticket)?;
        let awaits = |delivered: &&mut Delivered| {
            delivered.sent.is_none() && delivered.decided <= sent.decided
        };
        let delivered = of.deliveries.iter_mut().find(awaits)?;
        Some(&mut delivered.sent)
    }

    /// The record of a decision of this step, if it was sent before the recording had the step.
    fn take_early(&mut self, ticket: Ticket, is_final: bool) -> Option<Sending> {
        let now = self.now;
        let is_of =
            |sent: &Sent| sent.ticket == ticket && sent.is_final == is_final && sent.decided >= now;
        let at = self.early.iter().position(is_of)?;
        self.early.remove(at).map(Sending::of)
    }

    /// Gives back the frames that have all, or have waited for too long, in the order of their verdicts.
    fn release(&mut self, sink: &mut impl FnMut(Item)) {
        while let Some(frame) = self.ended.front() {
            let waited = self.now.since(frame.decided);
            let goes =
                frame.is_complete() || waited > Self::PATIENCE || self.ended.len() > ENDED_MAX;
            if !goes {
                return;
            }
            let frame = self.ended.pop_front();
            frame
                .into_iter()
                .for_each(|frame| sink(Item::Frame(Box::new(frame))));
        }
    }

    /// An open frame. The newest are asked for most.
    fn request(&mut self, request: RequestId) -> Option<&mut Submission> {
        let mut open = self.open.iter_mut().rev();
        open.find(|open| open.request() == Some(request))
    }

    fn ticket(&mut self, ticket: Ticket) -> Option<&mut Submission> {
        self.open
            .iter_mut()
            .rev()
            .find(|open| open.id.ticket == ticket)
    }

    /// A frame, open or not given back yet.
    fn any(&mut self, request: RequestId) -> Option<&mut Submission> {
        let of_ended = self.ended.iter_mut().map(|frame| &mut frame.submission);
        let mut all = of_ended.chain(&mut self.open).rev();
        all.find(|submission| submission.request() == Some(request))
    }

    fn time(&self, infer: &Infer) -> Option<StageTime> {
        stage_time(
            &self.plan,
            infer.model,
            infer.stage,
            infer.batch,
            infer.partition,
        )
    }

    fn load_budget(&self, model: ModelId) -> Option<Nanos> {
        let weights = self.plan.models.get(model.index())?.weights?;
        Some(weights.load)
    }
}

/// What a plan has for a stage of a batch on a partition.
fn stage_time(
    plan: &Config,
    model: ModelId,
    stage: StageId,
    batch: u8,
    partition: PartitionId,
) -> Option<StageTime> {
    let stage = plan.models.get(model.index())?.stages.get(stage.index())?;
    let is_of = |time: &&BatchTime| time.batch == batch;
    let time = stage.times.iter().find(is_of)?;
    time.on.get(partition.index()).copied()
}

/// Adds one, and returns the oldest if there are too many then.
fn push<T>(to: &mut VecDeque<T>, one: T, most: usize) -> Option<T> {
    to.push_back(one);
    (to.len() > most).then(|| to.pop_front()).flatten()
}

impl Submission {
    fn arrived(arrival: &Arrival, now: Instant) -> Self {
        Self {
            id: FrameId {
                task: arrival.task,
                ticket: arrival.ticket,
            },
            captured: arrival.captured.min(now),
            deadline: arrival.deadline,
            egress: arrival.egress,
            arrived: Some(now),
            preparation: None,
            runs: Vec::new(),
            deliveries: Vec::new(),
            is_whole: true,
        }
    }

    /// Of a frame whose arrival is not in the recording.
    fn unseen(reply: &Reply) -> Self {
        Self {
            id: FrameId {
                task: reply.task,
                ticket: reply.ticket,
            },
            captured: reply.captured,
            deadline: None,
            egress: Nanos::ZERO,
            arrived: None,
            preparation: None,
            runs: Vec::new(),
            deliveries: Vec::new(),
            is_whole: false,
        }
    }

    /// The request that it is, from its buffer on.
    #[must_use]
    pub fn request(&self) -> Option<RequestId> {
        self.preparation.map(|preparation| preparation.request)
    }

    fn joins(&mut self, run: &Arc<Run>) {
        if self.runs.len() == RUNS_MAX {
            self.runs.remove(0);
            self.is_whole = false;
        }
        self.runs.push(Share {
            run: Arc::clone(run),
            answer: None,
        });
    }

    fn ran(&mut self, run: &Arc<Run>, answer: Option<Answer>) {
        let mut shares = self.runs.iter_mut().rev();
        if let Some(share) = shares.find(|share| share.run.action == run.action) {
            share.run = Arc::clone(run);
            share.answer = answer;
        }
    }
}

impl Frame {
    /// Whether a record may be that of its verdict. A client's number may have had another frame of the same ticket before.
    fn awaits(&self, sent: &Sent) -> bool {
        self.sent.is_none()
            && self.submission.id.ticket == sent.ticket
            && self.decided <= sent.decided
    }

    fn is_complete(&self) -> bool {
        let runs = &self.submission.runs;
        self.sent.is_some() && runs.iter().all(|share| share.run.end.is_some())
    }
}

impl Sending {
    fn of(sent: Sent) -> Self {
        Self {
            decided: sent.decided,
            began: sent.began,
            ended: sent.ended,
        }
    }
}
