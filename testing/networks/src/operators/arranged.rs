//! Operators that put values in other places, or make them.

use punctual_compile::schema::attribute::{int, ints, text};
use punctual_compile::schema::data_type::{BOOL, FLOAT, INT64};

use super::drawing::{Drawing, Value, elements};

/// A kind of numbers that is moved.
fn moved(drawing: &mut Drawing) -> i32 {
    drawing.one_of(&[FLOAT, FLOAT, FLOAT, INT64, BOOL])
}

pub(super) fn concat(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=5);
    let axis = drawing.axis(dims.len());
    let at = axis.rem_euclid(dims.len() as i64) as usize;
    let (mut own, mut all) = (dims.clone(), dims.clone());
    let mut operands = vec![drawing.operand(&dims, kind)];
    for _ in 0..drawing.side(0, 2) {
        if at > 0 {
            own[at] = drawing.side(1, 3);
        }
        all[at] += own[at];
        operands.push(drawing.second(&own, kind));
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, vec![int("axis", axis)], kind, &all)
}

pub(super) fn dropout(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=5);
    let x = drawing.floats(&dims);
    let ratio = if drawing.opset >= 12 {
        drawing.values(&[], &[0.5])
    } else {
        String::new()
    };
    let operands: &[&str] = if ratio.is_empty() {
        &[&x]
    } else {
        &[&x, &ratio]
    };
    drawing.result(operator, operands, vec![], FLOAT, &dims)
}

pub(super) fn expand(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let mut dims = drawing.dims(2..=4);
    let x = drawing.operand(&dims, kind);
    let mut target = dims.clone();
    for at in 1..dims.len() {
        if dims[at] == 1 {
            dims[at] = drawing.side(1, 4);
            target[at] = dims[at];
        } else if drawing.one_in(3) {
            target[at] = 1;
        }
    }
    target[0] = 1;
    if drawing.one_in(4) {
        target.remove(0);
    } else if drawing.one_in(8) {
        target.insert(0, 1);
        dims.insert(0, 1);
    }
    let target = drawing.ints(&target);
    drawing.result(operator, &[&x, &target], vec![], kind, &dims)
}

pub(super) fn flatten(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let mut attributes = Vec::new();
    let axis = drawing.axis(dims.len());
    drawing.perhaps(&mut attributes, int("axis", axis));
    let axis = attributes.first().map_or(1, |attribute| attribute.i());
    let at = axis.rem_euclid(dims.len() as i64) as usize;
    let to = [elements(&dims[..at]), elements(&dims[at..])];
    drawing.result(operator, &[&x], attributes, kind, &to)
}

/// Positions in a dimension, some of them from its end.
fn positions(drawing: &mut Drawing, dims: &[i64], size: i64) -> String {
    let places: Vec<i64> = (0..elements(dims))
        .map(|_| {
            let place = drawing.side(0, size - 1);
            if drawing.one_in(4) {
                place - size
            } else {
                place
            }
        })
        .collect();
    drawing.ints_of(dims, &places)
}

pub(super) fn gather(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    if !drawing.known && drawing.one_in(4) {
        // Rows of a table.
        let table = [drawing.side(1, 12), drawing.side(1, 6)];
        let rows = drawing.constant(&table, FLOAT);
        let (tokens, mut dims) = drawing.tokens(table[0]);
        dims.push(table[1]);
        return drawing.result(operator, &[&rows, &tokens], vec![], FLOAT, &dims);
    }
    let kind = moved(drawing);
    let dims = drawing.dims(2..=4);
    let x = drawing.operand(&dims, kind);
    let axis = drawing.axis(dims.len());
    let at = axis.rem_euclid(dims.len() as i64) as usize;
    let own: Vec<i64> = match drawing.random.below(4) {
        0 => vec![],
        1 | 2 => vec![drawing.side(1, 5)],
        _ => vec![drawing.side(1, 3), drawing.side(1, 3)],
    };
    let places = positions(drawing, &own, dims[at]);
    let to = [&dims[..at], &own, &dims[at + 1..]].concat();
    drawing.result(operator, &[&x, &places], vec![int("axis", axis)], kind, &to)
}

