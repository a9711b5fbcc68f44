//! What concatenations become: gathers with few sources, each of which is read.

use super::builder::{Onnx, int, ints_of};
use super::compiled;
use punctual_model::{ChannelRun, Gather, InputForm, Operator, OperatorKind, reference};

fn operators(onnx: &Onnx) -> Vec<Operator> {
    let package = compiled(onnx).unwrap().package;
    package
        .network()
        .stages
        .iter()
        .flat_map(|stage| stage.operators.clone())
        .collect()
}

fn named<'a>(operators: &'a [Operator], name: &str) -> &'a Operator {
    operators
        .iter()
        .find(|operator| operator.name == name)
        .unwrap()
}

fn run(source: u8, first: u32, count: u32) -> ChannelRun {
    ChannelRun {
        source,
        first,
        count,
    }
}

/// Convolutions of four channels each, `c0`, `c1`, ... of the image.
fn branches(count: usize) -> Onnx {
    let base = Onnx::new().floats("w", &[4, 3, 1, 1]);
    (0..count).fold(base, |onnx, at| {
        onnx.node("Conv", "image w", &format!("c{at}"), &[])
    })
}

#[test]
fn branches_join_in_their_order() {
    let onnx = branches(2)
        .node("Relu", "c0", "r0", &[])
        .node("Concat", "c1 r0 c1", "j", &[int("axis", -3)])
        .head("j", 12, "exit_0");
    let operators = operators(&onnx);
    let (first, second) = (named(&operators, "node_c1"), named(&operators, "node_c0"));
    let joined = named(&operators, "node_j");
    let OperatorKind::Gather(Gather { runs }) = &joined.kind else {
        panic!("{joined:?}");
    };
    assert_eq!(
        (joined.input, &joined.others[..]),
        (first.output, &[second.output][..])
    );
    assert_eq!(runs[..], [run(0, 0, 4), run(1, 0, 4), run(0, 0, 4)]);
}

#[test]
fn a_dense_block_reads_the_join_before() {
    // c0; [c0, d1]; [c0, d1, d2]: as PyTorch writes it, each from the start.
    let onnx = branches(1)
        .floats("w1", &[4, 4, 1, 1])
        .floats("w2", &[4, 8, 1, 1])
        .node("Concat", "c0", "j0", &[int("axis", 1)])
        .node("Conv", "j0 w1", "d1", &[])
        .node("Concat", "c0 d1", "j1", &[int("axis", 1)])
        .node("Conv", "j1 w2", "d2", &[])
        .node("Concat", "c0 d1 d2", "j2", &[int("axis", 1)])
        .head("j2", 12, "exit_0");
    let operators = operators(&onnx);
    assert!(
        operators.iter().all(|operator| operator.name != "node_j0"),
        "a join of one is itself"
    );
    let last = named(&operators, "node_j2");
    let OperatorKind::Gather(Gather { runs }) = &last.kind else {
        panic!("{last:?}");
    };
    assert_eq!(last.input, named(&operators, "node_j1").output);
    assert_eq!(last.others[..], [named(&operators, "node_d2").output]);
    assert_eq!(runs[..], [run(0, 0, 8), run(1, 0, 4)]);
}

#[test]
fn many_branches_become_a_tree() {
    let names: Vec<String> = (0..20).map(|at| format!("c{at}")).collect();
    let onnx = branches(20)
        .node("Concat", &names.join(" "), "j", &[int("axis", 1)])
        .head("j", 80, "exit_0");
    let gathers: Vec<usize> = operators(&onnx)
        .iter()
        .filter_map(|operator| match &operator.kind {
            OperatorKind::Gather(_) => Some(operator.reads().count()),
            _ => None,
        })
        .collect();
    assert_eq!(gathers, [8, 8, 4, 3]);
}

#[test]
fn an_image_taken_apart_scaled_and_joined_is_scaled_whole() {
    // torchvision's transform_input.
    let mut onnx = Onnx::new().ints("axis", &[1]);
    for (channel, (scale, shift)) in [(2.0, 0.5), (3.0, -0.25), (4.0, 0.0)]
        .into_iter()
        .enumerate()
    {
        let [index, taken, back, scaled, shifted] =
            ["i", "t", "b", "s", "y"].map(|name| format!("{name}{channel}"));
        onnx = onnx
            .exactly(&format!("scale{channel}"), &[], vec![scale])
            .exactly(&format!("shift{channel}"), &[], vec![shift])
            .node("Constant", "", &index, &[int("value_int", channel as i64)])
            .node(
                "Gather",
                &format!("image {index}"),
                &taken,
                &[int("axis", 1)],
            )
            .node("Unsqueeze", &format!("{taken} axis"), &back, &[])
            .node("Mul", &format!("{back} scale{channel}"), &scaled, &[])
            .node("Add", &format!("{scaled} shift{channel}"), &shifted, &[]);
    }
    let onnx = onnx
        .node("Concat", "y0 y1 y2", "j", &[int("axis", 1)])
        .head("j", 3, "exit_0");
    let package = compiled(&onnx).unwrap().package;
    let network = package.network();
    let operators = &network.stages[0].operators;
    // Scaled as it is prepared.
    assert_eq!(operators.len(), 2, "{operators:?}");
    let mean = [0.5 - 0.0625, 0.5 + 0.25 * 0.25 / 3.0, 0.5];
    let form = InputForm::image(&mean, &[0.125, 0.25 / 3.0, 0.0625]);
    assert_eq!(network.input.form, form);
}

