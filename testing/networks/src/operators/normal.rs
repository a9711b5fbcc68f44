//! Operators along axes: reductions, normalisations, products, recurrences, quantisation.

use punctual_compile::schema::attribute::{float, int, ints, text};
use punctual_compile::schema::data_type::{FLOAT, INT8, INT32, INT64, UINT8};

use super::drawing::{Drawing, Value, elements};
use super::fused::{activation, names};

fn at(axis: i64, dims: &[i64]) -> usize {
    axis.rem_euclid(dims.len() as i64) as usize
}

pub(super) fn reduce(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = match operator {
        // Products of integers soon need more bits than are kept.
        "ReduceProd" => FLOAT,
        _ => drawing.one_of(&[FLOAT, FLOAT, FLOAT, INT64, INT32]),
    };
    let mut dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let axes = drawing.axes(dims.len());
    let mut attributes = Vec::new();
    let keeps = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("keepdims", keeps));
    let keeps = attributes
        .first()
        .is_none_or(|attribute| attribute.i() == 1);
    let since = if operator == "ReduceSum" { 13 } else { 18 };
    if drawing.one_in(8) && (drawing.known || drawing.opset >= since) {
        // All of them, or none.
        if drawing.opset >= since {
            let nothing = drawing.side(0, 1);
            drawing.perhaps(&mut attributes, int("noop_with_empty_axes", nothing));
        }
        return drawing.result(operator, &[&x], attributes, kind, &[]);
    }
    let mut gone: Vec<usize> = axes.iter().map(|axis| at(*axis, &dims)).collect();
    gone.sort_unstable();
    for axis in gone.into_iter().rev() {
        dims[axis] = 1;
        if !keeps {
            dims.remove(axis);
        }
    }
    let name = drawing.with_axes(operator, &[&x], &axes, since, attributes);
    drawing.made(name, kind, &dims)
}

pub(super) fn extreme(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = drawing.one_of(&[FLOAT, FLOAT, INT32]);
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let axis = drawing.axis(dims.len());
    let mut attributes = vec![int("axis", axis)];
    let keeps = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("keepdims", keeps));
    if drawing.opset >= 12 && drawing.one_in(3) {
        let last = drawing.side(0, 1);
        attributes.push(int("select_last_index", last));
    }
    drawing.result(operator, &[&x], attributes, INT64, &[])
}

pub(super) fn running_sum(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = drawing.one_of(&[FLOAT, FLOAT, INT64]);
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let axis = drawing.axis(dims.len());
    let axis = drawing.ints_of(&[], &[axis]);
    let mut attributes = Vec::new();
    for name in ["exclusive", "reverse"] {
        let value = drawing.side(0, 1);
        drawing.perhaps(&mut attributes, int(name, value));
    }
    drawing.result(operator, &[&x, &axis], attributes, kind, &dims)
}

pub(super) fn top(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = drawing.one_of(&[FLOAT, FLOAT, INT64]);
    let mut dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let axis = drawing.axis(dims.len());
    let along = at(axis, &dims);
    dims[along] = drawing.side(1, dims[along]);
    let count = drawing.ints(&[dims[along]]);
    let mut attributes = vec![int("axis", axis)];
    let largest = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("largest", largest));
    let names = drawing.nodes(operator, &[&x, &count], 2, attributes);
    let kinds = [kind, INT64].into_iter().zip(names);
    kinds
        .flat_map(|(kind, name)| drawing.made(name, kind, &dims))
        .collect()
}

pub(super) fn softmax(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=5);
    let x = drawing.floats(&dims);
    let mut attributes = Vec::new();
    let axis = drawing.axis(dims.len());
    drawing.perhaps(&mut attributes, int("axis", axis));
    drawing.result(operator, &[&x], attributes, FLOAT, &dims)
}

