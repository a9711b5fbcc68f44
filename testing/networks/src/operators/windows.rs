//! Operators on rows and columns.

use punctual_compile::schema::AttributeProto;
use punctual_compile::schema::attribute::{float, int, ints, text};
use punctual_compile::schema::data_type::FLOAT;

use super::drawing::{Drawing, Value};
use super::fused::{activation, names};

/// Kernel, strides, padding and dilations, some of them left out; and the kernel.
fn window(
    drawing: &mut Drawing,
    places: &[i64],
    pads_up_to_kernel: bool,
) -> (Vec<AttributeProto>, Vec<i64>) {
    let kernel: Vec<i64> = places
        .iter()
        .map(|size| drawing.side(1, (*size).min(4)))
        .collect();
    let mut attributes = Vec::new();
    let how = match drawing.random.below(4) {
        0 => drawing.one_of(&["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]),
        _ => "",
    };
    // Where windows do not meet, what keeps the size would be less than no padding.
    let steps = |size: &i64| if how.starts_with("SAME") { *size } else { 3 };
    let strides: Vec<i64> = kernel
        .iter()
        .map(|size| drawing.side(1, steps(size)))
        .collect();
    if how.starts_with("SAME") || !drawing.one_in(3) {
        attributes.push(ints("strides", strides));
    }
    if how.is_empty() {
        let most = i64::from(pads_up_to_kernel);
        let pads: Vec<i64> = (0..2 * kernel.len())
            .map(|at| drawing.side(0, (kernel[at % kernel.len()] - 1 + most).max(0)))
            .collect();
        drawing.perhaps(&mut attributes, ints("pads", pads));
    } else {
        attributes.push(text("auto_pad", how));
    }
    (attributes, kernel)
}

fn dilations(drawing: &mut Drawing, count: usize) -> AttributeProto {
    let all: Vec<i64> = (0..count).map(|_| drawing.one_of(&[1, 1, 2])).collect();
    ints("dilations", all)
}

pub(super) fn pool(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(3..=5);
    let x = drawing.floats(&dims);
    let (mut attributes, kernel) = window(drawing, &dims[2..], false);
    let count = kernel.len();
    attributes.push(ints("kernel_shape", kernel));
    let is_newer = drawing.opset >= if operator == "LpPool" { 18 } else { 19 };
    if operator != "LpPool" || is_newer {
        let ceil = drawing.side(0, 1);
        drawing.perhaps(&mut attributes, int("ceil_mode", ceil));
    }
    match operator {
        "AveragePool" => {
            let counts = drawing.side(0, 1);
            drawing.perhaps(&mut attributes, int("count_include_pad", counts));
        }
        "LpPool" => power(drawing, &mut attributes),
        _ => {}
    }
    // With gaps onnxruntime pads what keeps the size as if there were none.
    let same = attributes
        .iter()
        .any(|attribute| attribute.s().starts_with(b"SAME"));
    if (operator == "MaxPool" || is_newer) && !same && drawing.one_in(4) {
        attributes.push(dilations(drawing, count));
    }
    drawing.result(operator, &[&x], attributes, FLOAT, &[])
}

fn power(drawing: &mut Drawing, attributes: &mut Vec<AttributeProto>) {
    let power = drawing.side(1, 3);
    drawing.perhaps(attributes, int("p", power));
}

/// A mean of bytes under a window, where it holds a power of two of values wherever it lies.
pub(super) fn of_kernel(drawing: &mut Drawing, kernel: &[i64]) -> Vec<AttributeProto> {
    let mut attributes = vec![ints("kernel_shape", kernel), int("channels_last", 0)];
    let strides = [drawing.side(1, 2), drawing.side(1, 2)];
    drawing.perhaps(&mut attributes, ints("strides", strides));
    let pads = [0; 4].map(|_| drawing.side(0, 1).min(kernel[0] - 1).min(kernel[1] - 1));
    drawing.perhaps(&mut attributes, ints("pads", pads));
    let counts = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("count_include_pad", counts));
    attributes
}

pub(super) fn global(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut dims = drawing.dims(3..=5);
    let x = drawing.floats(&dims);
    dims[2..].fill(1);
    let mut attributes = Vec::new();
    if operator == "GlobalLpPool" {
        power(drawing, &mut attributes);
    }
    drawing.result(operator, &[&x], attributes, FLOAT, &dims)
}

/// What is drawn of a convolution before its operands.
pub(super) struct Convolving {
    pub dims: Vec<i64>,
    pub weights: Vec<i64>,
    /// Of the result.
    pub channels: i64,
    pub attributes: Vec<AttributeProto>,
}

pub(super) fn convolving(drawing: &mut Drawing, transposed: bool) -> Convolving {
    let mut dims = drawing.dims(3..=5);
    let groups = drawing.one_of(&[1, 1, 1, 2, dims[1]]);
    dims[1] += (groups - dims[1] % groups) % groups;
    let (mut attributes, kernel) = window(drawing, &dims[2..], true);
    let each = drawing.side(1, 3);
    let mut weights = if transposed {
        vec![dims[1], each]
    } else {
        vec![groups * each, dims[1] / groups]
    };
    weights.extend(&kernel);
    let count = kernel.len();
    drawing.perhaps(&mut attributes, ints("kernel_shape", kernel));
    if groups != 1 || drawing.one_in(2) {
        attributes.push(int("group", groups));
    }
    if drawing.one_in(3) {
        attributes.push(dilations(drawing, count));
    }
    if transposed && drawing.one_in(4) {
        let strides = attributes
            .iter()
            .find(|attribute| attribute.name() == "strides");
        let strides = strides.map_or(vec![1; count], |strides| strides.ints.clone());
        let added: Vec<i64> = strides
            .iter()
            .map(|stride| drawing.side(0, stride - 1))
            .collect();
        attributes.push(ints("output_padding", added));
    }
    Convolving {
        dims,
        weights,
        channels: groups * each,
        attributes,
    }
}

pub(super) fn convolution(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut of = convolving(drawing, operator == "ConvTranspose");
    let mut operands = vec![
        drawing.floats(&of.dims),
        drawing.constant(&of.weights, FLOAT),
    ];
    let fused = operator == "com.microsoft.FusedConv";
    let adds = fused && drawing.one_in(3);
    if adds || drawing.one_in(2) {
        operands.push(drawing.constant(&[of.channels], FLOAT));
    }
    if adds {
        // Of the shape of the result.
        let plain = drawing.node("Conv", &names(&operands), of.attributes.clone());
        operands.push(drawing.node("Abs", &[&plain], vec![]));
    }
    if fused {
        activation(drawing, &mut of.attributes, true);
    }
    drawing.result(operator, &names(&operands), of.attributes, FLOAT, &[])
}

/// The attributes of a resize that are in the operator set.
fn resizing(drawing: &mut Drawing, mode: &str) -> Vec<AttributeProto> {
    let mut attributes = Vec::new();
    if mode != "nearest" || drawing.one_in(2) {
        attributes.push(text("mode", mode));
    }
    let coordinates: &[&str] = match drawing.opset {
        19.. => &[
            "half_pixel",
            "asymmetric",
            "pytorch_half_pixel",
            "align_corners",
            "half_pixel_symmetric",
        ],
        _ => &[
            "half_pixel",
            "asymmetric",
            "pytorch_half_pixel",
            "align_corners",
        ],
    };
    let coordinates = drawing.one_of(coordinates);
    drawing.perhaps(
        &mut attributes,
        text("coordinate_transformation_mode", coordinates),
    );
    if mode == "nearest" {
        let nearest = drawing.one_of(&["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]);
        drawing.perhaps(&mut attributes, text("nearest_mode", nearest));
    }
    if mode == "cubic" && drawing.one_in(2) {
        attributes.push(float("cubic_coeff_a", -0.5));
    }
    if mode != "nearest" && drawing.one_in(6) {
        attributes.push(int("exclude_outside", i64::from(mode == "cubic")));
    }
    if mode != "nearest" && drawing.opset >= 18 && drawing.one_in(6) {
        attributes.push(int("antialias", 1));
    }
    attributes
}

pub(super) fn resize(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(3..=4);
    let x = drawing.floats(&dims);
    let mode = drawing.one_of(&["nearest", "nearest", "linear", "linear", "cubic"]);
    let mut attributes = resizing(drawing, mode);
    let by_axes = drawing.opset >= 18 && drawing.one_in(3);
    let axes: Vec<i64> = if by_axes {
        (2..dims.len() as i64).collect()
    } else {
        (0..dims.len() as i64).collect()
    };
    if by_axes {
        attributes.push(ints("axes", axes.clone()));
    }
    // An operand before the one that counts is empty, as the first versions want it.
    let none = if drawing.opset < 13 {
        drawing.values(&[0], &[])
    } else {
        String::new()
    };
    // What is no row and no column is resized seldom.
    let stays =
        |axis: &i64, drawing: &mut Drawing| *axis == 0 || (*axis == 1 && !drawing.one_in(8));
    let factors: Vec<f32> = axes
        .iter()
        .map(|axis| {
            let factor = drawing.one_of(&[1.0, 2.0, 0.5, 1.5, 3.0, 0.75, 1.3]);
            let size = dims[*axis as usize] as f32;
            // What has its size afterwards too onnxruntime leaves as it is, whatever the factor.
            let kept = size * factor < 1.0 || (size * factor).floor() == size;
            if kept || stays(axis, drawing) {
                1.0
            } else {
                factor
            }
        })
        .collect();
    let batch_is_open = !drawing.known && !drawing.has_fixed_batch();
    if drawing.one_in(2) || (!by_axes && batch_is_open) {
        let scales = drawing.values(&[factors.len() as i64], &factors);
        return drawing.result(operator, &[&x, &none, &scales], attributes, FLOAT, &[]);
    }
    let sizes: Vec<i64> = axes
        .iter()
        .map(|axis| {
            if stays(axis, drawing) {
                dims[*axis as usize]
            } else {
                drawing.side(1, 12)
            }
        })
        .collect();
    let sizes = drawing.ints(&sizes);
    if drawing.opset >= 18 && drawing.one_in(3) {
        let policy = drawing.one_of(&["stretch", "not_larger", "not_smaller"]);
        attributes.push(text("keep_aspect_ratio_policy", policy));
    }
    drawing.result(
        operator,
        &[&x, &none, &none, &sizes],
        attributes,
        FLOAT,
        &[],
    )
}

pub(super) fn grid_sample(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(4..=4);
    let grid = [dims[0], drawing.side(1, 5), drawing.side(1, 5), 2];
    let x = drawing.floats(&dims);
    let places = drawing.second(&grid, FLOAT);
    let third = drawing.values(&[], &[0.3125]);
    let places = drawing.node("Mul", &[&places, &third], vec![]);
    let mut attributes = Vec::new();
    let modes: [&str; 3] = if drawing.opset >= 20 {
        ["linear", "nearest", "cubic"]
    } else {
        ["bilinear", "nearest", "bicubic"]
    };
    let mode = drawing.one_of(&modes);
    drawing.perhaps(&mut attributes, text("mode", mode));
    let outside = drawing.one_of(&["zeros", "border", "reflection"]);
    drawing.perhaps(&mut attributes, text("padding_mode", outside));
    let corners = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("align_corners", corners));
    let to = [dims[0], dims[1], grid[1], grid[2]];
    drawing.result(operator, &[&x, &places], attributes, FLOAT, &to)
}

pub(super) fn blocks(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut dims = drawing.dims(4..=4);
    let side = drawing.side(1, 3);
    let deep = operator == "DepthToSpace";
    let mut attributes = vec![int("blocksize", side)];
    dims[1..].iter_mut().for_each(|size| *size = (*size).min(3));
    if deep {
        dims[1] *= side * side;
        let mode = drawing.one_of(&["DCR", "CRD"]);
        drawing.perhaps(&mut attributes, text("mode", mode));
    } else {
        dims[2] *= side;
        dims[3] *= side;
    }
    let x = drawing.floats(&dims);
    let (times, by) = if deep { (1, side) } else { (side * side, 1) };
    let to = if deep {
        [dims[0], dims[1] / (side * side), dims[2] * by, dims[3] * by]
    } else {
        [dims[0], dims[1] * times, dims[2] / side, dims[3] / side]
    };
    drawing.result(operator, &[&x], attributes, FLOAT, &to)
}
