//! The operators, each with what draws its attributes and operands; here those of each value alone and of two.

use punctual_compile::schema::attribute::{float, int, text};
use punctual_compile::schema::data_type::{self, BOOL, FLOAT, INT32, INT64};

use super::drawing::{Drawing, Known, Value};
use super::{arranged, bytes, fused, linear, measured, normal, windows};

/// Operators that are drawn in the same way.
pub(super) struct Row {
    pub operators: &'static [&'static str],
    /// The first operator set that has them.
    pub since: u64,
    pub known: Known,
    pub draw: Draw,
}

type Draw = fn(&mut Drawing, &'static str) -> Vec<Value>;

const fn row(operators: &'static [&'static str], since: u64, draw: Draw) -> Row {
    let known = Known::Sometimes;
    Row {
        operators,
        since,
        known,
        draw,
    }
}

/// Of operators that are supported mostly where their operands are known.
const fn known(operators: &'static [&'static str], since: u64, draw: Draw) -> Row {
    let known = Known::Mostly;
    Row {
        operators,
        since,
        known,
        draw,
    }
}

pub(super) const TABLE: &[Row] = &[
    row(
        &[
            "Acos",
            "Acosh",
            "Asin",
            "Asinh",
            "Atan",
            "Atanh",
            "Ceil",
            "Cos",
            "Cosh",
            "Erf",
            "Exp",
            "Floor",
            "IsNaN",
            "Log",
            "Not",
            "Reciprocal",
            "Round",
            "Sigmoid",
            "Sin",
            "Sinh",
            "Softplus",
            "Softsign",
            "Sqrt",
            "Tan",
            "Tanh",
        ],
        11,
        alone,
    ),
    row(&["Abs", "Identity", "Neg", "Relu", "Sign"], 11, alone),
    row(&["HardSwish"], 14, alone),
    row(&["Mish"], 18, alone),
    row(
        &[
            "Elu",
            "HardSigmoid",
            "IsInf",
            "LeakyRelu",
            "Selu",
            "ThresholdedRelu",
        ],
        11,
        curve,
    ),
    row(&["Shrink"], 11, curve),
    row(&["Celu"], 12, curve),
    row(&["Gelu"], 20, curve),
    row(&["Add", "Div", "Mod", "Mul", "Pow", "Sub"], 11, two),
    row(&["Equal", "Greater", "Less"], 11, two),
    row(&["GreaterOrEqual", "LessOrEqual"], 12, two),
    row(&["And", "Or", "Xor"], 11, two),
    row(&["PRelu"], 11, slopes),
    row(&["Max", "Mean", "Min", "Sum"], 11, several),
    row(&["Where"], 11, choice),
    row(&["Clip"], 11, clip),
    row(&["Cast"], 11, cast),
    row(&["CastLike"], 15, cast),
    row(
        &[
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
        ],
        11,
        normal::reduce,
    ),
    row(&["ArgMax", "ArgMin"], 11, normal::extreme),
    row(&["CumSum"], 11, normal::running_sum),
    row(&["TopK"], 11, normal::top),
    row(&["Hardmax", "LogSoftmax", "Softmax"], 11, normal::softmax),
    row(&["LRN"], 11, normal::local_response),
    row(&["MeanVarianceNormalization"], 11, normal::mean_variance),
    row(&["CenterCropPad"], 18, arranged::center),
    row(&["Compress"], 11, arranged::compress),
    row(&["ReverseSequence"], 11, arranged::reverse),
    row(
        &["BatchNormalization", "InstanceNormalization"],
        11,
        normal::by_channel,
    ),
    row(&["GroupNormalization"], 18, normal::by_group),
    row(&["LayerNormalization"], 17, normal::by_layer),
    row(&["RMSNormalization"], 23, normal::by_layer),
    row(&["LpNormalization"], 11, normal::by_length),
    row(&["Gemm"], 11, normal::gemm),
    row(&["MatMul"], 11, normal::mat_mul),
    row(&["Einsum"], 12, normal::einsum),
    row(&["GRU", "LSTM", "RNN"], 11, normal::recurrent),
    row(&["QuantizeLinear"], 11, normal::quantise),
    row(&["DequantizeLinear"], 11, normal::dequantise),
    row(&["DynamicQuantizeLinear"], 11, measured::dynamic),
    row(&["ConvInteger"], 11, measured::convolution),
    row(
        &[
            "MatMulInteger",
            "com.microsoft.DynamicQuantizeMatMul",
            "com.microsoft.MatMulIntegerToFloat",
        ],
        11,
        measured::mat_mul,
    ),
    row(&["com.microsoft.DynamicQuantizeLSTM"], 11, measured::lstm),
    row(
        &["com.microsoft.GroupQueryAttention"],
        11,
        fused::grouped_attention,
    ),
    row(&["AveragePool", "LpPool", "MaxPool"], 11, windows::pool),
    row(
        &["GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"],
        11,
        windows::global,
    ),
    row(&["Conv", "ConvTranspose"], 11, windows::convolution),
    row(&["Resize"], 11, windows::resize),
    row(&["GridSample"], 16, windows::grid_sample),
    row(&["DepthToSpace", "SpaceToDepth"], 11, windows::blocks),
    row(&["Concat"], 11, arranged::concat),
    row(&["Dropout"], 11, arranged::dropout),
    row(&["Expand"], 11, arranged::expand),
    row(&["Flatten"], 11, arranged::flatten),
    row(&["Gather"], 11, arranged::gather),
    row(&["GatherElements"], 11, arranged::gather_elements),
    row(&["GatherND"], 11, arranged::gather_nd),
    row(&["Pad"], 11, arranged::pad),
    row(&["Reshape"], 11, arranged::reshape),
    row(&["Shape", "Size"], 11, arranged::shape),
    row(&["Slice"], 11, arranged::slice),
    row(&["Split"], 11, arranged::split),
    row(&["Squeeze", "Unsqueeze"], 11, arranged::squeeze),
    row(&["Tile"], 11, arranged::tile),
    row(&["Transpose"], 11, arranged::transpose),
    known(
        &["ConstantOfShape", "EyeLike", "NonZero", "OneHot", "Range"],
        11,
        arranged::made,
    ),
    known(&["Trilu"], 14, arranged::triangle),
    known(&["ScatterElements", "ScatterND"], 11, arranged::scatter),
    row(&["SimplifiedLayerNormalization"], 11, normal::by_layer),
    known(&["BitShift"], 11, linear::bits),
    known(
        &["BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"],
        18,
        linear::bits,
    ),
    known(
        &["BlackmanWindow", "HammingWindow", "HannWindow"],
        17,
        linear::window,
    ),
    known(&["MelWeightMatrix"], 17, linear::mel_weights),
    row(&["AffineGrid"], 20, linear::affine_grid),
    row(&["Col2Im"], 18, linear::columns_to_image),
    row(&["DFT"], 17, linear::fourier),
    row(&["STFT"], 17, linear::short_time_fourier),
    row(&["Swish"], 24, fused::activated),
    row(&["SwiGLU"], 28, fused::activated),
    row(&["Attention"], 23, fused::attention),
    row(&["RotaryEmbedding"], 23, fused::rotary),
    row(&["QLinearConv"], 11, bytes::convolution),
    row(&["QLinearMatMul"], 11, bytes::mat_mul),
    row(
        &[
            "com.microsoft.BiasGelu",
            "com.microsoft.FastGelu",
            "com.microsoft.Gelu",
            "com.microsoft.QuickGelu",
        ],
        11,
        fused::activated,
    ),
    row(
        &[
            "com.microsoft.LayerNormalization",
            "com.microsoft.SimplifiedLayerNormalization",
        ],
        11,
        normal::by_layer,
    ),
    row(
        &[
            "com.microsoft.SkipLayerNormalization",
            "com.microsoft.SkipSimplifiedLayerNormalization",
        ],
        11,
        fused::skipping,
    ),
    row(&["com.microsoft.FusedConv"], 11, windows::convolution),
    row(&["com.microsoft.FusedGemm"], 11, normal::gemm),
    row(&["com.microsoft.FusedMatMul"], 11, fused::mat_mul),
    row(
        &["com.microsoft.Attention"],
        11,
        fused::attention_with_weights,
    ),
    row(
        &["com.microsoft.MultiHeadAttention"],
        11,
        fused::multi_head_attention,
    ),
    row(&["com.microsoft.RotaryEmbedding"], 11, fused::rotary),
    row(&["com.microsoft.QGemm"], 11, bytes::gemm),
    row(
        &["com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"],
        11,
        bytes::two,
    ),
    row(&["com.microsoft.QLinearAveragePool"], 11, bytes::average),
    row(&["com.microsoft.QLinearConcat"], 11, bytes::concat),
    row(
        &[
            "com.microsoft.QLinearGlobalAveragePool",
            "com.microsoft.QLinearLeakyRelu",
            "com.microsoft.QLinearSigmoid",
            "com.microsoft.QLinearSoftmax",
        ],
        11,
        bytes::alone,
    ),
    row(
        &[
            "com.microsoft.DequantizeLinear",
            "com.microsoft.QuantizeLinear",
        ],
        11,
        bytes::converted,
    ),
];

