//! What was measured next to what must be reached.

use punctual_report::Table;
use serde::Serialize;

use super::super::bound::{BOUNDS, Bound, Verdict};
use super::super::folder::{Folder, FolderError, Outcome, Record};
use super::super::machine::{self, Machine};
use super::super::result::Compared;
use super::super::step::Timed;

#[derive(Debug, Serialize)]
pub struct Report {
    /// On what it was measured; none if nothing was.
    pub machine: Option<Machine>,
    /// Times mean nothing: no GPU was there.
    pub emulated: bool,
    /// Sizes were tiny: figures mean nothing.
    pub quick: bool,
    pub date: String,
    pub program: String,
    /// The command that continues the run.
    pub command: String,
    /// Each bound with each of its figures.
    pub bounds: Vec<Judged>,
    /// The outcome of each step that ended.
    pub steps: Vec<Record>,
}

#[derive(Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub bound: &'static Bound,
    pub of: String,
    /// In the bound's unit; none if there is none.
    pub value: Option<f64>,
    pub verdict: Verdict,
    /// Why it was not measured.
    pub why: Option<String>,
}

impl Report {
    /// Of what is in the folder.
    pub fn read(
        folder: &Folder,
        steps: &[Timed<'_>],
        command: String,
    ) -> Result<Self, FolderError> {
        let mut records = Vec::new();
        for timed in steps {
            records.extend(folder.read(timed.step.name())?);
        }
        Ok(Self::of(records, command))
    }

    fn of(records: Vec<Record>, command: String) -> Self {
        let any = |of: fn(&Record) -> bool| records.iter().any(of);
        let (emulated, quick) = (
            any(|record| record.machine.emulated),
            any(|record| record.quick),
        );
        Self {
            machine: records.last().map(|record| record.machine.clone()),
            emulated,
            quick,
            date: machine::date(),
            program: machine::program(),
            command,
            bounds: BOUNDS
                .iter()
                .flat_map(|bound| judge(bound, &records, emulated, quick))
                .collect(),
            steps: records,
        }
    }

    pub fn any_failed(&self) -> bool {
        let failed = |record: &Record| matches!(record.outcome, Outcome::Failed { .. });
        self.steps.iter().any(failed)
    }

    pub fn any_missed(&self) -> bool {
        self.count(Verdict::Missed) > 0
    }

    pub fn count(&self, verdict: Verdict) -> usize {
        let so = |judged: &&Judged| judged.verdict == verdict;
        self.bounds.iter().filter(so).count()
    }

    /// What must be said before anything else, in large letters.
    pub fn warnings(&self) -> Vec<&'static str> {
        let emulated = self.emulated.then_some("emulated: times mean nothing");
        let quick = self.quick.then_some("tiny sizes: figures mean nothing");
        emulated.into_iter().chain(quick).collect()
    }
}

/// The figures of a bound; one without a value if there are none.
fn judge(bound: &'static Bound, records: &[Record], emulated: bool, quick: bool) -> Vec<Judged> {
    let record = records.iter().find(|record| record.step == bound.step);
    let without = |why: String| {
        vec![Judged {
            bound,
            of: String::new(),
            value: None,
            verdict: Verdict::NotMeasured,
            why: Some(why),
        }]
    };
    let result = match record.map(|record| &record.outcome) {
        None => return without(format!("the step `{}` has not run", bound.step)),
        Some(Outcome::Failed { why } | Outcome::NotMeasured { why }) => {
            return without(why.clone());
        }
        Some(Outcome::Measured(result)) => result,
    };
    let says_nothing = match (bound.of_time, emulated, quick) {
        (true, true, _) => Some("no GPU was there: an emulated driver has no times"),
        (true, _, true) => Some("sizes were tiny"),
        _ => None,
    };
    let figures = result.figures.iter();
    let judged: Vec<Judged> = figures
        .filter(|figure| figure.bound == bound.id)
        .map(|figure| Judged {
            bound,
            of: figure.of.clone(),
            value: Some(figure.value),
            verdict: match says_nothing {
                Some(_) => Verdict::NotMeasured,
                None if bound.limit.holds(figure.value) => Verdict::Reached,
                None => Verdict::Missed,
            },
            why: says_nothing.map(str::to_owned),
        })
        .collect();
    if judged.is_empty() {
        return without("the step has no figure for it; see its notes".to_owned());
    }
    judged
}

