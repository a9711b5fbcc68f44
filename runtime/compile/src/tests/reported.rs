//! What the report says of a network with calibration records.

use punctual_model::{Calibration, CalibrationExit, CalibrationSample};

use super::builder::everything;
use super::options;
use crate::{CompileError, CompileReport, Note, compile};

/// Ten samples; each exit is right on so many of them, and always confident by 0.6 or 1.0.
fn report(right: [usize; 2]) -> CompileReport {
    let exit = |sample, exit: usize| CalibrationExit {
        confidence: if exit == 0 { 39_321 } else { 65_535 },
        correct: sample < right[exit],
    };
    let samples = (0..10).map(|sample| CalibrationSample {
        exits: vec![exit(sample, 0), exit(sample, 1)],
    });
    let samples = samples.collect();
    let onnx = everything().bytes();
    compile(&onnx, Calibration { samples }, &options())
        .unwrap()
        .report
}

#[test]
fn accuracy_and_the_effect_of_thresholds_come_from_the_records() {
    let report = report([6, 9]);
    let accuracies: Vec<_> = report.stages.iter().map(|stage| stage.accuracy).collect();
    assert_eq!(accuracies, [Some(0.6), Some(0.9)]);
    let low = &report.thresholds[0];
    assert_eq!((low.accuracy, low.depth), (0.6, 1.0));
    let high = &report.thresholds[1];
    assert_eq!((high.accuracy, high.depth), (0.9, 2.0));
    assert_eq!(high.leaving, [0.0, 1.0]);
    assert!(!report.notes.contains(&Note::NoCalibration));
    let text = report.to_string();
    for line in [
        "test: 3x8x8 input, 5 classes",
        "     0.70    90.0 %        2.00  0 %, 100 %",
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}

#[test]
fn depth_that_gains_nothing_is_pointed_out() {
    assert!(report([6, 6]).notes.contains(&Note::NoGain { exit: 1 }));
    assert!(!report([6, 7]).notes.contains(&Note::NoGain { exit: 1 }));
}

#[test]
fn records_of_another_network_are_refused() {
    let samples = vec![CalibrationSample { exits: vec![] }];
    let onnx = everything().bytes();
    let error = compile(&onnx, Calibration { samples }, &options()).unwrap_err();
    assert!(matches!(error, CompileError::Package(_)), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("calibrate this network again"),
        "{message}"
    );
}