pub(super) fn local_response(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(3..=4);
    let x = drawing.floats(&dims);
    let size = drawing.side(1, 5);
    let mut attributes = vec![int("size", size)];
    for name in ["alpha", "beta", "bias"] {
        let value = drawing.side(1, 4) as f32 / 4.0;
        drawing.perhaps(&mut attributes, float(name, value));
    }
    drawing.result(operator, &[&x], attributes, FLOAT, &dims)
}

/// Of values that differ, as no quarters are these eighths apart: onnxruntime has the variance of equal ones below zero, or not, by rounding.
pub(super) fn mean_variance(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut dims = drawing.dims(4..=4);
    dims[1..].iter_mut().for_each(|size| *size = (*size).max(2));
    let x = drawing.floats(&dims);
    let ramp: Vec<f32> = (0..elements(&dims[1..]))
        .map(|at| 8.125 * at as f32)
        .collect();
    let ramp = drawing.values(&dims[1..], &ramp);
    let x = drawing.node("Add", &[&x, &ramp], vec![]);
    let axes: Vec<i64> = drawing
        .axes(dims.len())
        .iter()
        .map(|axis| axis.rem_euclid(4))
        .collect();
    let attributes = if axes == [0] || drawing.one_in(4) {
        vec![]
    } else {
        vec![ints("axes", axes)]
    };
    drawing.result(operator, &[&x], attributes, FLOAT, &dims)
}

/// Positive numbers.
fn variances(drawing: &mut Drawing, count: i64) -> String {
    let all: Vec<f32> = (0..count)
        .map(|_| drawing.side(1, 12) as f32 / 4.0)
        .collect();
    drawing.values(&[count], &all)
}

pub(super) fn by_channel(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let batch = operator == "BatchNormalization";
    let dims = drawing.dims(if batch { 2..=5 } else { 3..=5 });
    let x = drawing.floats(&dims);
    let mut operands = vec![x];
    for _ in 0..if batch { 3 } else { 2 } {
        operands.push(drawing.constant(&[dims[1]], FLOAT));
    }
    if batch {
        operands.push(variances(drawing, dims[1]));
    }
    let mut attributes = Vec::new();
    let epsilon = drawing.one_of(&[1e-5, 1e-3, 0.25]);
    drawing.perhaps(&mut attributes, float("epsilon", epsilon));
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, attributes, FLOAT, &dims)
}

pub(super) fn by_group(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut dims = drawing.dims(3..=5);
    let groups = drawing.side(1, 3);
    dims[1] = groups * drawing.side(1, 3);
    let x = drawing.floats(&dims);
    let each = if drawing.opset >= 21 { dims[1] } else { groups };
    let factors = [0, 1].map(|_| drawing.constant(&[each], FLOAT));
    let mut attributes = vec![int("num_groups", groups)];
    let epsilon = drawing.one_of(&[1e-5, 1e-3, 0.25]);
    drawing.perhaps(&mut attributes, float("epsilon", epsilon));
    drawing.result(
        operator,
        &[&x, &factors[0], &factors[1]],
        attributes,
        FLOAT,
        &dims,
    )
}

pub(super) fn by_layer(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=5);
    let x = drawing.floats(&dims);
    let mut attributes = Vec::new();
    let axis = drawing.axis(dims.len());
    drawing.perhaps(&mut attributes, int("axis", axis));
    let axis = attributes.first().map_or(-1, |attribute| attribute.i());
    let own = dims[at(axis, &dims)..].to_vec();
    let epsilon = drawing.one_of(&[1e-5, 1e-3, 0.25]);
    drawing.perhaps(&mut attributes, float("epsilon", epsilon));
    let mut operands = vec![x, drawing.constant(&own, FLOAT)];
    let is_shifted = matches!(
        operator,
        "LayerNormalization" | "com.microsoft.LayerNormalization"
    );
    if is_shifted && !drawing.one_in(3) {
        operands.push(drawing.constant(&own, FLOAT));
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, attributes, FLOAT, &dims)
}

