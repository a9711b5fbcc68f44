//! What becomes of a network: which operators, in which stage, with which fused steps.

use super::builder::{Onnx, everything, int, ints_of};
use super::compiled;
use crate::{CompileOptions, Compiled, Note, compile};
use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{Calibration, Operator, OperatorKind, Pool, reference};
use punctual_types::Activation;

fn names(onnx: &Onnx) -> Vec<Vec<String>> {
    let package = compiled(onnx).unwrap().package;
    let stages = package.network().stages.iter();
    stages
        .map(|stage| stage.operators.iter().map(|o| o.name.clone()).collect())
        .collect()
}

fn operator(onnx: &Onnx, name: &str) -> Operator {
    let package = compiled(onnx).unwrap().package;
    let mut operators = package
        .network()
        .stages
        .iter()
        .flat_map(|stage| &stage.operators);
    operators
        .find(|operator| operator.name == name)
        .unwrap()
        .clone()
}

fn conv() -> Onnx {
    Onnx::new()
        .floats("w", &[3, 3, 1, 1])
        .node("Conv", "image w", "c", &[])
}

#[test]
fn every_supported_operator_finds_its_stage() {
    assert_eq!(
        names(&everything()),
        [
            vec!["node_c0", "node_p0", "node_mean_exit_0", "node_exit_0"],
            vec!["node_c1", "node_p1", "node_m1", "node_twice", "node_h1"],
        ]
    );
    let Compiled {
        package, report, ..
    } = compiled(&everything()).unwrap();
    let softmax = Note::SoftmaxDropped {
        exit: "exit_1".to_owned(),
    };
    assert!(report.notes.contains(&softmax), "{report}");
    let carried = &package.network().stages[0].outputs;
    assert_eq!(carried, &package.network().stages[1].inputs);
    assert_eq!(carried.len(), 1);
}

#[test]
fn the_same_file_gives_the_same_bytes() {
    let bytes = || compiled(&everything()).unwrap().package.encode();
    assert_eq!(bytes(), bytes());
}

#[test]
fn a_residual_is_added_by_the_later_of_two_convolutions() {
    let onnx = conv()
        .node("Conv", "image w", "d", &[])
        .node("Add", "d c", "a", &[])
        .node("Relu", "a", "r", &[])
        .head("r", 3, "exit_0");
    let first = operator(&onnx, "node_c");
    let second = operator(&onnx, "node_d");
    let OperatorKind::Conv2d(conv) = &second.kind else {
        panic!("{second:?}");
    };
    assert_eq!(
        (&second.others[..], conv.activation),
        (&[first.output][..], Activation::Relu)
    );
}

#[test]
fn what_somebody_else_reads_is_not_fused_away() {
    let onnx = conv()
        .node("Relu", "c", "r", &[])
        .node("Add", "c r", "a", &[])
        .head("a", 3, "exit_0");
    // `c` is read twice, so it stays without its ReLU, which becomes an operator of its own.
    assert_eq!(names(&onnx)[0][..2], ["node_c", "node_r"]);
    let OperatorKind::Conv2d(conv) = operator(&onnx, "node_c").kind else {
        panic!("no convolution");
    };
    assert_eq!(conv.activation, Activation::None);
    let notes = compiled(&onnx).unwrap().report.notes;
    assert!(
        notes.contains(&Note::Standalone { operators: 1 }),
        "{notes:?}"
    );
}

#[test]
fn an_exit_counts_as_a_reader() {
    let onnx = Onnx::new()
        .head("image", 3, "exit_0")
        .node("Relu", "flat_exit_0", "r", &[])
        .floats("w", &[5, 3])
        .node("Gemm", "r w", "exit_1", &[int("transB", 1)])
        .output("exit_1");
    assert_eq!(names(&onnx)[1], ["node_r", "node_exit_1"]);
}

