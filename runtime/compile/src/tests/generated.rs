//! What files of one operator showed that was not what ONNX says (`punctual-networks operators` draws them), and what a
//! file's operator set changes of an operator's meaning.

use punctual_model::{AnswerKind, Calibration, reference};

use super::builder::{Onnx, float, image_of, int, ints_of};
use super::options;
use crate::schema::{AttributeProto, TensorProto, ValueInfoProto};
use crate::{CompileError, CompileOptions, InputOptions, compile};

/// A file whose input `image` has these dimensions behind the batch.
pub(super) fn of(sizes: &[i64]) -> Onnx {
    let mut onnx = Onnx::new();
    onnx.graph().input[0] = image_of("image", sizes);
    // A network has weights.
    let half = onnx.exactly("half", &[], vec![0.5]);
    half.node("Mul", "image half", "weighed", &[])
}

/// The values of `x` for an input.
pub(super) fn values(onnx: Onnx, image: &[f32]) -> Result<Vec<f32>, CompileError> {
    let options = CompileOptions {
        input: InputOptions {
            prepared: Some(true),
            ..InputOptions::default()
        },
        answer: Some(AnswerKind::None),
        ..options()
    };
    let onnx = onnx.output("x").output("weighed");
    let compiled = compile(&onnx.bytes(), Calibration::default(), &options)?;
    let mut exits = reference::run_all(compiled.package.network(), &[image]);
    Ok(exits.remove(0).unwrap().outputs.remove(0))
}

#[test]
fn a_cast_of_features_to_integers_cuts_what_is_behind_the_point() {
    for to in [6, 7] {
        let onnx = of(&[3])
            .node("Cast", "image", "whole", &[int("to", to)])
            .node("Cast", "whole", "x", &[int("to", 1)]);
        assert_eq!(values(onnx, &[2.75, -1.5, 3.0]).unwrap(), [2.0, -1.0, 3.0]);
    }
}

#[test]
fn a_cast_like_zeros_and_ones_is_refused_as_they_may_be_booleans() {
    let like = |operand| {
        of(&[3])
            .ints("few", &[0, 1])
            .ints("more", &[0, 2])
            .exactly("known", &[3], vec![2.75, -1.5, 3.0])
            .node("CastLike", operand, "whole", &[])
            .node("Cast", "whole", "floats", &[int("to", 1)])
            .node("Add", "image floats", "x", &[])
    };
    let zeros = [0.0; 3];
    assert_eq!(
        values(like("known more"), &zeros).unwrap(),
        [2.0, -1.0, 3.0]
    );
    for operands in ["known few", "image few"] {
        assert!(values(like(operands), &zeros).is_err());
    }
}

#[test]
fn a_length_along_no_axes_is_the_size_of_each_value() {
    let mut onnx = of(&[3])
        .exactly("known", &[3], vec![2.75, -1.5, 3.0])
        .node(
            "ReduceL2",
            "known",
            "sizes",
            &[int("noop_with_empty_axes", 1)],
        )
        .node("Add", "image sizes", "x", &[]);
    onnx.0.opset_import[0].version = Some(18);
    assert_eq!(values(onnx, &[0.0; 3]).unwrap(), [2.75, 1.5, 3.0]);
}

#[test]
fn a_sum_of_sizes_of_integers_is_an_integer() {
    let onnx = of(&[1, 7, 1])
        .node("Cast", "image", "whole", &[int("to", 6)])
        .node("ReduceL1", "whole", "sum", &[ints_of("axes", &[2])])
        .node("Cast", "sum", "x", &[int("to", 1)]);
    let image = [25.0, -1.0, 0.0, 2.5, 2.0, 0.0, 1.0];
    assert_eq!(values(onnx, &image).unwrap(), [31.0]);
}

/// An operator in an operator set, and what it makes of 0, 1, 2, ... or why it is refused.
struct InSet {
    opset: i64,
    operator: &'static str,
    operands: &'static str,
    attributes: Vec<AttributeProto>,
    sizes: &'static [i64],
    makes: Result<&'static [f32], &'static str>,
}

impl InSet {
    fn new(opset: i64, operator: &'static str, operands: &'static str) -> Self {
        Self {
            opset,
            operator,
            operands,
            attributes: Vec::new(),
            sizes: &[2, 2],
            makes: Ok(&[]),
        }
    }