fn alone(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = match operator {
        "Abs" | "Identity" | "Neg" | "Relu" | "Sign" => {
            drawing.one_of(&[FLOAT, FLOAT, INT64, INT32])
        }
        "Not" => BOOL,
        _ => FLOAT,
    };
    let dims = drawing.dims(2..=5);
    let mut x = drawing.operand(&dims, kind);
    if operator == "Reciprocal" {
        // Of no zero: the compiler does not keep its sign, and its inverse is infinite.
        let little = drawing.values(&[], &[1.0 / 1024.0]);
        x = drawing.node("Add", &[&x, &little], vec![]);
    }
    let to = if operator == "IsNaN" { BOOL } else { kind };
    drawing.result(operator, &[&x], vec![], to, &dims)
}

fn curve(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let names: &[&str] = match operator {
        "HardSigmoid" => &["alpha", "beta"],
        "Selu" => &["alpha", "gamma"],
        "Shrink" => &["bias", "lambd"],
        "Gelu" | "IsInf" => &[],
        _ => &["alpha"],
    };
    let mut attributes = Vec::new();
    for name in names {
        let value = drawing.side(1, 6) as f32 / 4.0;
        drawing.perhaps(&mut attributes, float(name, value));
    }
    match operator {
        "Gelu" => {
            let how = drawing.one_of(&["none", "tanh"]);
            drawing.perhaps(&mut attributes, text("approximate", how));
        }
        "IsInf" => {
            for name in ["detect_negative", "detect_positive"] {
                let value = drawing.side(0, 1);
                drawing.perhaps(&mut attributes, int(name, value));
            }
        }
        _ => {}
    }
    let dims = drawing.dims(2..=5);
    let mut x = drawing.floats(&dims);
    if operator == "IsInf" {
        // Beyond the largest float, but for what is small.
        let large = drawing.values(&[], &[3e38]);
        x = drawing.node("Mul", &[&x, &large], vec![]);
    }
    let to = if operator == "IsInf" { BOOL } else { FLOAT };
    drawing.result(operator, &[&x], attributes, to, &dims)
}

