//! What reshapes, transposes, splits and slices come to: other channels of the same tensor, or nothing at all.

use super::builder::{Onnx, int, ints_of};
use super::{compiled, options};
use crate::compile;
use punctual_model::{AnswerKind, Calibration, Gather, OperatorKind, reference};

/// Eight channels as two groups, the groups interleaved.
fn shuffled() -> Onnx {
    Onnx::new()
        .floats("w", &[8, 3, 1, 1])
        .node("Conv", "image w", "c", &[])
        .ints("groups", &[-1, 2, 4, 8, 8])
        .ints("back", &[-1, 8, 8, 8])
        .node("Reshape", "c groups", "five", &[])
        .node(
            "Transpose",
            "five",
            "swapped",
            &[ints_of("perm", &[0, 2, 1, 3, 4])],
        )
        .node("Reshape", "swapped back", "s", &[])
}

/// The channels that the gather named `name` takes.
fn gathered(onnx: &Onnx, name: &str) -> Vec<u32> {
    let package = compiled(onnx).unwrap().package;
    let mut operators = package.network().stages.iter().flat_map(|s| &s.operators);
    let operator = operators.find(|operator| operator.name == name).unwrap();
    let OperatorKind::Gather(Gather { runs }) = &operator.kind else {
        panic!("{operator:?}");
    };
    assert!(operator.others.is_empty());
    runs.iter()
        .flat_map(|run| run.first..run.first + run.count)
        .collect()
}

#[test]
fn a_channel_shuffle_is_a_gather_before_its_reader() {
    let onnx = shuffled().head("s", 8, "exit_0");
    assert_eq!(
        gathered(&onnx, "node_mean_exit_0"),
        [0, 4, 1, 5, 2, 6, 3, 7]
    );
}

#[test]
fn a_slice_of_a_shuffle_takes_its_channels_at_once() {
    let split = |mut onnx: Onnx| {
        let node = onnx.graph().node.last_mut().unwrap();
        node.output = vec!["x".to_owned(), "y".to_owned()];
        onnx.head("y", 4, "exit_0")
    };
    let halves = shuffled().ints("halves", &[4, 4]);
    let onnx = split(halves.node("Split", "s halves", "", &[int("axis", 1)]));
    assert_eq!(gathered(&onnx, "node_mean_exit_0"), [2, 6, 3, 7]);
    let equal = shuffled().node("Split", "s", "", &[int("axis", -3), int("num_outputs", 2)]);
    assert_eq!(gathered(&split(equal), "node_mean_exit_0"), [2, 6, 3, 7]);
    let sliced = shuffled()
        .ints("start", &[4])
        .ints("end", &[i64::MAX])
        .ints("axis", &[1])
        .node("Slice", "s start end axis", "y", &[])
        .head("y", 4, "exit_0");
    assert_eq!(gathered(&sliced, "node_mean_exit_0"), [2, 6, 3, 7]);
}

#[test]
fn a_slice_across_the_groups_is_one_gather_with_the_shuffle() {
    let onnx = shuffled()
        .ints("start", &[3])
        .ints("end", &[8])
        .ints("axis", &[1])
        .node("Slice", "s start end axis", "y", &[])
        .head("y", 5, "exit_0");
    assert_eq!(gathered(&onnx, "node_mean_exit_0"), [5, 2, 6, 3, 7]);
}

#[test]
fn one_channel_is_picked_by_its_index() {
    let onnx = Onnx::new()
        .ints("axis", &[1])
        .node("Constant", "", "two", &[int("value_int", -2)])
        .node("Gather", "image two", "green", &[int("axis", 1)])
        .node("Unsqueeze", "green axis", "y", &[])
        .head("y", 1, "exit_0");
    assert_eq!(gathered(&onnx, "node_mean_exit_0"), [1]);
}

#[test]
fn there_and_back_again_costs_nothing() {
    let last = [ints_of("perm", &[0, 2, 3, 1])];
    let first = [ints_of("perm", &[0, 3, 1, 2])];
    let onnx = Onnx::new()
        .node("Transpose", "image", "channels_last", &last)
        .node("Relu", "channels_last", "r", &[])
        .node("Transpose", "r", "y", &first)
        .head("y", 3, "exit_0");
    let package = compiled(&onnx).unwrap().package;
    let operators = package.network().stages[0].operators.iter();
    let names: Vec<&str> = operators.map(|operator| operator.name.as_str()).collect();
    assert_eq!(names, ["node_r", "node_mean_exit_0", "node_exit_0"]);
}

#[test]
fn what_is_taken_from_the_batch_is_refused() {
    let batch = Onnx::new()
        .ints("one", &[1])
        .ints("zero", &[0])
        .node("Slice", "image zero one zero", "y", &[])
        .head("image", 3, "exit_0");
    let message = compiled(&batch).unwrap_err().to_string();
    assert!(message.contains("(Slice): it takes part of an image (N, 3, 8, 8)"));
}

