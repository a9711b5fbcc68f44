//! Each thing that is not supported is refused by name: node, operator, reason.

use super::builder::{Onnx, everything, float, image_of, int, ints_of, text, value};
use super::{compiled, options};
use crate::schema::{AttributeProto, DATA_LOCATION_EXTERNAL};
use crate::{CompileError, CompileOptions, compile};
use punctual_model::Calibration;

/// Fails unless `onnx` is refused with a message that contains all of `words`.
#[track_caller]
fn refused(onnx: &Onnx, words: &[&str]) {
    refused_with(&options(), onnx, words);
}

#[track_caller]
fn refused_with(options: &CompileOptions, onnx: &Onnx, words: &[&str]) {
    let error = compile(&onnx.bytes(), Calibration::default(), options).unwrap_err();
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
    for rust in ["Some(", "None", " { ", "::"] {
        assert!(!message.contains(rust), "{message:?} has {rust:?}");
    }
}

/// A network whose node `node_x` is the operator in question, before an ordinary head.
fn with(operator: &str, inputs: &str, attributes: &[AttributeProto]) -> Onnx {
    Onnx::new()
        .floats("w", &[4, 3, 3, 3])
        .floats("flat_w", &[4, 3])
        .floats("four", &[4])
        .floats("three", &[3])
        .ints("axes", &[2, 3])
        .ints("target", &[0, 8, 3, 7])
        .floats("up_w", &[3, 4, 2, 2])
        .ints("pads", &[0, 0, 8, 0, 0, 0, 0, 0])
        .ints("images", &[1, 0, 0, 0, 0, 0, 0, 0])
        .node("Relu", "image", "r", &[])
        .node("Flatten", "r", "flat", &[])
        .node(operator, inputs, "x", attributes)
        .head("r", 3, "exit_0")
}

#[test]
fn the_base_of_these_tests_compiles() {
    let conv = with("Conv", "r w", &[]).head("x", 4, "exit_1");
    compiled(&conv).unwrap();
    compiled(&everything()).unwrap();
}

#[test]
fn an_unknown_operator() {
    let node = "node \"node_x\" (Det): ";
    refused(
        &with("Det", "r w", &[]),
        &[node, "not supported; supported are Abs, Acos, "],
    );
    refused(&with("", "r", &[]), &["node \"node_x\" ()"]);
}

#[test]
fn every_node_in_the_way_is_told_and_what_lies_behind_is_judged_where_its_shape_is_declared() {
    let mut onnx = with("Det", "r", &[])
        .node("Det", "x", "y", &[])
        .node("Conv", "y w", "behind_unknown", &[])
        .node("Relu", "image", "declared", &[])
        .node("Det", "declared", "z", &[])
        .node("Conv", "z w three", "behind_declared", &[]);
    onnx.graph().node[3].domain = Some("com.example".to_owned());
    onnx.graph().value_info.push(image_of("z", &[3, 4, 4]));
    let error = compile(&onnx.bytes(), Calibration::default(), &options()).unwrap_err();
    let CompileError::Nodes(unsupported) = &error else {
        panic!("{error}");
    };
    let names: Vec<&str> = unsupported.nodes.iter().map(|n| n.node.as_str()).collect();
    let expected = [
        "node_mean_exit_0",
        "node_x",
        "node_y",
        "node_z",
        "node_behind_declared",
    ];
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    assert_eq!(sorted, wanted);
    // The head behind the mean, and the convolution behind what is not declared.
    assert_eq!(unsupported.unchecked, 3);
    let by_operator = unsupported.by_operator();
    assert_eq!((by_operator[0].0, by_operator[0].1.len()), ("Det", 3));
    let message = error.to_string();
    assert!(
        message.contains("4 more nodes cannot be compiled"),
        "{message}"
    );
    assert!(message.contains("--explain"), "{message}");
    let all = unsupported.explanation().to_string();
    for words in [
        "5 nodes cannot be compiled",
        "\"node_y\": this operator is not supported\n",
        "operators of the domain \"com.example\"",
        "\"node_behind_declared\": its input 2 (bias)",
        "3 more nodes read what these would compute",
    ] {
        assert!(all.contains(words), "{all:?} lacks {words:?}");
    }
    let json = serde_json::to_value(unsupported).unwrap();
    assert_eq!(json["nodes"].as_array().map(Vec::len), Some(5));
}