#[test]
fn what_folds_into_a_convolution_is_not_moved_behind_the_join() {
    let onnx = branches(2)
        .exactly("two", &[], vec![2.0])
        .node("Mul", "c0 two", "s0", &[])
        .node("Mul", "c1 two", "s1", &[])
        .node("Concat", "s0 s1", "j", &[int("axis", 1)])
        .head("j", 8, "exit_0");
    let names: Vec<String> = operators(&onnx)
        .into_iter()
        .map(|operator| operator.name)
        .collect();
    assert_eq!(
        names,
        [
            "node_c0",
            "node_c1",
            "node_j",
            "node_mean_exit_0",
            "node_exit_0"
        ]
    );
}

#[test]
fn a_join_that_is_an_exit_is_computed() {
    let onnx = Onnx::new()
        .scores("image", 3, "first")
        .floats("w", &[2, 3])
        .node("Gemm", "flat_first w", "second", &[int("transB", 1)])
        .node("Concat", "first second", "exit_0", &[int("axis", 1)])
        .output("exit_0");
    let package = compiled(&onnx).unwrap().package;
    let image: Vec<f32> = (0..192).map(|at| (at as f32 * 0.1).sin()).collect();
    let scores = reference::run(package.network(), &image);
    assert_eq!(scores[0].len(), 7);
}

#[test]
fn images_of_other_sizes_do_not_join() {
    let pool = [
        ints_of("kernel_shape", &[2, 2]),
        ints_of("strides", &[2, 2]),
    ];
    let onnx = branches(1)
        .node("MaxPool", "c0", "small", &pool)
        .node("Concat", "c0 small", "j", &[int("axis", 1)])
        .head("j", 8, "exit_0");
    let message = compiled(&onnx).unwrap_err().to_string();
    assert!(
        message.contains("input 1 (data) is an image (N, 4, 4, 4)"),
        "{message}"
    );
    let batch = branches(1)
        .node("Concat", "c0 c0", "j", &[int("axis", 0)])
        .head("j", 4, "exit_0");
    // They are two batches, which cannot be an exit.
    let message = compiled(&batch).unwrap_err().to_string();
    assert!(message.contains("exit_0"), "{message}");
}

#[test]
fn batches_one_behind_the_other_are_computed_each_and_taken_apart_again() {
    let onnx = branches(2)
        .floats("mixed", &[4, 4, 1, 1])
        .node("Concat", "c0 c1", "both", &[int("axis", 0)])
        .node("Conv", "both mixed", "m", &[])
        .node("Relu", "m", "r", &[])
        .ints("first", &[0])
        .node("Shape", "c0", "shape", &[])
        .node("Gather", "shape first", "images", &[int("axis", 0)])
        .ints("all", &[i64::MAX])
        .node("Slice", "r first images first", "a", &[])
        .node("Slice", "r images all first", "b", &[])
        .node("Sub", "a b", "d", &[])
        .head("d", 4, "exit_0");
    let network = compiled(&onnx).unwrap().package;
    let operators = network.network().stages[0].operators.iter();
    let names = operators.filter(|operator| operator.name == "node_m");
    assert_eq!(names.count(), 2);
    let torn = branches(2)
        .node("Concat", "c0 c1", "both", &[int("axis", 0)])
        .ints("first", &[0])
        .ints("one", &[1])
        .node("Slice", "both first one first", "a", &[])
        .head("a", 4, "exit_0");
    let message = compiled(&torn).unwrap_err().to_string();
    assert!(
        message.contains("(Slice): it takes part of batches one behind the other (2 N, 4, 8, 8)"),
        "{message}"
    );
}

#[test]
fn products_of_each_frame_may_be_reshaped() {
    // Three frames in the batch: the products of their pixels, as one row each.
    let onnx = Onnx::new()
        .ints("frames", &[-1, 1, 8, 8])
        .ints("pixels", &[0, 2, 64])
        .ints("row", &[0, 4096])
        .ints("together", &[-1, 3])
        .floats("w", &[2, 1, 1, 1])
        .node("Reshape", "image frames", "f", &[])
        .node("Conv", "f w", "c", &[])
        .node("Reshape", "c pixels", "p", &[])
        .node("Transpose", "p", "t", &[ints_of("perm", &[0, 2, 1])])
        .node("MatMul", "t p", "m", &[])
        .node("Reshape", "m row", "r", &[])
        .node(
            "ReduceMax",
            "r",
            "most",
            &[ints_of("axes", &[1]), int("keepdims", 0)],
        )
        .node("Reshape", "most together", "exit_0", &[])
        .output("exit_0");
    let package = super::compiled_for_outputs(&onnx).unwrap().package;
    // A frame's largest product is that of its largest value with itself.
    let image: Vec<f32> = (0..192).map(|at| 1.0 + (at / 64) as f32).collect();
    let found = reference::run_all(package.network(), &[&image]);
    let found = found[0].as_ref().unwrap().outputs[0].clone();
    assert_eq!(found.len(), 3);
    let ratios = [found[1] / found[0], found[2] / found[0]];
    assert!(
        (ratios[0] - 4.0).abs() < 1e-4 && (ratios[1] - 9.0).abs() < 1e-4,
        "{found:?}"
    );
}
