//! Products and quotients: what becomes an activation, a gate, a scale.

use super::builder::{Onnx, float, ints_of};
use super::{compiled, compiled_for_outputs};
use punctual_model::{Binary, Operator, OperatorKind, reference};
use punctual_types::{Activation, BinaryFunction};

fn operators(onnx: &Onnx) -> Vec<Operator> {
    let package = compiled(onnx).unwrap().package;
    package.network().stages[0].operators.clone()
}

/// Whether it multiplies two tensors, then applies that.
fn multiplies(operator: &Operator, activation: Activation) -> bool {
    let product = Binary {
        activation,
        ..Binary::new(BinaryFunction::Multiply)
    };
    operator.kind == product.into()
}

/// A convolution `c` of four channels.
fn conv() -> Onnx {
    Onnx::new()
        .floats("w", &[4, 3, 1, 1])
        .node("Conv", "image w", "c", &[])
        .exactly("three", &[], vec![3.0])
        .exactly("six", &[], vec![6.0])
        .exactly("sixth", &[], vec![1.0 / 6.0])
        .exactly("zero", &[], vec![0.0])
}

/// Asserts that `y` is the convolution with this activation and nothing else.
#[track_caller]
fn is_one_convolution(onnx: Onnx, expected: Activation) {
    let operators = operators(&onnx.head("y", 4, "exit_0"));
    let OperatorKind::Conv2d(conv) = &operators[0].kind else {
        panic!("{:?}", operators[0]);
    };
    assert_eq!(
        (conv.activation, operators.len()),
        (expected, 3),
        "{operators:?}"
    );
}

#[test]
fn a_sigmoid_times_its_operand_is_one_activation_of_the_convolution() {
    for product in ["c s", "s c"] {
        let onnx = conv()
            .node("Sigmoid", "c", "s", &[])
            .node("Mul", product, "y", &[]);
        is_one_convolution(onnx, Activation::Silu);
    }
}

#[test]
fn every_way_to_write_a_hard_swish_is_one() {
    let sixth = [float("alpha", 1.0 / 6.0), float("beta", 0.5)];
    is_one_convolution(
        conv().node("HardSwish", "c", "y", &[]),
        Activation::HardSwish,
    );
    let gate = conv().node("HardSigmoid", "c", "s", &sixth);
    is_one_convolution(gate.node("Mul", "c s", "y", &[]), Activation::HardSwish);
    let ramp = || {
        conv()
            .node("Add", "c three", "sum", &[])
            .node("Clip", "sum zero six", "ramp", &[])
    };
    let gate_first = ramp()
        .node("Div", "ramp six", "gate", &[])
        .node("Mul", "c gate", "y", &[]);
    is_one_convolution(gate_first, Activation::HardSwish);
    let product_first =
        ramp()
            .node("Mul", "c ramp", "product", &[])
            .node("Mul", "product sixth", "y", &[]);
    is_one_convolution(product_first, Activation::HardSwish);
}

#[test]
fn a_ramp_from_minus_three_to_three_is_a_hard_sigmoid() {
    let onnx = conv()
        .node("Add", "three c", "sum", &[])
        .node("Clip", "sum zero six", "ramp", &[])
        .node("Div", "ramp six", "y", &[]);
    // The sum folds into the convolution's bias, unless it is recognised before.
    is_one_convolution(onnx, Activation::HardSigmoid);
}

#[test]
fn a_hard_sigmoid_of_another_slope_is_a_line_that_is_clamped() {
    let onnx = conv().node("HardSigmoid", "c", "y", &[]);
    is_one_convolution(
        onnx,
        Activation::Clip {
            low: 0.0,
            high: 1.0,
        },
    );
}

#[test]
fn a_gate_that_is_read_twice_stays() {
    let onnx = conv()
        .node("Sigmoid", "c", "s", &[])
        .node("Mul", "c s", "p", &[])
        .node("Add", "p s", "y", &[])
        .head("y", 4, "exit_0");
    let kinds = operators(&onnx);
    assert!(
        kinds
            .iter()
            .any(|operator| multiplies(operator, Activation::None)),
        "{kinds:?}"
    );
}

#[test]
fn one_value_a_channel_multiplies_all_its_pixels_from_either_side() {
    for product in ["c s", "s c"] {
        let onnx = conv()
            .node("GlobalAveragePool", "c", "m", &[])
            .node("Sigmoid", "m", "s", &[])
            .node("Mul", product, "g", &[])
            .node("Relu", "g", "y", &[])
            .head("y", 4, "exit_0");
        let operators = operators(&onnx);
        let gate = operators
            .iter()
            .find(|operator| operator.name == "node_g")
            .unwrap();
        assert!(multiplies(gate, Activation::Relu), "{gate:?}");
        let [other] = gate.others[..] else {
            panic!("{gate:?}");
        };
        assert_eq!(gate.input, operators[0].output);
        assert_ne!(other, gate.input);
    }
}

