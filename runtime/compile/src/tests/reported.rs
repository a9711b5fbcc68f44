//! What the report contains for a network with calibration records.

use punctual_model::{Calibration, CalibrationExit, CalibrationSample};

use super::builder::{Onnx, everything, int};
use super::{compiled, options};
use crate::{CompileError, CompileReport, Note, compile};

/// Ten samples; exit k is right on `right[k]` of them. Exits are always confident by 0.6 (the first) or 1.0.
fn report(right: [usize; 2]) -> CompileReport {
    let exit = |sample, exit: usize| {
        let confidence = if exit == 0 { 39_321 } else { 65_535 };
        CalibrationExit::judged(confidence, sample < right[exit])
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
        "test: 3x8x8 input, answer classes (5)",
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

#[test]
fn heads_that_cost_more_than_the_way_to_the_next_exit_are_pointed_out() {
    // A linear layer of all pixels before a backbone of 3x3 kernels of one channel each.
    let onnx = Onnx::new()
        .exactly("w", &[3, 1, 1, 1], vec![-1.0, 0.5, 0.25])
        .node("Conv", "image w", "c", &[int("group", 3)])
        .node("Flatten", "c", "f", &[])
        .floats("large", &[5, 192])
        .node("Gemm", "f large", "exit_0", &[int("transB", 1)])
        .output("exit_0")
        .node("Relu", "c", "r", &[])
        .head("r", 3, "exit_1");
    let notes = compiled(&onnx).unwrap().report.notes;
    // 960 of 960 + 192 multiplications; 965 of 965 + 6 + 6 + 20 weights; 1,152 of 1,152 + 192 + 15.
    for note in [
        Note::HeavyHead {
            exit: 0,
            percent: 83,
        },
        Note::LargeHead {
            exit: 0,
            percent: 97,
        },
        Note::LateExit { percent: 85 },
    ] {
        assert!(notes.contains(&note), "{notes:?}");
    }
    let notes = report([6, 9]).notes;
    let about_heads = |note: &&Note| {
        matches!(
            note,
            Note::HeavyHead { .. } | Note::LargeHead { .. } | Note::OneExit
        )
    };
    assert_eq!(notes.iter().find(about_heads), None);
}

#[test]
fn a_network_with_one_exit_is_said_to_have_one() {
    let onnx = Onnx::new().head("image", 3, "scores");
    let notes = compiled(&onnx).unwrap().report.notes;
    assert!(notes.contains(&Note::OneExit), "{notes:?}");
}

#[test]
fn operators_are_counted_by_kind_those_with_most_work_first() {
    let report = report([6, 9]);
    let kinds = report
        .kinds
        .iter()
        .map(|found| (found.kind.as_str(), found.operators));
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(kinds[0], ("convolution 3x3", 1));
    assert!(
        kinds.contains(&("depthwise convolution 3x3", 1)),
        "{kinds:?}"
    );
    assert!(kinds.contains(&("global average pool", 2)), "{kinds:?}");
}
