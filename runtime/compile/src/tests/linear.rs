//! Products with matrices that are known when compiling, and tables of signal processing, by numbers that are easily told.

use super::builder::{Onnx, int, ints_of, text};
use super::generated::{of, values};
use crate::schema::TensorProto;

#[track_caller]
fn assert_near(onnx: Onnx, image: &[f32], expected: &[f32]) {
    let found = values(onnx, image).unwrap();
    let near = |(found, expected): (&f32, &f32)| (found - expected).abs() < 1e-5;
    let all = found.len() == expected.len() && found.iter().zip(expected).all(near);
    assert!(all, "{found:?} is not {expected:?}");
}

/// Of operator set 18.
fn new(sizes: &[i64]) -> Onnx {
    let mut onnx = of(sizes);
    onnx.0.opset_import[0].version = Some(18);
    onnx
}

#[test]
fn a_transform_has_the_sum_first_and_another_one_undoes_it() {
    let signal = [1.0, 2.0, 3.0, 4.0];
    let spectrum = [10.0, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0];
    let transform = new(&[4, 1]).node("DFT", "image", "x", &[]);
    assert_near(transform, &signal, &spectrum);
    let first = new(&[4, 1]).node("DFT", "image", "x", &[int("onesided", 1)]);
    assert_near(first, &signal, &spectrum[..6]);
    let back = new(&[4, 2]).node("DFT", "image", "x", &[int("inverse", 1)]);
    assert_near(back, &spectrum, &[1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0]);
}

#[test]
fn a_transform_of_more_numbers_than_there_are_has_zeros_for_them() {
    let onnx = new(&[1, 1])
        .ints("two", &[2])
        .node("DFT", "image two", "x", &[]);
    assert_near(onnx, &[3.0], &[3.0, 0.0, 3.0, 0.0]);
}

#[test]
fn frames_are_weighed_by_the_window_and_transformed() {
    let onnx = new(&[4, 1])
        .ints("step", &[2])
        .exactly("window", &[2], vec![1.0, 2.0])
        .node("STFT", "image step window", "x", &[]);
    let expected = [5.0, 0.0, -3.0, 0.0, 11.0, 0.0, -5.0, 0.0];
    assert_near(onnx, &[1.0, 2.0, 3.0, 4.0], &expected);
}

#[test]
fn a_grid_of_no_map_is_the_middle_of_each_pixel_or_goes_from_corner_to_corner() {
    let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    for (corners, end) in [(0, 0.5), (1, 1.0)] {
        let mut onnx = of(&[2, 3])
            .ints("one", &[1])
            .ints("plane", &[1, 2, 2])
            .node("Shape", "image", "sizes", &[int("end", 1)])
            .node("Concat", "sizes plane", "size", &[int("axis", 0)])
            .node(
                "AffineGrid",
                "image size",
                "x",
                &[int("align_corners", corners)],
            );
        onnx.0.opset_import[0].version = Some(20);
        let expected = [-end, -end, end, -end, -end, end, end, end];
        assert_near(onnx, &identity, &expected);
    }
}

#[test]
fn columns_that_lie_on_each_other_are_added() {
    let columns = |pads| {
        new(&[2, 2]).ints("size", &[3]).ints("block", &[2]).node(
            "Col2Im",
            "image size block",
            "x",
            &[ints_of("pads", pads)],
        )
    };
    assert_near(columns(&[0, 0]), &[1.0, 2.0, 4.0, 8.0], &[1.0, 6.0, 8.0]);
    let refused = values(columns(&[1, 1]), &[0.0; 4]).unwrap_err().to_string();
    let said = "(batch, channels of blocks, blocks), as many as fit into the image";
    assert!(refused.contains(said), "{refused}");
}

