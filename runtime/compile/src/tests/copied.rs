//! What is copied, and how often.

use super::builder::{Onnx, int, ints_of, text};
use super::compiled;
use punctual_model::{Copy, Network, Operator, OperatorKind, Tensor, reference};

fn network(onnx: &Onnx) -> Network {
    compiled(onnx).unwrap().package.network().clone()
}

fn copies(network: &Network) -> Vec<&Operator> {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let copies = operators.filter(|operator| matches!(operator.kind, OperatorKind::Copy(_)));
    copies.collect()
}

fn shape(network: &Network, operator: &Operator) -> [u32; 3] {
    network.tensors[operator.output.index()].sides()
}

/// The five scores of an image whose values count up.
fn scores(network: &Network) -> Vec<f32> {
    let image: Vec<f32> = (0..192).map(|at| at as f32).collect();
    reference::run(network, &image).remove(0)
}

/// The five first values of what is flattened become the scores.
fn first_values(onnx: Onnx, from: &str, values: usize) -> Onnx {
    let mut matrix = vec![0.0; 5 * values];
    for class in 0..5 {
        matrix[class * values + class] = 1.0;
    }
    onnx.exactly("first", &[5, values as i64], matrix)
        .node("Flatten", from, "all", &[])
        .node("Gemm", "all first", "exit_0", &[int("transB", 1)])
        .output("exit_0")
}

/// The products of rows of values with `v` become the scores: their mean over the rows.
fn mean_scores(onnx: Onnx, from: &str) -> Onnx {
    let of_rows = [ints_of("axes", &[1]), int("keepdims", 0)];
    onnx.node("MatMul", &format!("{from} v"), "m", &[])
        .node("ReduceMean", "m", "mean", &of_rows)
        .node("Identity", "mean", "exit_0", &[])
        .output("exit_0")
}

#[test]
fn anchors_of_several_levels_are_joined_by_one_copy() {
    let mut onnx = Onnx::new().floats("w", &[6, 3, 1, 1]).floats("v", &[2, 5]);
    let pool = [
        ints_of("kernel_shape", &[2, 2]),
        ints_of("strides", &[2, 2]),
    ];
    onnx = onnx
        .node("Conv", "image w", "c0", &[])
        .node("MaxPool", "c0", "c1", &pool);
    for (level, pixels) in [(0, 64), (1, 16)] {
        let [c, five, last, rows] = ["c", "five", "last", "rows"].map(|x| format!("{x}{level}"));
        let (sides, anchors) = (format!("sides{level}"), format!("anchors{level}"));
        let side = if level == 0 { 8 } else { 4 };
        onnx = onnx
            .ints(&sides, &[-1, 3, 2, side, side])
            .ints(&anchors, &[-1, 3 * pixels, 2])
            .node("Reshape", &format!("{c} {sides}"), &five, &[])
            .node(
                "Transpose",
                &five,
                &last,
                &[ints_of("perm", &[0, 3, 4, 1, 2])],
            )
            .node("Reshape", &format!("{last} {anchors}"), &rows, &[]);
    }
    let onnx = onnx.node("Concat", "rows0 rows1", "j", &[int("axis", 1)]);
    let network = network(&mean_scores(onnx, "j"));
    let [copy] = copies(&network)[..] else {
        panic!("{:?}", copies(&network));
    };
    // Values of an anchor are channels, anchors are columns.
    assert_eq!(shape(&network, copy), [2, 1, 240]);
    let OperatorKind::Copy(Copy { pieces }) = &copy.kind else {
        panic!("{copy:?}");
    };
    assert_eq!((copy.others.len(), pieces.len()), (1, 2));
}

#[test]
fn flat_heads_that_are_joined_and_cut_again_are_joined_as_they_are_cut() {
    let mut onnx = Onnx::new().floats("w", &[4, 3, 1, 1]).floats("v", &[4, 5]);
    for level in 0..2 {
        let [c, last, flat] = ["c", "last", "flat"].map(|x| format!("{x}{level}"));
        let order = [ints_of("perm", &[0, 2, 3, 1])];
        onnx = onnx
            .node("Conv", "image w", &c, &[])
            .node("Transpose", &c, &last, &order)
            .node("Flatten", &last, &flat, &[]);
    }
    let onnx = onnx
        .ints("four", &[0, -1, 4])
        .node("Concat", "flat0 flat1", "j", &[int("axis", 1)])
        .node("Reshape", "j four", "anchors", &[]);
    let network = network(&mean_scores(onnx, "anchors"));
    let shapes: Vec<_> = copies(&network)
        .iter()
        .map(|copy| shape(&network, copy))
        .collect();
    assert_eq!(shapes, [[4, 1, 128]]);
}

