//! A RetinaNet whose boxes and scores become a list on the device: the detections that torchvision's own
//! post-processing makes of the same heads (`tests/data/retinanet.py` recorded them), in a few kilobytes.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_compile::{CompileOptions, Compiled, compile_with};
use punctual_compile::{DetectionOptions, Overrides};
use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{AnswerKind, reference};
use serde::Deserialize;

/// Of corners in pixels, and of scores.
const TOLERANCE: f32 = 1e-3;

#[derive(Deserialize)]
struct Recorded {
    threshold: f32,
    overlap: f32,
    image_times_16: Vec<i16>,
    /// Left, top, right, bottom, score, class.
    detections: Vec<[f32; 6]>,
}

fn data(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    folder.join(file)
}

fn compiled(detections: Option<DetectionOptions>) -> Compiled {
    let overrides = Overrides {
        answer: Some(AnswerKind::Detections),
        detections,
        ..Overrides::of_tensors()
    };
    compile_with(&data("retinanet.onnx"), &overrides).unwrap()
}

fn output_bytes(compiled: &Compiled) -> u64 {
    let exits = compiled.package.network().exits();
    let outputs = exits.flat_map(|(_, exit)| &exit.outputs);
    outputs.map(punctual_model::Output::bytes).sum()
}

#[track_caller]
fn assert_rows(found: &[f32], count: usize, expected: &[[f32; 6]], what: &str) {
    assert_eq!(count, expected.len(), "{what}");
    let (rows, rest) = found.as_chunks::<6>();
    assert!(rest.is_empty());
    for (row, expected) in rows.iter().zip(expected) {
        let near = |(found, expected): (&f32, &f32)| (found - expected).abs() <= TOLERANCE;
        let all = row.iter().zip(expected).all(near);
        assert!(all, "{what}: {row:?} instead of {expected:?}");
    }
    assert!(rows[count..].iter().all(|row| *row == [0.0; 6]), "{what}");
}

#[test]
fn a_declared_decoder_finds_what_torchvision_finds_in_a_few_kilobytes() {
    let recorded = fs::read_to_string(data("retinanet.json")).unwrap();
    let recorded: Recorded = serde_json::from_str(&recorded).unwrap();
    assert!(recorded.detections.len() > 30);
    let Recorded {
        threshold, overlap, ..
    } = recorded;
    let declared = format!(
        "form=xyxy,unit=pixels,values=logits,threshold={threshold},rows=50,candidates=240,overlap={overlap}"
    );
    let raw = compiled(None);
    let list = compiled(Some(declared.parse().unwrap()));
    // 240 places of 5 scores and 4 numbers; 50 rows of 6 numbers and a count.
    assert_eq!(output_bytes(&raw), 240 * 9 * 4);
    assert_eq!(output_bytes(&list), 50 * 6 * 4 + 4);
    let pixels = recorded.image_times_16.iter();
    let image: Vec<f32> = pixels.map(|&value| f32::from(value) / 16.0).collect();
    let network = list.package.network();
    let exits = reference::run_all(network, &[&image]);
    let [rows, count] = &exits[0].as_ref().unwrap().outputs[..] else {
        panic!("a list and its count");
    };
    assert_rows(rows, count[0] as usize, &recorded.detections, "interpreter");
    for isa in Isa::available() {
        let mut device = Evaluator::new(isa, network, 1).unwrap();
        device.load(&[&image]);
        let exits = device.exits(1);
        let outputs = &exits[0][0].outputs;
        let rows = outputs[0].as_chunks().0.iter();
        let rows: Vec<f32> = rows.map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        let count = i32::from_ne_bytes(outputs[1][..].try_into().unwrap());
        let what = isa.to_string();
        assert_rows(&rows, count as usize, &recorded.detections, &what);
    }
}

#[test]
fn an_options_file_declares_the_same() {
    let text = r#"
        name = "retinanet"
        onnx = "retinanet.onnx"
        [output.detections]
        form = "xyxy"
        unit = "pixels"
        values = "logits"
        threshold = 0.25
        across_classes = true
        candidates = 240
    "#;
    let options = CompileOptions::from_toml(text, Path::new("retinanet.toml")).unwrap();
    let typed =
        "form=xyxy,unit=pixels,values=logits,threshold=0.25,across_classes=true,candidates=240";
    assert_eq!(options.detections, Some(typed.parse().unwrap()));
    let wrong = text.replace("pixels", "metres");
    let problem = CompileOptions::from_toml(&wrong, Path::new("retinanet.toml")).unwrap_err();
    let problem = problem.to_string();
    assert!(
        problem.contains("`unit` of detections is `metres`"),
        "{problem}"
    );
}
