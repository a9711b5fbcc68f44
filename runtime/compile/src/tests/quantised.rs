//! Networks with QuantizeLinear and DequantizeLinear.

use punctual_model::{Binary, OperatorKind, Pool, QuantisedConv2d, TensorId, reference};
use punctual_types::{Activation, BinaryFunction, PoolKind, Quantisation};

use super::builder::{Onnx, int, ints_of, text};
use super::folded::for_each_image;
use super::{compiled, compiled_for_outputs, largest_between, options};
use crate::{Calibration, CompileError, Compiled, compile};

impl Onnx {
    /// A scale and a zero point of bytes, named NAME_s and NAME_z.
    fn scale(self, name: &str, scale: f32, zero: u8) -> Self {
        self.exactly(&format!("{name}_s"), &[], vec![scale])
            .unsigned(&format!("{name}_z"), &[], vec![zero])
    }

    /// `from` to bytes NAME_q and back to floats NAME.
    fn through(self, from: &str, name: &str) -> Self {
        let (bytes, by) = (format!("{name}_q"), format!("{name}_s {name}_z"));
        self.node("QuantizeLinear", &format!("{from} {by}"), &bytes, &[])
            .node("DequantizeLinear", &format!("{bytes} {by}"), name, &[])
    }

    /// Weights of i8 with a scale an output channel, as floats NAME.
    fn integers(self, name: &str, dims: &[i64], scales: Vec<f32>) -> Self {
        let count = dims.iter().product::<i64>();
        let integers = (0..count).map(|at| (at * 37 % 255 - 127) as i8).collect();
        let outputs = scales.len();
        let names = format!("{name}_q {name}_s {name}_z");
        self.signed(&format!("{name}_q"), dims, integers)
            .exactly(&format!("{name}_s"), &[outputs as i64], scales)
            .signed(&format!("{name}_z"), &[outputs as i64], vec![0; outputs])
            .node("DequantizeLinear", &names, name, &[int("axis", 0)])
    }
}

/// As onnxruntime's quantize_static writes them: convolution, addition, pool, mean, head.
fn residual() -> Onnx {
    let mut onnx = Onnx::new();
    for (name, scale, zero) in [
        ("x", 0.03, 120),
        ("a", 0.05, 0),
        ("b", 0.06, 131),
        ("sum", 0.07, 0),
        ("pool", 0.07, 0),
        ("mean", 0.02, 0),
        ("flat", 0.02, 0),
        ("logits", 0.1, 128),
    ] {
        onnx = onnx.scale(name, scale, zero);
    }
    onnx.integers("w0", &[4, 3, 3, 3], vec![0.004, 0.003, 0.002, 0.001])
        .integers("w1", &[4, 4, 1, 1], vec![0.004, 0.003, 0.002, 0.001])
        .integers("w2", &[5, 4], vec![0.01, 0.02, 0.01, 0.02, 0.03])
        .floats("b0", &[4])
        .floats("b1", &[4])
        .floats("b2", &[5])
        .through("image", "x")
        .node("Conv", "x w0 b0", "c0", &[ints_of("pads", &[1; 4])])
        .node("Relu", "c0", "r0", &[])
        .through("r0", "a")
        .node("Conv", "a w1 b1", "c1", &[])
        .through("c1", "b")
        .node("Add", "b a", "s", &[])
        .node("Relu", "s", "rs", &[])
        .through("rs", "sum")
        .node("MaxPool", "sum", "p", &[ints_of("kernel_shape", &[2, 2])])
        .through("p", "pool")
        .node("GlobalAveragePool", "pool", "m", &[])
        .through("m", "mean")
        .node("Flatten", "mean", "f", &[])
        .through("f", "flat")
        .node("Gemm", "flat w2 b2", "h", &[int("transB", 1)])
        .scale("exit_0", 0.1, 128)
        .through("h", "exit_0")
        .output("exit_0")
}

fn kinds(compiled: &Compiled) -> Vec<OperatorKind> {
    let stages = compiled.package.network().stages.iter();
    let operators = stages.flat_map(|stage| &stage.operators);
    operators.map(|operator| operator.kind.clone()).collect()
}

