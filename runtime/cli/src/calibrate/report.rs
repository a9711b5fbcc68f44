//! What calibration found, as tables and as JSON.

use std::collections::BTreeSet;

use punctual_core::Confidence;
use punctual_model::{Calibration, Reliability, ThresholdEffect};
use punctual_quality::concordance;
use punctual_report::{Table, percent};
use serde::Serialize;

use super::kind::{ClassFigures, Figure, Kind, Terms, by_name};
use super::run::Answers;

/// Thresholds that are reported, in percent: every fifth, and the highest finely.
const THRESHOLDS: [u32; 23] = [
    0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 93, 95, 97, 99,
];
/// How many the terminal shows in addition to the recommended one: evenly spaced by the depth that they reach.
const SHOWN: usize = 7;
/// An expected calibration error that is worth a word.
const BADLY_CALIBRATED: f64 = 0.05;
/// How much quality a recommended threshold may lose against the last exit.
const LOSS_MAX: f64 = 0.01;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub network: String,
    /// `classes`, `labels`, `detections`, `masks` or `values`.
    pub kind: &'static str,
    /// What quality means here.
    pub quality: String,
    pub samples: usize,
    /// Whether the exits' scores were divided by their temperatures.
    pub scaled: bool,
    pub exits: Vec<ExitReport>,
    /// The lowest threshold that loses at most 0.01 of the last exit's quality.
    pub recommended: Option<f64>,
    /// Empty for a network without confidence.
    pub thresholds: Vec<ThresholdReport>,
    #[serde(skip)]
    terms: Terms,
}

#[derive(Clone, Debug, Serialize)]
pub struct ExitReport {
    pub exit: usize,
    /// Mean quality of its answers; of classes the share that is right.
    pub accuracy: f64,
    #[serde(serialize_with = "by_name")]
    pub figures: Vec<Figure>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassFigures>,
    /// What its confidence is worth; none without one.
    #[serde(flatten)]
    pub confidence: Option<ConfidenceReport>,
    #[serde(flatten)]
    pub temperature: Option<TemperatureReport>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ConfidenceReport {
    /// Mean confidence as the network is.
    pub confidence: f64,
    /// Expected calibration error as the network is.
    pub expected_error: f64,
    /// Of pairs of answers the share in which the better one has the higher confidence.
    pub concordance: Option<f64>,
    /// `[confidence, quality, answers]` of each bin that has answers, as the network is.
    pub reliability: Vec<(f64, f64, usize)>,
}

/// Of scores before a softmax.
#[derive(Clone, Debug, Serialize)]
pub struct TemperatureReport {
    /// What its scores would best be divided by.
    pub temperature: f64,
    /// Expected calibration error once they are.
    pub expected_error_scaled: f64,
    /// The reliability once they are.
    pub reliability_scaled: Vec<(f64, f64, usize)>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ThresholdReport {
    /// Confidence at which a sample leaves, 0 to 1.
    pub threshold: f64,
    /// Mean quality of the answers.
    pub accuracy: f64,
    /// The mean quality if as many samples left at each exit, but chosen at random.
    pub at_random: f64,
    #[serde(serialize_with = "by_name")]
    pub figures: Vec<Figure>,
    pub depth: f64,
    /// Share of samples that leave at each exit.
    pub leaving: Vec<f64>,
    /// Whether the terminal shows it.
    #[serde(skip)]
    is_shown: bool,
}

/// The records of a run, and those with other temperatures.
pub struct Records<'r> {
    pub plain: &'r Calibration,
    pub divided: Option<(&'r Calibration, &'r [f64])>,
    /// Whether thresholds are for those with temperatures.
    pub scaled: bool,
    /// Whether the network says how sure it is.
    pub confident: bool,
}

impl Report {
    pub fn new<K: Kind>(
        network: &str,
        kind: &K,
        answers: &Answers<K::Judged>,
        records: &Records<'_>,
    ) -> Self {
        let terms = kind.terms();
        let exits = answers.judged.iter().enumerate().map(|(exit, judged)| {
            let judged: Vec<&K::Judged> = judged.iter().collect();
            ExitReport {
                exit,
                accuracy: records.plain.mean_quality(exit).unwrap_or_default(),
                figures: kind.figures(&judged),
                classes: kind.by_class(&judged),
                confidence: records
                    .confident
                    .then(|| ConfidenceReport::new(records.plain, exit)),
                temperature: records.divided.map(|(divided, temperatures)| {
                    TemperatureReport::new(divided, exit, temperatures[exit])
                }),
            }
        });
        let exits: Vec<ExitReport> = exits.collect();
        let chosen = records.divided.filter(|_| records.scaled);
        let chosen = chosen.map_or(records.plain, |(divided, _)| divided);
        let (mut thresholds, mut recommended) = (Vec::new(), None);
        if records.confident {
            let effects = effects(chosen);
            recommended = exits
                .last()
                .and_then(|last| lossless(&effects, last.accuracy));
            let mut shown = by_depth(&effects);
            shown.extend(recommended);
            let percents: BTreeSet<u32> = THRESHOLDS.into_iter().chain(shown.clone()).collect();
            let report = |percent| {
                let is_shown = shown.contains(&percent);
                ThresholdReport::new(percent, is_shown, kind, answers, chosen, &exits)
            };
            thresholds.extend(percents.into_iter().filter_map(report));
        }
        Self {
            network: network.to_owned(),
            kind: terms.kind,
            quality: terms.meaning.clone(),
            samples: records.plain.samples.len(),
            scaled: records.scaled,
            recommended: recommended.map(|percent| f64::from(percent) / 100.0),
            thresholds,
            exits,
            terms,
        }
    }

