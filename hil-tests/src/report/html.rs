//! One page for people, with everything in it.

use std::fmt::Write as _;

use super::{escaped, svg};
use crate::outcome::{CaseReport, Measured, Outcome, RunReport};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8886;--good:#2a7d3f;--bad:#c0262d;--dull:#8a6d00}
body{font:15px/1.45 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid var(--line)}
.passed{color:var(--good)}.failed{color:var(--bad);font-weight:600}.skipped{color:var(--dull)}
.number{text-align:right;font-variant-numeric:tabular-nums}small{opacity:.75}
section{margin:2rem 0}figure{display:inline-block;margin:.5rem 1rem .5rem 0}
svg rect{fill:#3b7dd8}svg text{font-size:11px;fill:currentColor}figcaption{font-size:12px;max-width:320px}
li.failed{margin:.3rem 0}";

pub fn write(report: &RunReport) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Punctual on {board}</title>\n<style>{STYLE}</style></head><body>\n",
        board = escaped(&report.board)
    );
    head(&mut page, report);
    table(&mut page, report);
    for case in report
        .cases
        .iter()
        .filter(|case| case.outcome != Outcome::Skipped)
    {
        section(&mut page, case);
    }
    page.push_str("</body></html>\n");
    page
}

fn head(page: &mut String, report: &RunReport) {
    let facts = &report.facts;
    write!(
        page,
        "<h1>{} passed, {} failed, {} skipped</h1>\n<p>{} on <b>{}</b> as board <b>{}</b> (bounds: {}), begun {}, seed {}.<br>{}, {} cores, {} ({}).</p>\n",
        report.count(Outcome::Passed),
        report.count(Outcome::Failed),
        report.count(Outcome::Skipped),
        escaped(&report.daemon),
        escaped(&report.target),
        escaped(&report.board),
        escaped(&report.bounds),
        escaped(&report.began),
        report.seed,
        escaped(&facts.machine),
        facts.cores,
        escaped(&facts.system),
        escaped(&facts.architecture),
    )
    .expect("text grows");
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "failed",
        Outcome::Skipped => "skipped",
    }
}

fn table(page: &mut String, report: &RunReport) {
    page.push_str("<table><tr><th>case</th><th>outcome</th><th class=\"number\">seconds</th><th>what it is</th></tr>\n");
    for case in &report.cases {
        let word = word(case.outcome);
        let reason = case.skipped_because.as_deref().unwrap_or_default();
        writeln!(
            page,
            "<tr><td>{}/{}</td><td class=\"{word}\">{word}</td><td class=\"number\">{:.1}</td><td>{}<br><small>{}</small></td></tr>",
            case.suite,
            case.name,
            case.seconds,
            escaped(case.about),
            escaped(reason),
        )
        .expect("text grows");
    }
    page.push_str("</table>\n");
}

fn section(page: &mut String, case: &CaseReport) {
    let word = word(case.outcome);
    writeln!(
        page,
        "<section><h2 class=\"{word}\">{}/{}</h2><p>{}</p>",
        case.suite,
        case.name,
        escaped(case.about)
    )
    .expect("text grows");
    if !case.findings.is_empty() {
        page.push_str("<ul>");
        for finding in &case.findings {
            write!(page, "<li class=\"failed\">{}</li>", escaped(finding)).expect("text grows");
        }
        page.push_str("</ul>\n");
    }
    if !case.measures.is_empty() {
        page.push_str(
            "<table><tr><th>measure</th><th class=\"number\">value</th><th>bound</th></tr>\n",
        );
        case.measures.iter().for_each(|measure| row(page, measure));
        page.push_str("</table>\n");
    }
    if !case.effects.is_empty() {
        page.push_str("<ul>");
        for effect in &case.effects {
            write!(
                page,
                "<li><b>{}</b> {}</li>",
                effect.count,
                escaped(&effect.what)
            )
            .expect("text grows");
        }
        page.push_str("</ul>\n");
    }
    case.histograms
        .iter()
        .for_each(|pictured| page.push_str(&svg::histogram(pictured)));
    page.push_str("</section>\n");
}

fn row(page: &mut String, measure: &Measured) {
    let class = if measure.held { "passed" } else { "failed" };
    let bound = measure.bound.as_ref().map_or("none".to_owned(), |bound| {
        format!("{bound}<br><small>{}</small>", escaped(&bound.why))
    });
    writeln!(
        page,
        "<tr><td>{}</td><td class=\"number {class}\">{:.3} {}</td><td>{bound}</td></tr>",
        measure.key, measure.value, measure.unit
    )
    .expect("text grows");
}