#[test]
fn a_quantised_network_runs_on_bytes_from_its_input_to_its_scores() {
    let compiled = compiled(&residual()).unwrap();
    let kinds = kinds(&compiled);
    assert!(matches!(
        kinds[..],
        [
            OperatorKind::Convert(_),
            OperatorKind::QuantisedConv2d(QuantisedConv2d {
                activation: Activation::Relu,
                ..
            }),
            OperatorKind::QuantisedConv2d(QuantisedConv2d {
                activation: Activation::None,
                ..
            }),
            OperatorKind::Binary(Binary {
                function: BinaryFunction::Add,
                constant: None,
                activation: Activation::Relu,
                ..
            }),
            OperatorKind::Pool(Pool {
                kind: PoolKind::Max,
                ..
            }),
            OperatorKind::Pool(Pool {
                kind: PoolKind::Average { .. },
                ..
            }),
            OperatorKind::QuantisedConv2d(_),
            OperatorKind::Convert(_),
        ]
    ));
    let network = compiled.package.network();
    assert_eq!(network.quantised.tensors.len(), 7);
    assert_eq!(network.quantised.weights.len(), 4 * 27 + 16 + 20);
    assert_eq!(
        network.quantisation(TensorId(1)),
        Some(Quantisation {
            scale: 0.03,
            zero: 120
        })
    );
    let report = compiled.report.to_string();
    assert!(report.contains("convolution 3x3, int8"), "{report}");
}

#[test]
fn what_has_no_operator_on_bytes_stays_between_two_conversions() {
    let onnx = Onnx::new()
        .scale("x", 0.03, 120)
        .scale("y", 0.01, 0)
        .through("image", "x")
        .node("Sigmoid", "x", "c", &[])
        .through("c", "y")
        .head("y", 3, "exit_0");
    let found = kinds(&compiled(&onnx).unwrap());
    assert!(matches!(
        found[..],
        [
            OperatorKind::Convert(_),
            OperatorKind::Convert(_),
            OperatorKind::Conv2d(_),
            OperatorKind::Convert(_),
            OperatorKind::Convert(_),
            OperatorKind::Pool(Pool {
                kind: PoolKind::Average { .. },
                ..
            }),
            OperatorKind::Linear(_),
        ]
    ));
}

#[test]
fn the_nearest_bytes_are_moved_if_they_stand_for_the_same() {
    let resized = |scale: f32, mode: &str| {
        let onnx = Onnx::new()
            .scale("x", 0.03, 120)
            .scale("y", scale, 120)
            .scale("z", 0.05, 0)
            .exactly("double", &[4], vec![1.0, 1.0, 2.0, 2.0])
            .integers("w0", &[4, 3, 3, 3], vec![0.004; 4])
            .through("image", "x")
            .node("Resize", "x - double", "r", &[text("mode", mode)])
            .through("r", "y")
            .node("Conv", "y w0", "c", &[ints_of("dilations", &[2, 3])])
            .through("c", "z")
            .head("z", 4, "exit_0");
        kinds(&compiled(&onnx).unwrap())
    };
    assert!(matches!(
        resized(0.03, "nearest")[..4],
        [
            OperatorKind::Convert(_),
            OperatorKind::Resize(_),
            OperatorKind::QuantisedConv2d(_),
            OperatorKind::Convert(_),
        ]
    ));
    for found in [resized(0.02, "nearest"), resized(0.03, "linear")] {
        assert!(matches!(
            found[..5],
            [
                OperatorKind::Convert(_),
                OperatorKind::Convert(_),
                OperatorKind::Resize(_),
                OperatorKind::Convert(_),
                OperatorKind::QuantisedConv2d(_),
            ]
        ));
    }
}

