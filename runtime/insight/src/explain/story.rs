//! One frame's story: where its time went, against what the plan allowed for each part.

use punctual_core::{Criticality, Instant, Nanos, PartitionId, StageId, TaskConfig};
use punctual_recording::Names;
use punctual_recording::frames::{Follower, Frame, Outcome, Preparation, Run, Sending, Share};
use punctual_recording::messages::{failure, reason, verdict};
use serde::Serialize;

use super::bounds::Bounds;
use super::history::{History, Occupant, Span};
use super::rejection::Rejected;

/// A frame that has its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    /// `TASK/CLIENT/SEQUENCE`.
    pub frame: String,
    pub verdict: &'static str,
    pub reason: Option<&'static str>,
    /// Whether all that happened to it is in the recording.
    pub whole: bool,
    /// By the scheduler's clock.
    pub captured_ns: Instant,
    /// From its capture, as all that follows: the deadline.
    pub deadline_ns: Option<Nanos>,
    /// When the verdict was given.
    pub decided_ns: Nanos,
    /// When its client had the answer.
    pub latency_ns: Option<Nanos>,
    /// What was left then until the deadline; negative: it was late.
    pub margin_ns: Option<i64>,
    /// The exit of its answer: 0 is the first.
    pub exit: Option<u8>,
    pub confidence: Option<f32>,
    pub parts: Vec<Part>,
    /// The position of the first part that broke its bound.
    pub broke: Option<usize>,
    pub rejection: Option<Rejected>,
}

/// A part of a frame's way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    pub name: String,
    /// From the capture.
    pub from_ns: Nanos,
    pub took_ns: Nanos,
    /// What the plan allows for it; none: it has no bound of its own.
    pub bound_ns: Option<Nanos>,
    /// By how much it took longer.
    pub over_ns: Option<Nanos>,
    pub detail: Option<String>,
    /// What ran on its compute units while it waited.
    pub occupants: Vec<Occupant>,
}

impl Story {
    /// The first part that broke its bound.
    #[must_use]
    pub fn broken(&self) -> Option<&Part> {
        self.parts.get(self.broke?)
    }

    /// The part that took most.
    #[must_use]
    pub fn longest(&self) -> Option<&Part> {
        self.parts.iter().max_by_key(|part| part.took_ns)
    }
}

/// What stories are told from.
#[derive(Clone, Copy)]
pub struct Teller<'t> {
    pub names: &'t Names,
    pub bounds: Bounds<'t>,
    /// None: no one asks what ran while the frame waited.
    pub history: Option<&'t History>,
    pub follower: &'t Follower,
}

impl<'t> Teller<'t> {
    pub fn tell(self, frame: &Frame, rejection: Option<Rejected>) -> Story {
        let captured = frame.reply.captured;
        let parts = Way::of(self, frame).parts();
        let (exit, answer) = frame.reply.answer.unzip();
        Story {
            frame: self.names.frame(frame.submission.id),
            verdict: verdict(frame.reply.verdict),
            reason: reason(frame.reply.verdict),
            whole: frame.submission.is_whole,
            captured_ns: captured,
            deadline_ns: frame.due().map(|due| due.since(captured)),
            decided_ns: frame.decided.since(captured),
            latency_ns: frame.latency(),
            margin_ns: frame.margin_ns(),
            exit: exit.map(|exit: StageId| exit.0),
            confidence: answer.map(|answer| answer.confidence.as_probability()),
            broke: parts.iter().position(|part| part.over_ns.is_some()),
            parts,
            rejection,
        }
    }
}

/// A frame's way, part by part.
struct Way<'t> {
    teller: Teller<'t>,
    frame: &'t Frame,
    /// The task whose network answers it.
    task: Option<&'t TaskConfig>,
    parts: Vec<Part>,
    /// Where the part before ended; none: the recording does not tell.
    at: Option<Instant>,
}

impl<'t> Way<'t> {
    fn of(teller: Teller<'t>, frame: &'t Frame) -> Self {
        let submission = &frame.submission;
        let task = submission.preparation.map(|preparation| preparation.task);
        Self {
            teller,
            frame,
            task: teller.bounds.task(task.unwrap_or(submission.id.task)),
            parts: Vec::new(),
            at: None,
        }
    }

