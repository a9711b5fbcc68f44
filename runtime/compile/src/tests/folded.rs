//! What is known when compiling leaves no operator behind.

use super::builder::{Onnx, int, ints_of, text};
use super::{compiled, options};

use crate::schema::data_type;
use crate::{CompileOptions, Note, compile};
use punctual_model::{AnswerKind, Calibration, Network, OperatorKind, reference};

fn operators(onnx: &Onnx) -> usize {
    let package = compiled(onnx).unwrap().package;
    package.network().stages[0].operators.len()
}

#[test]
fn a_bias_that_is_resized_scaled_and_reshaped_is_a_bias() {
    let plain = Onnx::new()
        .floats("w", &[4, 3, 1, 1])
        .node("Conv", "image w", "c", &[]);
    let onnx = plain
        .clone()
        .floats("positions", &[1, 1, 2])
        .ints("size", &[1, 1, 4])
        .ints("shape", &[4, 1, 1])
        .exactly("two", &[], vec![2.0])
        .node(
            "Resize",
            "positions - - size",
            "p0",
            &[text("mode", "linear")],
        )
        .node("Pow", "p0 two", "p1", &[])
        .node("Sin", "p1", "p2", &[])
        .node("Reshape", "p2 shape", "p3", &[])
        .node("Add", "c p3", "x", &[]);
    let found = operators(&onnx.head("x", 4, "exit_0"));
    assert_eq!(found, operators(&plain.head("c", 4, "exit_0")));
}

/// The constant `name` repeated for each image of the batch.
pub(super) fn for_each_image(onnx: Onnx, name: &str, to: &str) -> Onnx {
    onnx.ints("zero", &[0])
        .ints("rest", &[1, 1, 1])
        .node("Shape", "image", "shape", &[])
        .node("Gather", "shape zero", "batch", &[])
        .node("Concat", "batch rest", "repeats", &[int("axis", 0)])
        .node("Expand", &format!("{name} repeats"), to, &[])
}

#[test]
fn a_constant_for_each_image_is_one_where_it_is_resized_and_added() {
    let onnx = Onnx::new().floats("small", &[1, 3, 4, 4]);
    let onnx = for_each_image(onnx, "small", "each")
        .exactly("twice", &[4], vec![1.0, 1.0, 2.0, 2.0])
        .node("Resize", "each - twice", "large", &[])
        .node("Add", "image large", "x", &[])
        .head("x", 3, "exit_0");
    // The sum, the mean and the scores.
    assert_eq!(operators(&onnx), 3);
}

