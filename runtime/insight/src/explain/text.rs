//! Explanations as text for a terminal.

use std::fmt::Write as _;

use punctual_core::Nanos;
use punctual_report::{Column, Table, printable};

use super::Explained;
use super::ask::Ask;
use super::history::Occupant;
use super::rejection::{Rejected, Reserved};
use super::story::{Part, Story};
use super::summary::Summary;

/// Rows of a list of frames.
const LIST_MAX: usize = 40;
/// What ran while a frame waited: the longest of it.
const OCCUPANTS_MAX: usize = 4;
/// Columns of a time line.
const LINE_MIN: usize = 8;
const LINE_MAX: usize = 40;

impl Explained {
    /// For a terminal of this many columns.
    #[must_use]
    pub fn text(&self, ask: &Ask, width: usize) -> String {
        let mut text = String::new();
        for frame in &self.open {
            let frame = printable(frame);
            let _ = writeln!(text, "{frame} has no verdict in this recording.");
        }
        match &self.stories[..] {
            [] if *ask == Ask::Summary => text += &self.summary.text(width),
            [] if self.open.is_empty() => text += &none_of(ask),
            [] => {}
            [story] => text += &story.text(width),
            stories => {
                if matches!(ask, Ask::Rejected | Ask::Failed) {
                    text += &self.summary.reasons();
                }
                text += &list(stories, width);
                let rest = stories.len().saturating_sub(LIST_MAX) as u64 + self.omitted;
                if rest > 0 {
                    let _ = writeln!(text, "and {rest} more (--json has those that are kept)");
                }
                text += "\nOne of them: punctual explain FILE TASK/CLIENT/SEQUENCE\n";
            }
        }
        if let Some(why) = &self.summary.cut {
            let why = printable(why);
            let _ = writeln!(
                text,
                "The file was cut off ({why}): more may have happened."
            );
        }
        text
    }
}

fn none_of(ask: &Ask) -> String {
    match ask {
        Ask::Summary => String::new(),
        Ask::Late => "No frame was late.\n".to_owned(),
        Ask::Rejected => "No frame was rejected.\n".to_owned(),
        Ask::Failed => "No frame failed.\n".to_owned(),
        Ask::Slowest(_) => "No frame has an answer.\n".to_owned(),
        Ask::Frame(name) => {
            let name = printable(&name.to_string());
            format!("There is no frame {name} in this recording.\n")
        }
    }
}

/// One line a frame.
fn list(stories: &[Story], width: usize) -> String {
    let mut table = Table::of([
        Column::words("frame"),
        Column::words("verdict"),
        Column::number("took").unit("ms"),
        Column::number("deadline").unit("ms"),
        Column::number("over").unit("ms"),
        Column::words("broke first"),
    ]);
    for story in stories.iter().take(LIST_MAX) {
        let took = story.latency_ns.unwrap_or(story.decided_ns);
        table.row([
            story.frame.clone(),
            story.reason.unwrap_or(story.verdict).to_owned(),
            number(took),
            optional(story.deadline_ns),
            optional(story.over()),
            story.why(),
        ]);
    }
    format!("{table:width$}")
}

impl Story {
    fn over(&self) -> Option<Nanos> {
        match &self.rejection {
            Some(rejected) => rejected.missing_ns,
            None => self.broken()?.over_ns,
        }
    }

    fn why(&self) -> String {
        match (&self.rejection, self.broken()) {
            (Some(rejected), _) => rejected.why(self.reason),
            (None, Some(broken)) => broken.name.clone(),
            (None, None) => String::new(),
        }
    }