    fn with(self, attributes: impl IntoIterator<Item = AttributeProto>) -> Self {
        let attributes = attributes.into_iter().collect();
        Self { attributes, ..self }
    }

    fn of(self, sizes: &'static [i64]) -> Self {
        Self { sizes, ..self }
    }

    fn makes(self, values: &'static [f32]) -> Self {
        let makes = Ok(values);
        Self { makes, ..self }
    }

    fn refused(self, why: &'static str) -> Self {
        let makes = Err(why);
        Self { makes, ..self }
    }

    fn check(&self) {
        let mut onnx = of(self.sizes)
            // An output is computed from the input.
            .node("Abs", "image", "r", &[])
            .ints("last", &[-1])
            .ints("second", &[1])
            .exactly("two", &[2], vec![1.0, 2.0])
            .exactly("zeros", &[2], vec![0.0; 2])
            .exactly("four", &[4], vec![1.0, 2.0, 3.0, 4.0])
            .exactly("no_shift", &[4], vec![0.0; 4])
            .node(self.operator, self.operands, "x", &self.attributes);
        if self.operator == "Split" {
            onnx.graph()
                .node
                .last_mut()
                .unwrap()
                .output
                .push("rest".to_owned());
        }
        onnx.0.opset_import[0].version = Some(self.opset);
        let count = self.sizes.iter().product::<i64>();
        let image: Vec<f32> = (0..count).map(|at| at as f32).collect();
        let case = format!("{} of set {}", self.operator, self.opset);
        match (values(onnx, &image), self.makes) {
            (Ok(found), Ok(expected)) => {
                let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4;
                let all = found.len() == expected.len() && found.iter().zip(expected).all(near);
                assert!(all, "{case}: {found:?}");
            }
            (Err(error), Err(why)) => {
                let said = error.to_string();
                assert!(said.contains(why), "{case}: {said}");
            }
            (found, _) => panic!("{case}: {found:?}"),
        }
    }
}

#[test]
fn the_operator_set_of_a_file_says_what_an_operator_means() {
    const OF_PAIRS: &[f32] = &[0.268_94, 0.731_06, 0.268_94, 0.731_06];
    let groups = || [int("num_groups", 2)];
    let axes = |axes: &[i64]| [ints_of("axes", axes)];
    let kept = |axes: &[i64]| [ints_of("axes", axes), int("keepdims", 0)];
    for case in [
        // Before 13 all dimensions from the axis on were one, and the axis was 1.
        InSet::new(12, "Softmax", "r").refused("its attribute axis is 1"),
        InSet::new(13, "Softmax", "r").makes(OF_PAIRS),
        InSet::new(12, "LogSoftmax", "r").refused("its attribute axis is 1"),
        InSet::new(12, "Softmax", "r")
            .with([int("axis", -1)])
            .makes(OF_PAIRS),
        // A factor for each group until 20, then for each channel.
        InSet::new(18, "GroupNormalization", "r two zeros")
            .with(groups())
            .of(&[4, 1, 1])
            .makes(&[-0.999_98, 0.999_98, -1.999_96, 1.999_96]),
        InSet::new(21, "GroupNormalization", "r four no_shift")
            .with(groups())
            .of(&[4, 1, 1])
            .makes(&[-0.999_98, 1.999_96, -2.999_94, 3.999_92]),
        InSet::new(20, "GroupNormalization", "r four no_shift")
            .with(groups())
            .of(&[4, 1, 1])
            .refused("its input 1 (scale)"),
        InSet::new(21, "GroupNormalization", "r two zeros")
            .with(groups())
            .of(&[4, 1, 1])
            .refused("its input 1 (scale)"),
        // Axes were attributes until 12, of most reductions until 17.
        InSet::new(12, "ReduceSum", "r")
            .with(kept(&[2]))
            .makes(&[1.0, 5.0]),
        InSet::new(13, "ReduceSum", "r last").makes(&[1.0, 5.0]),
        InSet::new(17, "ReduceMax", "r")
            .with(kept(&[1]))
            .makes(&[2.0, 3.0]),
        InSet::new(18, "ReduceMax", "r second").makes(&[2.0, 3.0]),
        InSet::new(12, "Unsqueeze", "r")
            .with(axes(&[1]))
            .makes(&[0.0, 1.0, 2.0, 3.0]),
        InSet::new(13, "Unsqueeze", "r second").makes(&[0.0, 1.0, 2.0, 3.0]),
        // The last of several equal parts may be shorter since 18.
        InSet::new(18, "Split", "r")
            .with([int("axis", 1), int("num_outputs", 2)])
            .of(&[5])
            .makes(&[0.0, 1.0, 2.0]),
    ] {
        case.check();
    }
}

