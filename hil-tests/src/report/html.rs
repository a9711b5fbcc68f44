//! One page for people, with everything in it.

use punctual_report::{Figure, Page, Table, Text};

use super::svg;
use crate::outcome::{CaseReport, Outcome, RunReport};

pub fn write(report: &RunReport) -> String {
    let mut page = Page::new(&format!(
        "{} passed, {} failed, {} skipped on {}",
        report.count(Outcome::Passed),
        report.count(Outcome::Failed),
        report.count(Outcome::Skipped),
        report.board,
    ));
    page.table(&facts(report));
    page.heading("Cases");
    page.table(&cases(report));
    for case in &report.cases {
        if case.outcome != Outcome::Skipped {
            section(&mut page, case);
        }
    }
    page.html()
}

fn facts(report: &RunReport) -> Table {
    let facts = &report.facts;
    let machine = format!(
        "{}, {} cores, {} ({})",
        facts.machine, facts.cores, facts.system, facts.architecture
    );
    let mut table = Table::list();
    table.row(["daemon", &report.daemon]);
    table.row(["target", &report.target]);
    table.row(["board", &report.board]);
    table.row(["bounds", &report.bounds]);
    table.row(["begun", &report.began]);
    table.row(["seed", &report.seed.to_string()]);
    table.row(["machine", &machine]);
    table
}

fn coloured(outcome: Outcome, text: &str) -> Text {
    match outcome {
        Outcome::Passed => Text::good(text),
        Outcome::Failed => Text::bad(text),
        Outcome::Skipped => Text::soft(text),
    }
}

fn cases(report: &RunReport) -> Table {
    let headings = [
        "case",
        "outcome",
        "what it is",
        "skipped because",
        "seconds",
    ];
    let mut table = Table::new(&headings, 4);
    for case in &report.cases {
        let word = match case.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
        };
        table.row([
            format!("{}/{}", case.suite, case.name).into(),
            coloured(case.outcome, word),
            case.about.into(),
            case.skipped_because.as_deref().unwrap_or_default().into(),
            format!("{:.1}", case.seconds).into(),
        ]);
    }
    table
}

fn section(page: &mut Page, case: &CaseReport) {
    let name = format!("{}/{}", case.suite, case.name);
    page.heading(coloured(case.outcome, &name));
    page.paragraph(case.about);
    page.list(case.findings.iter().map(|finding| Text::bad(finding)));
    if !case.measures.is_empty() {
        page.table(&measures(case));
    }
    let effects = case.effects.iter();
    page.list(effects.map(|effect| format!("{} {}", effect.count, effect.what)));
    let histograms = case.histograms.iter();
    page.figures(histograms.map(|h| Figure::new(&svg::caption(h), svg::histogram(h))));
}

fn measures(case: &CaseReport) -> Table {
    let mut table = Table::new(&["measure", "value", "bound", "because"], 4);
    for measure in &case.measures {
        let value = format!("{:.3} {}", measure.value, measure.unit);
        let bound = measure.bound.as_ref();
        table.row([
            measure.key.into(),
            if measure.held {
                Text::good(&value)
            } else {
                Text::bad(&value)
            },
            bound
                .map_or_else(|| "none".to_owned(), ToString::to_string)
                .into(),
            bound.map_or("", |bound| &bound.why).into(),
        ]);
    }
    table
}
