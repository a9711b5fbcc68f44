//! Resizes: what sizes and scales come to, and what is refused.

use punctual_model::{OperatorKind, Resize, Tensor};
use punctual_types::{Coordinates, Extent, Filter, Resampling, Rounding};

use super::builder::{Onnx, int, ints_of, text};
use super::compiled;
use crate::schema::AttributeProto;

/// The image of 8 x 8 pixels resized by this node, before an ordinary head.
fn resized(inputs: &str, attributes: &[AttributeProto]) -> Onnx {
    Onnx::new()
        .exactly("none", &[0], vec![])
        .exactly("double", &[4], vec![1.0, 1.0, 2.0, 2.5])
        .exactly("pixels", &[2], vec![2.0, 2.5])
        .exactly("same", &[4], vec![1.0; 4])
        .exactly("deep", &[4], vec![1.0, 2.0, 2.0, 2.0])
        .exactly("many", &[4], vec![2.0, 1.0, 2.0, 2.0])
        .exactly("nothing", &[4], vec![1.0, 1.0, 0.0, 2.0])
        .ints("sizes", &[1, 3, 5, 7])
        .ints("rows", &[16])
        .ints("wide", &[5, 16])
        .ints("empty", &[1, 3, 0, 7])
        .ints("other", &[2, 3, 5, 7])
        .node("Resize", inputs, "x", attributes)
        .head("x", 3, "exit_0")
}

/// What is left of the resize, and its result.
fn resampling(onnx: &Onnx) -> Option<(Resampling, Tensor)> {
    let package = compiled(onnx).unwrap().package;
    let network = package.network();
    let operator = &network.stages[0].operators[0];
    match operator.kind {
        OperatorKind::Resize(Resize { resampling }) => {
            Some((resampling, network.tensors[operator.output.index()]))
        }
        _ => None,
    }
}

#[test]
fn scales_keep_their_fractions_and_sizes_give_theirs() {
    let nearest = Filter::Nearest(Rounding::PreferFloor);
    let (by_scale, output) = resampling(&resized("image - double", &[])).unwrap();
    let expected = Resampling {
        size: Extent {
            height: 16,
            width: 20,
        },
        scale: [2.0, 2.5],
        coordinates: Coordinates::HalfPixel,
        filter: nearest,
    };
    assert_eq!(by_scale, expected);
    assert_eq!((output.channels, output.extent()), (3, expected.size));
    let linear = [
        text("mode", "linear"),
        text("coordinate_transformation_mode", "align_corners"),
    ];
    // Opset 11 needs an operand for the box and one for scales.
    let (by_size, _) = resampling(&resized("image none none sizes", &linear)).unwrap();
    assert_eq!(by_size.scale, [5.0 / 8.0, 7.0 / 8.0]);
    assert_eq!(by_size.coordinates, Coordinates::AlignCorners);
    assert_eq!(by_size.filter, Filter::Linear);
}

#[test]
fn axes_say_of_which_dimensions_sizes_and_scales_are() {
    let axes = [ints_of("axes", &[-2, 3])];
    let (by_scale, _) = resampling(&resized("image - pixels", &axes)).unwrap();
    assert_eq!(by_scale.scale, [2.0, 2.5]);
    let axes = [ints_of("axes", &[2])];
    let (by_size, _) = resampling(&resized("image - - rows", &axes)).unwrap();
    let expected = Extent {
        height: 16,
        width: 8,
    };
    assert_eq!(by_size.size, expected);
}

#[test]
fn a_resize_to_the_same_size_is_no_operator() {
    assert_eq!(resampling(&resized("image - same", &[])), None);
}

#[test]
fn dimensions_that_keep_their_proportions_have_one_factor_and_sizes_nearest_to_it() {
    for (policy, factor, size) in [("not_larger", 5.0 / 8.0, 5), ("not_smaller", 2.0, 16)] {
        let attributes = [
            ints_of("axes", &[2, 3]),
            text("keep_aspect_ratio_policy", policy),
        ];
        let (found, _) = resampling(&resized("image - - wide", &attributes)).unwrap();
        assert_eq!(found.scale, [factor; 2]);
        assert_eq!((found.size.height, found.size.width), (size, size));
    }
}

#[test]
fn channels_are_resized_by_a_product() {
    let onnx = Onnx::new()
        .exactly("deep", &[4], vec![1.0, 2.0, 1.0, 1.0])
        .node("Resize", "image - deep", "x", &[])
        .head("x", 6, "exit_0");
    let package = compiled(&onnx).unwrap().package;
    let operators = &package.network().stages[0].operators;
    let resizes = |kind: &OperatorKind| matches!(kind, OperatorKind::Resize(_));
    assert!(!operators.iter().any(|operator| resizes(&operator.kind)));
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let message = |inputs: &str, attributes: &[AttributeProto]| {
        let error = compiled(&resized(inputs, attributes)).unwrap_err();
        error.to_string()
    };
    for (attribute, words) in [
        (
            text("mode", "lanczos"),
            "mode is \"lanczos\"; supported is nearest or linear",
        ),
        (
            int("exclude_outside", 1),
            "exclude_outside is 1; supported is 0",
        ),
        (
            text("coordinate_transformation_mode", "tf_crop_and_resize"),
            "coordinate_transformation_mode is \"tf_crop_and_resize\"; supported is asymmetric",
        ),
        (text("nearest_mode", "simple"), "nearest_mode is \"simple\""),
        (
            text("keep_aspect_ratio_policy", "larger"),
            "keep_aspect_ratio_policy is \"larger\"; supported is stretch, not_larger",
        ),
    ] {
        let message = message("image - double", &[attribute]);
        assert!(
            message.contains("(Resize)") && message.contains(words),
            "{message}"
        );
    }
    for (inputs, words) in [
        (
            "image - nothing",
            "its input 2 (scales) is a float32 constant of shape [4]",
        ),
        ("image - many", "its input 2 (scales)"),
        ("image - pixels", "its input 2 (scales)"),
        ("image - - other", "its input 3 (sizes)"),
        ("image - - rows", "its input 3 (sizes)"),
        ("image - - empty", "its result is 3x0x7"),
        ("image", "its input 3 (sizes) is missing"),
    ] {
        let message = message(inputs, &[]);
        assert!(message.contains(words), "{message}");
    }
}
