//! Operators with what was before or behind them taken in, and attention: of newer operator sets, and of onnxruntime's own.

use punctual_compile::schema::AttributeProto;
use punctual_compile::schema::attribute::{float, floats, int, ints, text};
use punctual_compile::schema::data_type::{BOOL, FLOAT, INT32, INT64};

use super::drawing::{Drawing, Value, elements};

fn last(dims: &[i64]) -> i64 {
    dims[dims.len() - 1]
}

pub(super) fn names(operands: &[String]) -> Vec<&str> {
    operands.iter().map(String::as_str).collect()
}

pub(super) fn activated(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=4);
    let mut operands = vec![drawing.floats(&dims)];
    let mut attributes = Vec::new();
    match operator {
        "SwiGLU" => operands.push(drawing.second(&dims, FLOAT)),
        "com.microsoft.BiasGelu" => operands.push(drawing.constant(&[last(&dims)], FLOAT)),
        "com.microsoft.FastGelu" if drawing.one_in(2) => {
            operands.push(drawing.constant(&[last(&dims)], FLOAT));
        }
        _ => {}
    }
    if matches!(operator, "SwiGLU" | "Swish" | "com.microsoft.QuickGelu") {
        let steep = drawing.one_of(&[1.0, 0.5, -0.25, 2.0]);
        drawing.perhaps(&mut attributes, float("alpha", steep));
    }
    drawing.result(operator, &names(&operands), attributes, FLOAT, &dims)
}

/// A normalisation of a sum, which may be a result too.
pub(super) fn skipping(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=3);
    let simplified = operator.ends_with("SkipSimplifiedLayerNormalization");
    let mut operands = vec![drawing.floats(&dims), drawing.other(&dims, FLOAT)];
    for _ in 0..if simplified { 2 } else { 3 } {
        operands.push(drawing.constant(&[last(&dims)], FLOAT));
    }
    if !simplified && drawing.one_in(3) {
        operands[3].clear();
    }
    if drawing.one_in(2) {
        operands.pop();
    }
    let mut attributes = Vec::new();
    let epsilon = drawing.one_of(&[1e-5, 1e-3, 0.25]);
    drawing.perhaps(&mut attributes, float("epsilon", epsilon));
    let results = drawing.nodes(operator, &names(&operands), 4, attributes);
    drawing.leave_out(&[1, 2]);
    let results = [&results[0], &results[3]];
    let each = results
        .into_iter()
        .flat_map(|name| drawing.made(name.clone(), FLOAT, &dims));
    each.collect()
}

/// A matrix whose rows lie before the batch, or are its columns, or both.
fn turned(
    drawing: &mut Drawing,
    matrix: String,
    rank: usize,
    [rows, batch]: [&str; 2],
    attributes: &mut Vec<AttributeProto>,
) -> String {
    let mut order: Vec<i64> = (0..rank as i64).collect();
    if drawing.one_in(2) {
        attributes.push(int(rows, 1));
        order.swap(rank - 2, rank - 1);
    }
    if rank > 2 && drawing.one_in(4) {
        attributes.push(int(batch, 1));
        order[..rank - 1].rotate_right(1);
    }
    if order.is_sorted() {
        return matrix;
    }
    drawing.node("Transpose", &[&matrix], vec![ints("perm", order)])
}

pub(super) fn mat_mul(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=4);
    let rank = dims.len();
    let columns = drawing.side(1, 5);
    let mut own = if drawing.one_in(2) {
        dims.clone()
    } else {
        dims[rank - 2..].to_vec()
    };
    let columns_at = own.len() - 1;
    (own[columns_at - 1], own[columns_at]) = (last(&dims), columns);
    let first = drawing.floats(&dims);
    let second = if own.len() > 2 {
        drawing.second(&own, FLOAT)
    } else {
        drawing.constant(&own, FLOAT)
    };
    let mut attributes = Vec::new();
    let of_first = ["transA", "transBatchA"];
    let first = turned(drawing, first, rank, of_first, &mut attributes);
    let of_second = ["transB", "transBatchB"];
    let second = turned(drawing, second, own.len(), of_second, &mut attributes);
    drawing.perhaps(&mut attributes, float("alpha", 0.25));
    let to = [&dims[..rank - 1], &[columns]].concat();
    drawing.result(operator, &[&first, &second], attributes, FLOAT, &to)
}

/// An activation with its parameters: of a product one attribute each, of a convolution a list.
pub(super) fn activation(
    drawing: &mut Drawing,
    attributes: &mut Vec<AttributeProto>,
    is_list: bool,
) {
    let (name, parameters): (&str, &[f32]) = drawing.one_of(&[
        ("Relu", &[] as &[f32]),
        ("Sigmoid", &[]),
        ("Tanh", &[]),
        ("LeakyRelu", &[0.25]),
        ("HardSigmoid", &[0.125, 0.5]),
        ("Clip", &[-2.0, 3.5]),
    ]);
    attributes.push(text("activation", name));
    if is_list && !parameters.is_empty() {
        attributes.push(floats("activation_params", parameters));
    } else {
        let each = ["activation_alpha", "activation_beta"].iter();
        attributes.extend(
            each.zip(parameters)
                .map(|(name, value)| float(name, *value)),
        );
    }
}