#[test]
fn windows_that_are_not_supported() {
    for (operator, inputs, attribute, reason) in [
        (
            "AveragePool",
            "r",
            ints_of("dilations", &[2, 2]),
            "dilations is [2, 2]; supported is [1, 1]",
        ),
        (
            "Conv",
            "r w",
            ints_of("dilations", &[0, 1]),
            "dilation is 0x1",
        ),
        (
            "Conv",
            "r w",
            ints_of("dilations", &[1, 4]),
            "the kernel 3x9 is larger than the input",
        ),
        ("Conv", "r w", ints_of("strides", &[0, 1]), "stride is 0x1"),
        (
            "Conv",
            "r w",
            ints_of("strides", &[1, 1, 1]),
            "strides is [1, 1, 1]; supported is two",
        ),
        (
            "Conv",
            "r w",
            ints_of("pads", &[0, 0, 0, -1]),
            "pads is [0, 0, 0, -1]; supported is four",
        ),
        ("MaxPool", "r", ints_of("pads", &[3, 0, 0, 0]), "kernel"),
        (
            "Conv",
            "r w",
            ints_of("kernel_shape", &[5, 5]),
            "kernel_shape is [5, 5]",
        ),
        (
            "Conv",
            "r w",
            text("auto_pad", "SAME"),
            "auto_pad is \"SAME\"; supported is NOTSET",
        ),
        (
            "Conv",
            "r w",
            int("group", 2),
            "group is 2; supported is a divisor",
        ),
        ("Conv", "r w", int("group", -1), "group is -1"),
        (
            "Conv",
            "r w",
            float("group", 1.0),
            "group is 1; supported is an integer",
        ),
        (
            "Conv",
            "r w",
            int("fused", 1),
            "its attribute fused = 1 is not supported",
        ),
        ("MaxPool", "r", int("ceil_mode", 0), "kernel is 0x0"),
        (
            "MaxPool",
            "r",
            ints_of("kernel_shape", &[9, 9]),
            "is larger than the input",
        ),
    ] {
        let node = format!("node \"node_x\" ({operator}): ");
        refused(&with(operator, inputs, &[attribute]), &[&node, reason]);
    }
}

#[test]
fn an_attribute_with_an_unsupported_value() {
    for (operator, inputs, attribute, reason) in [
        (
            "ReduceMean",
            "r",
            ints_of("axes", &[0]),
            "axes is [0]; supported is some dimensions, none of them the batch",
        ),
        (
            "Pad",
            "r pads",
            text("mode", "mirror"),
            "mode is \"mirror\"; supported is constant, reflect, edge or wrap",
        ),
        (
            "Pad",
            "r pads",
            text("mode", "reflect"),
            "pads is [8, 0]; supported is less than the dimension",
        ),
        (
            "ConvTranspose",
            "r up_w",
            ints_of("pads", &[2, 0, 0, 0]),
            "pads less than the kernel",
        ),
        (
            "ConvTranspose",
            "r up_w",
            ints_of("output_shape", &[90, 90]),
            "pads less than the kernel",
        ),
        (
            "Flatten",
            "r",
            int("axis", 5),
            "axis is 5; supported is one of the dimensions",
        ),
        (
            "Gemm",
            "flat flat_w",
            int("transA", 1),
            "transA is 1; supported is 0",
        ),
        (
            "Softmax",
            "flat",
            int("axis", 0),
            "supported is a tensor with one axis",
        ),
        (
            "BatchNormalization",
            "r three three three three",
            int("training_mode", 1),
            "training_mode is 1",
        ),
    ] {
        let node = format!("node \"node_x\" ({operator}): ");
        refused(&with(operator, inputs, &[attribute]), &[&node, reason]);
    }
}

