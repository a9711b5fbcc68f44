//! The report as one page of HTML with everything in it.

use punctual_report::{Bars, Lines, Page, Table, Text};

use super::super::bound::Verdict;
use super::super::folder::{Outcome, Record};
use super::super::machine::Machine;
use super::super::result::StepResult;
use super::super::step::Timed;
use super::results::{Report, compared, limit, number};

/// The page. `steps` say what they are about.
pub fn page(report: &Report, steps: &[Timed<'_>]) -> String {
    let mut page = Page::new("The CUDA device, measured");
    for warning in report.warnings() {
        page.warning(warning);
    }
    page.table(&head(report));
    page.heading("What it must reach");
    page.table(&bounds(report));
    for record in &report.steps {
        let about = steps.iter().find(|each| each.step.name() == record.step);
        section(
            &mut page,
            record,
            about.map_or("", |each| each.step.about()),
        );
    }
    page.html()
}

fn head(report: &Report) -> Table {
    let mut table = Table::list();
    table.row(["report made", &report.date]);
    table.row(["program", &report.program]);
    table.row(["command", &report.command]);
    if let Some(machine) = &report.machine {
        facts(&mut table, machine);
    }
    table
}

fn facts(table: &mut Table, machine: &Machine) {
    let shared = if machine.integrated {
        ", shared with the processor"
    } else {
        ""
    };
    let memory = format!("{} MiB{shared}", machine.memory_bytes >> 20);
    let clocks = format!("{}; {}", machine.clocks, machine.power_mode);
    let driver = format!("CUDA {}", machine.driver);
    table.row(["device", &machine.device]);
    table.row(["UUID", &machine.uuid]);
    table.row(["compute capability", &machine.compute_capability]);
    table.row(["multiprocessors", &machine.multiprocessors.to_string()]);
    table.row(["memory", &memory]);
    table.row(["driver", &driver]);
    table.row(["clocks and power mode", &clocks]);
    table.row(["processor", &machine.host]);
}

fn bounds(report: &Report) -> Table {
    let headings = [
        "what", "of", "figure", "must be", "unit", "verdict", "from", "why not",
    ];
    let mut table = Table::new(&headings, headings.len());
    for judged in &report.bounds {
        let verdict = judged.verdict.name();
        table.row([
            judged.bound.what.into(),
            (&judged.of).into(),
            judged.value.map_or_else(|| "-".into(), number).into(),
            limit(judged.bound).into(),
            judged.bound.unit.into(),
            match judged.verdict {
                Verdict::Reached => Text::good(verdict),
                Verdict::Missed => Text::bad(verdict),
                Verdict::NotMeasured => Text::soft(verdict),
            },
            judged.bound.source.into(),
            judged.why.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

fn section(page: &mut Page, record: &Record, about: &str) {
    page.heading(&record.step);
    page.paragraph(about);
    page.paragraph(Text::soft(&format!(
        "Began {}, took {:.1} s; {}.",
        record.began, record.seconds, record.machine.clocks
    )));
    match &record.outcome {
        Outcome::Measured(result) => {
            found(page, result);
            if let Some(table) = compared(&record.outcome) {
                page.subheading("Measured beside predicted, us");
                page.table(&table);
            }
        }
        Outcome::NotMeasured { why } => page.paragraph(format!("Not measured: {why}")),
        Outcome::Failed { why } => page.paragraph(Text::bad(&format!("Failed: {why}"))),
    }
}

fn found(page: &mut Page, result: &StepResult) {
    if !result.found.is_empty() {
        page.paragraph(&result.found);
    }
    for note in &result.notes {
        page.paragraph(note);
    }
    let plots = result.plots.iter().map(Lines::figure);
    page.figures(plots.chain(result.bars.iter().map(Bars::figure)));
    for sheet in &result.tables {
        page.subheading(&sheet.title);
        page.table(&sheet.table());
    }
}
