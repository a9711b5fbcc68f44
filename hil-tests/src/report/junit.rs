//! JUnit's XML, as continuous integration reads it.

use std::fmt::Write as _;

use super::escaped;
use crate::outcome::{CaseReport, Outcome, RunReport};

/// The report as one `<testsuites>`.
pub fn write(report: &RunReport) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let seconds: f64 = report.cases.iter().map(|case| case.seconds).sum();
    open(
        &mut text,
        "testsuites",
        &format!("punctual-hil {} {}", report.target, report.board),
        &report.cases,
        seconds,
    );
    let suites = report.cases.chunk_by(|one, next| one.suite == next.suite);
    for cases in suites {
        let seconds = cases.iter().map(|case| case.seconds).sum();
        open(&mut text, "testsuite", cases[0].suite, cases, seconds);
        cases.iter().for_each(|case| write_case(&mut text, case));
        text.push_str("</testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn open(text: &mut String, tag: &str, name: &str, cases: &[CaseReport], seconds: f64) {
    let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
    let (failed, skipped) = (count(Outcome::Failed), count(Outcome::Skipped));
    let (name, all) = (escaped(name), cases.len());
    writeln!(
        text,
        "<{tag} name=\"{name}\" tests=\"{all}\" failures=\"{failed}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">"
    )
    .expect("text grows");
}

fn write_case(text: &mut String, case: &CaseReport) {
    let (suite, name, seconds) = (case.suite, case.name, case.seconds);
    writeln!(
        text,
        "<testcase classname=\"{suite}\" name=\"{name}\" time=\"{seconds:.3}\">"
    )
    .expect("text grows");
    if let Some(reason) = &case.skipped_because {
        writeln!(text, "<skipped message=\"{}\"/>", escaped(reason)).expect("text grows");
    }
    for finding in &case.findings {
        let words = escaped(finding);
        writeln!(text, "<failure message=\"{words}\">{words}</failure>").expect("text grows");
    }
    let measures = case
        .measures
        .iter()
        .map(|m| format!("{} = {} {}", m.key, m.value, m.unit));
    let effects = case
        .effects
        .iter()
        .map(|effect| format!("{} {}", effect.count, effect.what));
    let notes: Vec<_> = measures.chain(effects).map(|note| escaped(&note)).collect();
    if !notes.is_empty() {
        writeln!(text, "<system-out>{}</system-out>", notes.join("\n")).expect("text grows");
    }
    text.push_str("</testcase>\n");
}
