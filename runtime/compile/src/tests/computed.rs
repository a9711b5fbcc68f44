//! Operators on computed positions: what they become, and what is refused.

use punctual_model::{AnswerKind, Calibration, GridSample, OperatorKind, Pool, TopK, reference};
use punctual_types::{Axis, Element, Interpolation, Outside, PoolKind, Ranking, Sampling};

use super::builder::{Onnx, image_of, int, ints_of, text};
use super::{compiled, options};
use crate::schema::{AttributeProto, data_type};
use crate::{CompileOptions, Compiled, compile};

/// A grid of 5 x 7 positions of each image, made of its channels.
fn with_grid(inputs: &str, attributes: &[AttributeProto]) -> Onnx {
    Onnx::new()
        .floats("w", &[70, 3])
        .floats("two", &[2, 3, 1, 1])
        .floats("six", &[6, 3, 1, 1])
        .node("GlobalAveragePool", "image", "m", &[])
        .node("Flatten", "m", "flat", &[])
        .node("Gemm", "flat w", "positions", &[int("transB", 1)])
        .ints("sizes", &[-1, 5, 7, 2])
        .node("Reshape", "positions sizes", "grid", &[])
        // Three groups of two channels, each with 8 x 8 positions of its own.
        .node("Conv", "image six", "many", &[])
        .ints("apart", &[-1, 2, 8, 8])
        .node("Reshape", "many apart", "groups", &[])
        .node(
            "Transpose",
            "groups",
            "grids",
            &[ints_of("perm", &[0, 2, 3, 1])],
        )
        .node("GridSample", inputs, "x", attributes)
}

fn kinds(compiled: &Compiled) -> Vec<OperatorKind> {
    let stages = compiled.package.network().stages.iter();
    let operators = stages.flat_map(|stage| &stage.operators);
    operators.map(|operator| operator.kind.clone()).collect()
}

fn sampled(kinds: &[OperatorKind]) -> Option<(u32, Sampling)> {
    kinds.iter().find_map(|kind| match *kind {
        OperatorKind::GridSample(GridSample { groups, sampling }) => Some((groups, sampling)),
        _ => None,
    })
}

/// Compiled for any kind of answer.
fn with_any_answer(onnx: &Onnx) -> Compiled {
    let options = CompileOptions {
        answer: Some(AnswerKind::None),
        ..options()
    };
    compile(&onnx.bytes(), Calibration::default(), &options).unwrap()
}

fn refused(onnx: &Onnx, words: &[&str]) {
    let message = compiled(onnx).unwrap_err().to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
}

/// A node with two results, of which the second is `positions`.
fn top_k(onnx: Onnx, inputs: &str, attributes: &[AttributeProto]) -> Onnx {
    let mut onnx = onnx.node("TopK", inputs, "best", attributes);
    let node = onnx.graph().node.last_mut().unwrap();
    node.output.push("positions".to_owned());
    onnx
}

#[test]
fn a_grid_sample_is_one_operator_as_its_attributes_say() {
    let onnx = with_grid("image grid", &[]).head("x", 3, "exit_0");
    let default = Sampling {
        interpolation: Interpolation::Linear,
        outside: Outside::Zeros,
        align_corners: false,
    };
    assert_eq!(
        sampled(&kinds(&compiled(&onnx).unwrap())),
        Some((1, default))
    );
    let attributes = [
        text("mode", "nearest"),
        text("padding_mode", "reflection"),
        int("align_corners", 1),
    ];
    let onnx = with_grid("image grid", &attributes).head("x", 3, "exit_0");
    let expected = Sampling {
        interpolation: Interpolation::Nearest,
        outside: Outside::Reflection,
        align_corners: true,
    };
    assert_eq!(
        sampled(&kinds(&compiled(&onnx).unwrap())),
        Some((1, expected))
    );
}

#[test]
fn images_beside_the_batch_are_groups_of_channels() {
    let onnx = with_grid("groups grids", &[])
        .ints("together", &[-1, 6, 8, 8])
        .node("Reshape", "x together", "y", &[])
        .head("y", 6, "exit_0");
    let compiled = compiled(&onnx).unwrap();
    let groups = sampled(&kinds(&compiled)).map(|(groups, _)| groups);
    assert_eq!(groups, Some(3));
    let copies = kinds(&compiled);
    let copies = copies
        .iter()
        .filter(|kind| matches!(kind, OperatorKind::Copy(_)));
    assert_eq!(copies.count(), 0, "all lies as it should");
}