#[test]
fn clamping_twice_is_clamping_once() {
    let clipped = |first: [f32; 2], second: [f32; 2]| {
        let onnx = conv()
            .exactly("a", &[], vec![first[0]])
            .exactly("b", &[], vec![first[1]])
            .exactly("y", &[], vec![second[0]])
            .exactly("z", &[], vec![second[1]])
            .node("Clip", "c a b", "once", &[])
            .node("Clip", "once y z", "again", &[])
            .head("again", 3, "exit_0");
        match operator(&onnx, "node_c").kind {
            OperatorKind::Conv2d(conv) => conv.activation,
            other => panic!("{other:?}"),
        }
    };
    let clip = |low, high| Activation::Clip { low, high };
    assert_eq!(clipped([0.0, 6.0], [-1.0, 4.0]), clip(0.0, 4.0));
    assert_eq!(clipped([-2.0, -1.0], [0.0, 4.0]), clip(0.0, 0.0));
    assert_eq!(clipped([5.0, 6.0], [0.0, 4.0]), clip(4.0, 4.0));
    let most = f32::MAX;
    assert_eq!(
        clipped([-1.0, most], [0.0, f32::INFINITY]),
        Activation::Relu
    );
    // A minimum above the maximum: everything becomes the maximum.
    assert_eq!(clipped([3.0, 2.0], [0.0, 4.0]), clip(2.0, 2.0));
}

#[test]
fn what_no_exit_needs_is_left_out_and_said() {
    let onnx = conv()
        .node("Relu", "c", "unused", &[])
        .head("image", 3, "exit_0")
        .output("unused");
    let options = CompileOptions {
        exits: vec!["exit_0".to_owned()],
        ..super::options()
    };
    let Compiled {
        package, report, ..
    } = compile(&onnx.bytes(), Calibration::default(), &options).unwrap();
    assert_eq!(package.network().stages[0].operators.len(), 2);
    for note in [
        Note::Dead { operators: 2 },
        Note::OutputIgnored {
            output: "unused".to_owned(),
        },
        Note::NoCalibration,
    ] {
        assert!(report.notes.contains(&note), "{report}");
    }
}

#[test]
fn same_padding_puts_the_odd_pixel_where_it_is_told() {
    for (mode, top, bottom) in [("SAME_UPPER", 0, 1), ("SAME_LOWER", 1, 0)] {
        let window = [
            ints_of("kernel_shape", &[3, 3]),
            ints_of("strides", &[2, 2]),
            super::builder::text("auto_pad", mode),
        ];
        let onnx = Onnx::new()
            .node("MaxPool", "image", "x", &window)
            .head("x", 3, "exit_0");
        let OperatorKind::Pool(Pool { padding, .. }) = operator(&onnx, "node_x").kind else {
            panic!("no pool");
        };
        assert_eq!((padding.top, padding.bottom), (top, bottom), "{mode}");
        assert_eq!((padding.left, padding.right), (top, bottom), "{mode}");
    }
}

#[test]
fn a_window_on_one_pixel_has_the_one_tap_that_sees_it() {
    for (dilation, expected) in [(1, [78.0, 240.0]), (2, [0.0, 0.0])] {
        let onnx = Onnx::new()
            .exactly("w", &[2, 3, 3, 3], (0..54).map(|at| at as f32).collect())
            .node("GlobalAveragePool", "image", "mean", &[])
            .node(
                "Conv",
                "mean w",
                "c",
                &[
                    ints_of(
                        "pads",
                        &[1, 1, 1 + 2 * (dilation - 1), 1 + 2 * (dilation - 1)],
                    ),
                    ints_of("dilations", &[dilation; 2]),
                ],
            )
            .node("Flatten", "c", "x", &[])
            .output("x");
        let compiled = compiled(&onnx).unwrap();
        let network = compiled.package.network();
        let found = reference::run(network, &[2.0; 192]).remove(0);
        assert_eq!(found, expected);
        let mut device = Evaluator::new(Isa::detect(), network, 1).unwrap();
        device.load(&[&[2.0; 192]]);
        assert_eq!(device.exits(1)[0][0].scores, expected);
    }
}