    fn text(&self, width: usize) -> String {
        let mut head = Table::list().inset();
        head.row(["verdict".to_owned(), self.verdict()]);
        if let Some((exit, confidence)) = self.exit.zip(self.confidence) {
            let answer = format!("of exit {exit}, with confidence {confidence:.2}");
            head.row(["answer".to_owned(), answer]);
        }
        if let Some(rejected) = &self.rejection {
            head.row(["let it through".to_owned(), rejected.remedy(self.reason)]);
        } else {
            head.row(["broke first".to_owned(), self.breach()]);
        }
        if !self.whole {
            let partial = "not all that happened to it is known";
            head.row(["partial", partial]);
        }
        let frame = printable(&self.frame);
        let mut text = format!("{frame}\n{head:width$}");
        if let Some(rejected) = &self.rejection {
            let _ = write!(text, "\n{:width$}", rejected.arithmetic());
            let _ = write!(text, "\n{:width$}", rejected.holders());
        }
        if !self.parts.is_empty() {
            let _ = write!(text, "\n{:width$}", self.table(width));
        }
        let details = self.details();
        if let Some(details) = details {
            let _ = write!(text, "\n{details:width$}");
        }
        text
    }

    fn verdict(&self) -> String {
        let word = match self.reason {
            None => self.verdict.to_owned(),
            Some(reason) => format!("{} ({reason})", self.verdict),
        };
        let deadline = self.deadline_ns;
        let deadline = deadline.map_or("no deadline".to_owned(), |at| {
            format!("deadline {}", ms(at))
        });
        let Some(latency) = self.latency_ns else {
            let decided = ms(self.decided_ns);
            return format!("{word}, {decided} after its capture, {deadline}");
        };
        let margin = match self.margin_ns {
            Some(margin) if margin < 0 => format!(" by {}", ms(Nanos::new(margin.unsigned_abs()))),
            _ => String::new(),
        };
        let latency = ms(latency);
        format!("{word}{margin}: {latency} from its capture until its client had it, {deadline}")
    }

    fn breach(&self) -> String {
        match (self.broken(), self.longest()) {
            (Some(broken), _) => broken.breach(),
            (None, Some(longest)) => format!(
                "nothing; most of the time took: {} ({})",
                longest.name,
                ms(longest.took_ns)
            ),
            (None, None) => "nothing that is in the recording".to_owned(),
        }
    }

    fn table(&self, width: usize) -> Table {
        let ends = self.parts.iter().map(|part| part.from_ns + part.took_ns);
        let end = ends.max().unwrap_or_default();
        let mut table = Table::of([
            Column::words("part"),
            Column::number("took").unit("ms"),
            Column::number("bound").unit("ms"),
            Column::number("more").unit("ms"),
            Column::words(&format!("0 to {}", ms(end))),
        ])
        .inset();
        let names = self.parts.iter().map(|part| part.name.chars().count());
        // Four gaps and the inset, and three columns of numbers.
        let others = names.max().unwrap_or(0) + 5 * 2 + 3 * "12345.678".len();
        let columns = width.saturating_sub(others).clamp(LINE_MIN, LINE_MAX);
        for part in &self.parts {
            table.row([
                part.name.clone(),
                number(part.took_ns),
                optional(part.bound_ns),
                optional(part.over_ns),
                line(part, end, columns),
            ]);
        }
        table
    }

    /// What is known of each part; none of all of them: no table.
    fn details(&self) -> Option<Table> {
        let mut table = Table::list().inset();
        let mut any = false;
        for part in &self.parts {
            let occupants = part.occupants.iter().take(OCCUPANTS_MAX);
            let details = part.detail.iter().cloned();
            for detail in details.chain(occupants.map(Occupant::text)) {
                table.row([part.name.clone(), detail]);
                any = true;
            }
        }
        any.then_some(table)
    }
}

impl Part {
    fn breach(&self) -> String {
        let over = ms(self.over_ns.unwrap_or_default());
        let took = ms(self.took_ns);
        format!("{}: {took}, {over} more than its bound", self.name)
    }
}

impl Occupant {
    fn text(&self) -> String {
        let Self { model, stage, .. } = self;
        let took = ms(self.took_ns);
        let tasks = match self.tasks.join(", ") {
            tasks if tasks.is_empty() => "frames from before the recording".to_owned(),
            tasks => tasks,
        };
        let runs = match self.runs {
            1 => String::new(),
            runs => format!(" in {runs} runs"),
        };
        format!("meanwhile stage {stage} of {model} for {tasks}: {took}{runs}")
    }
}