/// Dimensions that are repeated to these.
fn repeated(drawing: &mut Drawing, dims: &[i64]) -> Vec<i64> {
    let mut own = dims.to_vec();
    for size in &mut own {
        if drawing.one_in(4) {
            *size = 1;
        }
    }
    let without = match drawing.random.below(4) {
        0 => drawing.side(1, dims.len() as i64) as usize,
        _ => 0,
    };
    own.split_off(without)
}

fn two(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let truths = matches!(operator, "And" | "Or" | "Xor");
    let compares = matches!(
        operator,
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual"
    );
    let kind = match operator {
        _ if truths => BOOL,
        "Equal" => drawing.one_of(&[FLOAT, INT64, INT32, BOOL]),
        _ => drawing.one_of(&[FLOAT, FLOAT, INT64, INT32]),
    };
    let mut dims = drawing.dims(2..=5);
    let first = drawing.operand(&dims, kind);
    let mut own = if drawing.one_in(2) {
        dims.clone()
    } else {
        repeated(drawing, &dims)
    };
    if drawing.known && own.len() == dims.len() && drawing.one_in(3) {
        // Both are repeated.
        let at = drawing.side(0, dims.len() as i64 - 1) as usize;
        if dims[at] == 1 {
            own[at] = 3;
            dims[at] = 3;
        }
    }
    let mut second = drawing.second(&own, kind);
    let divides = matches!(operator, "Div" | "Mod") && kind != FLOAT;
    if divides {
        // Not by zero.
        let size = drawing.node("Abs", &[&second], vec![]);
        let one = drawing.bytes(
            kind,
            &[],
            if kind == INT64 {
                2_i64.to_le_bytes().to_vec()
            } else {
                2_i32.to_le_bytes().to_vec()
            },
        );
        second = drawing.node("Add", &[&size, &one], vec![]);
    }
    let mut attributes = Vec::new();
    if operator == "Mod" && (kind == FLOAT || drawing.one_in(2)) {
        attributes.push(int("fmod", 1));
    }
    let swapped = drawing.one_in(4) && !divides;
    let operands = if swapped {
        [second, first]
    } else {
        [first, second]
    };
    let to = if compares { BOOL } else { kind };
    drawing.result(
        operator,
        &[&operands[0], &operands[1]],
        attributes,
        to,
        &dims,
    )
}