#[test]
fn grids_that_cannot_be_sampled_are_refused_by_name() {
    for (attribute, words) in [
        (
            text("mode", "bicubic"),
            "mode is \"bicubic\"; supported is bilinear, linear or nearest",
        ),
        (text("padding_mode", "wrap"), "padding_mode is \"wrap\""),
    ] {
        let onnx = with_grid("image grid", &[attribute]).head("x", 3, "exit_0");
        refused(&onnx, &["(GridSample)", words]);
    }
    for inputs in ["image flat", "image grids", "groups grid", "flat grid"] {
        let onnx = with_grid(inputs, &[]).head("x", 3, "exit_0");
        refused(&onnx, &["(GridSample)", "at positions"]);
    }
}

#[test]
fn the_best_rows_are_taken_whole() {
    let tokens = Onnx::new()
        .floats("w", &[3, 5])
        .ints("sizes", &[0, 3, 64])
        .node("Reshape", "image sizes", "rows", &[])
        .node(
            "Transpose",
            "rows",
            "tokens",
            &[ints_of("perm", &[0, 2, 1])],
        )
        .node("MatMul", "tokens w", "scores", &[])
        .node(
            "ReduceMax",
            "scores",
            "largest",
            &[ints_of("axes", &[-1]), int("keepdims", 0)],
        )
        .ints("four", &[4]);
    let onnx = top_k(tokens, "largest four", &[])
        .ints("last", &[-1])
        .ints("wide", &[1, 1, 5])
        .node("Unsqueeze", "positions last", "one", &[])
        .node("Tile", "one wide", "indices", &[])
        .node(
            "GatherElements",
            "scores indices",
            "exit_0/scores",
            &[int("axis", 1)],
        )
        .output("exit_0/scores");
    let compiled = with_any_answer(&onnx);
    let found = kinds(&compiled);
    let count =
        |wanted: fn(&OperatorKind) -> bool| found.iter().filter(|kind| wanted(kind)).count();
    assert_eq!(
        count(|kind| matches!(kind, OperatorKind::TopK(TopK { count: 4, .. }))),
        1
    );
    assert_eq!(count(|kind| matches!(kind, OperatorKind::Take(_))), 1);
    // The indices are not repeated for each of the five scores.
    let network = compiled.package.network();
    let mut operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let take = operators.find_map(|operator| match operator.kind {
        OperatorKind::Take(_) => Some(network.tensors[operator.others[0].index()]),
        _ => None,
    });
    assert_eq!(take.map(|indices| indices.sides()), Some([1, 1, 4]));
}

#[test]
fn the_largest_of_all_pixels_is_one_pool_however_many_there_are() {
    let onnx = Onnx::new()
        .exactly("scales", &[4], vec![1.0, 1.0, 5.0, 6.0])
        .node("Resize", "image - scales", "large", &[])
        .node("ReduceMax", "large", "largest", &[ints_of("axes", &[2, 3])])
        .head("largest", 3, "exit_0");
    let found = kinds(&with_any_answer(&onnx));
    let whole = |kind: &OperatorKind| {
        matches!(kind, OperatorKind::Pool(Pool { kind: PoolKind::Max, kernel, .. })
            if (kernel.height, kernel.width) == (40, 48))
    };
    assert!(found.iter().any(whole), "{found:?}");
}

#[test]
fn the_largest_of_more_values_than_a_window_has_is_that_of_the_largest_of_parts() {
    // 40 x 48 pixels of one of the channels.
    let onnx = Onnx::new()
        .exactly("scales", &[4], vec![1.0, 1.0, 5.0, 6.0])
        .node("Resize", "image - scales", "large", &[])
        .ints("from", &[1])
        .ints("to", &[2])
        .node("Slice", "large from to from", "middle", &[])
        .node(
            "ReduceMax",
            "middle",
            "largest",
            &[ints_of("axes", &[2, 3]), int("keepdims", 0)],
        )
        .exactly("m", &[1, 2], vec![1.0, -1.0])
        .node("MatMul", "largest m", "exit_0", &[])
        .output("exit_0");
    let compiled = compiled(&onnx).unwrap();
    for place in [64, 100, 127] {
        let mut image = vec![-3.0; 192];
        (image[0], image[place], image[191]) = (9.0, -1.5, 9.0);
        let found = &reference::run(compiled.package.network(), &image)[0];
        assert_eq!(found[..], [-1.5, 1.5], "{place}");
    }
}

