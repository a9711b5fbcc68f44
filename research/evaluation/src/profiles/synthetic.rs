//! Synthetic calibration records: what exits of stated accuracies would answer for pictures of all
//! difficulties. For networks whose papers publish accuracies but no records.

use punctual_model::{Calibration, CalibrationExit, CalibrationSample};

use punctual_types::Random;

/// What the exits of a network are like.
#[derive(Clone, Copy, Debug)]
pub struct Exits<'a> {
    /// The accuracy of each exit, if everybody took it, rising.
    pub accuracies: &'a [f64],
    /// How sharply a picture is either easy or hard for an exit: the larger, the more its confidence says.
    pub sharpness: f64,
    /// How far an exit misjudges its own chance of being right: deviation in log-odds.
    pub misjudgement: f64,
}

/// Records of `samples` pictures; the same for the same name.
///
/// A picture has a difficulty, uniform in 0..1, and its luck, uniform too. An exit is right with
/// the probability `logistic(sharpness * (ability - difficulty))`, the ability being such that its
/// accuracy comes out, and says that probability as its confidence, give or take its misjudgement.
/// Luck is the picture's: an exit that is more often right is right where a lesser one was.
#[must_use]
pub fn calibration(name: &str, exits: Exits<'_>, samples: usize) -> Calibration {
    let mut random = Random::new(0).stream(name, samples as u64);
    let abilities: Vec<f64> = exits
        .accuracies
        .iter()
        .map(|accuracy| ability(*accuracy, exits.sharpness))
        .collect();
    let sample = |_| {
        let (difficulty, luck) = (random.unit(), random.unit());
        let said = abilities.iter().map(|ability| {
            let odds = exits.sharpness * (ability - difficulty);
            let confidence = logistic(odds + exits.misjudgement * random.normal());
            let confidence = (confidence * f64::from(u16::MAX)) as u16;
            CalibrationExit::judged(confidence, luck < logistic(odds))
        });
        CalibrationSample {
            exits: said.collect(),
        }
    };
    Calibration {
        samples: (0..samples).map(sample).collect(),
    }
}

fn logistic(odds: f64) -> f64 {
    1.0 / (1.0 + (-odds).exp())
}

/// The ability at which the mean of `logistic(sharpness * (ability - difficulty))` over all
/// difficulties is `accuracy`. The mean rises with the ability: bisection.
fn ability(accuracy: f64, sharpness: f64) -> f64 {
    // The integral of the logistic function is log(1 + exp).
    let area = |odds: f64| odds.max(0.0) + (-odds.abs()).exp().ln_1p();
    let mean =
        |ability: f64| (area(sharpness * ability) - area(sharpness * (ability - 1.0))) / sharpness;
    let (mut low, mut high) = (-10.0, 11.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if mean(middle) < accuracy {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXITS: Exits<'_> = Exits {
        accuracies: &[0.42, 0.66, 0.86, 0.963],
        sharpness: 6.0,
        misjudgement: 0.7,
    };

    #[test]
    fn every_exit_has_its_accuracy() {
        let records = calibration("test", EXITS, 20_000);
        for (exit, accuracy) in EXITS.accuracies.iter().enumerate() {
            let right = records.samples.iter().filter(|s| s.exits[exit].is_right());
            let found = right.count() as f64 / 20_000.0;
            assert!(
                (found - accuracy).abs() < 0.01,
                "{exit}: {found}, not {accuracy}"
            );
        }
    }

    #[test]
    fn deeper_exits_are_more_confident_and_confident_answers_more_often_right() {
        let records = calibration("test", EXITS, 20_000);
        let mean = |exit: usize| {
            let all = records
                .samples
                .iter()
                .map(|s| f64::from(s.exits[exit].confidence));
            all.sum::<f64>()
        };
        assert!((0..3).all(|exit| mean(exit) < mean(exit + 1)));
        let tables = records.exit_accuracies(4);
        assert!(tables[1].accuracy.is_sorted(), "{:?}", tables[1].accuracy);
    }

    #[test]
    fn the_records_of_a_name_are_always_the_same() {
        assert_eq!(calibration("a", EXITS, 50), calibration("a", EXITS, 50));
        assert_ne!(calibration("a", EXITS, 50), calibration("b", EXITS, 50));
    }
}
