//! Records as JSON: `{"samples": [{"exits": [{"confidence": 40000, "correct": true}, ...]}, ...]}`, where an answer that is
//! neither right nor wrong has `"quality": 52428` instead.

use serde::{Deserialize, Serialize};

use super::{Calibration, CalibrationExit, CalibrationSample};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Records {
    samples: Vec<Sample>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    exits: Vec<Exit>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "Keys", into = "Keys")]
struct Exit(CalibrationExit);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    confidence: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correct: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quality: Option<u16>,
}

impl TryFrom<Keys> for Exit {
    type Error = &'static str;

    fn try_from(keys: Keys) -> Result<Self, Self::Error> {
        let confidence = keys.confidence;
        match (keys.correct, keys.quality) {
            (Some(correct), None) => Ok(Self(CalibrationExit::judged(confidence, correct))),
            (None, Some(quality)) => Ok(Self(CalibrationExit {
                confidence,
                quality,
            })),
            _ => Err("an exit has either `correct` or `quality`"),
        }
    }
}

impl From<Exit> for Keys {
    fn from(Exit(exit): Exit) -> Self {
        let correct = match exit.quality {
            0 => Some(false),
            u16::MAX => Some(true),
            _ => None,
        };
        Self {
            confidence: exit.confidence,
            correct,
            quality: correct.is_none().then_some(exit.quality),
        }
    }
}

pub(super) fn read(json: &str) -> Result<Calibration, serde_json::Error> {
    let records: Records = serde_json::from_str(json)?;
    let sample = |sample: Sample| CalibrationSample {
        exits: sample.exits.into_iter().map(|Exit(exit)| exit).collect(),
    };
    let samples = records.samples.into_iter().map(sample).collect();
    Ok(Calibration { samples })
}

/// One line a sample.
pub(super) fn written(calibration: &Calibration) -> String {
    let line = |sample: &CalibrationSample| {
        let exits = sample.exits.iter().copied().map(Exit).collect();
        serde_json::to_string(&Sample { exits }).expect("plain data always serialises")
    };
    let lines: Vec<String> = calibration.samples.iter().map(line).collect();
    format!("{{\"samples\":[\n{}\n]}}\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_exit(exit: &str) -> Result<Calibration, serde_json::Error> {
        read(&format!("{{\"samples\":[\n{{\"exits\":[{exit}]}}\n]}}\n"))
    }

    #[test]
    fn an_answer_that_is_right_or_wrong_is_written_so() {
        for (json, quality) in [
            (r#"{"confidence":7,"correct":true}"#, u16::MAX),
            (r#"{"confidence":7,"correct":false}"#, 0),
            (r#"{"confidence":7,"quality":1}"#, 1),
        ] {
            let records = read_exit(json).unwrap();
            assert_eq!(records.samples[0].exits[0].quality, quality);
            assert!(written(&records).contains(json));
        }
    }

    #[test]
    fn an_answer_has_one_judgement() {
        for json in [
            r#"{"confidence":7}"#,
            r#"{"confidence":7,"correct":1}"#,
            r#"{"confidence":7,"quality":65536}"#,
            r#"{"confidence":7,"correct":true,"quality":7}"#,
        ] {
            let error = read_exit(json).unwrap_err();
            assert_eq!(error.line(), 2, "{error}");
        }
    }
}