#[test]
fn the_best_channel_is_one_operator_and_an_output_of_integers() {
    for (attributes, axis, largest) in [
        (
            vec![int("axis", 1), int("keepdims", 0)],
            Axis::Channel,
            "ArgMax",
        ),
        (
            vec![int("axis", -1), int("keepdims", 0)],
            Axis::Column,
            "ArgMin",
        ),
    ] {
        let mut onnx = Onnx::new().node("Relu", "image", "r", &[]).node(
            largest,
            "r",
            "exit_0/classes",
            &attributes,
        );
        let mut output = image_of("exit_0/classes", &[8, 8]);
        let tensor = output.r#type.as_mut().unwrap().tensor_type.as_mut();
        tensor.unwrap().elem_type = Some(data_type::INT64);
        onnx.graph().output.push(output);
        let compiled = with_any_answer(&onnx);
        let chosen = kinds(&compiled).into_iter().find_map(|kind| match kind {
            OperatorKind::TopK(TopK {
                axis,
                count: 1,
                ranking,
            }) => Some((axis, ranking)),
            _ => None,
        });
        let ranking = Ranking {
            largest: largest == "ArgMax",
            last: false,
        };
        assert_eq!(chosen, Some((axis, ranking)));
        let exit = compiled.package.network().stages[0].exit.clone().unwrap();
        assert_eq!(exit.outputs[0].element, Element::I32);
        // Red is the largest where green and blue are below.
        let network = compiled.package.network();
        let image: Vec<f32> = (0..192).map(|at| if at < 64 { 1.0 } else { 0.5 }).collect();
        let exits = reference::run_all(network, &[&image]);
        assert_eq!(
            exits[0].as_ref().unwrap().outputs[0],
            vec![0.0; if axis == Axis::Channel { 64 } else { 24 }]
        );
    }
}

#[test]
fn choices_that_cannot_be_made_are_refused_by_name() {
    let refused_with = |inputs: &str, attributes: &[AttributeProto], words: &[&str]| {
        let onnx = Onnx::new().ints("nine", &[9]).ints("none", &[0]);
        let onnx = top_k(onnx, inputs, attributes).head("best", 3, "exit_0");
        refused(&onnx, words);
    };
    let number = "a number from 1 to the positions of the axis";
    refused_with("image nine", &[], &["(TopK)", number]);
    refused_with("image none", &[], &["(TopK)", number]);
    refused_with("image nine", &[int("axis", 0)], &["(TopK)", number]);
    refused_with("image image", &[], &["(TopK)", "its input 1 (k)"]);
    let onnx = Onnx::new()
        .node("ArgMax", "image", "x", &[])
        .head("x", 3, "exit_0");
    refused(
        &onnx,
        &[
            "(ArgMax)",
            "axis is 0; supported is a dimension that is not the batch",
        ],
    );
    let onnx = top_k(Onnx::new().ints("three", &[3]), "image three", &[])
        .node("Flatten", "image", "flat", &[])
        .node("GatherElements", "flat positions", "x", &[int("axis", 1)])
        .head("x", 3, "exit_0");
    refused(
        &onnx,
        &[
            "(GatherElements)",
            "takes values of a vector of features (N, 192)",
        ],
    );
}

/// The image times 40 as int64, as `whole`.
fn integers() -> Onnx {
    Onnx::new()
        .exactly("forty", &[], vec![40.0])
        .node("Mul", "image forty", "large", &[])
        .node("Cast", "large", "whole", &[int("to", 7)])
}

#[test]
fn means_and_sums_of_integers_are_integers() {
    let image: Vec<f32> = (0..192)
        .map(|at| (at * 29 % 83) as f32 / 41.0 - 0.3)
        .collect();
    let channel = |channel: usize| {
        let pixels = &image[channel * 64..][..64];
        pixels.iter().map(|pixel| (pixel * 40.0).trunc() as i64)
    };
    for (operator, axes) in [("ReduceMean", vec![2, 3]), ("ReduceSum", vec![2, 3])] {
        let onnx = integers();
        let (inputs, attributes) = if operator == "ReduceSum" {
            ("whole axes", vec![int("keepdims", 0)])
        } else {
            ("whole", vec![int("keepdims", 0), ints_of("axes", &axes)])
        };
        let onnx = onnx
            .ints("axes", &axes)
            .node(operator, inputs, "reduced", &attributes)
            .node("Cast", "reduced", "exit_0", &[int("to", 1)])
            .output("exit_0");
        let compiled = with_any_answer(&onnx);
        let mut exits = reference::run_all(compiled.package.network(), &[&image]);
        let found = exits.remove(0).unwrap().outputs.remove(0);
        let expected = (0..3).map(|at| {
            let sum: i64 = channel(at).sum();
            let result = if operator == "ReduceMean" {
                sum / 64
            } else {
                sum
            };
            result as f32
        });
        assert_eq!(found, expected.collect::<Vec<_>>(), "{operator}");
    }
}