/// Positions below `size`, computed from an input, or constants; in a file of a fixed batch those of all images.
fn some_positions(drawing: &mut Drawing, dims: &[i64], size: i64) -> String {
    if drawing.known || (drawing.has_fixed_batch() && drawing.one_in(2)) {
        return positions(drawing, dims, size);
    }
    let own = drawing.computed(dims, INT64);
    let own = drawing.node("Abs", &[&own], vec![]);
    let size = drawing.ints(&[size]);
    drawing.node("Mod", &[&own, &size], vec![])
}

pub(super) fn gather_elements(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=4);
    let x = drawing.operand(&dims, kind);
    let axis = drawing.axis(dims.len());
    let at = axis.rem_euclid(dims.len() as i64) as usize;
    let mut own = dims.clone();
    for (dim, size) in own.iter_mut().enumerate().skip(1) {
        *size = if dim == at { drawing.side(1, 4) } else { *size };
    }
    let places = some_positions(drawing, &own, dims[at]);
    drawing.result(
        operator,
        &[&x, &places],
        vec![int("axis", axis)],
        kind,
        &own,
    )
}

pub(super) fn gather_nd(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=4);
    let x = drawing.operand(&dims, kind);
    let by_batch = drawing.opset >= 12 && drawing.one_in(2);
    let mut attributes = Vec::new();
    if by_batch || (drawing.opset >= 12 && drawing.one_in(2)) {
        attributes.push(int("batch_dims", by_batch.into()));
    }
    let count = drawing.side(1, 3);
    let first = usize::from(by_batch);
    let own = if by_batch {
        vec![dims[0], count, 1]
    } else {
        vec![count, 1]
    };
    let places = if by_batch {
        some_positions(drawing, &own, dims[1])
    } else {
        positions(drawing, &own, dims[0])
    };
    let to = [&dims[..first], &[count], &dims[first + 1..]].concat();
    drawing.result(operator, &[&x, &places], attributes, kind, &to)
}

pub(super) fn pad(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = if drawing.opset >= 13 {
        moved(drawing)
    } else {
        FLOAT
    };
    let dims = drawing.dims(2..=4);
    let x = drawing.operand(&dims, kind);
    let modes: &[&str] = if drawing.opset >= 19 {
        &["constant", "constant", "reflect", "edge", "wrap"]
    } else {
        &["constant", "constant", "reflect", "edge"]
    };
    let mode = drawing.one_of(modes);
    let mut attributes = Vec::new();
    if mode != "constant" || drawing.one_in(2) {
        attributes.push(text("mode", mode));
    }
    let axes = if drawing.opset >= 18 && drawing.one_in(3) {
        Some(drawing.axes(dims.len()))
    } else {
        None
    };
    let padded: Vec<usize> = match &axes {
        Some(axes) => axes
            .iter()
            .map(|axis| axis.rem_euclid(dims.len() as i64) as usize)
            .collect(),
        None => (0..dims.len()).collect(),
    };
    let mut to = dims.clone();
    let mut pads = vec![0; 2 * padded.len()];
    for (place, at) in padded.iter().enumerate() {
        for side in [place, padded.len() + place] {
            let most = if mode == "constant" {
                3
            } else {
                (dims[*at] - 1).min(3)
            };
            let least = if mode == "constant" && dims[*at] > 2 && drawing.one_in(3) {
                -1
            } else {
                0
            };
            let is_batch = *at == 0 && !drawing.known;
            pads[side] = if is_batch || drawing.one_in(2) {
                0
            } else {
                drawing.side(0, most - least) + least
            };
            to[*at] += pads[side];
        }
    }
    let pads = drawing.ints(&pads);
    let mut operands = vec![x, pads];
    if axes.is_some() || (mode == "constant" && drawing.one_in(2)) {
        operands.push(if kind == FLOAT || drawing.one_in(2) {
            drawing.constant(&[], kind)
        } else {
            String::new()
        });
    }
    if let Some(axes) = axes {
        operands.push(drawing.ints(&axes));
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, attributes, kind, &to)
}