pub(super) fn by_length(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=5);
    let x = drawing.floats(&dims);
    let mut attributes = Vec::new();
    let (axis, power) = (drawing.axis(dims.len()), drawing.side(1, 2));
    drawing.perhaps(&mut attributes, int("axis", axis));
    drawing.perhaps(&mut attributes, int("p", power));
    drawing.result(operator, &[&x], attributes, FLOAT, &dims)
}

pub(super) fn gemm(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=2);
    let (turned, results) = (drawing.one_in(2), drawing.side(1, 7));
    let x = drawing.floats(&dims);
    let own = if turned {
        [results, dims[1]]
    } else {
        [dims[1], results]
    };
    let mut operands = vec![x, drawing.constant(&own, FLOAT)];
    let mut attributes = Vec::new();
    if turned || drawing.one_in(2) {
        attributes.push(int("transB", turned.into()));
    }
    if drawing.one_in(3) {
        attributes.push(float("alpha", 0.5));
    }
    if drawing.one_in(2) {
        let added = drawing.one_of(&[vec![results], vec![1, results], vec![1, 1], vec![1], vec![]]);
        operands.push(drawing.constant(&added, FLOAT));
        if drawing.one_in(3) {
            attributes.push(float("beta", -2.0));
        }
    }
    if operator == "com.microsoft.FusedGemm" {
        activation(drawing, &mut attributes, false);
    }
    let to = [dims[0], results];
    drawing.result(operator, &names(&operands), attributes, FLOAT, &to)
}

pub(super) fn mat_mul(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=4);
    let rank = dims.len();
    let x = drawing.floats(&dims);
    let columns = drawing.side(1, 5);
    let mut own = if rank > 2 && drawing.one_in(2) {
        dims.clone()
    } else {
        dims[rank - 2..].to_vec()
    };
    let last = own.len() - 1;
    (own[last - 1], own[last]) = (dims[rank - 1], columns);
    let other = if own.len() > 2 {
        drawing.second(&own, FLOAT)
    } else {
        drawing.constant(&own, FLOAT)
    };
    let mut to = dims;
    to[rank - 1] = columns;
    drawing.result(operator, &[&x, &other], vec![], FLOAT, &to)
}

pub(super) fn einsum(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let equations = [
        "bi,ij->bj",
        "bci,ij->bcj",
        "bci,bij->bcj",
        "bci,bji->bcj",
        "bcij,bcjk->bcik",
        "bcij,bckj->bcik",
        "bic,cj->bij",
        "bij->bji",
        "bci,bcj->bij",
        "bij,bij->bi",
        "bchw,co->bohw",
        "bij,bjk",
    ];
    let equation = drawing.one_of(&equations);
    let (operands, result) = equation.split_once("->").unwrap_or((equation, "bik"));
    let images = drawing.dims(2..=2)[0];
    let mut sizes = std::collections::BTreeMap::from([('b', images)]);
    let mut dims = |letters: &str, drawing: &mut Drawing| -> Vec<i64> {
        let size = |letter| *sizes.entry(letter).or_insert_with(|| drawing.side(1, 5));
        letters.chars().map(size).collect()
    };
    let mut names = Vec::new();
    for letters in operands.split(',') {
        let own = dims(letters, drawing);
        let is_of_images = letters.starts_with('b');
        let is_first = names.is_empty();
        names.push(match (is_of_images, is_first) {
            (true, true) => drawing.floats(&own),
            (true, false) => drawing.second(&own, FLOAT),
            _ => drawing.constant(&own, FLOAT),
        });
    }
    let to = dims(result, drawing);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    drawing.result(
        operator,
        &names,
        vec![text("equation", equation)],
        FLOAT,
        &to,
    )
}

