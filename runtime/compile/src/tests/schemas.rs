//! The schemas of ONNX, by operator and version, and the attributes that the compiler reads: none is passed over, and each
//! has its default. `tests/data/schemas.py` records the schemas.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde_json::Value as Json;

use super::builder::{Onnx, float, int, ints_of, text};
use super::nested::{branch, graph_of};
use super::options;
use crate::parse::{External, OPSETS};
use crate::schema::{AttributeProto, TensorProto, attribute_type, data_type};
use crate::{input, lower, parse};

const RECORDED: &str = include_str!("../../tests/data/schemas.json");

/// Attributes that the compiler passes over, and why no value of them may change what it makes.
const IGNORED: &[(&str, &[&str], &str)] = &[
    ("cubic_coeff_a", &["Resize"], "of cubic curves"),
    (
        "extrapolation_value",
        &["Resize"],
        "of boxes that are cut out",
    ),
    ("momentum", &["BatchNormalization"], "of training"),
    (
        "qk_matmul_output_mode",
        &["Attention"],
        "of a result that is refused",
    ),
    ("ratio", &["Dropout"], "of training"),
    ("round_mode", &["Cast", "CastLike"], "of float8"),
    ("saturate", &["Cast", "CastLike"], "of float8"),
    ("seed", &["Dropout"], "of training"),
    (
        "softmax_precision",
        &["Attention"],
        "all is computed in f32",
    ),
    (
        "sorted",
        &["TopK"],
        "they are, whether or not that is asked for",
    ),
    (
        "stash_type",
        &[
            "GroupNormalization",
            "LayerNormalization",
            "Range",
            "RMSNormalization",
        ],
        "all is computed in f32 or f64",
    ),
    ("storage_order", &["MaxPool"], "of a second result"),
];

/// Of onnxruntime alone, so that no schema of ONNX has them.
const WITHOUT_SCHEMA: &[&str] = &["SimplifiedLayerNormalization"];

/// An attribute of a type that no operator has.
const GRAPH: i32 = 5;

/// A version of an operator.
struct Version<'a> {
    since: i64,
    attributes: &'a serde_json::Map<String, Json>,
}

impl Version<'_> {
    /// The first operator set with it that is compiled.
    fn opset(&self) -> i64 {
        self.since.max(*OPSETS.start())
    }
}

/// Each version of each operator that is in an operator set that is compiled.
fn versions(recorded: &Json) -> Vec<(&str, Version<'_>)> {
    let mut all = Vec::new();
    for (name, versions) in recorded.as_object().unwrap() {
        for version in versions.as_array().unwrap() {
            let since = version["since"].as_i64().unwrap();
            let attributes = version["attributes"].as_object().unwrap();
            if since <= *OPSETS.end() {
                all.push((name.as_str(), Version { since, attributes }));
            }
        }
    }
    all
}

fn recorded() -> Json {
    serde_json::from_str(RECORDED).unwrap()
}

/// The attributes of a node that compiles.
fn attributes(operator: &str, opset: i64) -> Vec<AttributeProto> {
    match operator {
        "ArgMax" | "ArgMin" | "Concat" | "GatherElements" | "Split" => vec![int("axis", 1)],
        "AveragePool" | "LpPool" | "MaxPool" => vec![ints_of("kernel_shape", &[2, 2])],
        "CenterCropPad" | "MeanVarianceNormalization" => vec![ints_of("axes", &[2, 3])],
        "Compress" => vec![int("axis", 2)],
        "LRN" => vec![int("size", 3)],
        "ReverseSequence" => vec![int("batch_axis", 0), int("time_axis", 1)],
        "Attention" => vec![int("kv_num_heads", 2), int("q_num_heads", 2)],
        "BitShift" => vec![text("direction", "LEFT")],
        "Cast" => vec![int("to", data_type::INT64.into())],
        "DepthToSpace" | "SpaceToDepth" => vec![int("blocksize", 2)],
        "Einsum" => vec![text("equation", "abij,abjk->abik")],
        "Gather" => vec![int("axis", 2)],
        "GatherND" => vec![int("batch_dims", 1)],
        "GRU" | "LSTM" | "RNN" => vec![int("hidden_size", 4)],
        "GroupNormalization" => vec![int("num_groups", 3)],
        "If" => ["then_branch", "else_branch"]
            .map(|name| graph_of(name, branch(vec![], "r")))
            .to_vec(),
        "Hardmax" | "LogSoftmax" | "Softmax" => vec![int("axis", -1)],
        "RotaryEmbedding" => vec![int("num_heads", 2)],
        "Squeeze" | "Unsqueeze" if opset < 13 => vec![ints_of("axes", &[1])],
        reduction if reduces_by_attribute(reduction, opset) => vec![ints_of("axes", &[2, 3])],
        _ => vec![],
    }
}