#[test]
fn what_is_stacked_and_picked_depends_on_its_layer_only() {
    let head = |onnx: Onnx, layer: usize| {
        let [index, picked] = ["index", "picked"].map(|x| format!("{x}{layer}"));
        onnx.node("Constant", "", &index, &[int("value_int", layer as i64)])
            .node(
                "Gather",
                &format!("stack {index}"),
                &picked,
                &[int("axis", 0)],
            )
            .head(&picked, 3, &format!("exit_{layer}"))
    };
    let onnx = Onnx::new()
        .ints("zero", &[0])
        .node("Relu", "image", "a", &[])
        .node("Tanh", "a", "b", &[])
        .node("Unsqueeze", "a zero", "a1", &[])
        .node("Unsqueeze", "b zero", "b1", &[])
        .node("Concat", "a1 b1", "stack", &[int("axis", 0)]);
    let network = network(&head(head(onnx, 0), 1));
    assert!(copies(&network).is_empty());
    let first = &network.stages[0].operators;
    let names: Vec<&str> = first
        .iter()
        .map(|operator| operator.name.as_str())
        .collect();
    assert_eq!(names, ["node_a", "node_mean_exit_0", "node_exit_0"]);
}

/// As DETR has it: the head of all layers of the decoder at once, one of which is picked.
#[test]
fn a_head_of_stacked_layers_is_one_of_the_picked_layer() {
    let pick = |onnx: Onnx, layer: i64, exit: &str| {
        let [index, picked] = ["index", "picked"].map(|x| format!("{x}{layer}"));
        let mean = [ints_of("axes", &[1]), int("keepdims", 0)];
        onnx.node("Constant", "", &index, &[int("value_int", layer)])
            .node("Gather", &format!("y {index}"), &picked, &[int("axis", 0)])
            .node("ReduceMean", &picked, exit, &mean)
            .output(exit)
    };
    let onnx = Onnx::new()
        .ints("zero", &[0])
        .ints("tokens", &[0, 3, 64])
        .floats("w", &[3, 5])
        .floats("v", &[5, 5])
        .floats("scale", &[3])
        .node("Relu", "image", "a", &[])
        .node("Tanh", "a", "b", &[]);
    let onnx = ["a", "b"].iter().fold(onnx, |onnx, layer| {
        let [flat, tokens, one] = ["flat", "tokens_", "one_"].map(|x| format!("{x}{layer}"));
        onnx.node("Reshape", &format!("{layer} tokens"), &flat, &[])
            .node("Transpose", &flat, &tokens, &[ints_of("perm", &[0, 2, 1])])
            .node("Unsqueeze", &format!("{tokens} zero"), &one, &[])
    });
    let onnx = onnx
        .node("Concat", "one_a one_b", "stack", &[int("axis", 0)])
        .node("LayerNormalization", "stack scale", "n", &[])
        .node("MatMul", "n w", "h", &[])
        .node("Relu", "h", "r", &[])
        .node("MatMul", "r v", "y", &[]);
    let network = network(&pick(pick(onnx, 0, "exit_0"), -1, "exit_1"));
    assert!(copies(&network).is_empty());
    let stages = network.stages.iter();
    let operators: Vec<usize> = stages.map(|stage| stage.operators.len()).collect();
    // Each: its activation, the normalisation, two layers, the mean.
    assert_eq!(operators, [5, 5]);
    assert_eq!(network.stages[1].inputs.len(), 1);
}

#[test]
fn more_operands_than_a_device_takes_are_joined_in_groups() {
    let mut onnx = Onnx::new();
    let mut names = Vec::new();
    for at in 0..20 {
        let name = format!("t{at}");
        let before = match at {
            0 => "image".to_owned(),
            _ => format!("t{}", at - 1),
        };
        onnx = onnx.node("Tanh", &before, &name, &[]);
        names.push(name);
    }
    let onnx = onnx
        .node("Concat", &names.join(" "), "j", &[int("axis", 2)])
        .head("j", 3, "exit_0");
    let network = network(&onnx);
    let copies = copies(&network);
    assert!(copies.iter().all(|copy| copy.reads().count() <= 8));
    let last = copies.last().unwrap();
    assert_eq!(shape(&network, last), [3, 160, 8]);
}