pub(super) fn reshape(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let mut to = dims.clone();
    let at = drawing.side(1, dims.len() as i64 - 1) as usize;
    match drawing.random.below(4) {
        0 if at > 1 => {
            let merged = to.remove(at);
            to[at - 1] *= merged;
        }
        1 => {
            let parts = (1..=to[at])
                .filter(|part| to[at] % part == 0)
                .collect::<Vec<_>>();
            let part = drawing.one_of(&parts);
            to[at] /= part;
            to.insert(at, part);
        }
        2 => to = vec![dims[0], elements(&dims[1..])],
        _ => to[1..].reverse(),
    }
    let mut target = to.clone();
    if !drawing.known {
        target[0] = if drawing.one_in(2) { 0 } else { -1 };
        if drawing.has_fixed_batch() && drawing.one_in(2) {
            target[0] = dims[0];
        }
    }
    if target[0] >= 0 && drawing.one_in(2) {
        let open = drawing.side(1, target.len() as i64 - 1) as usize;
        target[open] = -1;
    }
    let mut attributes = Vec::new();
    if drawing.opset >= 14 && !target.contains(&0) && drawing.one_in(3) {
        attributes.push(int("allowzero", drawing.side(0, 1)));
    }
    let target = drawing.ints(&target);
    drawing.result(operator, &[&x, &target], attributes, kind, &to)
}

/// Known, whatever it is the shape of.
pub(super) fn shape(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let dims = drawing.dims(2..=5);
    let kind = moved(drawing);
    let x = drawing.operand(&dims, kind);
    let mut attributes = Vec::new();
    if operator == "Shape" && drawing.opset >= 15 {
        for name in ["start", "end"] {
            let at = drawing.side(0, 8) - 4;
            drawing.perhaps(&mut attributes, int(name, at));
        }
    }
    let mut made = drawing.result(operator, &[&x], attributes, INT64, &[]);
    made[0].known = true;
    made
}

pub(super) fn slice(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let axes = drawing.axes(dims.len());
    let mut lists = [vec![], vec![], axes.clone(), vec![]];
    for axis in &axes {
        let size = dims[axis.rem_euclid(dims.len() as i64) as usize];
        let step = drawing.one_of(&[1, 1, 1, 2, 3, -1, -2]);
        let (mut start, mut end) = (drawing.side(0, size - 1), drawing.side(0, size + 2));
        if step < 0 {
            start = drawing.one_of(&[size - 1, start, 99]);
            end = drawing.one_of(&[i64::MIN, -size - 1, 0]);
        } else {
            start = drawing.one_of(&[0, start, start - size]);
            end = drawing.one_of(&[i64::MAX, end, -1]);
        }
        lists[0].push(start);
        lists[1].push(end);
        lists[3].push(step);
    }
    if lists[3].iter().all(|step| *step == 1) && drawing.one_in(2) {
        lists[3].clear();
    }
    let mut operands = vec![x];
    for list in lists.iter().filter(|list| !list.is_empty()) {
        operands.push(drawing.ints(list));
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    drawing.result(operator, &operands, vec![], kind, &[])
}

pub(super) fn split(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let axis = drawing.axis(dims.len());
    let size = dims[axis.rem_euclid(dims.len() as i64) as usize];
    let results = drawing.side(1, size.min(3));
    let mut attributes = vec![int("axis", axis)];
    let mut lengths = vec![1; results as usize];
    lengths[0] = size - results + 1;
    let mut operands = vec![x];
    let is_even = size % results == 0;
    if drawing.opset >= 18 && drawing.one_in(2) {
        attributes.push(int("num_outputs", results));
    } else if drawing.opset < 18 && is_even && drawing.one_in(2) {
    } else if drawing.opset < 13 {
        attributes.push(ints("split", lengths));
    } else {
        operands.push(drawing.ints(&lengths));
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let names = drawing.nodes(operator, &operands, results as usize, attributes);
    names
        .into_iter()
        .flat_map(|name| drawing.made(name, kind, &[]))
        .collect()
}

pub(super) fn squeeze(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let mut dims = drawing.dims(2..=4);
    let from = drawing.side(1, dims.len() as i64) as usize;
    if operator == "Squeeze" {
        dims.insert(from, 1);
    }
    let x = drawing.operand(&dims, kind);
    if operator == "Squeeze" {
        let axis = drawing.signed(from as i64, dims.len());
        dims.remove(from);
        let name = drawing.with_axes(operator, &[&x], &[axis], 13, vec![]);
        return drawing.made(name, kind, &dims);
    }
    dims.insert(from, 1);
    let mut axes = vec![from as i64];
    if dims.len() < 5 && drawing.one_in(3) {
        dims.insert(from, 1);
        axes.push(from as i64 + 1);
    }
    let axes: Vec<i64> = axes
        .iter()
        .map(|axis| drawing.signed(*axis, dims.len()))
        .collect();
    let name = drawing.with_axes(operator, &[&x], &axes, 13, vec![]);
    drawing.made(name, kind, &dims)
}

pub(super) fn tile(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=4);
    let x = drawing.operand(&dims, kind);
    let mut repeats = vec![1; dims.len()];
    let at = drawing.axis(dims.len()).rem_euclid(dims.len() as i64) as usize;
    repeats[at] = drawing.side(1, 3);
    if drawing.one_in(3) {
        repeats[dims.len() - 1] = 2;
    }
    let to: Vec<i64> = dims
        .iter()
        .zip(&repeats)
        .map(|(size, times)| size * times)
        .collect();
    let repeats = drawing.ints(&repeats);
    drawing.result(operator, &[&x, &repeats], vec![], kind, &to)
}

pub(super) fn transpose(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=5);
    let x = drawing.operand(&dims, kind);
    let mut perm: Vec<i64> = (0..dims.len() as i64).collect();
    let first = i64::from(!drawing.known && !drawing.one_in(12));
    for at in (1..dims.len()).rev() {
        let other = drawing.side(first, at as i64) as usize;
        perm.swap(at, other);
    }
    if drawing.known && drawing.one_in(3) {
        return drawing.result(operator, &[&x], vec![], kind, &[]);
    }
    let to: Vec<i64> = perm.iter().map(|at| dims[*at as usize]).collect();
    drawing.result(operator, &[&x], vec![ints("perm", perm)], kind, &to)
}

