//! Bytes whose range is measured when running, and products of integers.

use punctual_model::reference;

use super::builder::{Onnx, int, ints_of};
use super::{compiled, compiled_for_outputs, largest_between};
use crate::Note;
use crate::schema::data_type;

const MICROSOFT: &str = "com.microsoft";

/// Three numbers of each image, the means of its channels, as bytes Q with the scale S and the zero point Z.
fn bytes() -> Onnx {
    let mut onnx = Onnx::new()
        .signed("w", &[3, 2], vec![1, -2, 127, 3, -128, 5])
        .signed("w_z", &[], vec![2])
        .exactly("w_s", &[], vec![0.5])
        .exactly("each_s", &[2], vec![0.5, 0.25])
        .node("GlobalAveragePool", "image", "mean", &[])
        .node("Flatten", "mean", "x", &[])
        .node("DynamicQuantizeLinear", "x", "q", &[]);
    let node = onnx.graph().node.last_mut().unwrap();
    node.output.extend(["s".to_owned(), "z".to_owned()]);
    onnx
}

/// As onnxruntime's quantiser writes a product of matrices.
fn product(scale: &str) -> Onnx {
    let float = int("to", data_type::FLOAT.into());
    bytes()
        .node("MatMulInteger", "q w z w_z", "sum", &[])
        .node("Cast", "sum", "cast", &[float])
        .node("Mul", &format!("s {scale}"), "scales", &[])
        .node("Mul", "cast scales", "product", &[])
}

/// Of an image whose channels have these values everywhere.
fn of_channels(onnx: Onnx, output: &str, values: [f32; 3]) -> Vec<f32> {
    let package = compiled_for_outputs(&onnx.output(output)).unwrap().package;
    let image = values.map(|value| [value; 64]).concat();
    let exits = reference::run_all(package.network(), &[&image]);
    let exit = exits.into_iter().flatten().next().unwrap();
    exit.outputs.into_iter().next().unwrap()
}

fn of_microsoft(mut onnx: Onnx) -> Onnx {
    let node = onnx.graph().node.last_mut().unwrap();
    node.domain = Some(MICROSOFT.to_owned());
    onnx
}

/// -1 to 4.1 in 255 steps of 0.02 around 50: 0, 255 and 75.
const VALUES: [f32; 3] = [-1.0, 4.1, 0.5];

/// What those are above zero, times the weights above theirs.
const SUMS: [f32; 2] = [
    -50.0 * -1.0 + 205.0 * 125.0 + 25.0 * -130.0,
    -50.0 * -4.0 + 205.0 * 1.0 + 25.0 * 3.0,
];

fn assert_close(found: &[f32], expected: &[f32]) {
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
    let all = found.iter().zip(expected).all(close);
    assert!(
        all && found.len() == expected.len(),
        "{found:?} is not {expected:?}"
    );
}

#[test]
fn bytes_have_the_range_of_an_image_and_zero() {
    let read = |numbers: &str, values| {
        let to = int("to", data_type::FLOAT.into());
        let onnx = bytes().node("Cast", numbers, "floats", &[to]);
        of_channels(onnx.node("Mul", "x floats", "y", &[]), "y", values)
    };
    assert_close(&read("q", VALUES), &[0.0, 4.1 * 255.0, 0.5 * 75.0]);
    assert_close(&read("z", VALUES), &VALUES.map(|value| value * 50.0));
    assert_close(&read("s", VALUES), &VALUES.map(|value| value * 0.02));
    // All above zero, all below.
    assert_close(&read("z", [1.0, 2.0, 3.0]), &[0.0; 3]);
    assert_close(
        &read("z", [-1.0, -2.0, -5.1]),
        &[-255.0, -510.0, -5.1 * 255.0],
    );
}

#[test]
fn the_scale_of_an_image_of_zeros_is_one() {
    let onnx = bytes().node("Add", "x s", "y", &[]);
    assert_eq!(of_channels(onnx, "y", [0.0; 3]), [1.0; 3]);
}

#[test]
fn products_of_integers_are_exact() {
    let sum = || bytes().node("MatMulInteger", "q w z w_z", "y", &[]);
    assert_eq!(of_channels(sum(), "y", VALUES), SUMS);
    let onnx = Onnx::new()
        .signed("w", &[2, 3, 1, 1], vec![1, 127, -128, -2, 3, 5])
        .signed("w_z", &[2], vec![2, 0]);
    let mut onnx = onnx
        .node("DynamicQuantizeLinear", "image", "q", &[])
        .node("ConvInteger", "q w z w_z", "sum", &[])
        .node(
            "ReduceMax",
            "sum",
            "y",
            &[ints_of("axes", &[2, 3]), int("keepdims", 0)],
        );
    onnx.graph().node[0]
        .output
        .extend(["s".to_owned(), "z".to_owned()]);
    let second = -50.0 * -2.0 + 205.0 * 3.0 + 25.0 * 5.0;
    assert_eq!(of_channels(onnx, "y", VALUES), [SUMS[0], second]);
}