fn slopes(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=5);
    let x = drawing.floats(&dims);
    let own = match drawing.random.below(3) {
        0 => vec![],
        1 => [dims[1]]
            .into_iter()
            .chain(dims[2..].iter().map(|_| 1))
            .collect(),
        _ => repeated(drawing, &dims),
    };
    let slope = drawing.second(&own, FLOAT);
    drawing.result(operator, &[&x, &slope], vec![], FLOAT, &dims)
}

fn several(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = match operator {
        "Max" | "Min" => drawing.one_of(&[FLOAT, FLOAT, INT64, INT32]),
        _ => FLOAT,
    };
    let dims = drawing.dims(2..=5);
    let mut operands = vec![drawing.operand(&dims, kind)];
    for _ in 0..drawing.side(0, 2) {
        let own = repeated(drawing, &dims);
        operands.push(drawing.second(&own, kind));
    }
    let at = drawing.side(0, operands.len() as i64 - 1) as usize;
    operands.swap(0, at);
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, vec![], kind, &dims)
}

fn choice(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = drawing.one_of(&[FLOAT, FLOAT, INT64]);
    let dims = drawing.dims(2..=5);
    let computed = drawing.side(0, 2);
    let operands: Vec<String> = (0..3)
        .map(|at| {
            let kind = if at == 0 { BOOL } else { kind };
            if at == computed {
                return drawing.operand(&dims, kind);
            }
            let own = repeated(drawing, &dims);
            drawing.second(&own, kind)
        })
        .collect();
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, vec![], kind, &dims)
}

fn clip(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = if drawing.opset >= 12 {
        drawing.one_of(&[FLOAT, FLOAT, INT64])
    } else {
        FLOAT
    };
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let mut bounds = [0, 1].map(|_| {
        if drawing.one_in(4) {
            String::new()
        } else {
            drawing.constant(&[], kind)
        }
    });
    if drawing.one_in(4) {
        bounds[1].clear();
    }
    drawing.result(operator, &[&x, &bounds[0], &bounds[1]], vec![], kind, &dims)
}

fn cast(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kinds = [FLOAT, INT64, INT32, BOOL];
    let (from, mut to) = (drawing.one_of(&kinds), drawing.one_of(&kinds));
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, from);
    if operator == "CastLike" {
        let like = drawing.second(&[2], to);
        return drawing.result(operator, &[&x, &like], vec![], to, &dims);
    }
    if drawing.one_in(6) {
        // Through a type that outputs do not have.
        to = drawing.one_of(&[data_type::INT8, data_type::UINT8, data_type::DOUBLE]);
        let through = drawing.node(operator, &[&x], vec![int("to", to.into())]);
        return drawing.result(
            "Cast",
            &[&through],
            vec![int("to", FLOAT.into())],
            FLOAT,
            &dims,
        );
    }
    drawing.result(operator, &[&x], vec![int("to", to.into())], to, &dims)
}