/// The bound of a judged figure, aim included, in words.
pub fn limit(bound: &Bound) -> String {
    match bound.aim {
        Some(aim) => format!("{} (aim {aim})", bound.limit),
        None => bound.limit.to_string(),
    }
}

/// Every figure next to its bound.
pub fn bounds(report: &Report) -> Table {
    let headings = ["what", "of", "figure", "bound", "unit", "verdict"];
    let mut table = Table::new(&headings, 2);
    for judged in &report.bounds {
        table.row([
            judged.bound.what.to_owned(),
            judged.of.clone(),
            judged.value.map_or_else(|| "-".into(), number),
            limit(judged.bound),
            judged.bound.unit.to_owned(),
            judged.verdict.name().to_owned(),
        ]);
    }
    table
}

/// Measured times of a step next to predicted ones; none if it has none.
pub fn compared(outcome: &Outcome) -> Option<Table> {
    match outcome {
        Outcome::Measured(result) => beside(&result.compared),
        _ => None,
    }
}

/// A table of measured times next to predicted ones; none if there are none.
pub fn beside(compared: &[Compared]) -> Option<Table> {
    if compared.is_empty() {
        return None;
    }
    let headings = [
        "of",
        "SMs",
        "measured",
        "predicted",
        "ratio",
        "at least",
        "limit",
    ];
    let mut table = Table::new(&headings, 1);
    for beside in compared {
        let predicted = match &beside.predicted {
            Some(predicted) => [
                number(predicted.us),
                format!("{:.2}", predicted.ratio),
                number(predicted.at_least_us),
                predicted.limit.clone(),
            ],
            None => ["-", "-", "-", beside.why.as_deref().unwrap_or_default()].map(str::to_owned),
        };
        let measured = [
            beside.of.clone(),
            beside.multiprocessors.to_string(),
            number(beside.measured_us),
        ];
        table.row(measured.into_iter().chain(predicted));
    }
    Some(table)
}

