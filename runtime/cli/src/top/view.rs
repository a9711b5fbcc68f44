//! Draws a daemon: a pure function of two reports and of the size of the screen.

use punctual_daemon::{NoteReport, PartitionReport, Report, ThreadReport};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Widget};

use crate::commands::status::{duration, first_line};
use crate::live::interval::{Interval, TaskInterval};
use crate::live::machine::Machine;
use crate::live::troubles::{self, Gravity, Trouble};

/// The least that shows a daemon.
const WIDTH_MIN: u16 = 60;
const HEIGHT_MIN: u16 = 12;

/// From here on stages and clients stand side by side.
const WIDE: u16 = 120;

/// What is drawn.
pub struct Picture<'p> {
    pub before: Option<&'p Report>,
    pub now: &'p Report,
    /// Those of the last seconds.
    pub troubles: &'p [Trouble],
    pub machine_before: Option<&'p Machine>,
    pub machine: &'p Machine,
    /// Above all; none while the daemon serves.
    pub banner: Option<String>,
    /// Whether there are keys to press.
    pub keys: bool,
    /// Without it there are none, whatever they mean.
    pub colours: bool,
}

/// Only what has a meaning is coloured, and the terminal's own colours are the others: it may be dark or light.
#[derive(Clone, Copy)]
struct Colours(bool);

impl Colours {
    fn of(self, colour: Color) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.0 { style.fg(colour) } else { style }
    }

    fn bad(self) -> Style {
        self.of(Color::Red)
    }

    fn good(self) -> Style {
        self.of(Color::Green)
    }

    fn near(self) -> Style {
        // Yellow cannot be read on white.
        self.of(Color::Magenta)
    }

    fn heading() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}

/// Draws the picture into an area.
pub fn draw(picture: &Picture<'_>, area: Rect, buffer: &mut Buffer) {
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let words = format!("{WIDTH_MIN} columns and {HEIGHT_MIN} lines are needed");
        return Paragraph::new(words).render(area, buffer);
    }
    let report = picture.now;
    let interval = Interval::between(picture.before, report);
    let colours = Colours(picture.colours);
    let shown = report.partitions.iter().filter(|at| is_shown(at)).count();
    let height = |lines: usize| u16::try_from(lines).unwrap_or(u16::MAX);
    let head = height(3 + picture.troubles.len().min(3));
    let (tasks, partitions) = (height(report.tasks.len() + 2), height(shown + 2));
    let details = Details::of(report, area, head + tasks + partitions);
    let [head, tasks, partitions, stages, threads, notes, keys] = Layout::vertical([
        Constraint::Length(head),
        Constraint::Length(tasks),
        Constraint::Length(partitions),
        Constraint::Length(details.stages_and_clients),
        Constraint::Length(details.threads),
        Constraint::Min(NOTES_MIN),
        Constraint::Length(picture.keys.into()),
    ])
    .areas(area);
    draw_head(picture, colours, head, buffer);
    draw_tasks(report, &interval, colours, tasks, buffer);
    draw_partitions(report, &interval, partitions, buffer);
    let [stages, clients] = details.divide(stages);
    draw_stages(report, colours, stages, buffer);
    draw_clients(report, clients, buffer);
    draw_threads(picture, details.shown, colours, threads, buffer);
    draw_notes(report, colours, notes, buffer);
    let words = "q: leave   p: pause, and go on   space: look at once";
    Paragraph::new(Line::styled(words, Colours::heading())).render(keys, buffer);
}

/// Lines of the log that are always there, with their heading.
const NOTES_MIN: u16 = 3;

/// Stages, clients and threads: side by side on a wide screen, below one another on a high one, else not shown.
struct Details {
    shown: bool,
    /// Of stages alone, where they stand above the clients.
    stages: Option<u16>,
    stages_and_clients: u16,
    threads: u16,
}

impl Details {
    fn of(report: &Report, area: Rect, above: u16) -> Self {
        let lines = |of: usize, most: usize| of.min(most) as u16 + 2;
        let stages = lines(report.stages.len(), 12);
        let clients = lines(report.clients.connected.len(), 12);
        let threads = lines(report.threads.len(), 16);
        let high = above + stages + clients + threads + NOTES_MIN + 1;
        if area.width >= WIDE {
            return Self {
                shown: true,
                stages: None,
                stages_and_clients: stages.max(clients),
                threads,
            };
        }
        let shown = area.height >= high;
        Self {
            shown,
            stages: Some(stages),
            stages_and_clients: if shown { stages + clients } else { 0 },
            threads: if shown { threads } else { 2 },
        }
    }

    fn divide(&self, area: Rect) -> [Rect; 2] {
        match self.stages {
            Some(stages) => {
                Layout::vertical([Constraint::Length(stages), Constraint::Min(0)]).areas(area)
            }
            None => Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)])
                .areas(area),
        }
    }
}