fn reduces_by_attribute(operator: &str, opset: i64) -> bool {
    let before = if operator == "ReduceSum" { 13 } else { 18 };
    operator.starts_with("Reduce") && opset < before
}

/// Its operands: [`KNOWN`], or what [`file`] computes.
fn operands(operator: &str, opset: i64) -> &'static str {
    match operator {
        "Add" | "Concat" | "Div" | "Einsum" | "Equal" | "Greater" | "GreaterOrEqual" | "Less"
        | "LessOrEqual" | "MatMul" | "Max" | "Mean" | "Min" | "Mul" | "PRelu" | "Pow" | "Sub"
        | "Sum" => "r r",
        "AffineGrid" => "maps to_plane",
        "And" | "Or" | "Xor" => "t t",
        "Attention" => "of_images of_images of_images",
        "SwiGLU" => "r r",
        "BatchNormalization" => "r three three three positive",
        "BitShift" => "byte byte",
        "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => "axes axes",
        "BitwiseNot" | "BlackmanWindow" | "HammingWindow" | "HannWindow" => "count",
        "CastLike" => "r count",
        "Clip" => "r zero one",
        "Col2Im" => "columns axes sizes",
        "Constant" => "",
        "ConstantOfShape" => "sizes",
        "Conv" => "r w",
        "ConvInteger" => "i w_bytes",
        "ConvTranspose" => "r up_w",
        "CumSum" => "r axis",
        "DFT" => "spectra",
        "DepthToSpace" => "deep",
        "DequantizeLinear" => "q scale byte",
        "Dropout" if opset >= 12 => "r scale",
        "Expand" => "r axis",
        "EyeLike" | "NonZero" | "Trilu" => "square",
        "GRU" => "sequence gru_w gru_r",
        "Gather" => "r axes",
        "GatherElements" => "r i",
        "GatherND" => "r places_of_batch",
        "Gemm" => "flat flat_w",
        "GridSample" => "r grid",
        "GroupNormalization" => "r three three",
        "If" => "yes",
        "InstanceNormalization" => "r three positive",
        "LSTM" => "sequence lstm_w lstm_r",
        "LayerNormalization" | "RMSNormalization" => "r eight",
        "MelWeightMatrix" => "axis count count zero one",
        "MatMulInteger" => "i row_bytes",
        "Mod" => "i count",
        "Not" => "t",
        "OneHot" => "axes count off_and_on",
        "Pad" => "r pads",
        "QLinearConv" => "q scale byte w_bytes scale byte scale byte",
        "QLinearMatMul" => "q scale byte row_bytes scale byte scale byte",
        "QuantizeLinear" => "r scale byte",
        "RNN" => "sequence rnn_w rnn_r",
        "Range" => "zero one one",
        "Reshape" => "r target",
        "Resize" => "r - scales",
        "RotaryEmbedding" => "of_images angles angles",
        "STFT" => "signal count - count",
        "ScatterElements" => "square places square",
        "ScatterND" => "square corner number",
        "Slice" => "r starts ends axes",
        "Split" if opset >= 13 => "r sizes",
        "Squeeze" if opset >= 13 => "single axis",
        "Squeeze" => "single",
        "Tile" => "r repeats",
        "CenterCropPad" => "r sizes",
        "Compress" | "ReverseSequence" | "TopK" => "r count",
        "Unsqueeze" if opset >= 13 => "r axis",
        "Where" => "t r r",
        other if other.starts_with("Reduce") && !reduces_by_attribute(other, opset) => "r axes",
        _ => "r",
    }
}

/// Operands that are known, of floats.
const KNOWN: &[(&str, &[i64])] = &[
    ("known_image", &[1, 3, 8, 8]),
    ("w", &[4, 3, 3, 3]),
    ("up_w", &[3, 4, 2, 2]),
    ("flat_w", &[192, 4]),
    ("three", &[3]),
    ("eight", &[8]),
    ("square", &[3, 3]),
    ("off_and_on", &[2]),
    ("number", &[1]),
    ("angles", &[1, 8, 6]),
    ("maps", &[1, 2, 3]),
    ("gru_w", &[1, 12, 24]),
    ("gru_r", &[1, 12, 4]),
    ("lstm_w", &[1, 16, 24]),
    ("lstm_r", &[1, 16, 4]),
    ("rnn_w", &[1, 4, 24]),
    ("rnn_r", &[1, 4, 4]),
];