#[test]
fn signed_activations_are_the_unsigned_ones_with_another_zero() {
    let signed = |name: &str| {
        Onnx::new()
            .exactly("x_s", &[], vec![0.03])
            .signed("x_z", &[], vec![-8])
            .integers("w0", &[5, 3, 8, 8], vec![0.004; 5])
            .through("image", "x")
            .node("Conv", "x w0", "c", &[])
            .node("Flatten", "c", name, &[])
            .output(name)
    };
    let compiled = compiled(&signed("exit_0")).unwrap();
    let network = compiled.package.network();
    assert_eq!(network.quantisation(TensorId(1)).unwrap().zero, 120);
    // The same in floats, but for the input's rounding.
    let image: Vec<f32> = (0..192).map(|at| (at * 5 % 50) as f32 * 0.03).collect();
    let scores = reference::run(network, &image);
    for (output, score) in scores[0].iter().enumerate() {
        let weight = |at: usize| (((output * 192 + at) * 37 % 255) as f32 - 127.0) * 0.004;
        let products = image.iter().enumerate();
        let expected: f32 = products.map(|(at, x)| x * weight(at)).sum();
        assert!((score - expected).abs() < 1e-3, "{score} {expected}");
    }
}

/// A network whose input goes through bytes without a zero point, of the type that `output_dtype` says if it is there.
fn without_a_zero_point(output_dtype: Option<i64>) -> Onnx {
    let attributes: Vec<_> = output_dtype
        .map(|of| int("output_dtype", of))
        .into_iter()
        .collect();
    Onnx::new()
        .exactly("s", &[], vec![0.03])
        .node("QuantizeLinear", "image s", "q", &attributes)
        .node("DequantizeLinear", "q s", "x", &[])
        .head("x", 3, "exit_0")
}

#[test]
fn bytes_without_a_zero_point_are_of_the_type_that_output_dtype_says() {
    for (output_dtype, zero) in [(None, 0), (Some(0), 0), (Some(2), 0), (Some(3), 128)] {
        let compiled = compiled(&without_a_zero_point(output_dtype)).unwrap();
        let bytes = compiled.package.network().quantisation(TensorId(1));
        assert_eq!(bytes.unwrap().zero, zero, "{output_dtype:?}");
    }
}

/// Bytes of 16 bits around a zero point are up to 65,535; halves hold up to 65,504.
#[test]
fn floats_through_16_bits_are_rounded_and_bounded_without_the_integers() {
    for zero in [0, 32_768, 65_535] {
        let onnx = Onnx::new()
            .exactly("s", &[], vec![0.25])
            .unsigned_shorts("z", &[zero])
            .node("QuantizeLinear", "image s z", "q", &[])
            .node("DequantizeLinear", "q s z", "x", &[])
            .output("x");
        let [least, most] = [-f32::from(zero), 65_535.0 - f32::from(zero)];
        let of = |value: f32| {
            let compiled = compiled_for_outputs(&onnx).unwrap();
            let exits = reference::run_all(compiled.package.network(), &[&[value; 192]]);
            let exit = exits.into_iter().flatten().next().unwrap();
            exit.outputs[0][0]
        };
        for value in [-20_000.0, -7.1, 0.0, 7.2, 20_000.0] {
            let steps = (value * 4.0f32).round_ties_even();
            assert_eq!(of(value), steps.clamp(least, most) * 0.25);
        }
        assert!(largest_between(&onnx, &[200.0; 192]) <= 800.0);
    }
}

#[test]
fn types_of_other_widths_than_8_and_16_bits_are_refused_by_name() {
    // float8, int4.
    for other in [17, 22] {
        let error = compiled(&without_a_zero_point(Some(other))).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("output_dtype") && words.contains("int8"),
            "{words}"
        );
    }
}

#[test]
fn a_zero_point_of_another_type_than_output_dtype_says_is_refused() {
    let onnx = Onnx::new()
        .scale("x", 0.03, 120)
        .node(
            "QuantizeLinear",
            "image x_s x_z",
            "q",
            &[int("output_dtype", 3)],
        )
        .node("DequantizeLinear", "q x_s x_z", "x", &[])
        .head("x", 3, "exit_0");
    let words = compiled(&onnx).unwrap_err().to_string();
    assert!(words.contains("the type of the zero point"), "{words}");
}