#[test]
fn constants_scale_and_shift_the_convolution_before_them() {
    let onnx = conv()
        .exactly("each", &[4, 1, 1], vec![2.0, 4.0, 8.0, 16.0])
        .node("Mul", "c three", "p", &[])
        .node("Div", "p each", "q", &[])
        .node("Sub", "q six", "y", &[]);
    is_one_convolution(onnx.clone(), Activation::None);
    let package = compiled(&onnx.head("y", 4, "exit_0")).unwrap().package;
    let network = package.network();
    let conv = &network.stages[0].operators[0];
    assert!(matches!(conv.kind, OperatorKind::Conv2d(_)), "{conv:?}");
    assert_eq!(network.float_weights(conv).nth(1), Some(&[-6.0; 4][..]));
}

#[test]
fn a_tensor_taken_from_a_constant_changes_its_sign() {
    let onnx = conv().node("Sub", "six c", "y", &[]);
    is_one_convolution(onnx, Activation::None);
}

#[test]
fn a_division_by_zero_is_refused() {
    let onnx = conv()
        .node("Div", "c zero", "y", &[])
        .head("y", 4, "exit_0");
    let message = compiled(&onnx).unwrap_err().to_string();
    assert!(
        message.contains("node \"node_y\" (Div)") && message.contains("inf"),
        "{message}"
    );
}

#[test]
fn a_product_of_two_tensors_is_one_operator_and_images_are_not_multiplied_with_others() {
    // (N, 4, 8, 8) times itself, and times (N, 8, 32), whose images would be the other one's channels.
    let product = conv().node("MatMul", "c c", "y", &[]);
    let found = operators(&product.head("y", 4, "exit_0"));
    let products = found
        .iter()
        .filter(|operator| matches!(operator.kind, OperatorKind::Product(_)));
    assert_eq!(products.count(), 1, "{found:?}");
    let other = conv()
        .ints("sizes", &[-1, 8, 32])
        .node("Reshape", "c sizes", "t", &[])
        .node("MatMul", "c t", "y", &[])
        .head("y", 4, "exit_0");
    let message = compiled(&other).unwrap_err().to_string();
    let expected = "it multiplies an image (N, 4, 8, 8) and a tensor (N, 8, 32); supported are";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_value_times_a_factor_is_an_output_and_weights_of_an_attention_are_multiplied() {
    let onnx = Onnx::new().node("Mul", "image half", "exit_0/scaled", &[]);
    let onnx = Onnx(onnx.0)
        .exactly("half", &[], vec![0.5])
        .floats("w", &[3, 8, 8])
        .node("Reshape", "image rows", "x", &[])
        .ints("rows", &[0, 24, 8])
        .node(
            "Transpose",
            "x",
            "y",
            &[crate::schema::attribute::ints("perm", [0, 2, 1])],
        )
        .node("MatMul", "y x", "products", &[])
        .node(
            "Softmax",
            "products",
            "weights",
            &[crate::schema::attribute::int("axis", -1)],
        )
        .floats("matrix", &[8, 4])
        .node("MatMul", "weights matrix", "exit_0/mixed", &[])
        .output("exit_0/scaled")
        .output("exit_0/mixed");
    let package = compiled_for_outputs(&onnx).unwrap().package;
    let exit = package.network().stages[0].exit.as_ref().unwrap();
    let shapes: Vec<&[u32]> = exit
        .outputs
        .iter()
        .map(|output| &output.shape[..])
        .collect();
    assert_eq!(shapes, [&[3, 8, 8][..], &[8, 4]]);
}

#[test]
fn a_product_with_a_vector_is_one_number_for_each_row_that_it_is_multiplied_with() {
    // The tokens are (N, 64, 3).
    let onnx = Onnx::new()
        .ints("sizes", &[0, 3, 64])
        .node("Reshape", "image sizes", "rows", &[])
        .node(
            "Transpose",
            "rows",
            "tokens",
            &[ints_of("perm", &[0, 2, 1])],
        )
        .exactly("v", &[3], vec![1.0, -2.0, 0.5])
        .node("MatMul", "tokens v", "each", &[])
        .exactly("m", &[64], vec![0.25; 64])
        .node("MatMul", "each m", "one", &[])
        .ints("axis", &[1])
        .node("Unsqueeze", "one axis", "y", &[])
        .exactly("ones", &[1, 2], vec![1.0, -1.0])
        .node("MatMul", "y ones", "exit_0", &[])
        .output("exit_0");
    let image: Vec<f32> = (0..192).map(|at| (at * 7 % 31) as f32).collect();
    let compiled = compiled(&onnx).unwrap();
    let found = &reference::run(compiled.package.network(), &image)[0];
    let channel = |at: usize| image[at * 64..][..64].iter().sum::<f32>();
    let expected = 0.25 * (channel(0) - 2.0 * channel(1) + 0.5 * channel(2));
    for (found, expected) in found.iter().zip([expected, -expected]) {
        assert!((found - expected).abs() < 1e-3, "{found} {expected}");
    }
}