    fn parts(mut self) -> Vec<Part> {
        self.channel();
        if let Some(preparation) = self.frame.submission.preparation {
            self.preparation(preparation);
        }
        let decided = self.frame.decided;
        for share in &self.frame.submission.runs {
            // What ended behind the verdict is no part of its way.
            let counts = share.run.end.is_some_and(|end| end.learned <= decided);
            if counts {
                self.run(share);
            }
        }
        self.decision();
        self.sending();
        self.parts
    }

    /// From the capture until the scheduler learned of it. The plan bounds channel and preparation together, by the jitter: less
    /// the profiled preparation, the rest is the channel's.
    fn channel(&mut self) {
        let Some(arrived) = self.frame.submission.arrived else {
            return;
        };
        let span = Span {
            from: self.frame.reply.captured,
            to: arrived,
        };
        let bound = self
            .task
            .map(|task| task.jitter.saturating_sub(task.prepare));
        self.part("channel".to_owned(), span, bound);
    }

    fn preparation(&mut self, preparation: Preparation) {
        let Some(end) = preparation.end else { return };
        let span = Span {
            from: preparation.ordered,
            to: end.learned,
        };
        let ready_by = self
            .task
            .map(|task| self.frame.reply.captured + task.jitter);
        let bound = self.task.zip(ready_by).map(|(task, ready_by)| {
            let left = ready_by.since(preparation.ordered);
            left.max(task.prepare)
        });
        let part = self.part("preparation".to_owned(), span, bound);
        part.detail = Some(match end.ready {
            Ok(()) => format!("the work itself took {}", end.measured),
            Err(why) => format!("it failed: {}", failure(why)),
        });
    }

    fn run(&mut self, share: &Share) {
        let run = &*share.run;
        let stage = run.stage.0;
        self.wait(run);
        let Some((started, ended)) = run.span() else {
            return self.without_result(run, stage);
        };
        let window = Span {
            from: run.ordered,
            to: started,
        };
        // Best-effort work may start as late as it likes: it is preempted where it is in the way.
        let is_bound = run.criticality == Criticality::RealTime;
        let bound = is_bound.then(|| run.window.latest.since(run.ordered));
        self.part(format!("start of stage {stage}"), window, bound);
        let span = Span {
            from: started,
            to: ended,
        };
        let detail = self.circumstances(run);
        let budget = run.time.map(|time| time.budget);
        let part = self.part(self.name(run, stage), span, budget);
        part.detail = Some(detail);
    }

    fn name(&self, run: &Run, stage: u8) -> String {
        format!("stage {stage} of {}", self.teller.names.model(run.model))
    }

    fn wait(&mut self, run: &Run) {
        if let Some(from) = self.at {
            let to = run.ordered;
            self.wait_until(Span { from, to }, run.stage, run.partition);
        }
    }

    /// Between the part before and a stage. It may last until the mandatory part is late for certain.
    fn wait_until(&mut self, wait: Span, stage: StageId, partition: PartitionId) {
        let bounds = self.teller.bounds;
        let deadline = self.frame.reply.deadline;
        let latest = self
            .task
            .and_then(|task| bounds.latest_start(task, stage, deadline));
        let bound = latest.map(|latest| latest.since(wait.from));
        let occupants = self.occupants(wait, partition);
        let name = format!("wait for stage {}", stage.0);
        let part = self.part(name, wait, bound);
        part.occupants = occupants;
    }

    fn occupants(&self, wait: Span, partition: PartitionId) -> Vec<Occupant> {
        let Teller {
            names,
            bounds,
            history,
            follower,
        } = self.teller;
        let home = self.task.map_or(partition, |task| task.partition);
        let during = |history: &History| history.during(wait, home, follower, bounds, names);
        history.map_or_else(Vec::new, during)
    }