#[test]
fn a_product_has_one_scale_or_one_for_each_column() {
    let expected = [SUMS[0] * 0.01, SUMS[1] * 0.01];
    assert_close(&of_channels(product("w_s"), "product", VALUES), &expected);
    let expected = [SUMS[0] * 0.01, SUMS[1] * 0.005];
    assert_close(
        &of_channels(product("each_s"), "product", VALUES),
        &expected,
    );
    let fused = bytes().node("MatMulIntegerToFloat", "q w s each_s z w_z", "product", &[]);
    assert_close(
        &of_channels(of_microsoft(fused), "product", VALUES),
        &expected,
    );
    let fused = bytes().node(
        "DynamicQuantizeMatMul",
        "x w each_s w_z each_s",
        "product",
        &[],
    );
    let expected = [expected[0] + 0.5, expected[1] + 0.25];
    assert_close(
        &of_channels(of_microsoft(fused), "product", VALUES),
        &expected,
    );
}

#[test]
fn a_product_that_waits_for_its_scale_is_one_that_halves_hold() {
    let wide = || {
        let mut onnx = Onnx::new()
            .signed("w", &[64, 2], vec![127; 128])
            .exactly("w_s", &[], vec![0.001])
            .ints("rows", &[0, 3, 64])
            .node("Reshape", "image rows", "x", &[])
            .node("DynamicQuantizeLinear", "x", "q", &[]);
        let node = onnx.graph().node.last_mut().unwrap();
        node.output.extend(["s".to_owned(), "z".to_owned()]);
        onnx.node("MatMulInteger", "q w z", "sum", &[])
            .node("Mul", "s w_s", "scales", &[])
            .node("Cast", "sum", "cast", &[int("to", data_type::FLOAT.into())])
    };
    let image: Vec<f32> = (0..192).map(|at| (at % 7) as f32).collect();
    let scaled = wide().node("Mul", "cast scales", "y", &[]).output("y");
    assert!(largest_between(&scaled, &image) < 256.0);
    let sum = wide().output("cast");
    assert!(largest_between(&sum, &image) > 65_504.0);
}

#[test]
fn what_is_quantised_and_back_by_a_measured_scale_is_rounded_to_its_steps() {
    let onnx = bytes().node("DequantizeLinear", "q s z", "y", &[]);
    let found = of_channels(onnx, "y", [-1.0, 4.1, 0.505]);
    assert_close(&found, &[-1.0, 4.1, 0.5]);
}

#[test]
fn that_each_frame_has_its_own_range_is_said_once() {
    let twice = || {
        let mut onnx = product("w_s").node("DynamicQuantizeLinear", "product", "p", &[]);
        let node = onnx.graph().node.last_mut().unwrap();
        node.output.extend(["p_s".to_owned(), "p_z".to_owned()]);
        onnx.node("DequantizeLinear", "p p_s p_z", "y", &[])
            .output("y")
    };
    let said = |onnx: &Onnx| {
        let notes = compiled(onnx).unwrap().report.notes;
        notes
            .iter()
            .filter(|note| **note == Note::OwnRanges)
            .count()
    };
    assert_eq!(said(&twice()), 1);
    let mut alone = twice();
    let image = super::builder::image_of("image", &[3, 8, 8]);
    alone.graph().input = vec![image];
    let input = alone.graph().input[0].r#type.as_mut().unwrap();
    let shape = input.tensor_type.as_mut().unwrap().shape.as_mut().unwrap();
    shape.dim[0].dim_value = Some(1);
    assert_eq!(said(&alone), 0);
}

#[test]
fn products_of_calibrated_bytes_are_refused() {
    let onnx = bytes()
        .unsigned("x_z", &[], vec![100])
        .node("QuantizeLinear", "x w_s x_z", "static", &[])
        .node("MatMulInteger", "static w x_z w_z", "y", &[])
        .output("y");
    let message = compiled(&onnx).unwrap_err().to_string();
    let words = "its input 0 (integers) is a vector of features (N, 3); supported is constant, or bytes of a range";
    assert!(message.contains(words), "{message}");
}

#[test]
fn a_measured_scale_may_be_an_output() {
    let onnx = bytes().node("Identity", "s", "y", &[]);
    assert_close(&of_channels(onnx, "y", VALUES), &[0.02]);
}