/// Operator, operands, reason.
const OPERANDS: &[(&str, &str, &str)] = &[
    ("Conv", "r", "its input 1 (weights) is missing"),
    ("Conv", "- w", "its input 0 (data) is missing"),
    (
        "Conv",
        "r r",
        "its input 1 (weights) is an image (N, 3, 8, 8); supported is a float32",
    ),
    (
        "Conv",
        "r flat_w",
        "input 1 (weights) is a float32 constant of shape [4, 3]",
    ),
    (
        "Conv",
        "r w three",
        "input 2 (bias) is a float32 constant of shape [3]",
    ),
    (
        "Conv",
        "flat w",
        "input 0 (data) is a vector of features (N, 192)",
    ),
    (
        "Conv",
        "w w",
        "input 0 (data) is a float32 constant of shape [4, 3, 3, 3]",
    ),
    ("Gemm", "r flat_w", "input 0 (data) is an image"),
    (
        "MatMul",
        "flat flat_w",
        "input 1 (weights) is a float32 constant of shape [4, 3]",
    ),
    (
        "BatchNormalization",
        "flat three three three three",
        "input 1 (scale) is a float32 constant of shape [3]; supported is one value a channel",
    ),
    (
        "BatchNormalization",
        "r four four four four",
        "input 1 (scale) is a float32 constant",
    ),
    (
        "ConvTranspose",
        "r w",
        "input 1 (weights) is a float32 constant of shape [4, 3, 3, 3]; supported is one kernel for each input channel",
    ),
    (
        "ConvTranspose",
        "r up_w three",
        "input 2 (bias) is a float32 constant of shape [3]; supported is one value an output channel",
    ),
    (
        "InstanceNormalization",
        "r four four",
        "input 1 (scale) is a float32 constant of shape [4]",
    ),
    (
        "InstanceNormalization",
        "flat three three",
        "input 0 (data) is a vector of features (N, 192)",
    ),
    ("Pad", "r", "its input 1 (pads) is missing"),
    (
        "Pad",
        "r axes",
        "input 1 (pads) is an integer constant of shape [2]",
    ),
    ("Pad", "r images", "it takes part of an image (N, 3, 8, 8)"),
    (
        "PRelu",
        "r four",
        "it computes with an image (N, 3, 8, 8) and a float32 constant of shape [4]",
    ),
    (
        "Clip",
        "r three",
        "input 1 (minimum) is a float32 constant of shape [3]",
    ),
    ("Relu", "r r", "it has 2 inputs; supported are at most 1"),
    (
        "Add",
        "r four",
        "it computes with an image (N, 3, 8, 8) and a float32 constant of shape [4]",
    ),
    (
        "Add",
        "r flat",
        "it computes with an image (N, 3, 8, 8) and a vector of features (N, 192)",
    ),
    (
        "Reshape",
        "r target",
        "it reshapes (N, 3, 8, 8) to (N, 8, 3, 7)",
    ),
    (
        "Reshape",
        "r three",
        "input 1 (shape) is a float32 constant of shape [3]",
    ),
    (
        "Squeeze",
        "r axes",
        "axes is [2, 3]; supported is dimensions of one position",
    ),
    (
        "Mul",
        "r four",
        "it computes with an image (N, 3, 8, 8) and a float32 constant of shape [4]",
    ),
    (
        "Mul",
        "r flat",
        "it computes with an image (N, 3, 8, 8) and a vector of features (N, 192)",
    ),
    (
        "Sub",
        "r axes",
        "it computes with an image (N, 3, 8, 8) and an integer constant of shape [2]",
    ),
    (
        "Pow",
        "r three",
        "it computes with an image (N, 3, 8, 8) and a float32 constant of shape [3]",
    ),
    (
        "NonZero",
        "r",
        "all its operands are known when compiling; its input 0 is an image (N, 3, 8, 8)",
    ),
    (
        "Concat",
        "r flat",
        "input 1 (data) is a vector of features (N, 192); supported is a tensor of the first one's sizes",
    ),
    ("Gather", "target axes", "an index is outside the operand"),
    ("Constant", "", "its attribute value is missing"),
];