#[test]
fn constants_without_a_zero_point_are_quantised_to_the_type_that_output_dtype_says() {
    // -1.27 is no unsigned byte; as signed ones, constants come back as they were.
    let weights = vec![-1.27, -0.01, 0.0, 0.02, 0.5, 1.27];
    let network = |attributes: &[_]| {
        let onnx = Onnx::new()
            .exactly("w", &[2, 3, 1, 1], weights.clone())
            .exactly("s", &[], vec![0.01])
            .node("QuantizeLinear", "w s", "q", attributes)
            .node("DequantizeLinear", "q s", "d", &[])
            .node("Conv", "image d", "c", &[])
            .head("c", 2, "exit_0");
        let compiled = compiled(&onnx).unwrap();
        let network = compiled.package.network();
        let conv = &network.stages[0].operators[0];
        let range = conv.weights[0];
        network.weights[range.start as usize..][..range.len as usize].to_vec()
    };
    let close = |found: &[f32], expected: &[f32]| {
        found
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() < 1e-6)
    };
    assert!(close(&network(&[int("output_dtype", 3)]), &weights));
    let cut: Vec<f32> = weights.iter().map(|weight| weight.max(0.0)).collect();
    assert!(close(&network(&[]), &cut));
}

#[test]
fn bytes_read_with_another_scale_than_they_were_written_with_are_refused() {
    let onnx = Onnx::new()
        .scale("x", 0.03, 120)
        .scale("y", 0.02, 120)
        .node("QuantizeLinear", "image x_s x_z", "q", &[])
        .node("DequantizeLinear", "q y_s y_z", "y", &[])
        .head("y", 3, "exit_0");
    let error = compile(&onnx.bytes(), Calibration::default(), &options()).unwrap_err();
    assert!(matches!(error, CompileError::Nodes(_)), "{error}");
    assert!(error.to_string().contains("same scale"), "{error}");
}

/// Two convolutions to bytes of different scales, joined along an axis and given to a third.
fn joined(axis: i64, scales: [f32; 2]) -> Onnx {
    let mut onnx = Onnx::new().scale("x", 0.03, 120).through("image", "x");
    for (name, scale) in ["a", "b"].iter().zip(scales) {
        let (weights, sums) = (format!("w{name}"), format!("c{name}"));
        onnx = onnx
            .integers(&weights, &[4, 3, 1, 1], vec![0.004, 0.003, 0.002, 0.001])
            .node("Conv", &format!("x {weights}"), &sums, &[])
            .scale(name, scale, 100)
            .through(&sums, name);
    }
    let channels = if axis == 1 { 8 } else { 4 };
    onnx.node("Concat", "a b", "j", &[int("axis", axis)])
        .scale("jq", 0.05, 100)
        .through("j", "jq")
        .integers("w", &[4, channels, 1, 1], vec![0.004, 0.003, 0.002, 0.001])
        .node("Conv", "jq w", "y", &[])
        .head("y", 4, "exit_0")
}

#[test]
fn what_is_joined_between_bytes_is_joined_as_bytes() {
    for axis in [1, 2] {
        let same = kinds(&compiled(&joined(axis, [0.05, 0.05])).unwrap());
        let convolution = |kind: &OperatorKind| matches!(kind, OperatorKind::QuantisedConv2d(_));
        assert!(same[1..3].iter().all(convolution), "{same:?}");
        assert!(matches!(same[3], OperatorKind::Copy(_)), "{same:?}");
        assert!(convolution(&same[4]), "{same:?}");
        let other = compiled(&joined(axis, [0.05, 0.02])).unwrap();
        let kinds = kinds(&other);
        assert!(matches!(kinds[3], OperatorKind::Convert(_)), "{kinds:?}");
        assert!(matches!(kinds[4], OperatorKind::Copy(_)), "{kinds:?}");
        assert!(convolution(&kinds[5]), "{kinds:?}");
    }
}

#[test]
fn a_transpose_between_bytes_moves_bytes() {
    let onnx = Onnx::new()
        .scale("x", 0.03, 120)
        .through("image", "x")
        .node("Transpose", "x", "t", &[ints_of("perm", &[0, 1, 3, 2])])
        .through("t", "x2")
        .integers("w", &[4, 3, 3, 3], vec![0.004, 0.003, 0.002, 0.001])
        .node("Conv", "x2 w", "y", &[])
        .head("y", 4, "exit_0");
    let onnx = onnx.scale("x2", 0.03, 120);
    let kinds = kinds(&compiled(&onnx).unwrap());
    assert!(
        matches!(
            kinds[..3],
            [
                OperatorKind::Convert(_),
                OperatorKind::Copy(_),
                OperatorKind::QuantisedConv2d(_)
            ]
        ),
        "{kinds:?}"
    );
}