    fn without_result(&mut self, run: &Run, stage: u8) {
        let Some(end) = run.end else { return };
        let span = Span {
            from: run.ordered,
            to: end.learned,
        };
        let what = match end.outcome {
            Outcome::NotRun => "was not started inside its window",
            Outcome::Preempted => "was preempted",
            Outcome::Failed => "failed on the device",
            Outcome::Finished { .. } => "finished",
        };
        let detail = format!("it {what}, {}", self.circumstances(run));
        let part = self.part(self.name(run, stage), span, None);
        part.detail = Some(detail);
    }

    /// Where it ran, and with which others.
    fn circumstances(&self, run: &Run) -> String {
        let names = self.teller.names;
        let on = names.partition(run.partition);
        let own = self.frame.submission.request();
        let others = run
            .members
            .iter()
            .filter(|member| Some(member.request) != own);
        let others: Vec<String> = others
            .map(|other| {
                let frame = other.frame.map(|frame| names.frame(frame));
                frame.unwrap_or_else(|| "a frame from before the recording".to_owned())
            })
            .collect();
        match others.len() {
            0 => format!("on {on}, batch {}", run.batch),
            _ => format!("on {on}, batch {}, with {}", run.batch, others.join(", ")),
        }
    }

    /// From the end of the last stage until the verdict: an answer is held until its last moment, as a deeper one may come. A
    /// frame without an answer waited for its next stage.
    fn decision(&mut self) {
        let Some(from) = self.at else { return };
        let Some(to) = self.frame.answered() else {
            return self.wait_in_vain(from);
        };
        let due = self.frame.due().map(|deadline| {
            let bounds = self.teller.bounds;
            bounds
                .due(deadline)
                .min(deadline - self.frame.submission.egress)
        });
        let running = self.running_at(to).map(|run| {
            let stage = run.stage.0;
            format!("{} still ran", self.name(run, stage))
        });
        let bound = due.map(|due| due.since(from));
        let part = self.part("until the verdict".to_owned(), Span { from, to }, bound);
        part.detail = running;
    }

    fn running_at(&self, time: Instant) -> Option<&'t Run> {
        let runs = self.frame.submission.runs.iter().map(|share| &*share.run);
        let mut late = runs.filter(|run| run.end.is_none_or(|end| end.learned > time));
        late.next()
    }

    fn wait_in_vain(&mut self, from: Instant) {
        let to = self.frame.decided;
        let waits = self.frame.submission.preparation.is_some() && to > from;
        if let Some(task) = self.task.filter(|_| waits) {
            let runs = self.frame.submission.runs.iter().rev();
            let mut done = runs.filter(|share| share.answer.is_some());
            let next = done
                .next()
                .map_or(0, |share| share.run.stage.0.saturating_add(1));
            self.wait_until(Span { from, to }, StageId(next), task.partition);
        }
    }

    fn sending(&mut self) {
        let (given, sent) = match self.frame.reply.delivered {
            None => (self.frame.decided, self.frame.sent),
            Some(delivered) => {
                let mut deliveries = self.frame.submission.deliveries.iter();
                let of = deliveries.find(|one| one.decided == delivered);
                (delivered, of.and_then(|one| one.sent))
            }
        };
        let Some(sent) = sent else { return };
        let Sending {
            decided,
            began,
            ended,
        } = sent;
        let span = Span {
            from: given,
            to: ended,
        };
        let bound = self.teller.bounds.config.egress_bound;
        let part = self.part("sending".to_owned(), span, Some(bound));
        part.detail = Some(format!(
            "{} until the hand-over, {} until the port took it, {} to write it and wake the client",
            decided.since(given),
            began.since(decided),
            ended.since(began)
        ));
    }

    fn part(&mut self, name: String, span: Span, bound: Option<Nanos>) -> &mut Part {
        let took = span.length();
        let over = bound.map(|bound| took.saturating_sub(bound));
        self.at = Some(span.to.max(span.from));
        self.parts.push(Part {
            name,
            from_ns: span.from.since(self.frame.reply.captured),
            took_ns: took,
            bound_ns: bound,
            over_ns: over.filter(|over| *over > Nanos::ZERO),
            detail: None,
            occupants: Vec::new(),
        });
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }
}