pub(super) fn recurrent(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(3..=3);
    let (steps, values, hidden) = (dims[1], dims[2], drawing.side(1, 4));
    let gates = match operator {
        "GRU" => 3,
        "LSTM" => 4,
        _ => 1,
    };
    let mut attributes = vec![int("hidden_size", hidden)];
    let direction = drawing.one_of(&["forward", "reverse", "bidirectional"]);
    drawing.perhaps(&mut attributes, text("direction", direction));
    let both = attributes
        .get(1)
        .is_some_and(|attribute| attribute.s() == b"bidirectional");
    let directions = 1 + i64::from(both);
    let by_images = drawing.opset >= 14 && drawing.one_in(3);
    if by_images {
        attributes.push(int("layout", 1));
    }
    if operator == "GRU" && drawing.one_in(2) {
        attributes.push(int("linear_before_reset", 1));
    }
    let mut x = drawing.floats(&[dims[0], steps, values]);
    if !by_images {
        x = drawing.node("Transpose", &[&x], vec![ints("perm", [1, 0, 2])]);
    }
    let mut small = |dims: &[i64]| {
        let all: Vec<f32> = (0..elements(dims))
            .map(|_| drawing.side(0, 8) as f32 / 8.0 - 0.5)
            .collect();
        drawing.values(dims, &all)
    };
    let mut operands = vec![
        x,
        small(&[directions, gates * hidden, values]),
        small(&[directions, gates * hidden, hidden]),
    ];
    operands.push(small(&[directions, 2 * gates * hidden]));
    if drawing.one_in(3) {
        operands.pop();
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let names = drawing.nodes(operator, &operands, 2, attributes);
    let orders: [&[i64]; 2] = if by_images {
        [&[0, 1, 2, 3], &[0, 1, 2]]
    } else {
        [&[2, 0, 1, 3], &[1, 0, 2]]
    };
    let mut results = Vec::new();
    for (name, order) in names.iter().zip(orders) {
        let name = drawing.node("Transpose", &[name], vec![ints("perm", order)]);
        results.extend(drawing.made(name, FLOAT, &[]));
    }
    results
}

/// A scale and a zero point, of all or one a position on the axis.
pub(super) fn scale(drawing: &mut Drawing, kind: i32, dims: &[i64]) -> [String; 2] {
    let count = elements(dims);
    let scales: Vec<f32> = (0..count)
        .map(|_| drawing.one_of(&[0.25, 0.5, 0.125]))
        .collect();
    let zeros: Vec<u8> = (0..count).map(|_| drawing.side(0, 20) as u8).collect();
    [
        drawing.values(dims, &scales),
        drawing.bytes(kind, dims, zeros),
    ]
}

pub(super) fn quantise(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=4);
    let x = drawing.floats(&dims);
    let kind = drawing.one_of(&[INT8, UINT8]);
    let [scale, zero] = scale(drawing, kind, &[]);
    let operands: &[&str] = if kind == UINT8 && drawing.one_in(4) {
        &[&x, &scale]
    } else {
        &[&x, &scale, &zero]
    };
    let bytes = drawing.node(operator, operands, vec![]);
    let back = [&[bytes.as_str()], &operands[1..]].concat();
    drawing.result("DequantizeLinear", &back, vec![], FLOAT, &dims)
}

/// Bytes of constants, in a product with what is computed.
pub(super) fn dequantise(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = drawing.one_of(&[INT8, UINT8]);
    let dims = drawing.dims(2..=4);
    let own = &dims[1..];
    let bytes = drawing.constant(own, kind);
    let along = drawing.side(0, own.len() as i64 - 1);
    let mut attributes = Vec::new();
    let [scale, zero] = if drawing.opset >= 13 && drawing.one_in(2) {
        let axis = drawing.signed(along, own.len());
        if axis != 1 || drawing.one_in(2) {
            attributes.push(int("axis", axis));
        }
        scale(drawing, kind, &[own[along as usize]])
    } else {
        scale(drawing, kind, &[])
    };
    let operands: &[&str] = if drawing.one_in(4) {
        &[&bytes, &scale]
    } else {
        &[&bytes, &scale, &zero]
    };
    let floats = drawing.node(operator, operands, attributes);
    if drawing.known {
        return drawing.made(floats, FLOAT, own);
    }
    let x = drawing.floats(&dims);
    drawing.result("Mul", &[&x, &floats], vec![], FLOAT, &dims)
}