#[test]
fn positions_are_of_the_whole_batch_unless_the_file_says_otherwise() {
    let positions = |attributes: &[AttributeProto]| {
        let mut onnx = of(&[3, 2])
            .ints("shape", &[0, 2, 1])
            .node(
                "ReduceMin",
                "image",
                "least",
                &[ints_of("axes", &[2]), int("keepdims", 0)],
            )
            .node("ArgMax", "image", "first", &[int("axis", 1)])
            .node("Reshape", "first shape", "places", &[])
            .node("GatherND", "least places", "x", attributes);
        onnx.0.opset_import[0].version = Some(13);
        onnx
    };
    let image = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let by_image = positions(&[int("batch_dims", 1)]);
    assert_eq!(values(by_image, &image).unwrap(), [4.0, 4.0]);
    let error = values(positions(&[]), &image).unwrap_err().to_string();
    assert!(error.contains("its attribute batch_dims is 0"), "{error}");
}

#[test]
fn every_third_image_is_no_slice_of_a_batch() {
    let slice = |step| {
        of(&[3])
            .ints("start", &[0])
            .ints("end", &[i64::MAX])
            .ints("axis", &[0])
            .ints("step", &[step])
            .node("Slice", "image start end axis step", "all", &[])
            .node("Add", "all half", "x", &[])
    };
    assert_eq!(values(slice(1), &[1.0; 3]).unwrap(), [1.5; 3]);
    assert!(values(slice(3), &[1.0; 3]).is_err());
}

/// A file for one image of two frames, which lie in the batch before `x`, with a node on them.
fn of_frames(add: impl Fn(Onnx) -> Onnx) -> Onnx {
    let mut onnx = of(&[2, 3])
        .ints("frames", &[-1, 3])
        .ints("image_of_frames", &[-1, 2, 3])
        .node("Reshape", "image frames", "folded", &[]);
    onnx.graph().input[0] = ValueInfoProto::tensor("image", 1, [1, 2, 3].map(Some));
    onnx.0.opset_import[0].version = Some(18);
    add(onnx).node("Reshape", "result image_of_frames", "x", &[])
}

#[test]
fn what_is_written_to_the_first_frame_is_not_written_to_all() {
    let onnx = of_frames(|mut onnx| {
        let dims = vec![1, 2];
        let tensor = TensorProto {
            dims,
            ..TensorProto::ints("place", &[0, 1])
        };
        onnx.graph().initializer.push(tensor);
        onnx.exactly("nine", &[1], vec![9.0])
            .node("ScatterND", "folded place nine", "result", &[])
    });
    let image = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    if let Ok(found) = values(onnx, &image) {
        assert_eq!(found, [0.0, 9.0, 2.0, 3.0, 4.0, 5.0]);
    }
}

#[test]
fn a_mean_over_constants_is_over_all_of_their_first_dimension() {
    let onnx = of(&[2])
        .exactly("known", &[2, 1, 1, 2], vec![0.0, 8.0, 4.0, 0.0])
        .ints("row", &[-1])
        .node(
            "MeanVarianceNormalization",
            "known",
            "even",
            &[ints_of("axes", &[0])],
        )
        .node("Reshape", "even row", "flat", &[])
        .ints("start", &[0])
        .ints("end", &[2])
        .node("Slice", "flat start end", "first", &[])
        .node("Add", "image first", "x", &[]);
    let found = values(onnx, &[0.0; 2]).unwrap();
    let near = found
        .iter()
        .zip([-1.0, 1.0])
        .all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(near, "{found:?}");
}

#[test]
fn a_window_of_a_volume_that_begins_inside_is_the_mean_of_what_is_inside() {
    let window = [
        ints_of("kernel_shape", &[2, 1, 1]),
        ints_of("strides", &[3, 1, 1]),
        int("ceil_mode", 1),
        int("count_include_pad", 1),
    ];
    let onnx = of(&[4])
        .ints("volume", &[0, 1, 4, 1, 1])
        .node("Reshape", "image volume", "deep", &[])
        .node("AveragePool", "deep", "x", &window);
    assert_eq!(values(onnx, &[0.0, 1.0, 2.0, 3.0]).unwrap(), [0.5, 3.0]);
}

