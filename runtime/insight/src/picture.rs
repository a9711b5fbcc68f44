//! A recording as a page for people who have no viewer.

use std::collections::BTreeMap;

use punctual_core::{Instant, Nanos, PartitionId, TaskId, Ticket, Verdict};
use punctual_recording::frames::{Follower, Frame, Item, Outcome, Run, Sending, Submission};
use punctual_recording::{Entry, Names, ReadError, Recording, Setting, Step};
use punctual_report::{Bar, Colour, Mark, Page, Row, Shape, Table, Text, Timeline};

use crate::expected::Expected;
use crate::flows::FrameKey;
use crate::lanes::Lanes;
use crate::parts;
use crate::runs::occupied;
use crate::tracks::{Group, Place, Track};
use crate::words;

/// Which time of a recording a picture is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// From the recording's beginning; none: the first late frame is in the middle, or these are the last seconds.
    pub from: Option<Nanos>,
    pub length: Nanos,
}

/// Most bars of a picture: a browser draws as many without delay.
const BARS_MAX: usize = 8_000;

/// A view in which one sees single stages.
const FIRST_VIEW: Nanos = Nanos::from_millis(200);

/// The page, with all of it in one file.
///
/// # Errors
/// The first entry that cannot be read.
pub fn page(
    recording: &Recording<'_>,
    setting: &Setting,
    title: &str,
    part: Part,
) -> Result<Page, ReadError> {
    let survey = Survey::of(recording, setting)?;
    let span = survey.span(part);
    let picture = Picture::of(recording, setting, span)?;
    let mut page = Page::new(title);
    page.paragraph(survey.summary(span));
    let names = &setting.names;
    if picture.left_out > 0 {
        let words = format!(
            "{} bars are left out, as there are too many: a shorter time has room for all.",
            picture.left_out
        );
        page.paragraph(Text::bad(&words));
    }
    let tasks = (0..).zip(&setting.config.tasks);
    let tasks: Vec<String> = tasks.map(|(id, _)| names.task(TaskId(id))).collect();
    let colours = tasks.iter().enumerate();
    page.key(colours.map(|(task, name)| (name.as_str(), Mark::Box(Colour::of(task)))));
    page.paragraph(Text::soft(
        "A pale bar is a frame, from its capture to its verdict; in it stand its preparation and its stages, and behind it a thin line to where it was due. \
         x2 are two frames in a batch. With a red outline: late, or over its budget. With a broken one: not answered, preempted or failed. A pointer on a bar \
         shows what belongs to the same frame, and a click keeps it. Wheel or + and -: zoom; drag or arrow keys: move; double \
         click or 0: all.",
    ));
    let shown = survey.shown(part, span);
    page.timelines([&picture.timeline(survey.begin(), shown, tasks.len())]);
    page.heading("Frames of the whole recording");
    page.table(&survey.table(names));
    page.heading("Stages of the whole recording: expected and measured");
    page.table(&survey.expected.table(names));
    Ok(page)
}

/// A time of the recording.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Instant,
    to: Instant,
}

impl Span {
    fn has(&self, from: Instant, to: Instant) -> bool {
        from <= self.to && to >= self.from
    }
}

/// What the whole recording has.
#[derive(Debug, Default)]
struct Survey {
    first: Option<Instant>,
    last: Instant,
    first_late: Option<Instant>,
    tasks: BTreeMap<u16, Verdicts>,
    expected: Expected,
}

#[derive(Clone, Copy, Debug, Default)]
struct Verdicts {
    on_time: u64,
    late: u64,
    rejected: u64,
    failed: u64,
}

