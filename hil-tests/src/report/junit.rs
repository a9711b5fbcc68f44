//! JUnit's XML, as continuous integration reads it.

use maud::{Markup, PreEscaped, html};
use punctual_report::printable;

use crate::outcome::{CaseReport, Outcome, RunReport};

/// The report as one `<testsuites>`.
pub fn write(report: &RunReport) -> String {
    let name = printable(&format!("punctual-hil {} {}", report.target, report.board));
    let suites = report.cases.chunk_by(|one, next| one.suite == next.suite);
    let document = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites name=(name) tests=(report.cases.len()) failures=(count(&report.cases, Outcome::Failed))
            skipped=(count(&report.cases, Outcome::Skipped)) time=(seconds(&report.cases)) {
            @for cases in suites { (suite(cases)) }
        }
    };
    document.into_string() + "\n"
}

fn count(cases: &[CaseReport], outcome: Outcome) -> usize {
    cases.iter().filter(|case| case.outcome == outcome).count()
}

fn seconds(cases: &[CaseReport]) -> String {
    let all: f64 = cases.iter().map(|case| case.seconds).sum();
    format!("{all:.3}")
}

fn suite(cases: &[CaseReport]) -> Markup {
    html! {
        "\n" testsuite name=(cases[0].suite) tests=(cases.len()) failures=(count(cases, Outcome::Failed))
            skipped=(count(cases, Outcome::Skipped)) time=(seconds(cases)) {
            @for case in cases { "\n" (of_case(case)) }
        }
    }
}

fn of_case(case: &CaseReport) -> Markup {
    let measures = case
        .measures
        .iter()
        .map(|m| format!("{} = {} {}", m.key, m.value, m.unit));
    let effects = case
        .effects
        .iter()
        .map(|effect| format!("{} {}", effect.count, effect.what));
    let notes: Vec<String> = measures
        .chain(effects)
        .map(|note| printable(&note))
        .collect();
    html! {
        testcase classname=(case.suite) name=(case.name) time=(seconds(std::slice::from_ref(case))) {
            @if let Some(reason) = &case.skipped_because { skipped message=(printable(reason)) {} }
            @for finding in &case.findings {
                failure message=(printable(finding)) {
                    (finding.lines().map(printable).collect::<Vec<_>>().join("\n"))
                }
            }
            @if !notes.is_empty() { "system-out" { (notes.join("\n")) } }
        }
    }
}