/// And of integers, which are lists.
const LISTS: &[(&str, &[i64])] = &[
    ("axes", &[2, 3]),
    ("axis", &[1]),
    ("count", &[2]),
    ("sizes", &[1, 2]),
    ("target", &[0, 3, 64]),
    ("starts", &[0, 0]),
    ("ends", &[9, 2]),
    ("repeats", &[1, 1, 2, 1]),
    ("pads", &[0, 0, 1, 1, 0, 0, 1, 1]),
    ("to_sequence", &[0, 8, 24]),
    ("to_grid", &[0, 8, 12, 2]),
    ("to_places", &[0, 192, 1]),
    ("to_plane", &[1, 3, 4, 5]),
    ("to_columns", &[0, 48, 4]),
    ("to_spectra", &[0, 8, 24, 1]),
    ("to_signal", &[0, 192, 1]),
];

/// A file with the node; with `known` no operand is computed from the input.
fn file(operator: &str, opset: i64, attributes: Vec<AttributeProto>, known: bool) -> Onnx {
    let mut onnx = Onnx::new()
        .exactly("positive", &[3], vec![1.0, 0.5, 2.0])
        .exactly("zero", &[], vec![0.0])
        .exactly("one", &[], vec![1.0])
        .exactly("scale", &[], vec![0.5])
        .exactly("scales", &[4], vec![1.0, 1.0, 2.0, 2.0])
        .unsigned("byte", &[], vec![3])
        .unsigned("w_bytes", &[4, 3, 3, 3], vec![7; 108])
        .unsigned("row_bytes", &[8, 4], vec![7; 32]);
    for (name, dims) in KNOWN {
        onnx = onnx.floats(name, dims);
    }
    for (name, values) in LISTS {
        onnx = onnx.ints(name, values);
    }
    for (name, dims) in [("places", [3, 3]), ("corner", [1, 2])] {
        let values = vec![1; (dims[0] * dims[1]) as usize];
        let dims = dims.to_vec();
        let tensor = TensorProto {
            dims,
            ..TensorProto::ints(name, &values)
        };
        onnx.graph().initializer.push(tensor);
    }
    let image = if known {
        "known_image one"
    } else {
        "image one"
    };
    let (single, axes) = if opset >= 13 {
        ("flat axis", vec![])
    } else {
        ("flat", vec![ints_of("axes", &[1])])
    };
    onnx = onnx
        .node("Add", image, "r", &[])
        .node("Flatten", "r", "flat", &[])
        .node("Cast", "r", "i", &[int("to", data_type::INT64.into())])
        .node("Greater", "r zero", "t", &[])
        .node("Greater", "one zero", "yes", &[])
        .node("Concat", "r r r r", "deep", &[int("axis", 1)])
        .node("Unsqueeze", single, "single", &axes)
        .node("Reshape", "r to_sequence", "of_images", &[])
        .node(
            "Transpose",
            "of_images",
            "sequence",
            &[ints_of("perm", &[1, 0, 2])],
        )
        .node("Reshape", "r to_grid", "grid", &[])
        .node("Reshape", "i to_places", "places_of_batch", &[])
        .node("Reshape", "r to_columns", "columns", &[])
        .node("Reshape", "r to_spectra", "spectra", &[])
        .node("Reshape", "r to_signal", "signal", &[])
        .node("QuantizeLinear", "r scale byte", "q", &[])
        .node(operator, operands(operator, opset), "x", &attributes);
    if let ("Split" | "TopK", Some(node)) = (operator, onnx.graph().node.last_mut()) {
        node.output.push("second".to_owned());
    }
    onnx.0.opset_import[0].version = Some(opset);
    onnx.output("x")
}

/// What a file's results are lowered to, or why they are not.
fn lowered(onnx: &Onnx) -> Result<String, String> {
    let graph =
        parse::parse(&onnx.bytes(), External::refused()).map_err(|error| error.to_string())?;
    let input = input::of(&graph, &options().input).map_err(|error| error.to_string())?;
    let lowering = lower(&graph, &input).map_err(|error| error.to_string())?;
    let mut text = String::new();
    for output in &graph.outputs {
        writeln!(text, "{:?}", lowering.value(*output)).unwrap();
    }
    write!(text, "{:?}", lowering.draft).unwrap();
    Ok(text)
}

fn of_type(name: &str, kind: i32) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind),
        ..AttributeProto::default()
    }
}

fn with(attributes: &[AttributeProto], other: AttributeProto) -> Vec<AttributeProto> {
    let mut all = without(attributes, other.name());
    all.push(other);
    all
}