    /// The heading of quality.
    pub fn quality_name(&self) -> &'static str {
        self.terms.quality
    }

    /// How good the answers of each exit are.
    pub fn exits_table(&self) -> Table {
        let mut headings = vec!["exit", self.terms.quality];
        headings.extend(self.exits[0].figures.iter().map(|figure| figure.name));
        let mut table = Table::new(&headings, 0);
        for exit in &self.exits {
            let cells = [exit.exit.to_string(), percent(exit.accuracy)];
            table.row(
                cells
                    .into_iter()
                    .chain(exit.figures.iter().map(Figure::text)),
            );
        }
        table
    }

    /// What the confidence of each exit is worth; none without one.
    pub fn confidence_table(&self) -> Option<Table> {
        let scaled = self.exits[0].temperature.is_some();
        let mut headings = vec![
            "exit",
            "mean confidence",
            "calibration error",
            "concordance",
        ];
        if scaled {
            headings.extend(["temperature", "error at that temperature"]);
        }
        let mut table = Table::new(&headings, 0);
        for exit in &self.exits {
            let confidence = exit.confidence.as_ref()?;
            let concordance = confidence.concordance;
            let mut cells = vec![
                exit.exit.to_string(),
                percent(confidence.confidence),
                percent(confidence.expected_error),
                concordance.map_or("-".to_owned(), |share| format!("{share:.2}")),
            ];
            if let Some(scaled) = &exit.temperature {
                cells.push(format!("{:.2}", scaled.temperature));
                cells.push(percent(scaled.expected_error_scaled));
            }
            table.row(cells);
        }
        Some(table)
    }

    /// What thresholds do: those of the terminal, or all.
    pub fn thresholds_table(&self, all: bool) -> Table {
        let mut headings = vec!["threshold", self.terms.quality, "at random"];
        let figures = self.thresholds.first().map(|first| &first.figures[..]);
        headings.extend(figures.unwrap_or_default().iter().map(|figure| figure.name));
        headings.extend(["stages run", "leaving at each exit"]);
        let mut table = Table::new(&headings, 0);
        let shown = self.thresholds.iter();
        for report in shown.filter(|report| all || report.is_shown) {
            let leaving: Vec<String> = report.leaving.iter().map(|share| percent(*share)).collect();
            let mut cells = vec![
                format!("{:.2}", report.threshold),
                percent(report.accuracy),
                percent(report.at_random),
            ];
            cells.extend(report.figures.iter().map(Figure::text));
            cells.extend([format!("{:.2}", report.depth), leaving.join(" ")]);
            table.row(cells);
        }
        table
    }

    /// The figures of each class by exit, the first exit's first; none where answers have no parts of classes.
    pub fn classes_table(&self) -> Option<Table> {
        let last = &self.exits.last()?.classes;
        let figures = &last.first()?.figures;
        let names: Vec<String> = figures
            .iter()
            .map(|f| format!("{} by exit", f.name))
            .collect();
        let mut headings = vec!["class", self.terms.counted];
        headings.extend(names.iter().map(String::as_str));
        let mut table = Table::new(&headings, 1);
        for class in last {
            let mut cells = vec![class.class.clone(), class.count.to_string()];
            cells.extend((0..figures.len()).map(|figure| {
                let at_exit = |exit: &ExitReport| {
                    let mut classes = exit.classes.iter();
                    let found = classes.find(|found| found.class == class.class);
                    found.map_or("-".to_owned(), |found| found.figures[figure].text())
                };
                let exits: Vec<String> = self.exits.iter().map(at_exit).collect();
                exits.join(" ")
            }));
            table.row(cells);
        }
        Some(table)
    }