#[test]
fn windows_are_tables() {
    for (operator, expected) in [
        ("HannWindow", [0.0, 0.5, 1.0, 0.5]),
        ("HammingWindow", [4.0 / 46.0, 25.0 / 46.0, 1.0, 25.0 / 46.0]),
        ("BlackmanWindow", [0.0, 0.34, 1.0, 0.34]),
    ] {
        let onnx = new(&[4])
            .ints("size", &[4])
            .node(operator, "size", "window", &[])
            .node("Mul", "image window", "x", &[]);
        assert_near(onnx, &[1.0; 4], &expected);
    }
}

#[test]
fn bands_lie_where_ears_tell_frequencies_apart() {
    let onnx = new(&[9])
        .ints("bands", &[1])
        .ints("length", &[16])
        .ints("rate", &[16])
        .exactly("low", &[], vec![0.0])
        .exactly("high", &[], vec![8.0])
        .node(
            "MelWeightMatrix",
            "bands length rate low high",
            "weights",
            &[],
        )
        .ints("row", &[-1])
        .node("Reshape", "weights row", "flat", &[])
        .node("Mul", "image flat", "x", &[]);
    let expected = [0.0, 0.5, 1.0, 2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0, 0.0, 0.0];
    assert_near(onnx, &[1.0; 9], &expected);
}

/// A file with what an operator makes of constants of bytes, added to the image.
fn of_bits(operator: &str, operands: &str) -> Onnx {
    let direction = [text("direction", "LEFT")];
    let is_shift = operator == "BitShift";
    new(&[2])
        .unsigned("bits", &[2], vec![0b1100, 0b1111_0000])
        .unsigned("others", &[2], vec![0b1010, 2])
        .node(
            operator,
            operands,
            "found",
            if is_shift { &direction } else { &[] },
        )
        .node("Cast", "found", "numbers", &[int("to", 1)])
        .node("Add", "image numbers", "x", &[])
}

#[test]
fn bits_of_constants_are_counted_with_and_those_of_what_is_computed_refused() {
    for (operator, operands, expected) in [
        ("BitwiseAnd", "bits others", [8.0, 0.0]),
        ("BitwiseOr", "bits others", [14.0, 242.0]),
        ("BitwiseXor", "bits others", [6.0, 242.0]),
        ("BitwiseNot", "bits", [243.0, 15.0]),
        ("BitShift", "others bits", [0.0, 0.0]),
        ("BitShift", "bits others", [0.0, 192.0]),
    ] {
        assert_near(of_bits(operator, operands), &[0.0; 2], &expected);
    }
    let computed = of_bits("BitwiseAnd", "image others");
    let refused = values(computed, &[0.0; 2]).unwrap_err().to_string();
    assert!(
        refused.contains("only where all its operands are known"),
        "{refused}"
    );
}

#[test]
fn huge_and_empty_sizes_are_refused() {
    for sizes in [
        [i64::MAX, 1],
        [1, i64::MAX],
        [0, 1],
        [-1, -1],
        [1 << 31, 1 << 31],
    ] {
        let mut onnx = new(&[4, 1]);
        for (name, size) in ["first", "second"].iter().zip(sizes) {
            let tensor = TensorProto::ints(name, &[size]);
            onnx.graph().initializer.push(tensor);
        }
        let pads = [
            ints_of("pads", &[i64::MAX, 0]),
            ints_of("strides", &sizes[..1]),
        ];
        for (operator, operands, attributes) in [
            ("DFT", "image first", &[][..]),
            ("STFT", "image first - second", &[]),
            ("Col2Im", "image first second", &pads),
            ("HannWindow", "first", &[]),
        ] {
            let onnx = onnx.clone().node(operator, operands, "made", attributes);
            let onnx = onnx.node("Add", "image made", "x", &[]);
            let known = sizes[0] == 1 && matches!(operator, "DFT" | "HannWindow");
            assert!(
                values(onnx, &[0.0; 4]).is_err() || known,
                "{operator}, {sizes:?}"
            );
        }
    }
}
