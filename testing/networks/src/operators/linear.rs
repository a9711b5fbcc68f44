//! Products with matrices that are known when compiling, and tables that such are made of.

use punctual_compile::schema::attribute::{int, ints, text};
use punctual_compile::schema::data_type::{FLOAT, INT32, INT64, UINT8};

use super::drawing::{Drawing, Value};

/// Sizes of a result, some of them other than the operand's.
fn length(drawing: &mut Drawing, size: i64) -> i64 {
    if drawing.one_in(2) {
        size
    } else {
        drawing.side(1, 9)
    }
}

pub(super) fn fourier(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut dims = drawing.dims(3..=4);
    let rank = dims.len();
    dims[rank - 1] = drawing.side(1, 2);
    let x = drawing.floats(&dims);
    let mut attributes = Vec::new();
    let inverse = drawing.one_in(3);
    if inverse {
        attributes.push(int("inverse", 1));
    }
    if !inverse && dims[rank - 1] == 1 {
        let one_sided = drawing.side(0, 1);
        drawing.perhaps(&mut attributes, int("onesided", one_sided));
    }
    let at = drawing.side(1, rank as i64 - 2);
    let axis = drawing.signed(at, rank);
    let cut = length(drawing, dims[at as usize]);
    let mut operands = vec![x, String::new()];
    if drawing.one_in(2) {
        operands[1] = drawing.ints_of(&[], &[cut]);
    }
    if drawing.opset < 20 {
        attributes.push(int("axis", axis));
    } else if at + 2 != rank as i64 || drawing.one_in(2) {
        operands.push(drawing.ints_of(&[], &[axis]));
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, attributes, FLOAT, &[])
}

pub(super) fn short_time_fourier(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let images = drawing.dims(1..=1)[0];
    let (steps, parts) = (drawing.side(4, 24), drawing.side(1, 2));
    let x = drawing.floats(&[images, steps, parts]);
    let frame = drawing.side(1, steps.min(9));
    let kind = drawing.one_of(&[INT32, INT64]);
    let step = drawing.side(1, 4);
    let integer = |drawing: &mut Drawing, value: i64| {
        let bytes = if kind == INT64 {
            value.to_le_bytes().to_vec()
        } else {
            (value as i32).to_le_bytes().to_vec()
        };
        drawing.bytes(kind, &[], bytes)
    };
    let mut operands = vec![x, integer(drawing, step), String::new()];
    let windowed = drawing.one_in(2);
    if windowed {
        operands[2] = drawing.constant(&[frame], FLOAT);
    }
    if !windowed || drawing.one_in(2) {
        operands.push(integer(drawing, frame));
    }
    let mut attributes = Vec::new();
    let one_sided = if parts == 2 { 0 } else { drawing.side(0, 1) };
    if parts == 2 || !drawing.one_in(3) {
        attributes.push(int("onesided", one_sided));
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, attributes, FLOAT, &[])
}

pub(super) fn affine_grid(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let images = drawing.dims(1..=1)[0];
    let rank = drawing.side(2, 3);
    let map = drawing.floats(&[images, rank, rank + 1]);
    let mut sizes = vec![images, drawing.side(1, 3)];
    sizes.extend((0..rank).map(|_| drawing.side(1, 5)));
    let mut attributes = Vec::new();
    let corners = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("align_corners", corners));
    let to = [&[images], &sizes[2..], &[rank]].concat();
    let sizes = if drawing.known || drawing.has_fixed_batch() {
        drawing.ints(&sizes)
    } else {
        let images = drawing.node("Shape", &[&map], vec![int("end", 1)]);
        let rest = drawing.ints(&sizes[1..]);
        drawing.node("Concat", &[&images, &rest], vec![int("axis", 0)])
    };
    drawing.result(operator, &[&map, &sizes], attributes, FLOAT, &to)
}

pub(super) fn columns_to_image(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let (images, channels) = (drawing.dims(1..=1)[0], drawing.side(1, 3));
    let rank = drawing.side(1, 3) as usize;
    let mut lists = [0; 6].map(|_| Vec::new());
    for _ in 0..rank {
        let (side, stride) = (drawing.side(1, 3), drawing.side(1, 3));
        // Of images alone onnxruntime does it as ONNX says.
        let dilation = if rank == 2 { drawing.side(1, 2) } else { 1 };
        let (before, behind) = (drawing.side(0, 1), drawing.side(0, 1));
        let reach = dilation * (side - 1) + 1;
        let size = (reach - before - behind).max(1) + drawing.side(0, 4);
        let count = (size + before + behind - reach) / stride + 1;
        let all = [side, dilation, stride, before, behind, size, count];
        lists
            .iter_mut()
            .zip(&all[..6])
            .for_each(|(list, value)| list.push(*value));
        lists[5].push(count);
    }
    let [block, dilations, strides, mut pads, behind, both] = lists;
    pads.extend(behind);
    let [image, counts] = [0, 1].map(|from| {
        let every = both.iter().skip(from).step_by(2);
        every.copied().collect::<Vec<i64>>()
    });
    let own = [
        images,
        channels * block.iter().product::<i64>(),
        counts.iter().product(),
    ];
    let x = drawing.floats(&own);
    let to = [&[images, channels], &image[..]].concat();
    let [image, block] = [image, block].map(|sizes| drawing.ints(&sizes));
    let mut attributes = vec![ints("strides", strides), ints("pads", pads)];
    attributes.push(ints("dilations", dilations));
    drawing.result(operator, &[&x, &image, &block], attributes, FLOAT, &to)
}

pub(super) fn window(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let size = drawing.side(1, 12);
    let size = drawing.ints_of(&[], &[size]);
    let mut attributes = Vec::new();
    let periodic = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("periodic", periodic));
    let mut made = drawing.result(operator, &[&size], attributes, FLOAT, &[]);
    made[0].known = true;
    made
}

pub(super) fn mel_weights(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let bands = drawing.side(1, 8);
    let (length, rate) = (
        drawing.one_of(&[16, 64, 128]),
        drawing.one_of(&[8000, 16000]),
    );
    let sizes = [bands, length, rate].map(|size| drawing.ints_of(&[], &[size]));
    let edges = [
        drawing.one_of(&[0.0, 100.0]),
        drawing.one_of(&[3000.0, 4000.0]),
    ];
    let edges = edges.map(|edge| drawing.values(&[], &[edge]));
    let operands = [&sizes[0], &sizes[1], &sizes[2], &edges[0], &edges[1]].map(String::as_str);
    let mut made = drawing.result(operator, &operands, vec![], FLOAT, &[]);
    made[0].known = true;
    made
}

pub(super) fn bits(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let is_shift = operator == "BitShift";
    let kind = if is_shift {
        UINT8
    } else {
        drawing.one_of(&[INT64, INT32, UINT8])
    };
    let dims = drawing.dims(2..=4);
    let mut operands = vec![drawing.operand(&dims, kind)];
    if operator != "BitwiseNot" {
        let own = drawing.one_of(&[dims.clone(), vec![], vec![dims[dims.len() - 1]]]);
        operands.push(if is_shift {
            let all = (0..own.iter().product()).map(|_| drawing.side(0, 9) as u8);
            let all = all.collect();
            drawing.bytes(kind, &own, all)
        } else {
            drawing.second(&own, kind)
        });
    }
    let mut attributes = Vec::new();
    if is_shift {
        let direction = drawing.one_of(&["LEFT", "RIGHT"]);
        attributes.push(text("direction", direction));
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, attributes, kind, &dims)
}