impl Rejected {
    /// In a few words.
    fn why(&self, reason: Option<&str>) -> String {
        match (reason, self.missing_ns) {
            (Some("queue-full"), _) => format!("{} of {} open", self.queue, self.queue_max),
            (Some("no-slack"), Some(_)) => "promised and reserved work".to_owned(),
            (Some("no-slack"), None) if self.share_spent => "share of real-time work".to_owned(),
            (Some("no-slack"), None) => "lent units or scale".to_owned(),
            _ => String::new(),
        }
    }

    /// The arithmetic, one term a line.
    fn arithmetic(&self) -> Table {
        let mut table = Table::of([Column::words("admission"), Column::number("ms")]).inset();
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        row(
            "left until an answer had to be decided",
            signed(self.left_ns),
        );
        if self.prepare_ns > Nanos::ZERO {
            row("its preparation", number(self.prepare_ns));
        }
        row("its mandatory work, at budgets", number(self.work_ns));
        row("until its partition was free", number(self.free_in_ns));
        if self.tightest_ns != self.left_ns {
            row(
                "left until the deadline of least slack",
                signed(self.tightest_ns),
            );
        }
        row("promised work of open frames", number(self.promised_ns));
        row(
            "reserved for frames to come, about",
            number(self.reserved_ns),
        );
        row("missing", optional(self.missing_ns));
        table
    }

    fn holders(&self) -> Table {
        let mut table = Table::list().inset();
        for running in &self.running {
            let frames = match running.frames.join(", ") {
                frames if frames.is_empty() => "frames from before the recording".to_owned(),
                frames => frames,
            };
            let stage = format!("stage {} of {}", running.stage, running.model);
            let budget = running.budget_ns.map_or_else(|| "none".to_owned(), ms);
            let since = ms(running.since_ns);
            let what = format!("{stage} for {frames}: ordered {since} before, budget {budget}");
            table.row(["runs".to_owned(), what]);
        }
        for open in &self.open {
            let frames = match open.frames {
                1 => "1 open frame".to_owned(),
                frames => format!("{frames} open frames"),
            };
            let (task, work) = (&open.task, ms(open.work_ns));
            let what = format!("{frames} of {task}: {work} of mandatory work left");
            let word = if open.promised { "holds it" } else { "waits" };
            table.row([word.to_owned(), what]);
        }
        for reserved in &self.reserved {
            let Reserved { task, frames, .. } = reserved;
            let work = ms(reserved.work_ns);
            let what = format!("for the next {frames} frames of {task}: {work}");
            table.row(["reserved".to_owned(), what]);
        }
        if self.running.is_empty() && self.open.is_empty() && self.reserved.is_empty() {
            table.row(["holds it", "no open frame of its partition"]);
        }
        table
    }

    /// What would have let it through, as far as the steps tell.
    fn remedy(&self, reason: Option<&str>) -> String {
        match (reason, self.missing_ns.map(ms)) {
            (Some("late-on-arrival"), Some(missing)) => {
                format!("arriving {missing} sooner, or a deadline {missing} later")
            }
            (Some("no-slack"), Some(missing)) => {
                format!("{missing} less promised or reserved work, or a deadline {missing} later")
            }
            (Some("no-slack"), None) if self.share_spent => format!(
                "less real-time work before: it had used its share of the partition's time, {}.{}%, and frames beyond \
                 the reservations get none of the operating system's",
                self.share_max / 10,
                self.share_max % 10
            ),
            (Some("no-slack"), None) => {
                "open frames and reservations leave it enough: lent compute units or a slower scale hold the rest"
                    .to_owned()
            }
            (Some("queue-full"), _) => format!(
                "fewer open frames: its task had {} and may have {}; all have {} request buffers",
                self.queue, self.queue_max, self.request_buffers
            ),
            (Some("superseded"), _) => {
                "nothing: a newer frame of its client took its place".to_owned()
            }
            (Some("shedding"), _) => {
                "a machine without trouble: best-effort work was shed".to_owned()
            }
            (Some("not-ready"), _) => {
                "a later arrival: the daemon was starting, and its network was not loaded yet"
                    .to_owned()
            }
            (Some("draining"), _) => "nothing: the daemon shut down".to_owned(),
            _ => "the recording does not tell".to_owned(),
        }
    }
}