impl Survey {
    fn of(recording: &Recording<'_>, setting: &Setting) -> Result<Self, ReadError> {
        let mut survey = Self::default();
        let mut follower = Follower::new(&setting.config);
        for entry in recording.entries() {
            let entry = entry?;
            if let Entry::Step(step) = &entry {
                survey.first.get_or_insert(step.now);
                survey.last = survey.last.max(step.now);
            }
            follower.entry(&entry, &mut |item| survey.item(&item));
        }
        follower.finish(&mut |item| survey.item(&item));
        Ok(survey)
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Run(run) => self.expected.run(run),
            Item::Frame(frame) => self.frame(frame),
            Item::Open(_) | Item::Transfer(_) | Item::Note(_) => {}
        }
    }

    fn frame(&mut self, frame: &Frame) {
        let of = self.tasks.entry(frame.submission.id.task.0).or_default();
        match frame.reply.verdict {
            Verdict::OnTime => of.on_time += 1,
            Verdict::Late => {
                of.late += 1;
                self.first_late.get_or_insert(frame.decided);
            }
            Verdict::Rejected(_) => of.rejected += 1,
            Verdict::Failed(_) => of.failed += 1,
        }
    }

    fn begin(&self) -> Instant {
        self.first.unwrap_or_default()
    }

    fn span(&self, part: Part) -> Span {
        let length = part.length;
        let half = Nanos::new(length.as_nanos() / 2);
        let before = |at: Instant, span: Nanos| {
            let from = at.as_nanos().saturating_sub(span.as_nanos());
            Instant::from_nanos(from).max(self.begin())
        };
        let from = match (part.from, self.first_late) {
            (Some(from), _) => self.begin() + from,
            (None, Some(late)) => before(late, half),
            (None, None) => before(self.last, length),
        };
        let to = from + length;
        Span { from, to }
    }

    /// What is shown of it at first: all, if it was asked for, and else as much as has room for words in bars.
    fn shown(&self, part: Part, span: Span) -> Span {
        if part.from.is_some() {
            return span;
        }
        let length = span.to.since(span.from).as_nanos();
        let middle = span.from + Nanos::new(length / 2);
        let about = self.first_late.unwrap_or(middle);
        let from = about.as_nanos().saturating_sub(FIRST_VIEW.as_nanos() / 2);
        let from = Instant::from_nanos(from).max(span.from);
        Span {
            from,
            to: (from + FIRST_VIEW).min(span.to),
        }
    }

    fn summary(&self, span: Span) -> String {
        let seconds = |at: Instant| at.since(self.begin()).as_nanos() as f64 / 1e9;
        format!(
            "{:.3} to {:.3} s of a recording of {:.3} s.",
            seconds(span.from),
            seconds(span.to),
            seconds(self.last)
        )
    }

    fn table(&self, names: &Names) -> Table {
        let mut table = Table::new(
            &["task", "frames", "on time", "late", "rejected", "failed"],
            1,
        );
        for (task, verdicts) in &self.tasks {
            let Verdicts {
                on_time,
                late,
                rejected,
                failed,
            } = *verdicts;
            let bad = |count: u64| match count {
                0 => Text::from("0"),
                some => Text::bad(&some.to_string()),
            };
            let all = on_time + late + rejected + failed;
            table.row([
                Text::from(names.task(TaskId(*task))),
                Text::from(all.to_string()),
                Text::from(on_time.to_string()),
                bad(late),
                Text::from(rejected.to_string()),
                bad(failed),
            ]);
        }
        table
    }
}

/// The bars of a time.
struct Picture<'s> {
    names: &'s Names,
    span: Span,
    rows: BTreeMap<Place, Lane>,
    bars: Vec<Placed>,
    /// What belongs to a frame has one number.
    threads: BTreeMap<FrameKey, u64>,
    /// Where the last run of a partition ended.
    free: BTreeMap<PartitionId, Instant>,
    left_out: usize,
}

/// A row of the picture.
struct Lane {
    track: Track,
    lanes: Lanes,
}

struct Placed {
    place: Place,
    lane: usize,
    ink: Inked,
}

