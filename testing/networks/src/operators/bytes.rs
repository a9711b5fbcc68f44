//! Operators on bytes, each with its scales, between a node that makes bytes and one that makes floats of them. Scales are powers
//! of two, so that a tie is one for onnxruntime too.

use punctual_compile::schema::AttributeProto;
use punctual_compile::schema::attribute::{float, int};
use punctual_compile::schema::data_type::{FLOAT, INT8, INT32, UINT8};

use super::drawing::{Drawing, Value};
use super::fused::names;
use super::normal::scale;
use super::windows;

/// Bytes, their scale and their zero point.
type Bytes = [String; 3];

/// What is computed, or constants.
fn operand(drawing: &mut Drawing, dims: &[i64], kind: i32) -> Bytes {
    let [scale, zero] = scale(drawing, kind, &[]);
    let floats = drawing.floats(dims);
    let bytes = drawing.node("QuantizeLinear", &[&floats, &scale, &zero], vec![]);
    [bytes, scale, zero]
}

/// Constants with a scale each, or one for each position of a dimension.
fn weights(drawing: &mut Drawing, dims: &[i64], kind: i32, along: usize) -> Bytes {
    let scales: &[i64] = if kind == INT8 && drawing.one_in(2) {
        &[dims[along]]
    } else {
        &[]
    };
    let [scale, zero] = scale(drawing, kind, scales);
    [drawing.constant(dims, kind), scale, zero]
}

/// Constants of the type of another operand.
fn alike(drawing: &mut Drawing, dims: &[i64], kind: i32) -> Bytes {
    let [scale, zero] = scale(drawing, kind, &[]);
    [drawing.constant(dims, kind), scale, zero]
}

/// The scale and the zero point of a result. An even zero point, as onnxruntime adds it before it rounds: a tie is then one after
/// it, too.
fn wide(drawing: &mut Drawing, kind: i32) -> [String; 2] {
    let scale = drawing.one_of(&[0.25, 1.0, 4.0]);
    let zero = 2 * drawing.side(0, 10) as u8;
    [
        drawing.values(&[], &[scale]),
        drawing.bytes(kind, &[], vec![zero]),
    ]
}

/// A node whose result's bytes are made floats.
fn floats_of(
    drawing: &mut Drawing,
    operator: &'static str,
    operands: &[String],
    attributes: Vec<AttributeProto>,
    [scale, zero]: &[String; 2],
    dims: &[i64],
) -> Vec<Value> {
    let bytes = drawing.node(operator, &names(operands), attributes);
    drawing.result(
        "DequantizeLinear",
        &[&bytes, scale, zero],
        vec![],
        FLOAT,
        dims,
    )
}

fn kind(drawing: &mut Drawing) -> i32 {
    drawing.one_of(&[UINT8, INT8])
}

pub(super) fn convolution(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = kind(drawing);
    let shape = windows::convolving(drawing, false);
    let x = operand(drawing, &shape.dims, kind);
    let own = weights(drawing, &shape.weights, INT8, 0);
    let to = wide(drawing, kind);
    let mut operands = [&x[..], &own, &to].concat();
    if drawing.one_in(2) {
        operands.push(drawing.constant(&[shape.channels], INT32));
    }
    floats_of(drawing, operator, &operands, shape.attributes, &to, &[])
}

pub(super) fn mat_mul(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = kind(drawing);
    let dims = drawing.dims(2..=4);
    let (rank, columns) = (dims.len(), drawing.side(1, 5));
    let x = operand(drawing, &dims, kind);
    let own = if rank > 2 && drawing.one_in(3) {
        let own = [&dims[..rank - 2], &[dims[rank - 1], columns]].concat();
        operand(drawing, &own, kind)
    } else {
        weights(drawing, &[dims[rank - 1], columns], kind, 1)
    };
    let to = wide(drawing, kind);
    let operands = [&x[..], &own, &to].concat();
    let results = [&dims[..rank - 1], &[columns]].concat();
    floats_of(drawing, operator, &operands, vec![], &to, &results)
}

