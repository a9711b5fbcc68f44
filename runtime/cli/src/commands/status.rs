//! `punctual status`: how a daemon is, for people, scripts and monitoring.

use std::path::PathBuf;

use punctual_daemon::{Report, State, TaskReport};
use punctual_platform::clock;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_report::{Column, Table};

use crate::live::daemon::{Daemon, LiveError};
use crate::live::path::{NoField, find};
use crate::live::since::since;
use crate::live::troubles::{self, Gravity, Trouble};

/// Of which daemon, and what.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual status
  punctual status --socket /tmp/punctual.sock
  punctual status --socket /tmp/punctual.sock tasks/signs/latency_us/p99
  punctual status --socket /tmp/punctual.sock clients
  punctual status --socket /tmp/punctual.sock --for 10        # of the next ten seconds alone
  punctual status --socket /tmp/punctual.sock --json
  punctual status --quiet                        # for scripts: the code says it

Without --socket it is the daemon of this machine, if there is one. All counts are since its start, or of the time that --for
waits: what was grave once stays grave since the start, so monitoring uses --for. The largest times of stages and overruns,
what each client counted, lending, and times of decisions are always since the start. PATH is a field of the report that --json prints, parts separated by `/`; an element of a list is called
by its name or its position, a stage by model/stage/batch/partition. A wrong path is answered with those that there are.

JSON: the report, and `troubles`: [{gravity, what, remedy}].

TERMINATION CODES: 0 all is well, or only minor troubles; 1 something is grave; 3 several daemons serve, or there is no such
field; 4 no daemon serves; 5 this user may not ask it.")]
pub struct Options {
    /// A field of the report, as `tasks/front/late`.
    path: Option<String>,
    /// Where the daemon listens.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print the report as JSON; with a path, the field is always.
    #[arg(long)]
    json: bool,
    /// Wait this long, and count what happens in that time.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    window: Option<f64>,
    /// Print nothing: the code says it.
    #[arg(long, short, conflicts_with_all = ["json", "path"])]
    quiet: bool,
}

/// A time to watch a daemon for.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=3_600.0).contains(&value) => Ok(value),
        _ => Err("must be a number from 0.1 to 3600".to_owned()),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    NoField(#[from] NoField),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Live(error) => error.termination(),
            Self::NoField(_) => Termination::BadInput,
            Self::Output(error) => error.termination(),
        }
    }
}

pub fn run(options: &Options) -> Termination {
    match status(options) {
        Ok(true) => Termination::Done,
        Ok(false) => Termination::BadResult,
        Err(error) => Termination::of("status", Err(error)),
    }
}

fn status(options: &Options) -> Result<bool, Error> {
    let daemon = Daemon::find(options.socket.as_deref())?;
    let mut report = daemon.report()?;
    let mut serves_for = report.seconds;
    if let Some(window) = options.window {
        clock::sleep_until_ns(clock::now_ns() + (window * 1e9) as u64);
        let now = daemon.report()?;
        serves_for = now.seconds;
        report = since(&report, &now);
    }
    let troubles = troubles::of(&report);
    let is_well = troubles::is_well(&troubles);
    if options.quiet {
        return Ok(is_well);
    }
    if options.json || options.path.is_some() {
        let mut value = serde_json::to_value(&report).expect("plain data serialises");
        value["troubles"] = serde_json::to_value(&troubles).expect("plain data serialises");
        let value = find(&value, options.path.as_deref().unwrap_or_default())?;
        output::line(match value {
            serde_json::Value::String(text) => text.clone(),
            value => serde_json::to_string_pretty(value).expect("plain data serialises"),
        })?;
    } else {
        let head = first_line(&report, serves_for);
        output::text(text(&head, &report, &troubles, output::width()))?;
    }
    // The field is what was asked for.
    Ok(is_well || options.path.is_some())
}

/// For people, at most `width` columns wide.
fn text(head: &str, report: &Report, troubles: &[Trouble], width: usize) -> String {
    let mut text = format!(
        "{head}\nsocket {}, manifest {}\nplan {:.12}, policy {}, board {}; {} of {} clients\n\n{:width$}\n{:width$}\n",
        report.socket,
        report.manifest,
        report.plan,
        report.policy,
        report.board,
        report.clients.in_use,
        report.clients.slots,
        tasks(report),
        partitions(report),
    );
    if let Some(words) = started(report) {
        text.push_str(&words);
    }
    text.push_str(&troubles::words(troubles));
    text.push('\n');
    for trouble in troubles {
        let gravity = match trouble.gravity {
            Gravity::Grave => "GRAVE: ",
            Gravity::Minor => "",
        };
        text.push_str(&format!(
            "{gravity}{}\n  -> {}\n",
            trouble.what, trouble.remedy
        ));
    }
    text
}

