//! Operators on bytes whose range is measured when running, of one image: in a batch onnxruntime measures over all.

use punctual_compile::schema::attribute::{int, ints, text};
use punctual_compile::schema::data_type::{FLOAT, INT8, INT32, UINT8};

use super::drawing::{Drawing, Value};
use super::fused::names;
use super::normal::scale;

/// Bytes of a measured range, their scale and their zero point.
fn measured(drawing: &mut Drawing, x: &str) -> [String; 3] {
    let names = drawing.nodes("DynamicQuantizeLinear", &[x], 3, vec![]);
    [0, 1, 2].map(|at| names[at].clone())
}

pub(super) fn dynamic(drawing: &mut Drawing, _: &'static str) -> Vec<Value> {
    drawing.of_one_image();
    let dims = drawing.dims(2..=4);
    let x = drawing.floats(&dims);
    let [bytes, scale, zero] = measured(drawing, &x);
    match drawing.side(0, 3) {
        0 => drawing.result(
            "Cast",
            &[&bytes],
            vec![int("to", INT32.into())],
            INT32,
            &dims,
        ),
        1 => drawing.result("Mul", &[&x, &scale], vec![], FLOAT, &dims),
        2 => {
            let zero = drawing.node("Cast", &[&zero], vec![int("to", FLOAT.into())]);
            drawing.result("Add", &[&x, &zero], vec![], FLOAT, &dims)
        }
        _ => {
            let operands = [&bytes, &scale, &zero].map(String::as_str);
            drawing.result("DequantizeLinear", &operands, vec![], FLOAT, &dims)
        }
    }
}

/// Constant bytes, their scale and their zero point: one of all or one for each column.
fn matrix(drawing: &mut Drawing, dims: [i64; 2]) -> [String; 3] {
    let kind = drawing.one_of(&[INT8, UINT8]);
    let columns = [dims[1]];
    let along: &[i64] = if drawing.one_in(2) { &columns } else { &[] };
    let bytes = drawing.constant(&dims, kind);
    let [scale, zero] = scale(drawing, kind, along);
    [bytes, scale, zero]
}

/// As integers, or with both scales.
fn products(
    drawing: &mut Drawing,
    operator: &'static str,
    operands: &[&str],
    scales: [&str; 2],
    dims: &[i64],
) -> Vec<Value> {
    if drawing.one_in(3) {
        return drawing.result(operator, operands, vec![], INT32, dims);
    }
    let integers = drawing.node(operator, operands, vec![]);
    let floats = drawing.node("Cast", &[&integers], vec![int("to", FLOAT.into())]);
    let scales = drawing.node("Mul", &scales, vec![]);
    drawing.result("Mul", &[&floats, &scales], vec![], FLOAT, dims)
}

pub(super) fn mat_mul(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    drawing.of_one_image();
    let mut dims = drawing.dims(2..=4);
    let x = drawing.floats(&dims);
    let last = dims.len() - 1;
    let columns = drawing.side(1, 5);
    let [weights, own_scale, own_zero] = matrix(drawing, [dims[last], columns]);
    dims[last] = columns;
    let mut bias = vec![];
    if drawing.one_in(2) {
        bias.push(drawing.constant(&[columns], FLOAT));
    }
    if operator == "com.microsoft.DynamicQuantizeMatMul" {
        let operands = [vec![x, weights, own_scale, own_zero], bias].concat();
        return drawing.result(operator, &names(&operands), vec![], FLOAT, &dims);
    }
    let [bytes, scale, zero] = measured(drawing, &x);
    if operator == "com.microsoft.MatMulIntegerToFloat" {
        let operands = vec![bytes, weights, scale, own_scale, zero, own_zero];
        let operands = [operands, bias].concat();
        return drawing.result(operator, &names(&operands), vec![], FLOAT, &dims);
    }
    let operands = [&bytes, &weights, &zero, &own_zero].map(String::as_str);
    let operands = &operands[..drawing.side(2, 4) as usize];
    products(drawing, operator, operands, [&scale, &own_scale], &dims)
}

pub(super) fn convolution(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    drawing.of_one_image();
    let mut dims = drawing.dims(4..=4);
    let x = drawing.floats(&dims);
    let [bytes, scale, zero] = measured(drawing, &x);
    let kind = drawing.one_of(&[INT8, UINT8]);
    let (outputs, width) = (drawing.side(1, 5), drawing.side(1, dims[3]));
    let weights = drawing.constant(&[outputs, dims[1], 1, width], kind);
    let [own_scale, own_zero] = self::scale(drawing, kind, &[]);
    (dims[1], dims[3]) = (outputs, dims[3] + 1 - width);
    let operands = [&bytes, &weights, &zero, &own_zero].map(String::as_str);
    let operands = &operands[..drawing.side(2, 4) as usize];
    products(drawing, operator, operands, [&scale, &own_scale], &dims)
}

pub(super) fn lstm(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    drawing.of_one_image();
    let (steps, values, hidden) = (drawing.side(1, 5), drawing.side(1, 6), drawing.side(1, 4));
    let direction = drawing.one_of(&["forward", "reverse", "bidirectional"]);
    let directions = 1 + i64::from(direction == "bidirectional");
    let x = drawing.floats(&[1, steps, values]);
    let x = drawing.node("Transpose", &[&x], vec![ints("perm", [1, 0, 2])]);
    let mut operands = vec![x];
    operands.extend([values, hidden].map(|rows| {
        let dims = [directions, rows, 4 * hidden];
        drawing.constant(&dims, INT8)
    }));
    operands.push(drawing.constant(&[directions, 8 * hidden], FLOAT));
    operands.extend(vec![String::new(); 4]);
    let by_gate = [directions, 4 * hidden];
    let along = if drawing.one_in(2) {
        &by_gate
    } else {
        &by_gate[..1]
    };
    for _ in 0..2 {
        let [scales, _] = scale(drawing, INT8, along);
        // Weights lie around zero.
        let zeros = vec![0; along.iter().product::<i64>() as usize];
        operands.extend([scales, drawing.bytes(INT8, along, zeros)]);
    }
    let attributes = vec![int("hidden_size", hidden), text("direction", direction)];
    let states = drawing.node(operator, &names(&operands), attributes);
    let to = [1, steps, directions, hidden];
    drawing.result(
        "Transpose",
        &[&states],
        vec![ints("perm", [2, 0, 1, 3])],
        FLOAT,
        &to,
    )
}