    /// What the numbers mean for a task's threshold, a sentence each.
    pub fn meaning(&self) -> Vec<String> {
        let mut meaning = vec![self.quality.clone()];
        let stages = self.exits.len();
        let Some(last) = self.exits.last().filter(|_| stages > 1) else {
            return meaning;
        };
        if self.thresholds.is_empty() {
            meaning.push(
                "The network says nothing of how sure it is: a task has no threshold, and how deep a frame goes depends on time \
                 alone. Plans expect the mean quality of each exit."
                    .to_owned(),
            );
            return meaning;
        }
        meaning.push(
            "A frame goes deeper, as long as all promises are kept, until its confidence is at least the task's `threshold`."
                .to_owned(),
        );
        let mut thresholds = self.thresholds.iter();
        meaning.push(match thresholds.find(|report| Some(report.threshold) == self.recommended) {
            Some(report) => format!(
                "With threshold = {:.2}, frames run {:.2} of {stages} stages and have {} instead of the last exit's {} ({}). As \
                 many frames at each exit, chosen at random, would have {}.",
                report.threshold,
                report.depth,
                percent(report.accuracy),
                percent(last.accuracy),
                self.terms.quality,
                percent(report.at_random),
            ),
            None => format!(
                "No threshold up to 0.99 comes within {} of the last exit ({}).",
                percent(LOSS_MAX),
                percent(last.accuracy),
            ),
        });
        meaning
    }

    /// What the figures suggest, a sentence each.
    pub fn advice(&self) -> Vec<String> {
        const FEW: usize = 500;
        let mut advice = Vec::new();
        if self.samples < FEW {
            let why = if self.thresholds.is_empty() {
                ""
            } else {
                " a bin of confidence needs some dozens;"
            };
            advice.push(format!(
                "{} samples are few:{why} take {FEW} or more",
                self.samples
            ));
        }
        let exits = self.exits.iter();
        advice.extend(exits.filter_map(|exit| exit.mendable(self.scaled)));
        // Behind the last one nothing depends on its confidence.
        if let [before @ .., _] = &self.exits[..] {
            advice.extend(before.iter().filter_map(ExitReport::badly_calibrated));
            advice.extend(before.iter().filter_map(ExitReport::badly_ordered));
        }
        for pair in self.exits.windows(2) {
            if pair[1].accuracy <= pair[0].accuracy {
                advice.push(format!(
                    "exit {} is no better than exit {}: its stage costs time and gains nothing on these samples",
                    pair[1].exit, pair[0].exit
                ));
            }
        }
        advice
    }
}

impl ExitReport {
    /// Whether a temperature brings its confidence nearer to its answers' quality.
    fn mendable(&self, scaled: bool) -> Option<String> {
        let (at, error) = (self.exit, self.confidence.as_ref()?.expected_error);
        let temperature = self.temperature.as_ref()?;
        let surer = if temperature.temperature > 1.0 {
            "surer"
        } else {
            "less sure"
        };
        let mends =
            !scaled && error > BADLY_CALIBRATED && temperature.expected_error_scaled < error / 2.0;
        mends.then(|| format!("exit {at} is {surer} than it is right: --temperature mends that"))
    }

    /// Whether a confidence that no temperature applies to is far from its answers' quality.
    fn badly_calibrated(&self) -> Option<String> {
        let (at, error) = (self.exit, self.confidence.as_ref()?.expected_error);
        (self.temperature.is_none() && error > BADLY_CALIBRATED).then(|| {
            format!(
                "exit {at}'s confidence is {} off its answers' quality: choose a threshold by the table, not by what the number \
                 says",
                percent(error)
            )
        })
    }

    fn badly_ordered(&self) -> Option<String> {
        const BADLY_ORDERED: f64 = 0.6;
        let share = self.confidence.as_ref()?.concordance?;
        (share < BADLY_ORDERED).then(|| {
            format!(
                "exit {}'s confidence hardly tells better answers from worse ones (concordance {share:.2}; by chance it is 0.5): \
                 a threshold there saves little",
                self.exit
            )
        })
    }
}