#[test]
fn an_operand_of_another_kind() {
    for (operator, inputs, reason) in OPERANDS {
        let attributes = match *operator {
            "Gather" => vec![int("axis", 0)],
            _ => vec![],
        };
        let inputs = if *operator == "Gather" {
            "axes target"
        } else {
            inputs
        };
        let node = format!("node \"node_x\" ({operator}): ");
        refused(&with(operator, inputs, &attributes), &[&node, reason]);
    }
}

#[test]
fn an_operand_left_out_does_not_let_the_next_one_take_its_place() {
    // Slice(data, starts, ends, axes, steps): an end of 8 would pass as the start.
    let onnx =
        with("Relu", "r", &[])
            .ints("end", &[8])
            .node("Slice", "target - end", "sliced", &[]);
    refused(
        &onnx,
        &["node \"node_sliced\" (Slice)", "it has no starts or ends"],
    );
}

#[test]
fn weights_that_are_not_finite() {
    let weights = |value| {
        let mut values = vec![0.5; 108];
        values[7] = value;
        Onnx::new()
            .exactly("w", &[4, 3, 3, 3], values)
            .node("Conv", "image w", "x", &[])
            .head("x", 4, "exit_0")
    };
    refused(
        &weights(f32::NAN),
        &["node \"node_x\" (Conv)", "the weight NaN"],
    );
    let normalised = |variance: f32, weight: f32| {
        Onnx::new()
            .exactly("w", &[4, 3, 1, 1], vec![weight; 12])
            .exactly("one", &[4], vec![1.0; 4])
            .exactly("variance", &[4], vec![variance; 4])
            .node("Conv", "image w", "c", &[])
            .node("BatchNormalization", "c one one one variance", "x", &[])
            .head("x", 4, "exit_0")
    };
    compiled(&normalised(1.0, 1.0)).unwrap();
    let negative = ["node \"node_x\" (BatchNormalization)", "the weight NaN"];
    refused(&normalised(-1.0, 1.0), &negative);
    refused(
        &normalised(1e-12, 3e38),
        &["node \"node_c\"", "one weight is inf"],
    );
}

#[test]
fn results_that_are_empty_or_huge() {
    let none = Onnx::new()
        .floats("w", &[0, 3, 1, 1])
        .node("Conv", "image w", "x", &[])
        .head("x", 4, "exit_0");
    refused(&none, &["node \"node_x\" (Conv)", "its result is 0x8x8"]);
    let mut wide = Onnx::new();
    let window = [
        ints_of("kernel_shape", &[1024, 1024]),
        ints_of("pads", &[1023; 4]),
    ];
    let mut from = "image".to_owned();
    for at in 0..100 {
        let to = format!("x{at}");
        wide = wide.node("MaxPool", &from, &to, &window);
        from = to;
    }
    refused(
        &wide.head(&from, 3, "exit_0"),
        &["(MaxPool)", "its result is 3x"],
    );
}

fn edit(edit: fn(&mut Onnx)) -> Onnx {
    let mut onnx = everything();
    edit(&mut onnx);
    onnx
}