/// The last node is of onnxruntime's domain.
fn of_onnxruntime(mut onnx: Onnx) -> Onnx {
    if let Some(node) = onnx.graph().node.last_mut() {
        node.domain = Some("com.microsoft".to_owned());
    }
    onnx
}

#[test]
fn a_query_that_sees_no_key_has_zeros() {
    let unseen = f32::NEG_INFINITY;
    let mut onnx = of(&[2, 2])
        .exactly("mask", &[2, 2], vec![unseen, 0.0, unseen, unseen])
        .node(
            "Attention",
            "image image image mask",
            "x",
            &[int("q_num_heads", 1), int("kv_num_heads", 1)],
        );
    onnx.0.opset_import[0].version = Some(24);
    let found = values(onnx, &[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(found, [3.0, 4.0, 0.0, 0.0]);
}

#[test]
fn a_key_whose_mask_is_below_zero_does_not_count() {
    let mut onnx = of(&[2, 2]);
    let mask = TensorProto {
        dims: vec![1, 2],
        ..TensorProto::ints("mask", &[-1, 1])
    };
    onnx.graph().initializer.push(mask);
    let operands = "image image image - mask";
    let onnx =
        of_onnxruntime(onnx.node("MultiHeadAttention", operands, "x", &[int("num_heads", 1)]));
    let found = values(onnx, &[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(found, [3.0, 4.0, 3.0, 4.0]);
}

#[test]
fn queries_that_see_no_later_key_are_as_many_as_the_keys() {
    let onnx = of(&[2, 2]).ints("start", &[0]).ints("end", &[1]).node(
        "Slice",
        "image start end end",
        "first",
        &[],
    );
    let attributes = [int("num_heads", 1), int("unidirectional", 1)];
    let operands = "first image image";
    let onnx = of_onnxruntime(onnx.node("MultiHeadAttention", operands, "x", &attributes));
    let refused = values(onnx, &[0.0; 4]).unwrap_err().to_string();
    let said = "unidirectional is 1; supported is 0, or 1 for as many keys as queries";
    assert!(refused.contains(said), "{refused}");
}

#[test]
fn a_softmax_of_bytes_goes_along_the_last_dimension_in_every_version() {
    let onnx = of(&[2, 1])
        .exactly("scale", &[], vec![0.125])
        .unsigned("zero", &[], vec![0])
        .node("QuantizeLinear", "image scale zero", "bytes", &[]);
    let operands = "bytes scale zero scale zero";
    let onnx = of_onnxruntime(onnx.node("QLinearSoftmax", operands, "shares", &[int("opset", 11)]));
    let onnx = onnx.node("DequantizeLinear", "shares scale zero", "x", &[]);
    assert_eq!(values(onnx, &[1.0, 2.0]).unwrap(), [1.0, 1.0]);
}

#[test]
fn a_bias_of_bytes_and_a_factor_is_worth_a_step_of_both() {
    let onnx = of(&[1])
        .exactly("scale", &[], vec![0.5])
        .exactly("wide", &[], vec![4.0])
        .signed("zero", &[], vec![0])
        .signed("w", &[1, 1], vec![-8])
        .ints("bias", &[-1])
        .node("QuantizeLinear", "image scale zero", "bytes", &[]);
    let operands = "bytes scale zero w scale zero bias wide zero";
    let onnx = of_onnxruntime(onnx.node("QGemm", operands, "product", &[float("alpha", 0.5)]));
    let onnx = onnx.node("DequantizeLinear", "product wide zero", "x", &[]);
    // 5.875, which is nearer to 4 than to 8.
    assert_eq!(values(onnx, &[-3.0]).unwrap(), [4.0]);
}

#[test]
fn an_axis_of_a_flatten_is_counted_from_the_end_of_its_operand() {
    let flat = |axis| of(&[3]).node("Flatten", "image", "x", &[int("axis", axis)]);
    assert_eq!(values(flat(-1), &[1.0, 2.0, 3.0]).unwrap(), [1.0, 2.0, 3.0]);
    let refused = values(flat(-2), &[0.0; 3]).unwrap_err().to_string();
    assert!(
        refused.contains("its first dimension must be the batch"),
        "{refused}"
    );
}