/// The sizes of an attention.
struct Heads {
    images: i64,
    heads: i64,
    tokens: i64,
    /// Tokens of keys and values.
    seen: i64,
    /// Values of a head.
    each: i64,
}

impl Heads {
    fn of(drawing: &mut Drawing) -> Self {
        Self {
            images: drawing.dims(1..=1)[0],
            heads: drawing.side(1, 3),
            tokens: drawing.side(1, 5),
            seen: drawing.side(1, 5),
            each: drawing.one_of(&[2, 4, 8]),
        }
    }

    fn merged(&self, tokens: i64) -> [i64; 3] {
        [self.images, tokens, self.heads * self.each]
    }

    /// Of all pairs of a query and a key, of every image and head or of each.
    fn pairs(&self, drawing: &mut Drawing, kind: i32, ranks: [usize; 2]) -> String {
        let images = drawing.one_of(&[1, self.images]);
        let heads = drawing.one_of(&[1, self.heads]);
        let seen = if drawing.one_in(8) { 1 } else { self.seen };
        let all = [images, heads, self.tokens, seen];
        let rank = drawing.side(ranks[0] as i64, ranks[1] as i64) as usize;
        drawing.second(&all[4 - rank..], kind)
    }
}

pub(super) fn attention(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut of = Heads::of(drawing);
    let shared = drawing.one_of(&[1, 1, 2]);
    let (merged, past) = (drawing.one_in(2), drawing.one_in(4));
    let key_heads = of.heads;
    of.heads *= shared;
    let dims = |heads: i64, tokens: i64| {
        if merged {
            vec![of.images, tokens, heads * of.each]
        } else {
            vec![of.images, heads, tokens, of.each]
        }
    };
    let to = dims(of.heads, of.tokens);
    let keys = dims(key_heads, of.seen);
    let mut operands = vec![drawing.floats(&to)];
    operands.extend([0, 1].map(|_| drawing.other(&keys, FLOAT)));
    let mut attributes = Vec::new();
    if merged {
        attributes.push(int("q_num_heads", of.heads));
        attributes.push(int("kv_num_heads", key_heads));
    }
    for (name, value) in [("scale", 0.25), ("softcap", 2.0)] {
        if drawing.one_in(3) {
            attributes.push(float(name, value));
        }
    }
    // A single query with keys before it onnxruntime lets see all keys.
    if !(past && of.tokens == 1) && drawing.one_in(3) {
        attributes.push(int("is_causal", 1));
    }
    if drawing.opset >= 25 && drawing.one_in(3) {
        attributes.push(int("left_window_size", drawing.side(0, 3)));
        attributes.push(int("right_window_size", drawing.side(0, 3) - 1));
    }
    let before = if past { drawing.side(1, 3) } else { 0 };
    of.seen += before;
    operands.push(if drawing.one_in(2) {
        let kind = drawing.one_of(&[BOOL, FLOAT]);
        of.pairs(drawing, kind, [2, 4])
    } else {
        String::new()
    });
    if past {
        let state = [of.images, key_heads, before, of.each];
        operands.extend([0, 1].map(|_| drawing.other(&state, FLOAT)));
    }
    let results = drawing.nodes(operator, &names(&operands), 3, attributes);
    let mut made = drawing.made(results[0].clone(), FLOAT, &to);
    if past {
        for state in &results[1..] {
            made.extend(drawing.made(state.clone(), FLOAT, &[]));
        }
    } else {
        drawing.leave_out(&[1, 2]);
    }
    made
}

/// Attributes of onnxruntime's attentions.
fn scoring(drawing: &mut Drawing, heads: i64) -> Vec<AttributeProto> {
    let mut attributes = vec![int("num_heads", heads)];
    for (name, value) in [("scale", 0.25), ("mask_filter_value", -20000.0)] {
        if drawing.one_in(3) {
            attributes.push(float(name, value));
        }
    }
    if drawing.one_in(4) {
        attributes.push(int("unidirectional", 1));
    }
    attributes
}

pub(super) fn multi_head_attention(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let of = Heads::of(drawing);
    let (to, keys) = (of.merged(of.tokens), of.merged(of.seen));
    let keys = if drawing.one_in(4) {
        vec![of.images, of.heads, of.seen, of.each]
    } else {
        keys.to_vec()
    };
    let mut operands = vec![drawing.floats(&to)];
    operands.extend([0, 1].map(|_| drawing.other(&keys, FLOAT)));
    let attributes = scoring(drawing, of.heads);
    operands.extend(vec![String::new(); 3]);
    if drawing.one_in(2) {
        operands[3] = drawing.constant(&[3 * last(&to)], FLOAT);
    }
    if drawing.one_in(4) {
        operands[4] = drawing.other(&[of.images, of.seen], INT32);
    }
    if drawing.one_in(3) {
        operands[5] = of.pairs(drawing, FLOAT, [4, 4]);
    }
    drawing.result(operator, &names(&operands), attributes, FLOAT, &to)
}

