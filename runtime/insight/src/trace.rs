//! A recording as a trace for Perfetto.

use std::collections::BTreeMap;
use std::io::{self, Write};

use punctual_core::{Action, ClientId, Event, Instant, Nanos, PartitionId};
use punctual_recording::frames::{
    Delivered, Follower, Frame, Item, Note, Preparation, Run, Sending, Submission, Transfer, What,
};
use punctual_recording::{Entry, Names, ReadError, Setting, Step};

use crate::flows::Flows;
use crate::loads::{Busy, Load};
use crate::parts::{self, Spent};
use crate::perfetto::{Details, Happening, Writer};
use crate::runs::occupied;
use crate::tracks::{Mark, Part, Slice, Track, Tracks};
use crate::words;

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the trace cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// What a trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    pub steps: u64,
    /// With a verdict.
    pub frames: u64,
    /// Frames whose verdict is not in the recording.
    pub open: u64,
    pub runs: u64,
    /// Steps that are not in the recording.
    pub lost: u64,
    /// Slices that overlap too many others.
    pub left_out: u64,
}

/// Writes a recording as a trace in Perfetto's format, as it is read: the memory that it takes does not grow with either. The
/// time of day is `ahead_ns` ahead of the recording's clock; 0 if that is no clock of this world.
///
/// # Errors
/// The first entry that cannot be read, or the first failure to write.
pub fn trace(
    entries: impl IntoIterator<Item = Result<Entry, ReadError>>,
    setting: &Setting,
    ahead_ns: i64,
    out: impl Write,
) -> Result<Traced, TraceError> {
    let mut tracer = Tracer {
        names: &setting.names,
        tracks: Tracks::new(Writer::new(out)?, &setting.names),
        flows: Flows::default(),
        ahead_ns: Some(ahead_ns).filter(|ahead| *ahead != 0),
        busy: BTreeMap::new(),
        free: BTreeMap::new(),
        open: 0,
        end: Instant::ZERO,
        traced: Traced::default(),
    };
    let mut follower = Follower::new(&setting.config);
    let mut items = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let Entry::Step(step) = &entry {
            tracer.step(step, &follower)?;
        }
        follower.entry(&entry, &mut |item| items.push(item));
        for item in items.drain(..) {
            tracer.item(item)?;
        }
    }
    tracer.end = follower.now();
    follower.finish(&mut |item| items.push(item));
    for item in items {
        tracer.item(item)?;
    }
    Ok(tracer.finish()?)
}

struct Tracer<'n, W: Write> {
    names: &'n Names,
    tracks: Tracks<'n, W>,
    flows: Flows,
    /// None once the trace says it.
    ahead_ns: Option<i64>,
    busy: BTreeMap<PartitionId, Busy>,
    /// Where the last run of a partition ended.
    free: BTreeMap<PartitionId, Instant>,
    /// Frames that arrived and have no verdict.
    open: i64,
    /// Of the recording.
    end: Instant,
    traced: Traced,
}