/// A figure with as many digits as mean something.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::record;
    use super::super::super::result::{Sheet, StepResult};
    use super::super::{card, page, text};
    use super::*;
    use punctual_report::{Axis, Bars, Lines, Series};

    fn measured() -> StepResult {
        let mut result = StepResult::default();
        result.figure("preemption", "bound 4", 120.0);
        result.figure("guards", "resnet50", 1.25);
        let mut sheet = Sheet::new("preempt to free", &["way", "p99, us"], 1);
        sheet.row(["ours <fast>".into(), "120.0".into()]);
        result.tables.push(sheet);
        result.plots.push(Lines {
            title: "against kernels".into(),
            x: Axis::linear("kernels"),
            y: Axis::log("us"),
            series: vec![Series {
                name: "ours".into(),
                points: vec![[1.0, 20.0], [2.0, 21.0]],
            }],
        });
        result.bars.push(Bars {
            title: "as bars".into(),
            y: Axis::linear("us"),
            groups: vec!["A".into()],
            series: vec![("ours".into(), vec![Some(20.0)])],
        });
        result.note("from the intended start");
        result
    }

    fn report(change: impl Fn(&mut Record)) -> Report {
        let failed = Outcome::Failed {
            why: "its process ended with signal: 11".into(),
        };
        let isolation = Record {
            step: "isolation".into(),
            outcome: failed,
            ..record(StepResult::default())
        };
        let mut records = vec![record(measured()), isolation];
        records.iter_mut().for_each(change);
        Report::of(records, "punctual bench gpu --out results".into())
    }

    fn verdict(report: &Report, id: &str) -> (Verdict, String) {
        let judged = report.bounds.iter().find(|judged| judged.bound.id == id);
        let judged = judged.expect("every bound is there");
        (judged.verdict, judged.why.clone().unwrap_or_default())
    }

    #[test]
    fn each_bound_is_reached_missed_or_not_measured_with_the_reason() {
        let report = report(|_| ());
        assert_eq!(verdict(&report, "preemption").0, Verdict::Missed);
        assert_eq!(verdict(&report, "guards").0, Verdict::Reached);
        let (isolation, why) = verdict(&report, "disjoint");
        assert_eq!(isolation, Verdict::NotMeasured);
        assert!(why.contains("signal: 11"), "{why}");
        let (disb, why) = verdict(&report, "disb-a");
        assert_eq!(disb, Verdict::NotMeasured);
        assert!(why.contains("has not run"), "{why}");
        assert!(report.any_failed() && report.any_missed());
    }

    #[test]
    fn an_emulated_driver_reaches_and_misses_nothing_that_is_about_time() {
        let report = report(|record| record.machine.emulated = true);
        assert_eq!(verdict(&report, "preemption").0, Verdict::NotMeasured);
        assert!(!report.any_missed());
        let page = page(&report, &[]);
        assert!(page.contains("<h1 class=\"warning\">emulated: times mean nothing</h1>"));
        assert!(text(&report, 200).starts_with("EMULATED: TIMES MEAN NOTHING\n"));
    }

    #[test]
    fn a_page_has_everything_in_itself_and_nothing_unescaped() {
        let page = page(&report(|_| ()), &[]);
        for part in [
            "Test GPU",
            "12.6",
            "MAXN",
            "2026-11-21 22:45:45 UTC",
            "punctual bench gpu --out results",
            "ours &lt;fast&gt;",
            "missed",
            "reached",
            "not measured",
            "from the intended start",
            "signal: 11",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(!page.contains("<fast>") && !page.contains("src=") && !page.contains("href="));
    }

    #[test]
    fn the_text_has_a_line_for_every_bound_and_says_what_failed() {
        let text = text(&report(|_| ()), 200);
        for bound in BOUNDS {
            assert!(text.contains(bound.what), "{}", bound.what);
        }
        assert!(text.contains("isolation failed: its process"), "{text}");
        assert!(text.contains("1 reached, 1 missed"), "{text}");
    }

    #[test]
    fn a_page_about_a_card_says_what_is_refuted_and_has_every_table() {
        let card = card(&report(|_| ()), None);
        for part in [
            "# Test GPU",
            "Run on Test GPU",
            "## Refuted\n\n- ",
            "120 us",
            "| ours <fast> | 120.0 |",
            "FAILED: its process ended with signal: 11",
            "- from the intended start",
        ] {
            assert!(card.contains(part), "{part} is missing: {card}");
        }
        let emulated = self::card(&report(|record| record.machine.emulated = true), None);
        assert!(emulated.contains("**emulated: times mean nothing**"));
        assert!(
            emulated.contains("Nothing: no bound is missed"),
            "{emulated}"
        );
    }

    #[test]
    fn the_report_for_a_machine_has_bounds_with_values_and_all_steps() {
        let json = serde_json::to_value(report(|_| ())).expect("plain data");
        let bounds = json["bounds"].as_array().expect("a list");
        let guards = bounds.iter().find(|bound| bound["id"] == "guards");
        let guards = guards.expect("it is there");
        assert_eq!(guards["value"], 1.25);
        assert_eq!(guards["limit"]["at_most"], 3.0);
        assert_eq!(guards["verdict"], "reached");
        assert_eq!(
            json["steps"][1]["outcome"]["failed"]["why"],
            "its process ended with signal: 11"
        );
    }
}