fn draw_head(picture: &Picture<'_>, colours: Colours, area: Rect, buffer: &mut Buffer) {
    let (report, troubles) = (picture.now, picture.troubles);
    let clients = format!(
        "{} of {} clients",
        report.clients.in_use, report.clients.slots
    );
    let mut machine = format!(
        "board {}, policy {}, plan {:.8}, {clients}",
        report.board, report.policy, report.plan
    );
    if let Some(celsius) = picture.machine.celsius {
        machine += &format!(", {celsius:.0} °C");
    }
    if let Some(mhz) = picture.machine.mhz {
        machine += &format!(", {mhz:.0} MHz");
    }
    let health = match &picture.banner {
        Some(banner) => Line::styled(banner.clone(), colours.bad()),
        None if troubles::is_well(troubles) => {
            Line::styled(troubles::words(troubles), colours.good())
        }
        None => Line::styled(troubles::words(troubles), colours.bad()),
    };
    let mut lines = vec![
        Line::raw(first_line(report, report.seconds)),
        Line::raw(machine),
        health,
    ];
    lines.extend(troubles.iter().take(3).map(|trouble| {
        let style = match trouble.gravity {
            Gravity::Grave => colours.bad(),
            Gravity::Minor => colours.near(),
        };
        Line::styled(format!("  {}", trouble.what), style)
    }));
    Paragraph::new(lines).render(area, buffer);
}

fn right(text: impl Into<String>) -> Cell<'static> {
    Cell::from(Line::raw(text.into()).right_aligned())
}