/// Operators that are supported of known operands only, but for those that the data have.
pub(super) fn made(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = drawing.one_of(&[FLOAT, INT64]);
    match operator {
        "ConstantOfShape" => {
            let sizes = [drawing.side(0, 3), drawing.side(1, 4)];
            let sizes = drawing.ints(&sizes);
            let mut known = drawing.result(operator, &[&sizes], vec![], FLOAT, &[]);
            known[0].known = true;
            known
        }
        "EyeLike" => {
            let sides = [drawing.side(1, 4), drawing.side(1, 4)];
            let x = drawing.operand(&sides, FLOAT);
            let mut attributes = Vec::new();
            let above = drawing.side(0, 4) - 2;
            drawing.perhaps(&mut attributes, int("k", above));
            let typed = drawing.one_in(2);
            attributes.extend(typed.then(|| int("dtype", kind.into())));
            drawing.result(
                operator,
                &[&x],
                attributes,
                if typed { kind } else { FLOAT },
                &[],
            )
        }
        "NonZero" => {
            let dims = drawing.dims(2..=3);
            let x = drawing.operand(&dims, kind);
            drawing.result(operator, &[&x], vec![], INT64, &[])
        }
        "OneHot" => {
            let dims = drawing.dims(2..=3);
            let classes = drawing.operand(&dims, INT64);
            let depth = drawing.ints(&[4]);
            let both = drawing.constant(&[2], kind);
            let axis = drawing.side(0, dims.len() as i64);
            let axis = if drawing.one_in(2) {
                axis
            } else {
                axis - dims.len() as i64 - 1
            };
            let mut attributes = Vec::new();
            drawing.perhaps(&mut attributes, int("axis", axis));
            drawing.result(operator, &[&classes, &depth, &both], attributes, kind, &[])
        }
        _ => {
            let (start, step) = (drawing.side(0, 8) - 4, drawing.one_of(&[1, 2, 3, -1, -2]));
            let end = start + step * drawing.side(0, 5) + drawing.side(0, 1);
            let bounds = [start, end, step].map(|value| match kind {
                FLOAT => drawing.values(&[], &[value as f32 / 4.0]),
                _ => drawing.ints_of(&[], &[value]),
            });
            let mut known = drawing.result(
                operator,
                &[&bounds[0], &bounds[1], &bounds[2]],
                vec![],
                kind,
                &[],
            );
            known[0].known = true;
            known
        }
    }
}