/// How long the start took: to the first task, to everything, and to the first answers. None of a daemon that does not tell.
fn started(report: &Report) -> Option<String> {
    let ready = report.start.ready_ms?;
    let mut line = format!("ready {ready:.0} ms after its start");
    if let Some(whole) = report.start.whole_ms {
        line.push_str(&format!(", all loaded after {whole:.0}"));
    }
    let answered = report.tasks.iter().filter_map(|task| {
        let ms = task.start.answered_ms?;
        Some(format!("{} {ms:.0}", task.name))
    });
    let answered: Vec<String> = answered.take(FIRST_ANSWERS_MAX).collect();
    if !answered.is_empty() {
        line.push_str(&format!("; first answers after {}", answered.join(", ")));
    }
    line.push('\n');
    Some(line)
}

/// As many first answers as fit into a line.
const FIRST_ANSWERS_MAX: usize = 8;

/// Which daemon it is, what it does, and for how long.
pub fn first_line(report: &Report, seconds: f64) -> String {
    let state = match report.state {
        State::Starting => "starts",
        State::Serving => "serves",
        State::Draining => "drains",
        State::Terminated => "has ended",
    };
    format!(
        "punctuald {}, process {}, {state} for {}",
        report.version,
        report.pid,
        duration(seconds)
    )
}

pub fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// Rows of the table of tasks.
const TASKS_MAX: usize = 64;

fn tasks(report: &Report) -> Table {
    let (number, words) = (Column::number, Column::words);
    let mut table = Table::of([
        words("task"),
        words("partition"),
        number("frames"),
        number("on time"),
        number("late"),
        number("rejected"),
        number("failed"),
        words("by exit"),
        number("p50").unit("ms"),
        number("p99").unit("ms"),
        number("max").unit("ms"),
    ]);
    let mut tasks: Vec<&TaskReport> = report.tasks.iter().collect();
    // Of thousands those that are asked most.
    if tasks.len() > TASKS_MAX {
        tasks.sort_by_key(|task| std::cmp::Reverse(task.submitted));
    }
    for task in tasks {
        let exits = task.exits.iter().map(u64::to_string).collect::<Vec<_>>();
        let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
        table.row([
            task.name.clone(),
            task.partition.clone(),
            task.submitted.to_string(),
            task.on_time.to_string(),
            task.late.to_string(),
            task.rejected.total().to_string(),
            task.failed.total().to_string(),
            exits.join("/"),
            ms(task.latency_us.p50),
            ms(task.latency_us.p99),
            ms(task.latency_us.max),
        ]);
    }
    table.at_most(TASKS_MAX)
}

fn partitions(report: &Report) -> Table {
    let (number, words) = (Column::number, Column::words);
    let mut table = Table::of([
        words("partition"),
        words("device"),
        number("units"),
        number("stages"),
        number("preempted"),
        number("real-time").unit("%"),
        number("best effort").unit("%"),
        words("now"),
    ]);
    for partition in &report.partitions {
        let share = |us: u64| format!("{:.1}", us as f64 / 1e4 / report.seconds.max(1e-3));
        let real_time_us = partition.busy_us.saturating_sub(partition.best_effort_us);
        let running = partition.running.as_ref();
        let running = running.map(|at| format!("{}/{} x{}", at.model, at.stage, at.batch));
        table.row([
            partition.name.clone(),
            partition.device.clone(),
            partition.units.to_string(),
            partition.finished.to_string(),
            partition.preempted.to_string(),
            share(real_time_us),
            share(partition.best_effort_us),
            running.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_long_as_people_need_them() {
        for (seconds, words) in [
            (9.4, "9 s"),
            (125.0, "2 min 5 s"),
            (7_260.0, "2 h 1 min"),
            (200_000.0, "2 d 7 h"),
        ] {
            assert_eq!(duration(seconds), words);
        }
    }

    #[test]
    fn a_report_fits_eighty_columns() {
        let report = Report {
            tasks: vec![punctual_daemon::TaskReport {
                name: "signs".into(),
                partition: "main".into(),
                submitted: 123_456,
                on_time: 123_456,
                exits: vec![1, 2, 3],
                ..Default::default()
            }],
            partitions: vec![Default::default()],
            ..Report::default()
        };
        let head = first_line(&report, 9.0);
        let text = text(&head, &report, &troubles::of(&report), 80);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(text.ends_with("all is well\n"), "{text}");
    }
}