pub(super) fn gemm(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = kind(drawing);
    let dims = drawing.dims(2..=2);
    let (turned, columns) = (drawing.one_in(2), drawing.side(1, 5));
    let x = operand(drawing, &dims, kind);
    let own = if turned {
        [columns, dims[1]]
    } else {
        [dims[1], columns]
    };
    let own = weights(drawing, &own, kind, usize::from(!turned));
    let mut attributes = vec![int("transB", turned.into())];
    drawing.perhaps(&mut attributes, float("alpha", 0.5));
    let bias = if drawing.one_in(2) {
        drawing.constant(&[columns], INT32)
    } else {
        String::new()
    };
    let mut operands = [&x[..], &own, &[bias]].concat();
    let results = [dims[0], columns];
    if drawing.one_in(3) {
        return drawing.result(operator, &names(&operands), attributes, FLOAT, &results);
    }
    let to = wide(drawing, kind);
    operands.extend(to.clone());
    floats_of(drawing, operator, &operands, attributes, &to, &results)
}

pub(super) fn two(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = kind(drawing);
    let dims = drawing.dims(2..=4);
    let first = operand(drawing, &dims, kind);
    let second = if drawing.one_in(2) {
        operand(drawing, &dims, kind)
    } else {
        let own = drawing.one_of(&[vec![], vec![dims[dims.len() - 1]]]);
        alike(drawing, &own, kind)
    };
    let to = wide(drawing, kind);
    let operands = [&first[..], &second, &to].concat();
    floats_of(drawing, operator, &operands, vec![], &to, &dims)
}

pub(super) fn concat(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = kind(drawing);
    let mut dims = drawing.dims(2..=4);
    let to = wide(drawing, kind);
    let axis = drawing.side(1, dims.len() as i64 - 1);
    let mut operands = to.to_vec();
    for _ in 0..drawing.side(1, 3) {
        dims[axis as usize] = drawing.side(1, 3);
        operands.extend(operand(drawing, &dims, kind));
    }
    let axis = drawing.signed(axis, dims.len());
    floats_of(
        drawing,
        operator,
        &operands,
        vec![int("axis", axis)],
        &to,
        &[],
    )
}

pub(super) fn alone(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = kind(drawing);
    let mut dims = drawing.dims(2..=4);
    let mut attributes = Vec::new();
    match operator {
        "com.microsoft.QLinearLeakyRelu" => {
            drawing.perhaps(&mut attributes, float("alpha", 0.25));
        }
        "com.microsoft.QLinearSoftmax" => {
            let opset = drawing.one_of(&[11, 13]);
            attributes.push(int("opset", opset));
            let axis = drawing.axis(dims.len());
            drawing.perhaps(&mut attributes, int("axis", axis));
        }
        "com.microsoft.QLinearGlobalAveragePool" => {
            // A mean of as many values as a power of two is exact.
            dims.resize(4, 2);
            dims[2..].copy_from_slice(&[drawing.one_of(&[1, 2, 4]), 2]);
            attributes.push(int("channels_last", 0));
        }
        _ => {}
    }
    let x = operand(drawing, &dims, kind);
    let to = if operator == "com.microsoft.QLinearSoftmax" {
        // One must be a byte: onnxruntime's would wrap.
        let scale = drawing.values(&[], &[1.0 / 64.0]);
        [scale, drawing.bytes(kind, &[], vec![0])]
    } else {
        wide(drawing, kind)
    };
    let operands = [&x[..], &to].concat();
    floats_of(drawing, operator, &operands, attributes, &to, &[])
}

pub(super) fn average(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = kind(drawing);
    let dims = drawing.dims(4..=4);
    let x = operand(drawing, &dims, kind);
    let kernel: Vec<i64> = dims[2..].iter().map(|size| (*size).min(2)).collect();
    let attributes = windows::of_kernel(drawing, &kernel);
    let to = wide(drawing, kind);
    let operands = [&x[..], &to].concat();
    floats_of(drawing, operator, &operands, attributes, &to, &[])
}

/// The same as those of the standard domain.
pub(super) fn converted(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let (kind, dims) = (kind(drawing), drawing.dims(2..=4));
    let x = drawing.floats(&dims);
    let to = scale(drawing, kind, &[]);
    let [first, second] = match operator {
        "com.microsoft.QuantizeLinear" => [operator, "DequantizeLinear"],
        _ => ["QuantizeLinear", operator],
    };
    let bytes = drawing.node(first, &[&x, &to[0], &to[1]], vec![]);
    drawing.result(second, &[&bytes, &to[0], &to[1]], vec![], FLOAT, &dims)
}