/// Cut or filled up on both sides.
pub(super) fn center(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let mut dims = drawing.dims(2..=4);
    let x = drawing.floats(&dims);
    let axes = drawing.axes(dims.len());
    let mut sizes = Vec::new();
    for axis in &axes {
        let at = axis.rem_euclid(dims.len() as i64) as usize;
        if at > 0 || drawing.known {
            dims[at] = drawing.side(1, 9);
        }
        sizes.push(dims[at]);
    }
    let sizes = drawing.ints(&sizes);
    drawing.result(
        operator,
        &[&x, &sizes],
        vec![ints("axes", axes)],
        FLOAT,
        &dims,
    )
}

pub(super) fn compress(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=4);
    let x = drawing.operand(&dims, kind);
    let axis = drawing.axis(dims.len());
    let size = dims[axis.rem_euclid(dims.len() as i64) as usize];
    let count = drawing.side(1, size);
    let kept = drawing.constant(&[count], BOOL);
    let mut attributes = Vec::new();
    if !drawing.one_in(6) {
        attributes.push(int("axis", axis));
    }
    drawing.result(operator, &[&x, &kept], attributes, kind, &[])
}

pub(super) fn reverse(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(2..=4);
    let x = drawing.operand(&dims, kind);
    let images_first = !drawing.one_in(6);
    let (images, steps) = if images_first {
        (dims[0], dims[1])
    } else {
        (dims[1], dims[0])
    };
    let length = drawing.side(1, steps);
    let lengths: Vec<i64> = (0..images)
        .map(|_| {
            if drawing.one_in(6) {
                drawing.side(1, steps)
            } else {
                length
            }
        })
        .collect();
    let lengths = drawing.ints(&lengths);
    let mut attributes = Vec::new();
    if images_first {
        attributes = vec![int("batch_axis", 0), int("time_axis", 1)];
    }
    drawing.result(operator, &[&x, &lengths], attributes, kind, &dims)
}

pub(super) fn triangle(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = moved(drawing);
    let dims = drawing.dims(3..=4);
    let x = drawing.operand(&dims, kind);
    let mut attributes = Vec::new();
    let upper = drawing.side(0, 1);
    drawing.perhaps(&mut attributes, int("upper", upper));
    let diagonal = if drawing.one_in(2) {
        let above = drawing.side(0, 6) - 3;
        drawing.ints_of(&[], &[above])
    } else {
        String::new()
    };
    let operands: &[&str] = if diagonal.is_empty() {
        &[&x]
    } else {
        &[&x, &diagonal]
    };
    drawing.result(operator, operands, attributes, kind, &dims)
}

/// Each place once, as the order of several updates of one place is open.
pub(super) fn scatter(drawing: &mut Drawing, operator: &'static str) -> Vec<Value> {
    let kind = drawing.one_of(&[FLOAT, INT64]);
    let dims = drawing.dims(2..=3);
    let x = drawing.operand(&dims, kind);
    let reductions: &[&str] = match drawing.opset {
        18.. => &["none", "add", "mul", "max", "min"],
        16.. => &["none", "add", "mul"],
        _ => &[],
    };
    let mut attributes = Vec::new();
    if !reductions.is_empty() {
        let reduction = drawing.one_of(reductions);
        drawing.perhaps(&mut attributes, text("reduction", reduction));
    }
    let last = dims.len() - 1;
    let count = drawing.side(1, dims[last]);
    let mut own = dims.clone();
    let first = drawing.side(0, dims[last] - count);
    let places: Vec<i64> = if operator == "ScatterElements" {
        own[last] = count;
        let axis = drawing.signed(last as i64, dims.len());
        attributes.push(int("axis", axis));
        (0..elements(&own)).map(|at| first + at % count).collect()
    } else {
        own = vec![1, dims.len() as i64];
        dims.iter().map(|size| drawing.side(0, size - 1)).collect()
    };
    let places = drawing.ints_of(&own, &places);
    let updates = drawing.constant(
        if operator == "ScatterND" {
            &own[..1]
        } else {
            &own
        },
        kind,
    );
    drawing.result(operator, &[&x, &places, &updates], attributes, kind, &dims)
}