impl<W: Write> Tracer<'_, W> {
    fn step(&mut self, step: &Step, follower: &Follower) -> io::Result<()> {
        self.traced.steps += 1;
        if let Some(ahead_ns) = self.ahead_ns.take() {
            self.tracks.clock(step.now, ahead_ns)?;
        }
        let flows = self.flows.of_step(step, follower);
        let slice = Slice {
            from: step.now,
            to: step.now + step.took,
            what: Happening {
                name: words::event(&step.event).to_owned(),
                details: Details::default().number("actions", step.actions.len()),
                flows,
            },
            parts: Vec::new(),
            marks: Vec::new(),
        };
        self.tracks.slice(Track::Scheduler, slice)?;
        let arrived = i64::from(matches!(step.event, Event::Arrived(_)));
        let replies = step.actions.iter();
        let replies = replies.filter(|action| matches!(action, Action::Reply(_)));
        let replied = replies.count() as i64;
        if arrived == replied {
            return Ok(());
        }
        // A recording that begins in the middle has verdicts of frames that it has not seen arrive.
        self.open = (self.open + arrived - replied).max(0);
        self.tracks.count(Track::OpenFrames, step.now, self.open)
    }

    fn item(&mut self, item: Item) -> io::Result<()> {
        match item {
            Item::Run(run) => self.run(&run),
            Item::Frame(frame) => {
                self.frame(&frame)?;
                self.flows.end(frame.submission.id.ticket);
                Ok(())
            }
            Item::Open(submission) => {
                self.open(&submission)?;
                self.flows.end(submission.id.ticket);
                Ok(())
            }
            Item::Transfer(transfer) => self.transfer(&transfer),
            Item::Note(note) => self.note(&note),
        }
    }

    fn run(&mut self, run: &Run) -> io::Result<()> {
        self.traced.runs += 1;
        let members = run.members.iter().filter_map(|member| member.frame);
        let what = Happening {
            name: words::run(run, self.names),
            flows: members
                .filter_map(|frame| self.flows.of(frame.ticket))
                .collect(),
            details: self.details_of(run),
        };
        let track = Track::Partition(run.partition);
        let free = self.free.get(&run.partition).copied().unwrap_or_default();
        let Some((from, to)) = occupied(run, free) else {
            let at = run.end.map_or(run.ordered, |end| end.learned);
            return self.tracks.instant(track, at, what);
        };
        self.free.insert(run.partition, free.max(to));
        self.load(run.partition, from, to)?;
        let mut marks = Vec::new();
        if let Some(time) = run.time.filter(|_| run.overrun() > Nanos::ZERO) {
            let what = named("over its budget");
            let at = from + time.budget;
            marks.push(Mark { at, what });
        }
        let parts = Vec::new();
        let slice = Slice {
            from,
            to,
            what,
            parts,
            marks,
        };
        self.tracks.slice(track, slice)
    }

    fn details_of(&self, run: &Run) -> Details {
        let mut details = Details::default()
            .text("model", self.names.model(run.model))
            .number("stage", run.stage.0)
            .number("batch", run.batch)
            .number("members", run.members.len())
            .text("outcome", words::outcome(run));
        if let Some(time) = run.time {
            details = details.real("budget ms", words::ms(time.budget));
        }
        if let Some(measured) = run.measured() {
            details = details.real("measured ms", words::ms(measured));
        }
        if run.overrun() > Nanos::ZERO {
            details = details.real("over its budget by ms", words::ms(run.overrun()));
        }
        if let Some((started, _)) = run.span() {
            let waited = started.since(run.ordered);
            details = details.real("from the order to the start ms", words::ms(waited));
        }
        details
    }

    fn load(&mut self, partition: PartitionId, from: Instant, to: Instant) -> io::Result<()> {
        let mut loads = Vec::new();
        let busy = self.busy.entry(partition).or_insert(Busy::since(from));
        busy.ran(from, to, |load| loads.push(load));
        self.counts(partition, loads)
    }

    fn counts(&mut self, partition: PartitionId, loads: Vec<Load>) -> io::Result<()> {
        for Load { from, percent } in loads {
            let track = Track::Load(partition);
            self.tracks.count(track, from, i64::from(percent))?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame) -> io::Result<()> {
        self.traced.frames += 1;
        let Frame {
            submission, reply, ..
        } = frame;
        let task = submission.id.task;
        let end = frame.sent.map_or(frame.decided, |sent| sent.ended);
        let mut parts = parts(submission, self.names);
        if let Some(sent) = frame.sent {
            let (from, to, what) = (frame.decided, sent.ended, named("egress"));
            parts.push(Part { from, to, what });
        }
        let slice = Slice {
            from: reply.captured.min(frame.decided),
            to: end.max(frame.decided),
            what: Happening {
                name: format!(
                    "{} {}",
                    words::verdict(reply.verdict),
                    words::frame(submission.id)
                ),
                details: details_of(frame),
                flows: self.flows_of(submission),
            },
            parts,
            marks: marks(submission),
        };
        self.tracks.slice(Track::Task(task), slice)?;
        self.threads(submission)?;
        if let Some(sent) = frame.sent {
            self.sent(submission, sent, "verdict")?;
        }
        match (frame.margin_ns(), frame.received()) {
            (Some(margin), Some(at)) => self.tracks.count(Track::Slack(task), at, margin),
            _ => Ok(()),
        }
    }

    /// A frame without a verdict.
    fn open(&mut self, submission: &Submission) -> io::Result<()> {
        self.traced.open += 1;
        let from = submission.captured;
        let slice = Slice {
            from,
            to: self.end.max(from),
            what: Happening {
                name: format!("no verdict {}", words::frame(submission.id)),
                flows: self.flows_of(submission),
                details: Details::default(),
            },
            parts: parts(submission, self.names),
            marks: marks(submission),
        };
        self.tracks.slice(Track::Task(submission.id.task), slice)?;
        self.threads(submission)
    }

    /// What the threads of its client do with a frame, but for its verdict.
    fn threads(&mut self, submission: &Submission) -> io::Result<()> {
        let client = submission.id.ticket.client;
        let flows = self.flows_of(submission);
        let sequence = submission.id.ticket.sequence;
        if let Some(arrived) = submission.arrived {
            let what = Happening {
                name: format!("submitted {sequence}"),
                details: Details::default(),
                flows: flows.clone(),
            };
            self.tracks.instant(Track::Client(client), arrived, what)?;
        }
        if let Some(preparation) = &submission.preparation {
            self.preparation(client, sequence, preparation, flows)?;
        }
        for Delivered { sent, .. } in &submission.deliveries {
            if let Some(sent) = sent {
                self.sent(submission, *sent, "answer")?;
            }
        }
        Ok(())
    }

    fn preparation(
        &mut self,
        client: ClientId,
        sequence: u64,
        preparation: &Preparation,
        flows: Vec<u64>,
    ) -> io::Result<()> {
        let Some(end) = preparation.end else {
            return Ok(());
        };
        let measured_from = end
            .learned
            .as_nanos()
            .saturating_sub(end.measured.as_nanos());
        let slice = Slice {
            from: preparation.ordered,
            to: end.learned,
            what: Happening {
                name: format!("prepare {sequence}"),
                details: Details::default()
                    .real("measured ms", words::ms(end.measured))
                    .flag("ready", end.ready.is_ok()),
                flows,
            },
            parts: vec![Part {
                from: Instant::from_nanos(measured_from),
                to: end.learned,
                what: named("measured"),
            }],
            marks: Vec::new(),
        };
        self.tracks.slice(Track::Intake(client), slice)
    }

    fn sent(&mut self, submission: &Submission, sent: Sending, what: &str) -> io::Result<()> {
        let ticket = submission.id.ticket;
        let happening = |details| Happening {
            name: format!("{what} {}", ticket.sequence),
            details,
            flows: self.flows_of(submission),
        };
        let waited = words::ms(sent.began.since(sent.decided));
        let of_port = happening(Details::default().real("waited for the port ms", waited));
        let of_client = happening(Details::default());
        let slice = Slice {
            from: sent.began,
            to: sent.ended,
            what: of_port,
            parts: Vec::new(),
            marks: Vec::new(),
        };
        self.tracks.slice(Track::Port(ticket.client), slice)?;
        let track = Track::Client(ticket.client);
        self.tracks.instant(track, sent.ended, of_client)
    }

    fn flows_of(&self, submission: &Submission) -> Vec<u64> {
        let flow = self.flows.of(submission.id.ticket);
        flow.into_iter().collect()
    }

    fn transfer(&mut self, transfer: &Transfer) -> io::Result<()> {
        let what = named(&self.names.model(transfer.model));
        let Some(end) = transfer.end else {
            return self.tracks.instant(Track::Weights, transfer.ordered, what);
        };
        let mut details = Details::default();
        if let Some(budget) = transfer.budget {
            details = details.real("budget ms", words::ms(budget));
        }
        details = match end.measured {
            Some(measured) => details.real("measured ms", words::ms(measured)),
            None => details.text("outcome", "failed"),
        };
        let slice = Slice {
            from: transfer.ordered,
            to: end.learned,
            what: Happening { details, ..what },
            parts: Vec::new(),
            marks: Vec::new(),
        };
        self.tracks.slice(Track::Weights, slice)
    }

    fn note(&mut self, note: &Note) -> io::Result<()> {
        if let What::Lost { steps } = note.what {
            self.traced.lost = self.traced.lost.saturating_add(steps);
        }
        match words::note(note, self.names) {
            Some(text) => self.tracks.instant(Track::Scheduler, note.at, named(&text)),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> io::Result<Traced> {
        for (partition, busy) in std::mem::take(&mut self.busy) {
            let mut loads = Vec::new();
            busy.finish(|load| loads.push(load));
            self.counts(partition, loads)?;
        }
        self.traced.left_out = self.tracks.left_out();
        self.tracks.finish()?;
        Ok(self.traced)
    }
}

fn named(name: &str) -> Happening {
    Happening {
        name: name.to_owned(),
        ..Happening::default()
    }
}

fn parts(submission: &Submission, names: &Names) -> Vec<Part> {
    let part = |spent: Spent| Part {
        from: spent.from,
        to: spent.to,
        what: named(spent.name()),
    };
    parts::of(submission, names).into_iter().map(part).collect()
}

fn marks(submission: &Submission) -> Vec<Mark> {
    let deliveries = submission.deliveries.iter();
    let mark = |delivered: &Delivered| {
        let exit = delivered.reply.answer.map(|(exit, _)| exit.0);
        let name = exit.map_or_else(
            || "answer".to_owned(),
            |exit| format!("answer of exit {exit}"),
        );
        let what = named(&name);
        let at = delivered.decided;
        Mark { at, what }
    };
    deliveries.map(mark).collect()
}

fn details_of(frame: &Frame) -> Details {
    let Frame {
        submission, reply, ..
    } = frame;
    let ticket = submission.id.ticket;
    let mut details = Details::default()
        .number("client", ticket.client.0)
        .number("sequence", ticket.sequence)
        .text("verdict", words::verdict(reply.verdict))
        .flag("whole", submission.is_whole);
    if let Some((exit, answer)) = reply.answer {
        let confidence = f64::from(answer.confidence.as_probability());
        details = details
            .number("exit", exit.0)
            .number("class", answer.class)
            .real("confidence", confidence);
    }
    if let Some(due) = frame.due() {
        let deadline = due.since(reply.captured);
        details = details.real("deadline ms", words::ms(deadline));
    }
    if let Some(latency) = frame.latency() {
        details = details.real("latency ms", words::ms(latency));
    }
    details
}