#[test]
fn a_constant_for_each_image_is_one_for_each_image_in_bytes_too() {
    let onnx = Onnx::new()
        .exactly("query", &[1, 3, 1, 1], vec![1.0, 2.0, 3.0])
        .scale("q", 0.5, 0);
    let onnx = for_each_image(onnx, "query", "each")
        .through("each", "q")
        .node("GlobalAveragePool", "image", "mean", &[])
        .node("Mul", "q mean", "scaled", &[])
        .node("Shape", "q", "sizes", &[])
        .node("Gather", "sizes zero", "images", &[])
        .ints("three", &[3])
        .node("Concat", "images three", "flat", &[int("axis", 0)])
        .node("Reshape", "scaled flat", "x", &[])
        .output("x");
    let package = compiled(&onnx).unwrap().package;
    let scores = reference::run(package.network(), &[2.0; 192]).remove(0);
    assert_eq!(scores, [2.0, 4.0, 6.0]);
}

/// Bytes of other bytes have a range of their own, even where their values are bytes for a third time.
#[test]
fn what_bytes_in_the_middle_cannot_hold_is_lost() {
    let onnx = Onnx::new()
        .scale("wide", 0.0625, 128)
        .scale("narrow", 0.03125, 121)
        .scale("last", 0.03125, 128)
        .through("image", "wide")
        .through("wide", "narrow")
        .node("Concat", "wide narrow", "both", &[int("axis", 1)])
        .through("both", "last")
        .head("last", 6, "unread")
        .output("last");
    let package = compiled_for_outputs(&onnx).unwrap().package;
    let exits = reference::run_all(package.network(), &[&[-7.0; 192]]);
    let exit = exits.into_iter().flatten().next().unwrap();
    let last = exit
        .outputs
        .iter()
        .find(|values| values.len() == 384)
        .unwrap();
    assert_eq!((last[0], last[383]), (-4.0, -3.78125));
}

#[test]
fn an_exit_of_what_is_joined_has_what_was_joined() {
    let onnx = Onnx::new()
        .scale("wide", 0.0625, 128)
        .scale("narrow", 0.03125, 121)
        .scale("last", 0.03125, 128)
        .through("image", "wide")
        .through("image", "narrow")
        .node("Concat", "wide narrow", "both", &[int("axis", 1)])
        .through("both", "last")
        .head("last", 6, "unread")
        .output("both");
    let package = compiled_for_outputs(&onnx).unwrap().package;
    let exits = reference::run_all(package.network(), &[&[-7.0; 192]]);
    let mut outputs = exits.into_iter().flatten().flat_map(|exit| exit.outputs);
    let both = outputs.find(|values| values.len() == 384).unwrap();
    assert_eq!((both[0], both[383]), (-7.0, -3.78125));
}

/// Integers, scales and biases of two convolutions that have the same are there once, whatever their bytes stand for.
#[test]
fn integers_that_two_convolutions_have_are_stored_once() {
    let onnx = Onnx::new()
        .scale("x", 0.03, 120)
        .scale("y", 0.02, 100)
        .scale("z", 0.01, 90)
        .integers("w", &[3, 3, 3, 3], vec![0.004, 0.003, 0.002])
        .through("image", "x")
        .node("Conv", "x w", "c", &[ints_of("pads", &[1; 4])])
        .through("c", "y")
        .node("Conv", "y w", "d", &[ints_of("pads", &[1; 4])])
        .through("d", "z")
        .head("z", 3, "exit_0");
    let compiled = compiled(&onnx).unwrap();
    let network = compiled.package.network();
    let convs = network.stages[0].operators.iter();
    let convs = convs.filter(|conv| matches!(conv.kind, OperatorKind::QuantisedConv2d(_)));
    let convs: Vec<_> = convs.collect();
    assert_eq!(convs.len(), 2);
    assert_eq!(convs[0].weights, convs[1].weights);
    assert_eq!(network.quantised.weights.len(), 81);
    // Scales, biases, and the head's.
    assert_eq!(network.weights.len(), 3 + 3 + 5 * 3 + 5);
    assert_eq!(compiled.report.parameters, 81 + 26);
}