#[test]
fn a_constant_for_each_image_is_a_tensor_where_it_cannot_be_computed_with_at_once() {
    let onnx = Onnx::new()
        .exactly("query", &[1, 1, 2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .exactly("w", &[3, 2], vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let onnx = for_each_image(onnx, "query", "each")
        .node("MatMul", "each w", "products", &[])
        .node("GlobalAveragePool", "image", "mean", &[])
        .node("ReduceMean", "mean", "one", &[ints_of("axes", &[1])])
        .node("Mul", "products one", "scaled", &[])
        .node("Flatten", "scaled", "x", &[])
        .output("x");
    let package = compiled(&onnx).unwrap().package;
    let scores = reference::run(package.network(), &[2.0; 192]).remove(0);
    assert_eq!(scores, [8.0, 10.0, 20.0, 22.0]);
}

/// (N, 3, `values`) of constants as (N * 3, `values`).
fn in_rows(values: i64) -> Onnx {
    let count = (3 * values) as usize;
    let numbers = (0..count).map(|at| at as f32).collect();
    let onnx = Onnx::new().exactly("rows", &[1, 1, 3, values], numbers);
    for_each_image(onnx, "rows", "each")
        .ints("flat_rows", &[-1, values])
        .node("Reshape", "each flat_rows", "flat", &[])
}

#[test]
fn constants_of_all_images_in_one_dimension_are_tensors_where_they_are_computed_with() {
    // The mean of each channel, (N * 3, 1), and rows of two numbers.
    let onnx = in_rows(2)
        .node("GlobalAveragePool", "image", "mean", &[])
        .ints("one_value", &[-1, 1])
        .node("Reshape", "mean one_value", "means", &[])
        .node("Add", "means flat", "sums", &[])
        .ints("features", &[-1, 6])
        .node("Reshape", "sums features", "x", &[])
        .output("x");
    let package = compiled(&onnx).unwrap().package;
    let image = [[1.0; 64], [10.0; 64], [100.0; 64]].concat();
    let scores = reference::run(package.network(), &image).remove(0);
    assert_eq!(scores, [1.0, 2.0, 12.0, 13.0, 104.0, 105.0]);
}

#[test]
fn constants_of_the_one_image_of_a_fixed_batch_are_no_longer_of_images() {
    // The mean of each channel, (N, 3, 1), and rows of two numbers that are the same for each image.
    let mut onnx = in_rows(2)
        .node("GlobalAveragePool", "image", "mean", &[])
        .ints("one_value", &[0, 3, 1])
        .node("Reshape", "mean one_value", "means", &[])
        .node("Add", "means flat", "sums", &[])
        .node(
            "ReduceMax",
            "sums",
            "x",
            &[ints_of("axes", &[2]), int("keepdims", 0)],
        )
        .output("x");
    assert!(compiled(&onnx).is_err(), "(N, 3, 1) and (N * 3, 2)");
    let input = onnx.graph().input[0].r#type.as_mut();
    let shape = input.unwrap().tensor_type.as_mut().unwrap().shape.as_mut();
    shape.unwrap().dim[0].dim_value = Some(1);
    let package = compiled(&onnx).unwrap().package;
    let image = [[1.0; 64], [10.0; 64], [100.0; 64]].concat();
    let scores = reference::run(package.network(), &image).remove(0);
    assert_eq!(scores, [2.0, 13.0, 105.0]);
}

#[test]
fn truths_of_all_images_in_one_dimension_choose_as_constants_do() {
    let onnx = in_rows(1)
        .exactly("limit", &[], vec![1.5])
        .node("Less", "flat limit", "few", &[])
        .node("GlobalAveragePool", "image", "mean", &[])
        .ints("one_value", &[-1, 1])
        .node("Reshape", "mean one_value", "means", &[])
        .node("Where", "few means flat", "chosen", &[])
        .ints("features", &[-1, 3])
        .node("Reshape", "chosen features", "x", &[])
        .output("x");
    let package = compiled(&onnx).unwrap().package;
    let image = [[1.0; 64], [10.0; 64], [100.0; 64]].concat();
    let scores = reference::run(package.network(), &image).remove(0);
    assert_eq!(scores, [1.0, 10.0, 2.0]);
}

#[test]
fn a_mask_that_indices_of_images_and_keys_spread_is_no_operator() {
    let onnx = Onnx::new()
        .exactly("counts", &[1, 3], vec![1.0, 0.0, 0.5])
        .ints("zero", &[0])
        .ints("one", &[1])
        .ints("three", &[3])
        .node("Shape", "image", "shape", &[])
        .node("Gather", "shape zero", "batch", &[])
        .node("Concat", "batch three", "sizes", &[int("axis", 0)])
        .node("Expand", "counts sizes", "mask", &[])
        .node("Flatten", "mask", "line", &[int("axis", 2)])
        .node("Squeeze", "batch zero", "images", &[])
        .node("Squeeze", "zero zero", "first", &[])
        .node("Squeeze", "one zero", "next", &[])
        .node("Range", "first images next", "image_at", &[])
        .node("Unsqueeze", "image_at one", "row", &[])
        .node("Mul", "row three", "starts", &[])
        .ints("keys", &[2, 1, 0])
        .node("Add", "starts keys", "places", &[])
        .node("Gather", "line places", "spread", &[])
        .node("Reshape", "spread sizes", "weights", &[])
        .node("GlobalAveragePool", "image", "mean", &[])
        .node("Flatten", "mean", "means", &[])
        .node("Mul", "means weights", "x", &[])
        .output("x");
    let package = compiled(&onnx).unwrap().package;
    assert!(package.network().stages[0].operators.len() <= 2);
    let image = [[1.0; 64], [10.0; 64], [100.0; 64]].concat();
    let scores = reference::run(package.network(), &image).remove(0);
    assert_eq!(scores, [0.5, 0.0, 100.0]);
}

#[test]
fn indices_and_sizes_computed_from_the_shape_are_as_good_as_constants() {
    let onnx = Onnx::new()
        .node("Shape", "image", "shape", &[])
        .ints("one", &[1])
        .ints("two", &[2])
        .node("Gather", "shape one", "channels", &[])
        .node("Sub", "channels one", "start", &[])
        .node("Slice", "image start channels one", "blue", &[])
        .node("Gather", "shape two", "rows", &[])
        .node("Mul", "rows rows", "pixels", &[])
        .ints("zero", &[0])
        .node("Concat", "zero one pixels", "target", &[int("axis", 0)])
        .node("Reshape", "blue target", "flat", &[])
        .node(
            "Concat",
            "zero one rows rows",
            "image_shape",
            &[int("axis", 0)],
        )
        .node("Reshape", "flat image_shape", "x", &[])
        .head("x", 1, "exit_0");
    let package = compiled(&onnx).unwrap().package;
    let gather = &package.network().stages[0].operators[0];
    assert!(matches!(gather.kind, OperatorKind::Gather(_)));
}

#[test]
fn weights_of_other_floats_are_converted_and_casts_of_floats_are_nothing() {
    let network = |kind: i32, bytes: Vec<u8>| {
        let mut onnx = Onnx::new();
        onnx.graph().initializer.push(crate::schema::TensorProto {
            name: Some("w".to_owned()),
            dims: vec![2, 3, 1, 1],
            data_type: Some(kind),
            raw_data: Some(bytes),
            ..Default::default()
        });
        let to_half = [int("to", data_type::FLOAT16.into())];
        let onnx = onnx
            .node("Cast", "image", "half", &to_half)
            .node("Conv", "half w", "c", &[])
            .node(
                "ReduceMean",
                "c",
                "x",
                &[ints_of("axes", &[2, 3]), int("keepdims", 0)],
            )
            .output("x");
        compiled(&onnx).unwrap()
    };
    let weights = [0.5_f32, -2.0, 1.0, 0.25, 3.0, -1.5];
    let halves = [0x3800_u16, 0xC000, 0x3C00, 0x3400, 0x4200, 0xBE00];
    let halves = network(
        10,
        halves.iter().flat_map(|half| half.to_le_bytes()).collect(),
    );
    let doubles = weights.iter().flat_map(|&w| f64::from(w).to_le_bytes());
    let doubles = network(11, doubles.collect());
    let floats = network(1, weights.iter().flat_map(|w| w.to_le_bytes()).collect());
    assert_eq!(halves.package, floats.package);
    assert_eq!(doubles.package, floats.package);
    assert!(
        halves
            .report
            .notes
            .contains(&Note::Converted { from: "float16" })
    );
    let scores = reference::run(halves.package.network(), &[1.0; 192]).remove(0);
    assert_eq!(scores, [-0.5, 1.75]);
}

#[test]
fn a_softmax_that_is_an_output_and_no_score_is_computed() {
    let onnx = Onnx::new()
        .floats("w", &[4, 3])
        .node("GlobalAveragePool", "image", "mean", &[])
        .node("Flatten", "mean", "flat", &[])
        .node("Gemm", "flat w", "scores", &[int("transB", 1)])
        .node("Softmax", "scores", "shares", &[int("axis", 1)])
        .output("shares");
    let network = |answer| {
        let options = CompileOptions {
            answer: Some(answer),
            ..options()
        };
        let compiled = compile(&onnx.bytes(), Calibration::default(), &options).unwrap();
        compiled.package.network().clone()
    };
    let kinds = |network: &Network| network.stages[0].operators.len();
    let (classes, tensors) = (network(AnswerKind::Classes), network(AnswerKind::None));
    assert_eq!(kinds(&tensors), kinds(&classes) + 1);
    let last = tensors.stages[0].operators.last().unwrap();
    assert!(matches!(last.kind, OperatorKind::Softmax(_)));
    assert_eq!(
        tensors.stages[0].exit.as_ref().unwrap().outputs[0].tensor,
        last.output
    );
}

#[test]
fn what_any_operator_makes_of_constants_is_one() {
    // Each is added to the image as a constant of one value a channel.
    let chains: [&[(&str, &str, &[crate::schema::AttributeProto])]; 5] = [
        &[("Conv", "small w", &[]), ("GlobalAveragePool", "", &[])],
        &[("LayerNormalization", "small gain", &[])],
        &[("Softmax", "small", &[int("axis", 1)])],
        &[(
            "BatchNormalization",
            "small channel channel channel positive",
            &[],
        )],
        &[
            ("MaxPool", "small", &[ints_of("kernel_shape", &[2, 2])]),
            ("GlobalMaxPool", "", &[]),
        ],
    ];
    for chain in chains {
        let mut onnx = Onnx::new()
            .floats("small", &[1, 3, 4, 4])
            .floats("w", &[3, 3, 1, 1])
            .floats("gain", &[4])
            .floats("channel", &[3])
            .exactly("positive", &[3], vec![1.0, 0.5, 2.0]);
        let mut last = String::new();
        for (at, (operator, inputs, attributes)) in chain.iter().enumerate() {
            let inputs = if inputs.is_empty() {
                last.clone()
            } else {
                (*inputs).to_owned()
            };
            last = format!("k{at}");
            onnx = onnx.node(operator, &inputs, &last, attributes);
        }
        let onnx = onnx
            .node("GlobalMaxPool", &last, "k", &[])
            .node("Add", "image k", "x", &[])
            .head("x", 3, "exit_0");
        // The sum, the mean and the scores; the sum is taken into the scores' weights where it can be.
        assert!(operators(&onnx) <= 3, "{chain:?}");
    }
}
