//! Operators that stand for several: what they become, and what is refused in which words.

use super::builder::{Onnx, float, int, ints_of, text};
use super::{compiled, compiled_for_outputs};
use crate::schema::AttributeProto;
use punctual_model::OperatorKind;

/// A network of six tokens of 16 values, of which an operator of that domain is computed.
fn of_tokens(domain: &str, operator: &str, inputs: &str, attributes: &[AttributeProto]) -> Onnx {
    let mut onnx = Onnx::new()
        .floats("w", &[3, 16])
        .floats("all", &[16, 48])
        .floats("bias", &[48])
        .floats("gain", &[16])
        .floats("kernel", &[4, 3, 3, 3])
        .ints("rows", &[0, 3, 64])
        .ints("one", &[1])
        .ints("last", &[63])
        .ints("count", &[64])
        .ints("packing", &[0, 64, 4, 3, 4])
        .ints("two", &[0, 64, 2, 8])
        .node("Reshape", "image rows", "flat", &[])
        .node(
            "Transpose",
            "flat",
            "turned",
            &[ints_of("perm", &[0, 2, 1])],
        )
        .node("MatMul", "turned w", "tokens", &[])
        .node("Reshape", "tokens two", "heads", &[])
        .node("MatMul", "tokens all", "wide", &[])
        .node("Reshape", "wide packing", "packed", &[])
        .node(operator, inputs, "result", attributes)
        .node("Relu", "result", "exit_0", &[])
        .output("exit_0");
    onnx.0.opset_import[0].version = Some(24);
    let node = onnx.graph().node.iter_mut();
    let node = node.filter(|node| node.op_type.as_deref() == Some(operator));
    if !domain.is_empty() {
        node.for_each(|node| node.domain = Some(domain.to_owned()));
    }
    onnx
}

const MICROSOFT: &str = "com.microsoft";

/// Operands of a grouped attention without a past.
const GROUPED: &str = "tokens tokens tokens - - last count";

fn groups(queries: i64, keys: i64) -> [AttributeProto; 2] {
    [int("num_heads", queries), int("kv_num_heads", keys)]
}

fn attentions(onnx: &Onnx) -> usize {
    let compiled = compiled_for_outputs(onnx).unwrap();
    let stages = &compiled.package.network().stages;
    let operators = stages.iter().flat_map(|stage| &stage.operators);
    let is_attention = |kind: &OperatorKind| matches!(kind, OperatorKind::Attention(_));
    operators
        .filter(|operator| is_attention(&operator.kind))
        .count()
}

#[test]
fn every_kind_of_attention_is_found_again_as_one_operator() {
    let heads = [int("q_num_heads", 4), int("kv_num_heads", 4)];
    let causal = [&heads[..], &[int("is_causal", 1)]].concat();
    let window = [
        &heads[..],
        &[int("left_window_size", 2), int("right_window_size", 1)],
    ]
    .concat();
    let one = [int("num_heads", 4)];
    for onnx in [
        of_tokens("", "Attention", "tokens tokens tokens", &heads),
        of_tokens("", "Attention", "tokens tokens tokens", &causal),
        of_tokens("", "Attention", "tokens tokens tokens", &window),
        of_tokens(
            MICROSOFT,
            "MultiHeadAttention",
            "tokens tokens tokens bias",
            &one,
        ),
        of_tokens(MICROSOFT, "Attention", "tokens all bias", &one),
        of_tokens(MICROSOFT, "MultiHeadAttention", "packed - - bias", &one),
        of_tokens(MICROSOFT, "GroupQueryAttention", GROUPED, &groups(4, 4)),
    ] {
        assert_eq!(attentions(&onnx), 1);
    }
}

#[test]
fn what_cannot_be_composed_is_refused_by_name() {
    let heads = |queries, keys| [int("q_num_heads", queries), int("kv_num_heads", keys)];
    let counted = [&heads(4, 4)[..], &[int("is_causal", 1)]].concat();
    let window = [&groups(4, 4)[..], &[int("local_window_size", 0)]].concat();
    let short = GROUPED.replace("last", "count");
    for (onnx, words) in [
        (
            of_tokens("", "Attention", "tokens tokens tokens - - - one", &counted),
            "its input 6 (nonpad_kv_seqlen) is an integer constant of shape [1]; supported is none where queries see",
        ),
        (
            of_tokens(MICROSOFT, "GroupQueryAttention", &short, &groups(4, 4)),
            "its input 5 (seqlens_k) is an integer constant of shape [1]; supported is of all tokens, past and present",
        ),
        (
            of_tokens(MICROSOFT, "GroupQueryAttention", GROUPED, &window),
            "its attribute local_window_size is 0; supported is -1, or at least one key",
        ),
        (
            of_tokens("", "Attention", "tokens heads heads", &heads(4, 3)),
            "(Attention): in its Reshape, ",
        ),
        (
            of_tokens("", "Attention", "tokens tokens tokens", &[]),
            "(Attention): its attribute num_heads is 0; supported is a positive number of heads",
        ),
        (
            of_tokens(
                MICROSOFT,
                "MultiHeadAttention",
                "heads",
                &[int("num_heads", 2)],
            ),
            "its input 0 (queries) is an image (N, 64, 2, 8); supported is (batch, tokens, values), with keys",
        ),
        (
            of_tokens(
                MICROSOFT,
                "FusedConv",
                "image kernel",
                &[text("activation", "Celu")],
            ),
            "activation is \"Celu\"; supported is Clip, Elu, ",
        ),
        (
            of_tokens(
                MICROSOFT,
                "RotaryEmbedding",
                "tokens two all all",
                &[float("scale", 2.0)],
            ),
            "its attribute scale is 2; supported is 1",
        ),
        (
            of_tokens("", "TensorScatter", "tokens tokens", &[]),
            "(TensorScatter): this operator is not supported",
        ),
        (
            of_tokens(MICROSOFT, "Inverse", "tokens", &[]),
            "operators of the domain \"com.microsoft\" are not supported, but for Attention, BiasGelu, ",
        ),
        (
            of_tokens("ai.onnx.ml", "Scaler", "tokens", &[]),
            "operators of the domain \"ai.onnx.ml\" are not supported; export",
        ),
    ] {
        let message = compiled(&onnx).unwrap_err().to_string();
        assert!(message.contains(words), "{message:?} lacks {words:?}");
    }
}