pub(super) fn grouped_attention(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut of = Heads::of(drawing);
    (of.seen, of.each) = (of.tokens, 8);
    let to = of.merged(of.tokens);
    let groups = drawing.one_of(&[1, of.heads]);
    let keys = [of.images, of.tokens, groups * of.each];
    let mut operands = if drawing.one_in(2) {
        let all = [of.images, of.tokens, last(&to) + 2 * last(&keys)];
        vec![drawing.floats(&all), String::new(), String::new()]
    } else {
        let queries = drawing.floats(&to);
        vec![
            queries,
            drawing.other(&keys, FLOAT),
            drawing.other(&keys, FLOAT),
        ]
    };
    operands.extend(vec![String::new(); 2]);
    let count = |tokens: i64| (tokens as i32).to_le_bytes();
    let lengths = count(of.tokens - 1).repeat(of.images as usize);
    operands.push(drawing.bytes(INT32, &[of.images], lengths));
    operands.push(drawing.bytes(INT32, &[], count(of.tokens).to_vec()));
    let mut attributes = vec![int("num_heads", of.heads), int("kv_num_heads", groups)];
    if drawing.one_in(3) {
        let window = drawing.side(1, of.tokens);
        attributes.push(int("local_window_size", window));
    }
    for (name, value) in [("scale", 0.25), ("softcap", 2.0)] {
        if drawing.one_in(3) {
            attributes.push(float(name, value));
        }
    }
    drawing.result(operator, &names(&operands), attributes, FLOAT, &to)
}

pub(super) fn attention_with_weights(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut of = Heads::of(drawing);
    of.seen = of.tokens;
    let (read, hidden) = (drawing.side(1, 6), of.heads * of.each);
    let mut to = of.merged(of.tokens);
    let mut attributes = scoring(drawing, of.heads);
    let values = if drawing.one_in(4) {
        to[2] = of.heads * 2;
        attributes.push(ints("qkv_hidden_sizes", [hidden, hidden, to[2]]));
        to[2]
    } else {
        hidden
    };
    let all = 2 * hidden + values;
    let mut operands = vec![
        drawing.floats(&[of.images, of.tokens, read]),
        drawing.constant(&[read, all], FLOAT),
        drawing.constant(&[all], FLOAT),
    ];
    operands.extend(vec![String::new(); 3]);
    if drawing.one_in(4) {
        operands[3] = drawing.other(&[of.images, of.seen], INT32);
    }
    if drawing.one_in(3) {
        operands[5] = of.pairs(drawing, FLOAT, [4, 4]);
    }
    drawing.result(operator, &names(&operands), attributes, FLOAT, &to)
}

/// Rows of the tables of angles: of all images, of each, or computed.
fn positions(drawing: &mut Drawing, dims: [i64; 2], rows: i64) -> String {
    if drawing.known || drawing.has_fixed_batch() {
        let all: Vec<i64> = (0..elements(&dims))
            .map(|_| drawing.side(0, rows - 1))
            .collect();
        return drawing.ints_of(&dims, &all);
    }
    let own = drawing.computed(&dims, INT64);
    let own = drawing.node("Abs", &[&own], vec![]);
    let rows = drawing.ints(&[rows]);
    drawing.node("Mod", &[&own, &rows], vec![])
}

pub(super) fn rotary(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut of = Heads::of(drawing);
    of.each = drawing.one_of(&[2, 4, 8]);
    let mut attributes = Vec::new();
    let mut turned = of.each;
    let merged = drawing.one_in(2);
    let to = if merged {
        of.merged(of.tokens).to_vec()
    } else {
        vec![of.images, of.heads, of.tokens, of.each]
    };
    if of.each > 2 && drawing.one_in(3) {
        turned = 2;
        attributes.push(int("rotary_embedding_dim", turned));
        attributes.push(int("num_heads", of.heads));
    } else if merged {
        attributes.push(int("num_heads", of.heads));
    }
    let interleaved = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("interleaved", interleaved));
    let x = drawing.floats(&to);
    let rows = of.tokens + drawing.side(0, 3);
    if operator != "RotaryEmbedding" {
        let positions = if drawing.one_in(2) {
            let first = drawing.side(0, rows - of.tokens);
            drawing.ints(&[first])
        } else {
            positions(drawing, [of.images, of.tokens], rows)
        };
        let [cosine, sine] = [0, 1].map(|_| drawing.constant(&[rows, turned / 2], FLOAT));
        let operands = [&*x, &positions, &cosine, &sine];
        return drawing.result(operator, &operands, attributes, FLOAT, &to);
    }
    if drawing.one_in(2) {
        let positions = positions(drawing, [of.images, of.tokens], rows);
        let [cosine, sine] = [0, 1].map(|_| drawing.constant(&[rows, turned / 2], FLOAT));
        let operands = [&*x, &cosine, &sine, &positions];
        return drawing.result(operator, &operands, attributes, FLOAT, &to);
    }
    let own = [of.images, of.tokens, turned / 2];
    let [cosine, sine] = [0, 1].map(|_| drawing.other(&own, FLOAT));
    drawing.result(operator, &[&x, &cosine, &sine], attributes, FLOAT, &to)
}