impl ConfidenceReport {
    fn new(records: &Calibration, exit: usize) -> Self {
        let reliability = records.reliability(exit);
        let samples = records.samples.len() as f64;
        let bins = reliability.bins.iter();
        let sum: f64 = bins.map(|bin| bin.confidence * bin.answers as f64).sum();
        let answers = records.samples.iter().map(|sample| sample.exits[exit]);
        Self {
            confidence: sum / samples,
            expected_error: reliability.expected_error,
            concordance: concordance(answers.map(|answer| (answer.confidence, answer.quality))),
            reliability: points(&reliability),
        }
    }
}

impl TemperatureReport {
    fn new(divided: &Calibration, exit: usize, temperature: f64) -> Self {
        let reliability = divided.reliability(exit);
        Self {
            temperature,
            expected_error_scaled: reliability.expected_error,
            reliability_scaled: points(&reliability),
        }
    }
}

impl ThresholdReport {
    fn new<K: Kind>(
        percent: u32,
        is_shown: bool,
        kind: &K,
        answers: &Answers<K::Judged>,
        records: &Calibration,
        exits: &[ExitReport],
    ) -> Option<Self> {
        let threshold = f64::from(percent) / 100.0;
        let confidence = Confidence::from_probability(threshold as f32);
        let effect = records.threshold_effect(confidence)?;
        let leaving = records.leaving(confidence).enumerate();
        let left: Vec<&K::Judged> = leaving
            .map(|(sample, exit)| &answers.judged[exit][sample])
            .collect();
        let share = |&count: &usize| count as f64 / records.samples.len() as f64;
        let shares: Vec<f64> = effect.leaving.iter().map(share).collect();
        let at_random = shares.iter().zip(exits);
        Some(Self {
            threshold,
            accuracy: effect.accuracy,
            at_random: at_random.map(|(share, exit)| share * exit.accuracy).sum(),
            figures: kind.figures(&left),
            depth: effect.depth,
            leaving: shares,
            is_shown,
        })
    }
}

/// What each threshold does, in percent from 0 to 99; nothing without samples.
fn effects(records: &Calibration) -> Vec<ThresholdEffect> {
    let effect = |percent: u32| {
        records.threshold_effect(Confidence::from_probability(percent as f32 / 100.0))
    };
    (0..100).filter_map(effect).collect()
}

/// The lowest threshold, in percent, that loses at most [`LOSS_MAX`] of the last exit's quality.
fn lossless(effects: &[ThresholdEffect], last: f64) -> Option<u32> {
    let enough = |effect: &ThresholdEffect| effect.accuracy >= last - LOSS_MAX;
    effects
        .iter()
        .position(enough)
        .map(|percent| percent as u32)
}

/// Thresholds, in percent, that are evenly far apart by the depth that they reach: however narrow the range of confidence
/// is. Depth rises with the threshold.
fn by_depth(effects: &[ThresholdEffect]) -> Vec<u32> {
    let [first, .., last] = effects else {
        return Vec::new();
    };
    let threshold = |step: usize| {
        let share = step as f64 / (SHOWN - 1) as f64;
        let depth = first.depth + (last.depth - first.depth) * share;
        effects.partition_point(|effect| effect.depth < depth) as u32
    };
    let most = effects.len() as u32 - 1;
    (0..SHOWN).map(|step| threshold(step).min(most)).collect()
}

fn points(reliability: &Reliability) -> Vec<(f64, f64, usize)> {
    let bins = reliability.bins.iter().filter(|bin| bin.answers > 0);
    bins.map(|bin| (bin.confidence, bin.accuracy, bin.answers))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thresholds matter between 0.30 and 0.34 only.
    fn narrow() -> Vec<ThresholdEffect> {
        let effect = |percent: u32| ThresholdEffect {
            accuracy: f64::from(percent.clamp(30, 34)) / 40.0,
            depth: 1.0 + f64::from(percent.clamp(30, 34) - 30) / 4.0,
            leaving: Vec::new(),
        };
        (0..100).map(effect).collect()
    }

    #[test]
    fn thresholds_are_shown_where_they_change_the_depth() {
        assert_eq!(by_depth(&narrow()), [0, 31, 32, 32, 33, 34, 34]);
        assert_eq!(by_depth(&[]), Vec::<u32>::new());
    }

    #[test]
    fn the_recommended_threshold_is_the_lowest_that_loses_little() {
        assert_eq!(lossless(&narrow(), 0.85), Some(34));
        assert_eq!(lossless(&narrow(), 0.83), Some(33));
        assert_eq!(lossless(&narrow(), 0.9), None);
    }
}