/// A bar without its place.
#[derive(Debug)]
struct Inked {
    /// None: as the first of its bars.
    from: Option<Instant>,
    to: Option<Instant>,
    /// Of no task: none.
    task: Option<TaskId>,
    shape: Shape,
    is_bad: bool,
    labels: Vec<String>,
    title: String,
    threads: Vec<u64>,
}

impl Inked {
    fn new(title: String) -> Self {
        Self {
            from: None,
            to: None,
            task: None,
            shape: Shape::Full,
            is_bad: false,
            labels: Vec::new(),
            title,
            threads: Vec::new(),
        }
    }
}

impl<'s> Picture<'s> {
    fn of(recording: &Recording<'_>, setting: &'s Setting, span: Span) -> Result<Self, ReadError> {
        let mut picture = Self {
            names: &setting.names,
            span,
            rows: BTreeMap::new(),
            bars: Vec::new(),
            threads: BTreeMap::new(),
            free: BTreeMap::new(),
            left_out: 0,
        };
        let mut follower = Follower::new(&setting.config);
        for entry in recording.entries() {
            let entry = entry?;
            if let Entry::Step(step) = &entry {
                picture.step(step);
            }
            follower.entry(&entry, &mut |item| picture.item(&item));
        }
        let end = follower.now();
        follower.finish(&mut |item| match &item {
            Item::Open(open) => picture.open(open, end),
            other => picture.item(other),
        });
        Ok(picture)
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Run(run) => self.run(run),
            Item::Frame(frame) => self.frame(frame),
            Item::Open(open) => self.open(open, open.captured),
            Item::Transfer(transfer) => {
                if let Some(end) = transfer.end {
                    let title = format!("weights of {}", self.names.model(transfer.model));
                    let bar = Inked::new(title);
                    self.add(Track::Weights, transfer.ordered, end.learned, vec![bar]);
                }
            }
            Item::Note(note) => {
                if let Some(title) = words::note(note, self.names) {
                    let bar = Inked {
                        shape: Shape::Tick,
                        is_bad: true,
                        ..Inked::new(title)
                    };
                    self.add(Track::Scheduler, note.at, note.at, vec![bar]);
                }
            }
        }
    }

    fn step(&mut self, step: &Step) {
        if !self.span.has(step.now, step.now + step.took) {
            return;
        }
        let title = format!(
            "{}: {} actions, {} us",
            words::event(&step.event),
            step.actions.len(),
            step.took.as_nanos() / 1_000
        );
        let bar = Inked::new(title);
        self.add(Track::Scheduler, step.now, step.now + step.took, vec![bar]);
    }

    fn run(&mut self, run: &Run) {
        let free = self.free.get(&run.partition).copied().unwrap_or_default();
        let at = run.end.map_or(run.ordered, |end| end.learned);
        let (from, to) = occupied(run, free).unwrap_or((at, at));
        self.free.insert(run.partition, free.max(to));
        if !self.span.has(from, to) {
            return;
        }
        let mut members = run.members.iter().filter_map(|member| member.frame);
        let ink = Inked {
            labels: self.labels_of(run),
            task: members.next().map(|frame| frame.task),
            shape: shape_of(run),
            is_bad: run.overrun() > Nanos::ZERO,
            threads: self.threads_of(run),
            ..Inked::new(self.title_of(run))
        };
        self.add(Track::Partition(run.partition), from, to, vec![ink]);
    }

    /// The longest first. Without its name the task is clear from the colour.
    fn labels_of(&self, run: &Run) -> Vec<String> {
        let long = words::run(run, self.names);
        let short = format!("stage {}", run.stage.0);
        match run.members.len() {
            0 | 1 => vec![long, short],
            frames => vec![
                format!("{long} x{frames}"),
                format!("{short} x{frames}"),
                format!("x{frames}"),
            ],
        }
    }

    fn title_of(&self, run: &Run) -> String {
        let mut title = format!(
            "{} of {}, {} of batch {}, {}",
            words::run(run, self.names),
            self.names.model(run.model),
            run.members.len(),
            run.batch,
            words::outcome(run)
        );
        if let Some(measured) = run.measured() {
            title += &format!(": {:.3} ms", words::ms(measured));
        }
        if let Some(time) = run.time {
            title += &format!(", budget {:.3} ms", words::ms(time.budget));
        }
        title
    }

    fn frame(&mut self, frame: &Frame) {
        let submission = &frame.submission;
        let from = frame.reply.captured.min(frame.decided);
        let end = frame.sent.map_or(frame.decided, |sent| sent.ended);
        if !self.span.has(from, end) {
            return;
        }
        let verdict = frame.reply.verdict;
        let (shape, is_bad) = match verdict {
            Verdict::OnTime => (Shape::Frame, false),
            Verdict::Late => (Shape::Frame, true),
            Verdict::Rejected(_) => (Shape::Hollow, false),
            Verdict::Failed(_) => (Shape::Hollow, true),
        };
        let bar = Inked {
            to: Some(end),
            labels: vec![words::frame(submission.id)],
            title: words::story(frame, self.names),
            shape,
            is_bad,
            ..self.of_frame(submission)
        };
        let mut bars = vec![bar];
        bars.extend(self.parts(submission));
        // Until it is due its lane is its own: in another frame's bar the line would be taken for that one's.
        let mut until = end;
        if let Some(due) = frame.due()
            && !matches!(verdict, Verdict::Rejected(_))
        {
            until = end.max(due);
            let bar = Inked {
                from: Some(end.min(due)),
                to: Some(due),
                title: format!("{} is due", words::frame(submission.id)),
                shape: Shape::Due,
                ..self.of_frame(submission)
            };
            bars.push(bar);
        }
        self.add(Track::Task(submission.id.task), from, until, bars);
        self.threads_bars(submission, frame.sent);
    }

    /// A frame without a verdict, as far as it is known to have been open.
    fn open(&mut self, submission: &Submission, end: Instant) {
        if !self.span.has(submission.captured, end) {
            return;
        }
        let bar = Inked {
            labels: vec![words::frame(submission.id)],
            title: format!("{}: no verdict", words::frame(submission.id)),
            shape: Shape::Hollow,
            ..self.of_frame(submission)
        };
        let mut bars = vec![bar];
        bars.extend(self.parts(submission));
        let (from, to) = (submission.captured, end);
        self.add(Track::Task(submission.id.task), from, to, bars);
        self.threads_bars(submission, None);
    }

    fn parts(&mut self, submission: &Submission) -> Vec<Inked> {
        let mut bars = Vec::new();
        for part in parts::of(submission, self.names) {
            bars.push(Inked {
                from: Some(part.from),
                to: Some(part.to),
                title: format!(
                    "{}: {:.3} ms",
                    part.name(),
                    words::ms(part.to.since(part.from))
                ),
                labels: part.names,
                shape: Shape::Part,
                ..self.of_frame(submission)
            });
        }
        bars
    }

    /// What the threads of its client did.
    fn threads_bars(&mut self, submission: &Submission, sent: Option<Sending>) {
        let client = submission.id.ticket.client;
        let ink = |this: &mut Self, what: &str, shape| Inked {
            title: format!("{what} {}", words::frame(submission.id)),
            shape,
            ..this.of_frame(submission)
        };
        if let Some(arrived) = submission.arrived {
            let bar = ink(self, "submitted", Shape::Tick);
            self.add(Track::Client(client), arrived, arrived, vec![bar]);
        }
        if let Some(preparation) = submission.preparation
            && let Some(end) = preparation.end
        {
            let bar = ink(self, "prepare", Shape::Full);
            let track = Track::Intake(client);
            self.add(track, preparation.ordered, end.learned, vec![bar]);
        }
        let deliveries = submission.deliveries.iter();
        let deliveries = deliveries.filter_map(|delivered| delivered.sent);
        for sent in deliveries.chain(sent) {
            let bar = ink(self, "sent", Shape::Full);
            self.add(Track::Port(client), sent.began, sent.ended, vec![bar]);
            let bar = ink(self, "record of", Shape::Tick);
            self.add(Track::Client(client), sent.ended, sent.ended, vec![bar]);
        }
    }

    fn of_frame(&mut self, submission: &Submission) -> Inked {
        Inked {
            task: Some(submission.id.task),
            threads: vec![self.thread(submission.id.ticket)],
            ..Inked::new(String::new())
        }
    }

    fn threads_of(&mut self, run: &Run) -> Vec<u64> {
        let members = run.members.iter().filter_map(|member| member.frame);
        let tickets: Vec<Ticket> = members.map(|frame| frame.ticket).collect();
        tickets.into_iter().map(|t| self.thread(t)).collect()
    }

    fn thread(&mut self, ticket: Ticket) -> u64 {
        let next = self.threads.len() as u64;
        *self.threads.entry(ticket.into()).or_insert(next)
    }

    /// Puts bars into one lane of a row, if the first of them, from `from` to `to`, is in the picture.
    fn add(&mut self, track: Track, from: Instant, to: Instant, bars: Vec<Inked>) {
        let to = to.max(from);
        if !self.span.has(from, to) {
            return;
        }
        if self.bars.len() + bars.len() > BARS_MAX {
            self.left_out += bars.len();
            return;
        }
        let place = track.place();
        let lanes = Lanes::default();
        let row = self.rows.entry(place).or_insert(Lane { track, lanes });
        // What takes no time is in no other's way.
        let is_tick = bars.iter().all(|bar| bar.shape == Shape::Tick);
        let lane = is_tick.then_some(0);
        let lane = lane.or_else(|| row.lanes.place(from.as_nanos(), to.as_nanos()));
        let Some(lane) = lane else {
            self.left_out += bars.len();
            return;
        };
        self.bars.extend(bars.into_iter().map(|ink| Placed {
            place,
            lane,
            ink: Inked {
                from: ink.from.or(Some(from)),
                to: ink.to.or(Some(to)),
                ..ink
            },
        }));
    }

    fn timeline(self, begin: Instant, shown: Span, tasks: usize) -> Timeline {
        let us = |at: Instant| (at.since(begin).as_nanos() / 100) as f64 / 10.0;
        let row = |lane: &Lane| Row {
            group: lane
                .track
                .place()
                .group
                .map_or("Scheduler", Group::name)
                .to_owned(),
            name: lane.track.name(self.names),
            lanes: lane.lanes.count().max(1),
        };
        let positions: BTreeMap<Place, usize> = self.rows.keys().copied().zip(0..).collect();
        let bar = |placed: Placed| Bar {
            row: positions[&placed.place],
            lane: placed.lane,
            from: us(placed.ink.from.unwrap_or_default()),
            to: us(placed.ink.to.unwrap_or_default()),
            // Behind those of tasks there is one for all else.
            colour: placed
                .ink
                .task
                .map_or(tasks, |task| task.index().min(tasks)),
            shape: placed.ink.shape,
            is_bad: placed.ink.is_bad,
            labels: placed.ink.labels,
            title: placed.ink.title,
            threads: placed.ink.threads,
        };
        Timeline {
            from: us(shown.from),
            to: us(shown.to),
            rows: self.rows.values().map(row).collect(),
            colours: (0..tasks).map(Colour::of).chain([GREY]).collect(),
            bars: self.bars.into_iter().map(bar).collect(),
        }
    }
}

const GREY: Colour = Colour(128, 128, 128);

const fn shape_of(run: &Run) -> Shape {
    match run.end {
        None => Shape::Tick,
        Some(end) => match end.outcome {
            Outcome::Finished { .. } => Shape::Full,
            Outcome::Preempted | Outcome::Failed => Shape::Hollow,
            Outcome::NotRun => Shape::Tick,
        },
    }
}