fn headings(names: &[&'static str], words: usize) -> Row<'static> {
    let cell = |(at, name): (usize, &&'static str)| {
        if at < words {
            Cell::from(*name)
        } else {
            right(*name)
        }
    };
    Row::new(names.iter().enumerate().map(cell)).style(Colours::heading())
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

fn draw_tasks(
    report: &Report,
    interval: &Interval,
    colours: Colours,
    area: Rect,
    buffer: &mut Buffer,
) {
    let names = [
        "task", "frames/s", "on time", "late", "reject", "fail", "depth", "p50 ms", "p99 ms",
        "slack",
    ];
    let rows = report.tasks.iter().zip(&interval.tasks).map(|(task, now)| {
        let TaskInterval {
            hz,
            on_time,
            late,
            rejected,
            failed,
            depth,
            p50_ms,
            p99_ms,
            slack_p1_ms,
        } = now;
        let bad = |count: u64| match count {
            0 => right("0"),
            count => right(count.to_string()).style(colours.bad()),
        };
        Row::new([
            Cell::from(task.name.clone()),
            right(format!("{hz:.1}")),
            right(on_time.to_string()),
            bad(*late),
            right(rejected.to_string()),
            bad(*failed),
            right(depth.map_or_else(|| "-".to_owned(), |depth| format!("{depth:.2}"))),
            right(or_dash(*p50_ms)),
            right(or_dash(*p99_ms)),
            right(or_dash(*slack_p1_ms)),
        ])
    });
    let own = names_width(report.tasks.iter().map(|task| task.name.as_str()));
    let widths = [own, 8, 8, 5, 7, 5, 5, 7, 7, 7].map(Constraint::Length);
    Table::new(rows, widths)
        .header(headings(&names, 1))
        .column_spacing(1)
        .render(area, buffer);
}

/// A column for the longest of these names, as far as there is room for such.
fn names_width<'n>(names: impl Iterator<Item = &'n str>) -> u16 {
    const MOST: usize = 16;
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    longest.clamp(9, MOST) as u16
}

/// Places have units of other partitions, and there are many: those that do nothing are left out.
fn is_shown(partition: &PartitionReport) -> bool {
    partition.actions > 0 || partition.device.is_empty() || !partition.name.contains('+')
}

fn draw_partitions(report: &Report, interval: &Interval, area: Rect, buffer: &mut Buffer) {
    const BAR: u16 = 24;
    let all = report.partitions.iter().zip(&interval.partitions);
    let rows = all
        .filter(|(partition, _)| is_shown(partition))
        .map(|(partition, share)| {
            let running = partition.running.as_ref();
            let running = running.map_or_else(String::new, |at| {
                format!("{}/{} x{}", at.model, at.stage, at.batch)
            });
            Row::new([
                Cell::from(partition.name.clone()),
                Cell::from(bar(share.real_time, share.best_effort, BAR.into())),
                right(format!("{:.0}%", 100.0 * share.real_time)),
                right(format!("{:.0}%", 100.0 * share.best_effort)),
                right(format!("{} {}", partition.units, partition.device)),
                Cell::from(running),
            ])
        });
    let names = [
        "partition",
        "█ real-time ▒ best effort",
        "",
        "",
        "units",
        "runs",
    ];
    let own = names_width(report.partitions.iter().map(|at| at.name.as_str()));
    let widths = [own, BAR + 1, 4, 4, 8, 20].map(Constraint::Length);
    Table::new(rows, widths)
        .header(headings(&names, 2))
        .column_spacing(1)
        .render(area, buffer);
}

/// Shares of a line of cells.
fn bar(real_time: f64, best_effort: f64, cells: usize) -> String {
    let of = |share: f64| (share * cells as f64).round() as usize;
    let first = of(real_time).min(cells);
    let second = of(real_time + best_effort).min(cells) - first;
    format!(
        "{}{}{}",
        "█".repeat(first),
        "▒".repeat(second),
        "·".repeat(cells - first - second)
    )
}

fn draw_stages(report: &Report, colours: Colours, area: Rect, buffer: &mut Buffer) {
    let rows = report.stages.iter().map(|stage| {
        let mean = stage.sum_us.checked_div(stage.count).unwrap_or(0);
        let max = right(stage.max_us.to_string());
        Row::new([
            Cell::from(format!("{}/{} x{}", stage.model, stage.stage, stage.batch)),
            Cell::from(stage.partition.clone()),
            right(stage.count.to_string()),
            right(mean.to_string()),
            if stage.max_us > stage.budget_us {
                max.style(colours.near())
            } else {
                max
            },
            right(stage.budget_us.to_string()),
        ])
    });
    let names = [
        "stage",
        "partition",
        "runs",
        "mean us",
        "max us",
        "budget us",
    ];
    let widths = [22, 12, 9, 8, 8, 10].map(Constraint::Length);
    Table::new(rows, widths)
        .header(headings(&names, 2))
        .column_spacing(1)
        .render(area, buffer);
}

fn draw_clients(report: &Report, area: Rect, buffer: &mut Buffer) {
    let rows = report.clients.connected.iter().map(|client| {
        Row::new([
            Cell::from(format!("  {}/{}", client.task, client.slot)),
            right(client.pid.to_string()),
            right(client.submitted.to_string()),
            right(client.on_time.to_string()),
            right(client.late.to_string()),
            right(client.rejected.total().to_string()),
        ])
    });
    let names = [
        "  client", "process", "frames", "on time", "late", "rejected",
    ];
    let widths = [20, 8, 9, 9, 6, 8].map(Constraint::Length);
    Table::new(rows, widths)
        .header(headings(&names, 1))
        .column_spacing(1)
        .render(area, buffer);
}

fn draw_threads(
    picture: &Picture<'_>,
    is_wide: bool,
    colours: Colours,
    area: Rect,
    buffer: &mut Buffer,
) {
    let report = picture.now;
    let silent = &report.watchdog.silent;
    if !is_wide {
        let beat = report.threads.len().saturating_sub(silent.len());
        let style = if silent.is_empty() {
            Style::new()
        } else {
            colours.bad()
        };
        let words = format!(
            "threads: {beat} of {} are well; memory {} MiB of {} planned; decisions p99 {:.0} us",
            report.threads.len(),
            report.memory.resident_bytes >> 20,
            report.memory.planned_bytes >> 20,
            report.decision_us.p99
        );
        return Paragraph::new(Line::styled(words, style)).render(area, buffer);
    }
    let row = |thread: &ThreadReport| {
        let share = picture.machine.share(picture.machine_before, &thread.name);
        let is_silent = silent.iter().any(|silent| silent.thread == thread.name);
        let cores = thread.cores.iter().map(u16::to_string).collect::<Vec<_>>();
        Row::new([
            Cell::from(thread.name.clone()),
            Cell::from(thread.policy.clone()),
            Cell::from(cores.join(",")),
            right(share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", 100.0 * share))),
            if is_silent {
                Cell::from("silent").style(colours.bad())
            } else {
                Cell::from("well")
            },
        ])
    };
    let names = ["thread", "priority", "cores", "processor", ""];
    let widths = [16, 28, 12, 10, 8].map(Constraint::Length);
    Table::new(report.threads.iter().map(row), widths)
        .header(headings(&names, 3))
        .column_spacing(1)
        .render(area, buffer);
}

/// The newest at the bottom, each with its age.
fn draw_notes(report: &Report, colours: Colours, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.height.saturating_sub(1));
    let newest = &report.notes[report.notes.len().saturating_sub(room)..];
    let now_ns = report.ready_ns as f64 + report.seconds * 1e9;
    let line = |note: &NoteReport| {
        let age = duration(((now_ns - note.at_ns as f64) / 1e9).max(0.0));
        let style = match note.level.as_str() {
            "error" => colours.bad(),
            "warn" => colours.near(),
            _ => Style::new(),
        };
        Line::from(vec![
            Span::raw(format!("{age:>12} ago  ")),
            Span::styled(note.text.clone(), style),
        ])
    };
    let heading = Line::styled("log", Colours::heading());
    let lines: Vec<Line<'_>> = std::iter::once(heading)
        .chain(newest.iter().map(line))
        .collect();
    Paragraph::new(lines).render(area, buffer);
}

/// The picture as plain text, without the empty lines at its end.
pub fn text(picture: &Picture<'_>, width: u16, height: u16) -> String {
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("memory is a terminal");
    let drawn = terminal.draw(|frame| draw(picture, frame.area(), frame.buffer_mut()));
    let buffer = drawn.expect("memory can be drawn to").buffer;
    let rows = buffer.content.chunks(usize::from(width.max(1)));
    let row = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    };
    let text: String = rows.map(row).collect();
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use punctual_daemon::{ClientReport, RunningReport, StageReport, TaskReport};

    use super::*;

    fn report() -> Report {
        Report {
            version: "1.0".into(),
            pid: 12,
            board: "host".into(),
            seconds: 65.0,
            tasks: vec![TaskReport {
                name: "front".into(),
                submitted: 1_950,
                on_time: 1_950,
                exits: vec![975, 975],
                latency_buckets: vec![(4_000.0, 1_950)],
                slack_buckets: vec![(21_000.0, 1_950)],
                ..TaskReport::default()
            }],
            partitions: vec![PartitionReport {
                name: "main".into(),
                device: "cpu".into(),
                units: 2,
                busy_us: 32_500_000,
                best_effort_us: 6_500_000,
                running: Some(RunningReport {
                    model: "signs".into(),
                    stage: 1,
                    batch: 2,
                    best_effort: false,
                }),
                ..PartitionReport::default()
            }],
            threads: vec![ThreadReport {
                name: "scheduler".into(),
                policy: "fifo 42".into(),
                cores: vec![0],
            }],
            notes: vec![NoteReport {
                at_ns: 60_000_000_000,
                level: "info".into(),
                text: "task front, client 0: connected".into(),
                ..NoteReport::default()
            }],
            stages: vec![StageReport {
                model: "signs".into(),
                batch: 1,
                count: 10,
                sum_us: 10_000,
                max_us: 1_200,
                budget_us: 1_500,
                partition: "main".into(),
                ..StageReport::default()
            }],
            clients: punctual_daemon::ClientsReport {
                connected: vec![ClientReport {
                    task: "front".into(),
                    pid: 77,
                    ..ClientReport::default()
                }],
                ..Default::default()
            },
            ..Report::default()
        }
    }

    fn drawn(report: &Report, banner: Option<&str>, width: u16, height: u16) -> String {
        let machine = Machine::look(0, 0);
        let picture = Picture {
            before: None,
            now: report,
            troubles: &troubles::of(report),
            keys: true,
            machine_before: None,
            machine: &machine,
            banner: banner.map(str::to_owned),
            colours: true,
        };
        text(&picture, width, height)
    }

    #[test]
    fn eighty_columns_show_tasks_partitions_health_and_the_log() {
        let text = drawn(&report(), None, 80, 18);
        for words in [
            "punctuald 1.0, process 12, serves for 1 min 5 s",
            "all is well",
            "front         30.0     1950     0       0     0  0.50     4.0     4.0    21.0",
            "██████████▒▒············   40%  10%    2 cpu signs/1 x2",
            "5 s ago  task front, client 0: connected",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(!text.contains("budget us"), "{text}");
    }

    #[test]
    fn a_wide_or_high_screen_has_stages_clients_and_threads_too() {
        for (width, height) in [(200, 50), (80, 50)] {
            let text = drawn(&report(), None, width, height);
            for words in [
                "signs/0 x1",
                "budget us",
                "front/0",
                "77",
                "scheduler",
                "fifo 42",
                "q: leave",
            ] {
                assert!(text.contains(words), "{words}\n{text}");
            }
        }
    }

    #[test]
    fn a_daemon_that_is_gone_is_told_above_its_last_picture_and_a_small_screen_says_what_it_needs()
    {
        let text = drawn(&report(), Some("the daemon is gone"), 80, 24);
        assert!(
            text.contains("the daemon is gone") && text.contains("front"),
            "{text}"
        );
        assert!(drawn(&report(), None, 40, 10).starts_with("60 columns and 12 lines"));
    }

    #[test]
    fn bars_are_as_long_as_their_shares() {
        assert_eq!(bar(0.5, 0.25, 8), "████▒▒··");
        assert_eq!(bar(1.0, 0.4, 4), "████");
        assert_eq!(bar(0.0, 0.0, 3), "···");
    }
}
