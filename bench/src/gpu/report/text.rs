//! The report for a terminal.

use std::fmt::Write as _;

use super::super::bound::Verdict;
use super::super::folder::Outcome;
use super::super::result::Compared;
use super::results::{Report, beside, bounds};

/// The figures next to their bounds, and what went wrong; tables are `width` columns wide at most.
pub fn text(report: &Report, width: usize) -> String {
    let mut text = String::new();
    for warning in report.warnings() {
        let _ = writeln!(text, "{}", warning.to_uppercase());
    }
    match &report.machine {
        Some(machine) => {
            let _ = writeln!(
                text,
                "{}, {} multiprocessors, driver {}; {}\n",
                machine.device, machine.multiprocessors, machine.driver, report.program
            );
        }
        None => text.push_str("Nothing was measured.\n\n"),
    }
    let _ = write!(text, "{:width$}", bounds(report));
    let _ = writeln!(
        text,
        "\n{} reached, {} missed, {} not measured",
        report.count(Verdict::Reached),
        report.count(Verdict::Missed),
        report.count(Verdict::NotMeasured)
    );
    for record in &report.steps {
        if let Outcome::Measured(result) = &record.outcome {
            text += &predicted(&record.step, &result.compared, width);
        }
    }
    for record in &report.steps {
        let (how, why) = match &record.outcome {
            Outcome::Measured(_) => continue,
            Outcome::NotMeasured { why } => ("not measured", why),
            Outcome::Failed { why } => ("failed", why),
        };
        let _ = writeln!(text, "{} {how}: {why}", record.step);
    }
    text
}

/// Measured times of a step next to predicted ones, if it has any.
pub fn predicted(step: &str, compared: &[Compared], width: usize) -> String {
    let step = step.to_uppercase();
    let table = beside(compared);
    table.map_or_else(String::new, |table| {
        format!("\n{step}, MEASURED BESIDE PREDICTED, US\n{table:width$}")
    })
}