#[test]
fn a_file_that_is_no_network() {
    let refused_bytes = |bytes: &[u8], word: &str| {
        let error = compile(bytes, Calibration::default(), &options()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    };
    refused_bytes(b"", "uses no operator set");
    refused_bytes(b"PUNCTUAL", "this is no ONNX file");
    for (onnx, words) in [
        (edit(|o| o.0.graph = None), "contains no graph"),
        (
            edit(|o| o.0.opset_import[0].version = Some(7)),
            "operator set 7; supported are the operator sets 11 to 28",
        ),
        (
            edit(|o| {
                o.graph().input.push(image_of("second", &[3, 90, 100]));
            }),
            "inputs beside its weights are [\"image\", \"second\"]",
        ),
        (
            edit(|o| o.graph().input.clear()),
            "beside its weights are []",
        ),
        (
            edit(|o| o.graph().input[0].r#type = None),
            "the input \"image\" must be a tensor of floats",
        ),
        (
            edit(|o| o.graph().node[0].input[0] = o.graph().node[1].output[0].clone()),
            "node \"node_n0\" (BatchNormalization) uses",
        ),
        (
            edit(|o| o.graph().output.push(value("no"))),
            "the list of outputs uses the value \"no\"",
        ),
        (
            edit(|o| o.graph().node[1].output[0] = "c0".to_owned()),
            "\"c0\" is defined twice",
        ),
        (
            edit(|o| o.graph().node[0].domain = Some("com.microsoft".to_owned())),
            "node \"node_c0\" (Conv): operators of the domain \"com.microsoft\"",
        ),
        (
            everything().node("Relu", "image", "", &[]),
            "node \"node_\" (Relu): it has no output",
        ),
    ] {
        refused(&onnx, &[words]);
    }
}

#[test]
fn a_constant_that_is_none() {
    for (onnx, words) in [
        (
            edit(|o| o.graph().initializer[0].data_location = Some(DATA_LOCATION_EXTERNAL)),
            "the data of \"w0\" lie in another file",
        ),
        (
            edit(|o| o.graph().initializer[0].dims[0] = 5),
            "the constant \"w0\" has shape [5, 3, 3, 3] and 108 elements",
        ),
        (
            edit(|o| o.graph().initializer[0].dims[0] = -4),
            "has shape [-4, 3, 3, 3]",
        ),
        (
            edit(|o| o.graph().initializer[0].dims = vec![i64::MAX; 4]),
            "and 108 elements",
        ),
        (
            edit(|o| o.graph().initializer[0].data_type = Some(16)),
            "a bfloat16 constant",
        ),
    ] {
        refused(&onnx, &[words]);
    }
}

#[test]
fn exits_that_make_no_stages() {
    let named = |exits: &[&str]| CompileOptions {
        exits: exits.iter().map(|&exit| exit.to_owned()).collect(),
        ..options()
    };
    let onnx = everything();
    let only = Onnx::new().head("image", 3, "scores");
    compiled(&only).unwrap();
    let two = only.head("image", 3, "others");
    let one_exit = compiled(&two).unwrap();
    assert_eq!(one_exit.package.network().stages.len(), 1);
    compile(&two.bytes(), Calibration::default(), &named(&["scores"])).unwrap();
    refused_with(
        &named(&["exit_7"]),
        &onnx,
        &["\"exit_7\"", "[\"exit_0\", \"exit_1\"]"],
    );
    refused_with(
        &named(&["exit_0", "exit_0"]),
        &onnx,
        &["\"exit_0\"", "listed twice"],
    );
    let deep_first = Onnx::new()
        .head("image", 3, "exit_1")
        .node("Relu", "exit_1", "exit_0", &[])
        .output("exit_0");
    refused(&deep_first, &["\"exit_1\" adds no operator"]);
    refused(
        &Onnx::new().floats("exit_0", &[5]).output("exit_0"),
        &["not computed from the input"],
    );
    let image = Onnx::new()
        .node("Identity", "image", "exit_0", &[])
        .output("exit_0");
    refused(&image, &["exit_0/output is not computed from the input"]);
    let plane = Onnx::new()
        .node("Relu", "image", "exit_0", &[])
        .output("exit_0");
    refused(
        &plane,
        &[
            "the scores of exit_0 are",
            "(N, 3, 8, 8)",
            "one score a class",
        ],
    );
    let classes = CompileOptions {
        classes: vec!["a".to_owned()],
        ..options()
    };
    refused_with(
        &classes,
        &onnx,
        &["exit_0 has 5 scores; there are 1 classes"],
    );
}

#[test]
fn options_that_do_not_fit_the_file() {
    let mut tall = options();
    tall.input.size = Some((9, 8));
    refused_with(
        &tall,
        &everything(),
        &["\"image\" is (?, 3, 8, 8)", "9 rows and 8 columns"],
    );
    let mut unnamed = options();
    unnamed.name.clear();
    refused_with(&unnamed, &everything(), &["a name (network) has 0 bytes"]);
    let text = "name = \"x\"\nonnx = \"x.onnx\"\nbatch = 4\n";
    let error = CompileError::from(CompileOptions::from_toml(text, "x.toml".as_ref()).unwrap_err());
    assert!(error.to_string().contains("unknown key `batch`"), "{error}");
}