/// A series cut into windows that overlap, as PyTorch's unfold is written; and more positions than dimensions can be.
#[test]
fn a_gather_at_constant_positions_takes_them_in_their_shape() {
    let windows = Onnx::new()
        .ints("columns", &[0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, -1])
        .ints("three", &[3, 4])
        .node("Reshape", "columns three", "at", &[])
        .node("Gather", "image at", "w", &[int("axis", 3)])
        .ints("flat", &[0, -1])
        .node("Reshape", "w flat", "all", &[])
        .exactly("half", &[], vec![0.5])
        .node("Mul", "all half", "exit_0/x", &[])
        .output("exit_0/x");
    let many: Vec<i64> = (0..100).map(|at| at * 5 % 8).collect();
    let repeated = Onnx::new()
        .ints("at", &many)
        .node("Gather", "image at", "w", &[int("axis", 2)])
        .ints("flat", &[0, -1])
        .node("Reshape", "w flat", "all", &[])
        .exactly("half", &[], vec![0.5])
        .node("Mul", "all half", "exit_0/x", &[])
        .output("exit_0/x");
    let image: Vec<f32> = (0..192).map(|at| 2.0 * at as f32).collect();
    let columns = [0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7];
    let expected = (0..24).flat_map(|row| columns.map(|column| (8 * row + column) as f32));
    check(&windows, &image, &expected.collect::<Vec<_>>());
    let rows = (0..3).flat_map(|channel| many.iter().map(move |row| 64 * channel + 8 * row));
    let expected = rows.flat_map(|first| (first..first + 8).map(|at| at as f32));
    check(&repeated, &image, &expected.collect::<Vec<_>>());
}

fn check(onnx: &Onnx, image: &[f32], expected: &[f32]) {
    let mut options = options();
    options.answer = Some(AnswerKind::None);
    let compiled = compile(&onnx.bytes(), Calibration::default(), &options).unwrap();
    let exit = reference::run_all(compiled.package.network(), &[image]).remove(0);
    assert_eq!(exit.unwrap().outputs, [expected]);
}

/// The network for one image at a time, as exporters write it that are given no dynamic axes.
fn for_one_image(mut onnx: Onnx) -> Onnx {
    let input = onnx.graph().input[0].r#type.as_mut().unwrap();
    let tensor = input.tensor_type.as_mut().unwrap();
    tensor.shape.as_mut().unwrap().dim[0].dim_value = Some(1);
    onnx
}

#[test]
fn a_file_for_one_image_may_take_all_of_it_by_strides_and_expand_it_by_its_size() {
    let by_strides = Onnx::new()
        .ints("all", &[-1])
        .ints("sizes", &[1, 3, 1, 1])
        .ints("wide", &[1, 3, 8, 8])
        .ints("order", &[0, 1, 2])
        .node("GlobalAveragePool", "image", "mean", &[])
        .node("Reshape", "mean all", "flat", &[])
        .node("Reshape", "order sizes", "places", &[])
        .node("Gather", "flat places", "same", &[])
        .node("Expand", "same wide", "spread", &[])
        .node("Mul", "spread image", "product", &[]);
    let plain = Onnx::new()
        .node("GlobalAveragePool", "image", "mean", &[])
        .node("Mul", "mean image", "product", &[]);
    let scores = |onnx: Onnx| {
        let onnx = for_one_image(onnx.head("product", 3, "exit_0"));
        let package = compiled(&onnx).unwrap().package;
        let image: Vec<f32> = (0..192).map(|at| (at as f32).sin()).collect();
        reference::run(package.network(), &image)
    };
    assert_eq!(scores(by_strides), scores(plain));
}

#[test]
fn rows_are_cut_elsewhere_than_where_they_were_joined_for_any_batch_or_one() {
    for batch in [None, Some(1)] {
        let mut onnx = Onnx::new()
            .ints("row", &[0, 192])
            .ints("cut", &[-1, 16, 12])
            .node("Relu", "image", "r", &[])
            .node("Reshape", "r row", "f", &[])
            .node("Reshape", "f cut", "c", &[])
            .node("Transpose", "c", "exit_0", &[ints_of("perm", &[0, 2, 1])])
            .output("exit_0");
        let input = onnx.graph().input[0].r#type.as_mut();
        let shape = input.unwrap().tensor_type.as_mut().unwrap().shape.as_mut();
        shape.unwrap().dim[0].dim_value = batch;
        let package = super::compiled_for_outputs(&onnx).unwrap().package;
        let image: Vec<f32> = (0..192).map(|at| at as f32).collect();
        let found = reference::run_all(package.network(), &[&image]);
        let found = &found[0].as_ref().unwrap().outputs[0];
        let expected: Vec<f32> = (0..192).map(|at| (at % 16 * 12 + at / 16) as f32).collect();
        assert_eq!(*found, expected, "{batch:?}");
    }
}