fn without(attributes: &[AttributeProto], name: &str) -> Vec<AttributeProto> {
    let others = attributes
        .iter()
        .filter(|attribute| attribute.name() != name);
    others.cloned().collect()
}

/// Whether operands that are computed from the input, and those that are known, make sense.
fn kinds(operator: &str) -> impl Iterator<Item = bool> {
    let operator = lower::operator(operator).unwrap();
    let (lowered, folded) = (
        operator.lower.is_some() || operator.compose.is_some(),
        operator.fold.is_some() || operator.measure.is_some(),
    );
    [(false, lowered), (true, folded)]
        .into_iter()
        .filter(|(_, has)| *has)
        .map(|(known, _)| known)
}

/// A file to lower: an operator in a version, on operands that are known or not.
struct Case<'a> {
    operator: &'a str,
    opset: i64,
    known: bool,
}

impl Case<'_> {
    fn base(&self) -> Vec<AttributeProto> {
        attributes(self.operator, self.opset)
    }

    fn lowered(&self, attributes: Vec<AttributeProto>) -> Result<String, String> {
        lowered(&file(self.operator, self.opset, attributes, self.known))
    }
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands = if self.known { "known" } else { "computed" };
        write!(f, "{} of set {}, {operands}", self.operator, self.opset)
    }
}

/// The findings of `wrong` about each attribute of each version of each operator, and about one that none has.
fn all_wrong(wrong: impl Fn(&Case<'_>, &str, &Json) -> Option<String>) -> Vec<String> {
    let recorded = recorded();
    let mut all = Vec::new();
    let none = ("no_such_attribute".to_owned(), Json::Null);
    for (operator, version) in versions(&recorded) {
        for known in kinds(operator) {
            let opset = version.opset();
            let case = Case {
                operator,
                opset,
                known,
            };
            for (name, schema) in version.attributes.iter().chain([(&none.0, &none.1)]) {
                let wrong = wrong(&case, name, schema);
                all.extend(wrong.map(|what| format!("{case}: {name}: {what}")));
            }
        }
    }
    all
}

#[test]
fn what_is_recorded_is_of_all_operators_that_are_compiled() {
    let recorded = recorded();
    let names: Vec<&str> = recorded
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let mut supported = lower::supported();
    supported.retain(|name| !WITHOUT_SCHEMA.contains(name));
    assert_eq!(names, supported, "run tests/data/schemas.py again");
}

#[test]
fn the_base_of_these_tests_compiles() {
    let wrong = all_wrong(|case, _, _| match case.operator {
        "Constant" => None,
        _ => case.lowered(case.base()).err(),
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_attribute_is_read_or_refused_by_name_in_each_version_of_its_operator() {
    let passed_over = RefCell::new(BTreeSet::new());
    let wrong = all_wrong(|case, name, _| {
        let broken = with(&case.base(), of_type(name, GRAPH));
        let said = match case.lowered(broken) {
            Err(why) if why.contains(&format!("its attribute {name} ")) => return None,
            Err(why) => why,
            Ok(_) => "it is passed over".to_owned(),
        };
        let is_it =
            |line: &&(&str, &[&str], &str)| line.0 == name && line.1.contains(&case.operator);
        let line = IGNORED.iter().find(is_it);
        passed_over
            .borrow_mut()
            .extend(line.map(|line| (line.0, case.operator.to_owned())));
        line.is_none().then_some(said)
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (name, operators, _) in IGNORED {
        for operator in *operators {
            let line = (*name, (*operator).to_owned());
            assert!(
                passed_over.borrow().contains(&line),
                "{line:?} is not needed"
            );
        }
    }
}

#[test]
fn an_attribute_that_has_its_default_says_what_leaving_it_out_says() {
    let wrong = all_wrong(|case, name, schema| {
        let default = match &schema["default"] {
            Json::Null => return None,
            Json::String(value) => text(name, value),
            Json::Array(values) if schema["type"] == "ints" => {
                let values = values.iter().map(|value| value.as_i64().unwrap());
                ints_of(name, &values.collect::<Vec<_>>())
            }
            Json::Array(values) => {
                let strings = values.iter().map(|value| value.as_str().unwrap());
                AttributeProto {
                    strings: strings.map(|text| text.as_bytes().to_vec()).collect(),
                    ..of_type(name, attribute_type::STRINGS)
                }
            }
            value if schema["type"] == "int" => int(name, value.as_i64().unwrap()),
            value => float(name, value.as_f64().unwrap() as f32),
        };
        let left_out = case.lowered(without(&case.base(), name));
        let given = case.lowered(with(&case.base(), default));
        (left_out != given).then(|| format!("{:?}, {:?}", left_out.err(), given.err()))
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}