#[test]
fn functions_of_integers_that_reals_may_miss_are_refused() {
    let of = |operator: &str, inputs: &str, attributes: &[_]| {
        let onnx = integers()
            .exactly("half", &[], vec![0.5])
            .node(operator, inputs, "result", attributes)
            .node("Cast", "result", "floats", &[int("to", 1)])
            .head("floats", 3, "exit_0");
        compiled(&onnx).unwrap_err().to_string()
    };
    let axes = [ints_of("axes", &[2])];
    for words in [
        of("ReduceL2", "whole", &axes),
        of("ReduceLogSumExp", "whole", &axes),
        of("Pow", "whole half", &[]),
    ] {
        let expected =
            "is integers that are computed from the input; supported is floats: cast them before";
        assert!(words.contains(expected), "{words}");
    }
}

/// The values of a node in a file for one image at a time.
fn of_one_image(onnx: Onnx, from: &str) -> Vec<f32> {
    let mut onnx = onnx
        .ints("all", &[1, -1])
        .node("Reshape", &format!("{from} all"), "exit_0", &[])
        .output("exit_0");
    let input = onnx.graph().input[0].r#type.as_mut();
    let shape = input.unwrap().tensor_type.as_mut().unwrap().shape.as_mut();
    shape.unwrap().dim[0].dim_value = Some(1);
    let compiled = with_any_answer(&onnx);
    let image: Vec<f32> = (0..192).map(|at| (at as f32).sin()).collect();
    let exits = reference::run_all(compiled.package.network(), &[&image]);
    exits[0].as_ref().unwrap().outputs[0].clone()
}

#[test]
fn a_convolution_by_computed_weights_is_one_by_known_weights() {
    let weights = |channels| {
        Onnx::new()
            .floats("w", &[6, channels, 3, 2])
            .floats("bias", &[6])
            // Nothing, for each image.
            .exactly("nothing", &[1, 3, 1, 1], vec![0.0; 3])
            .node("Conv", "image nothing", "zeros", &[])
            .node("GlobalAveragePool", "zeros", "zero", &[])
            .node("Flatten", "zero", "one", &[])
            .ints("row", &[1, -1])
            .ints("kernels", &[6, channels, 3, 2])
            .node("Reshape", "w row", "flat", &[])
            .node("Add", "flat one", "sum", &[])
            .node("Reshape", "sum kernels", "computed", &[])
    };
    let window = [
        ints_of("pads", &[1, 0, 2, 1]),
        ints_of("strides", &[2, 1]),
        ints_of("dilations", &[1, 2]),
    ];
    for (channels, group) in [(3, 1), (1, 3)] {
        let attributes = [&window[..], &[int("group", group)]].concat();
        let [known, computed] = ["w", "computed"].map(|name| {
            let operands = format!("image {name} bias");
            of_one_image(
                weights(channels).node("Conv", &operands, "c", &attributes),
                "c",
            )
        });
        let same = known
            .iter()
            .zip(&computed)
            .all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(
            known.len() == computed.len() && same,
            "{known:?} {computed:?}"
        );
    }
    let of_all = Onnx::new()
        .node("Conv", "image image", "x", &[])
        .head("x", 8, "exit_0");
    refused(
        &of_all.output("exit_0"),
        &["supported is a float32 constant, or in a file for one image at a time"],
    );
}

#[test]
fn constants_along_what_one_image_has_in_its_batch_are_taken_part_by_part() {
    let onnx = || Onnx::new().floats("w", &[3, 2, 8]).ints("rows", &[3, 8, 8]);
    let folded =
        onnx()
            .node("Reshape", "image rows", "folded", &[])
            .node("MatMul", "w folded", "x", &[]);
    let apart = onnx().node("MatMul", "w image", "x", &[]);
    assert_eq!(of_one_image(folded, "x"), of_one_image(apart, "x"));
}
