//! The findings, for people.

use std::fmt::Write as _;

use super::finding::{Finding, Gravity};

/// What is wrong first, each with why and what to do; then what is as it should be, in a line each.
pub fn table(findings: &[Finding], coloured: bool) -> String {
    let mut text = String::new();
    for gravity in [Gravity::Grave, Gravity::Costly, Gravity::Notice] {
        for finding in findings.iter().filter(|f| f.gravity == gravity) {
            let subject = finding.subject;
            let word = word(gravity, coloured);
            let _ = writeln!(text, "{word}  {}: {}", subject.name(), finding.found);
            let _ = writeln!(
                text,
                "        why   {} [{}]",
                subject.why(),
                subject.source()
            );
            for line in finding.remedy.iter().flat_map(|remedy| remedy.lines()) {
                let _ = writeln!(text, "        mend  {line}");
            }
        }
    }
    for finding in findings.iter().filter(|f| f.gravity == Gravity::Good) {
        let word = word(Gravity::Good, coloured);
        let _ = writeln!(
            text,
            "{word}  {}: {}",
            finding.subject.name(),
            finding.found
        );
    }
    let count = |gravity| findings.iter().filter(|f| f.gravity == gravity).count();
    let _ = writeln!(
        text,
        "{} grave, {} costly, {} to notice, {} as they should be",
        count(Gravity::Grave),
        count(Gravity::Costly),
        count(Gravity::Notice),
        count(Gravity::Good)
    );
    text
}

fn word(gravity: Gravity, coloured: bool) -> String {
    let (word, colour) = match gravity {
        Gravity::Good => ("good  ", 32),
        Gravity::Notice => ("notice", 36),
        Gravity::Costly => ("costly", 33),
        Gravity::Grave => ("GRAVE ", 31),
    };
    if coloured {
        format!("\x1b[{colour}m{word}\x1b[0m")
    } else {
        word.to_owned()
    }
}
