//! The report of first light: what is written to the file, and what a person is told.

use std::fmt::Write as _;
use std::io::{BufReader, Read as _};
use std::path::Path;

use flate2::read::GzDecoder;
use punctual_platform::read;
use punctual_report::Table;
use serde::{Deserialize, Serialize};

use super::super::clocks::Reading;
use super::super::first::provenance::Provenance;
use super::super::first::surroundings::Surroundings;
use super::super::folder::{Outcome, Record};
use super::super::machine::Machine;
use super::super::result::StepResult;
use super::super::step::Step;
use super::text;
use super::verdict::{Verdict, judge};

/// Of the file's form.
pub const FORMAT: u32 = 1;
/// A report unpacked is much smaller.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub format: u32,
    /// What must be said before anything else.
    pub warnings: Vec<String>,
    pub began: String,
    pub seconds: f64,
    pub made_by: Provenance,
    pub machine: Machine,
    pub surroundings: Surroundings,
    pub steps: Vec<Judged>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Judged {
    pub step: String,
    pub shows: String,
    pub verdict: Verdict,
    /// For a person, in a sentence without a full stop.
    pub found: String,
    pub seconds: f64,
    /// All that was measured, with every reading of the clocks.
    pub outcome: Outcome<Watched>,
}

/// What a step found, with what the clocks were meanwhile.
#[derive(Debug, Serialize, Deserialize)]
pub struct Watched {
    pub finding: StepResult,
    pub clocks: Vec<Reading>,
}

impl Judged {
    pub fn new(step: &dyn Step, record: Record) -> Self {
        let (verdict, found) = judge(&record, step.of_time());
        let clocks = record.clocks;
        Self {
            step: step.name().to_owned(),
            shows: step.about().to_owned(),
            verdict,
            found,
            seconds: record.seconds,
            outcome: match record.outcome {
                Outcome::Measured(finding) => Outcome::Measured(Watched { finding, clocks }),
                Outcome::NotMeasured { why } => Outcome::NotMeasured { why },
                Outcome::Failed { why } => Outcome::Failed { why },
            },
        }
    }
}

/// What makes a report worth less, or nothing.
pub fn warnings(machine: &Machine, quick: bool, made_by: &Provenance) -> Vec<String> {
    let mut warnings = Vec::new();
    if machine.emulated {
        warnings.push(
            "emulated: there is no GPU. Driver and device are our emulated driver, which interprets the PTX of the \
             kernels; time says nothing"
                .to_owned(),
        );
    } else if quick {
        warnings.push("tiny sizes: figures mean nothing".to_owned());
    }
    if !made_by.release {
        warnings.push("this program was built without optimisation".to_owned());
    }
    if let Some(image) = made_by.altered() {
        warnings.push(format!(
            "the kernels for {} in this program are not those that it was built with",
            image.name
        ));
    }
    warnings
}

impl Report {
    /// That of a file; none if there is none, or it is of another form.
    pub fn read(path: &Path) -> Option<Self> {
        let packed = read::bytes(path, BYTES_MAX).ok()?;
        let mut text = String::new();
        let unpacked = GzDecoder::new(&packed[..]).take(BYTES_MAX);
        BufReader::new(unpacked).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    pub fn is_bad(&self) -> bool {
        self.steps.iter().any(|step| step.verdict.is_bad())
    }

    /// For a terminal; tables are `width` columns wide at most.
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            let _ = writeln!(text, "WARNING: {warning}.");
        }
        let _ = write!(text, "{:width$}", self.verdicts());
        for step in &self.steps {
            if let Outcome::Measured(watched) = &step.outcome {
                text += &text::predicted(&step.step, &watched.finding.compared, width);
            }
        }
        let made_by = &self.made_by;
        let _ = writeln!(
            text,
            "\npunctual {}, commit {}, {}; {:.0} s",
            made_by.version, made_by.commit, made_by.target, self.seconds
        );
        text
    }

    /// What each step found.
    pub fn verdicts(&self) -> Table {
        let mut table = Table::new(&["step", "verdict", "found"], 3);
        table.row(["probe".to_owned(), "found".to_owned(), self.probe()]);
        for step in &self.steps {
            table.row([
                step.step.clone(),
                step.verdict.name().to_owned(),
                step.found.clone(),
            ]);
        }
        table
    }

    fn probe(&self) -> String {
        let machine = &self.machine;
        let others = match self.surroundings.others.names.as_slice() {
            [] => "no other program seen on it".to_owned(),
            names => format!("also used by {}", names.join(", ")),
        };
        format!(
            "{}, compute capability {}, {} multiprocessors, CUDA {}; {}; clocks from {}; {others}",
            machine.device,
            machine.compute_capability,
            machine.multiprocessors,
            machine.driver,
            machine.clocks,
            self.surroundings.sensors,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::{machine, made, record};
    use super::super::super::result::Claim;
    use super::super::super::{course, steps};
    use super::*;

    fn report(emulated: bool, claim: Claim) -> Report {
        let machine = Machine {
            emulated,
            ..machine("a")
        };
        let step = course::find(steps::FIRST, "known-answers").expect("a step");
        let record = Record {
            machine: machine.clone(),
            ..record(StepResult {
                claim,
                found: "33 of 33".to_owned(),
                ..StepResult::default()
            })
        };
        let root = made("report", &[]);
        let made_by = Provenance::of_this();
        Report {
            format: FORMAT,
            warnings: warnings(&machine, emulated, &made_by),
            began: "now".to_owned(),
            seconds: 1.0,
            steps: vec![Judged::new(step.step, record)],
            surroundings: Surroundings::of(&root, Path::new("/nowhere/tool"), "nothing"),
            machine,
            made_by,
        }
    }

    #[test]
    fn an_emulated_report_says_first_that_there_is_no_gpu() {
        let report = report(true, Claim::Proven);
        let text = report.text(100);
        assert!(
            text.starts_with("WARNING: emulated: there is no GPU"),
            "{text}"
        );
        assert!(
            text.contains("known-answers") && text.contains("proven"),
            "{text}"
        );
        assert!(!report.is_bad());
    }

    #[test]
    fn a_step_that_is_refuted_makes_the_report_bad_and_stands_in_capitals() {
        let report = report(false, Claim::Refuted);
        assert!(report.is_bad());
        assert!(report.text(100).contains("REFUTED"));
    }

    #[test]
    fn a_report_is_read_again_as_it_was_written() {
        let text = serde_json::to_string(&report(false, Claim::Proven)).expect("plain data");
        let read: Report = serde_json::from_str(&text).expect("a report");
        assert_eq!(serde_json::to_string(&read).expect("plain data"), text);
    }
}