#[test]
fn constants_are_joined_from_a_table() {
    let onnx = Onnx::new()
        .exactly("row", &[1, 3, 1, 8], (0..24).map(|at| at as f32).collect())
        .node("Relu", "image", "r", &[])
        .node("Concat", "row r", "j", &[int("axis", 2)]);
    let network = network(&first_values(onnx, "j", 216));
    let [copy] = copies(&network)[..] else {
        panic!("{:?}", copies(&network));
    };
    let tables: Vec<u32> = copy.floats().iter().map(|table| table.len).collect();
    assert_eq!(tables, [24]);
    assert_eq!(scores(&network), [0.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn values_come_in_the_order_that_their_reader_needs() {
    let flat = |onnx: Onnx, from: &str, values| scores(&network(&first_values(onnx, from, values)));
    let transposed = Onnx::new().node("Relu", "image", "r", &[]).node(
        "Transpose",
        "r",
        "x",
        &[ints_of("perm", &[0, 3, 2, 1])],
    );
    assert_eq!(flat(transposed, "x", 192), [0.0, 64.0, 128.0, 8.0, 72.0]);
    let rows = Onnx::new()
        .ints("six", &[-6])
        .ints("end", &[i64::MAX])
        .ints("two", &[2])
        .node("Slice", "image six end two two", "x", &[]);
    assert_eq!(flat(rows, "x", 72), [16.0, 17.0, 18.0, 19.0, 20.0]);
    let backwards = Onnx::new()
        .ints("from", &[-2])
        .ints("end", &[i64::MIN])
        .ints("three", &[3])
        .ints("step", &[-3])
        .node("Slice", "image from end three step", "x", &[]);
    assert_eq!(flat(backwards, "x", 72), [6.0, 3.0, 0.0, 14.0, 11.0]);
    let some = Onnx::new().ints("some", &[5, 0, 1, 5, -1]).node(
        "Gather",
        "image some",
        "x",
        &[int("axis", 3)],
    );
    assert_eq!(flat(some, "x", 120), [5.0, 0.0, 1.0, 5.0, 7.0]);
    let torn = Onnx::new()
        .ints("sizes", &[-1, 8, 3, 8])
        .node("Transpose", "image", "t", &[ints_of("perm", &[0, 2, 1, 3])])
        .ints("other", &[-1, 6, 32])
        .node("Reshape", "t sizes", "same", &[])
        .node("Transpose", "same", "u", &[ints_of("perm", &[0, 1, 3, 2])])
        .node("Reshape", "u other", "x", &[]);
    assert_eq!(flat(torn, "x", 192), [0.0, 64.0, 128.0, 1.0, 65.0]);
    let tiled = Onnx::new()
        .ints("times", &[1, 2, 1, 3])
        .ints("end", &[i64::MAX])
        .ints("three", &[3])
        .ints("seven", &[7])
        .node("Tile", "image times", "tiled", &[])
        .node("Slice", "tiled seven end three three", "x", &[]);
    assert_eq!(flat(tiled, "x", 288), [7.0, 2.0, 5.0, 0.0, 3.0]);
    let depth = [int("blocksize", 2), text("mode", "CRD")];
    let shuffled = Onnx::new()
        .node("SpaceToDepth", "image", "s", &[int("blocksize", 2)])
        .node("DepthToSpace", "s", "x", &depth);
    // Of SpaceToDepth: block 0 of channels 0, 1 and 2, then block 1 of channel 0.
    assert_eq!(flat(shuffled, "x", 192), [0.0, 64.0, 2.0, 66.0, 4.0]);
}

#[test]
fn a_network_of_more_anchors_than_65536_fits() {
    let onnx = Onnx::new()
        .floats("w", &[1500, 3, 1, 1])
        .ints("rows", &[-1, 96000, 1])
        .node("Conv", "image w", "c", &[])
        .node("Reshape", "c rows", "r", &[])
        .node("Concat", "r r", "j", &[int("axis", 1)])
        .floats("v", &[1, 5]);
    let network = network(&mean_scores(onnx, "j"));
    let wide = |tensor: &&Tensor| tensor.width == 192_000;
    assert!(network.tensors.iter().find(wide).is_some());
}

#[test]
fn an_activation_goes_before_the_copies_of_its_operand() {
    let onnx = Onnx::new()
        .floats("w", &[4, 3, 1, 1])
        .floats("k", &[4, 1, 3, 3])
        .ints("one", &[1])
        .ints("end", &[15])
        .ints("two", &[2])
        .node("Conv", "image w", "c", &[])
        .node("DepthToSpace", "c", "large", &[int("blocksize", 2)])
        .node("Slice", "large one end two", "part", &[])
        .node("Relu", "part", "r", &[])
        .node("Conv", "r k", "d", &[])
        .head("d", 4, "exit_0");
    let network = network(&onnx);
    let names: Vec<&str> = network.stages[0]
        .operators
        .iter()
        .map(|o| o.name.as_str())
        .collect();
    let head = ["node_mean_exit_0", "node_exit_0"];
    assert_eq!(
        names,
        [&["node_c", "node_part", "node_d"], &head[..]].concat()
    );
}