impl Summary {
    /// How many for which reason, in a line.
    fn reasons(&self) -> String {
        let reasons = self.reasons.iter();
        let reasons: Vec<_> = reasons
            .map(|(why, frames)| format!("{why} {frames}"))
            .collect();
        format!("{}\n\n", reasons.join(", "))
    }

    fn text(&self, width: usize) -> String {
        let length = self.until_ns.since(self.from_ns);
        let (steps, lost) = (self.steps, self.lost);
        let mut text = format!("{length} in {steps} steps\n");
        let mut tasks = Table::new(
            &[
                "task",
                "frames",
                "on time",
                "late",
                "rejected",
                "failed",
                "slowest ms",
            ],
            1,
        )
        .inset();
        for task in &self.tasks {
            tasks.row([
                task.task.clone(),
                task.frames.to_string(),
                task.on_time.to_string(),
                task.late.to_string(),
                task.rejected.to_string(),
                task.failed.to_string(),
                optional(task.latency_max_ns),
            ]);
        }
        let _ = write!(text, "\n{tasks:width$}");
        let mut facts = Table::list().inset();
        let mut row = |name: &str, fact: String| facts.row([name.to_owned(), fact]);
        for (reason, frames) in &self.reasons {
            row(reason, format!("{frames} frames"));
        }
        for (part, frames) in &self.broke {
            row("late", format!("{frames} frames; broke first: {part}"));
        }
        if let Some(slowest) = &self.slowest {
            row(
                "slowest",
                format!("{}, {}", slowest.frame, ms(slowest.latency_ns)),
            );
        }
        if self.partial > 0 {
            let partial = self.partial;
            row("partial", format!("not all of {partial} frames is known"));
        }
        if self.open > 0 {
            row("open", format!("{} frames without a verdict", self.open));
        }
        if lost > 0 {
            row("lost", format!("{lost} steps were not recorded"));
        }
        let _ = write!(text, "\n{facts:width$}");
        text + "\nGo on with --late, --rejected, --slowest 5 or a frame: TASK/CLIENT/SEQUENCE\n"
    }
}

/// Where a part lies between the capture and the end.
fn line(part: &Part, end: Nanos, columns: usize) -> String {
    let column = |at: Nanos| {
        let end = u128::from(end.as_nanos().max(1));
        let scaled = u128::from(at.as_nanos()) * columns as u128 / end;
        usize::try_from(scaled).map_or(columns, |column| column.min(columns))
    };
    let from = column(part.from_ns).min(columns - 1);
    let to = column(part.from_ns + part.took_ns).max(from + 1);
    let mark = if part.over_ns.is_some() { '!' } else { '#' };
    let within = |at| (from..to).contains(&at);
    (0..columns)
        .map(|at| if within(at) { mark } else { '.' })
        .collect()
}

/// In milliseconds, to the microsecond.
fn number(span: Nanos) -> String {
    format!("{:.3}", span.as_nanos() as f64 / 1e6)
}

fn ms(span: Nanos) -> String {
    format!("{} ms", number(span))
}

fn optional(span: Option<Nanos>) -> String {
    span.map_or_else(|| "-".to_owned(), number)
}

fn signed(span: Option<i64>) -> String {
    let Some(span) = span else {
        return "-".to_owned();
    };
    let sign = if span < 0 { "-" } else { "" };
    format!("{sign}{}", number(Nanos::new(span.unsigned_abs())))
}
