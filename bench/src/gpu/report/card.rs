//! A page about a card, in Markdown: verdicts, what is refuted, bounds, measurements next to predictions, all tables.

use std::fmt::Write as _;

use super::super::bound::Verdict;
use super::super::folder::{Outcome, Record};
use super::first_light;
use super::results::{Judged, Report, bounds, compared, limit, number};

/// Of the results of `bench gpu`, and of first light where there is a report of it.
pub fn card(report: &Report, first: Option<&first_light::Report>) -> String {
    let mut text = String::new();
    head(&mut text, report);
    if let Some(first) = first {
        section(&mut text, "First light", &first.verdicts().markdown());
    }
    section(&mut text, "Refuted", &refuted(report));
    section(
        &mut text,
        "Figures beside their bounds",
        &bounds(report).markdown(),
    );
    for record in &report.steps {
        of_step(&mut text, record);
    }
    text
}

fn head(text: &mut String, report: &Report) {
    let Some(machine) = &report.machine else {
        text.push_str("# Nothing was measured\n");
        return;
    };
    let began = report.steps.first().map_or("", |record| &record.began);
    let ended = report.steps.last().map_or("", |record| &record.began);
    let _ = writeln!(text, "# {}\n", machine.device);
    for warning in report.warnings() {
        let _ = writeln!(text, "**{warning}**\n");
    }
    let _ = writeln!(
        text,
        "Run on {} ({} multiprocessors, compute capability {}, CUDA {}), from {began} to {ended}: {}. Clocks: {}; power mode {}; \
         host {}.\n\n```sh\n{}\n```",
        machine.device,
        machine.multiprocessors,
        machine.compute_capability,
        machine.driver,
        report.program,
        machine.clocks,
        machine.power_mode,
        machine.host,
        report.command,
    );
}

fn section(text: &mut String, title: &str, body: &str) {
    let _ = writeln!(text, "\n## {title}\n\n{body}");
}

/// Bounds that are missed, and predictions that are off by more than a factor of two.
fn refuted(report: &Report) -> String {
    let missed = |judged: &&Judged| judged.verdict == Verdict::Missed;
    let mut lines = String::new();
    for judged in report.bounds.iter().filter(missed) {
        let value = judged.value.map_or_else(|| "-".to_owned(), number);
        let _ = writeln!(
            lines,
            "- {} ({}): {value} {}, {}",
            judged.bound.what,
            judged.of,
            judged.bound.unit,
            limit(judged.bound)
        );
    }
    for record in &report.steps {
        let Outcome::Measured(result) = &record.outcome else {
            continue;
        };
        for beside in &result.compared {
            let predicted = beside.predicted.as_ref();
            if let Some(predicted) = predicted.filter(|p| !(0.5..=2.0).contains(&p.ratio)) {
                let _ = writeln!(
                    lines,
                    "- {}: {} us where {} were predicted ({:.2} times)",
                    beside.of,
                    number(beside.measured_us),
                    number(predicted.us),
                    predicted.ratio
                );
            }
        }
    }
    if lines.is_empty() {
        "Nothing: no bound is missed, and no prediction is off by more than a factor of two."
            .to_owned()
    } else {
        lines.trim_end().to_owned()
    }
}

fn of_step(text: &mut String, record: &Record) {
    let title = format!("Step {}", record.step);
    let result = match &record.outcome {
        Outcome::Measured(result) => result,
        Outcome::NotMeasured { why } => {
            return section(text, &title, &format!("Not measured: {why}."));
        }
        Outcome::Failed { why } => return section(text, &title, &format!("FAILED: {why}.")),
    };
    let mut body = String::new();
    for sheet in &result.tables {
        let _ = writeln!(body, "{}:\n\n{}", sheet.title, sheet.table().markdown());
    }
    if let Some(table) = compared(&record.outcome) {
        let _ = writeln!(
            body,
            "Measured beside predicted, us:\n\n{}",
            table.markdown()
        );
    }
    for note in &result.notes {
        let _ = writeln!(body, "- {note}");
    }
    section(text, &title, body.trim_end());
}
