//! What recurrent layers become and which are refused; zeros around a convolution.

use super::builder::{Onnx, float, int, ints_of, text};
use super::{compiled, compiled_for_outputs};
use crate::schema::{AttributeProto, NodeProto};
use punctual_model::{Network, OperatorKind, reference};

/// A layer of four hidden units over the 64 pixels of the image, its last state before a head.
fn over_pixels(operator: &str, more: &str, attributes: &[AttributeProto]) -> Onnx {
    let gates = match operator {
        "GRU" => 12,
        "LSTM" => 16,
        _ => 4,
    };
    Onnx::new()
        .floats("w", &[1, gates, 3])
        .floats("u", &[1, gates, 4])
        .floats("b", &[1, 2 * gates])
        .ints("flat", &[0, 3, 64])
        .ints("short", &[63])
        .ints("zero", &[0])
        .floats("v", &[4, 5])
        .node("Reshape", "image flat", "rows", &[])
        .node("Transpose", "rows", "steps", &[ints_of("perm", &[2, 0, 1])])
        .node(operator, &format!("steps w u b{more}"), "all", attributes)
        .node("Constant", "", "last", &[int("value_int", -1)])
        .node("Gather", "all last", "state", &[])
        .node("Squeeze", "state zero", "one", &[])
        .node("MatMul", "one v", "exit_0", &[])
        .output("exit_0")
}

fn network(onnx: &Onnx) -> Network {
    compiled(onnx).unwrap().package.network().clone()
}

#[test]
fn all_steps_of_a_layer_are_one_operator_with_its_weights_once() {
    let network = network(&over_pixels("GRU", "", &[int("linear_before_reset", 1)]));
    let kinds = network.stages[0].operators.iter().map(|o| &o.kind);
    let layers = kinds
        .clone()
        .filter(|kind| matches!(kind, OperatorKind::Recurrent(_)));
    assert_eq!((layers.count(), kinds.count() <= 5), (1, true));
    // Weights and biases of inputs and states, and of the head.
    let weights = 12 * (3 + 4 + 2) + 4 * 5 + 5;
    assert_eq!(network.weights.len(), weights);
}

#[test]
fn results_before_the_last_one_may_be_left_out() {
    let image: Vec<f32> = (0..192).map(|at| (at as f32).sin()).collect();
    let answer = |onnx: &Onnx| {
        let compiled = compiled_for_outputs(onnx).unwrap();
        let exits = reference::run_all(compiled.package.network(), &[&image]);
        exits[0].as_ref().unwrap().outputs[0].clone()
    };
    let without = |onnx: &Onnx, operator: &str, outputs: &[&str], [last, reads]: [&str; 2]| {
        let mut onnx = onnx.clone();
        let nodes = &mut onnx.graph().node;
        let is_it = |node: &NodeProto| node.op_type.as_deref() == Some(operator);
        let at = nodes.iter().position(is_it).unwrap();
        nodes.truncate(at + 1);
        nodes[at].output = outputs.iter().map(|&name| name.to_owned()).collect();
        nodes[at].name = None;
        onnx.graph().output.clear();
        onnx.node(last, reads, "exit_0", &[]).output("exit_0")
    };
    let layer = over_pixels("LSTM", "", &[]);
    let layer = |outputs| answer(&without(&layer, "LSTM", outputs, ["Squeeze", "state zero"]));
    assert_eq!(layer(&["", "state"]), layer(&["all", "state"]));
    let best = Onnx::new().ints("two", &[2]);
    let best = best.node("TopK", "image two", "best", &[]);
    let best = |outputs| answer(&without(&best, "TopK", outputs, ["Relu", "at"]));
    assert_eq!(best(&["", "at"]), best(&["best", "at"]));
    let halves = Onnx::new().node("Split", "image", "one", &[int("axis", 2)]);
    let halves = |outputs| answer(&without(&halves, "Split", outputs, ["Relu", "two"]));
    assert_eq!(halves(&["", "two"]), halves(&["one", "two"]));
    // A node without a name is called by the output that it has.
    let layer = over_pixels("LSTM", "", &[float("clip", 3.0)]);
    let error = compiled(&without(
        &layer,
        "LSTM",
        &["", "state"],
        ["Squeeze", "state zero"],
    ))
    .unwrap_err();
    assert!(
        error.to_string().starts_with("node \"state\" (LSTM): "),
        "{error}"
    );
}

#[test]
fn what_a_recurrent_layer_cannot_do_is_refused_by_name() {
    for (operator, more, attributes, reason) in [
        ("GRU", "", vec![float("clip", 3.0)], "clip = 3"),
        (
            "GRU",
            "",
            vec![text("direction", "sideways")],
            "direction is \"sideways\"; supported is forward, reverse or bidirectional",
        ),
        ("GRU", "", vec![int("hidden_size", 5)], "hidden_size is 5"),
        (
            "GRU",
            "",
            vec![int("layout", 1)],
            "supported is (batch, steps, values)",
        ),
        (
            "RNN",
            " short",
            vec![],
            "input 4 (sequence_lens) is an integer constant of shape [1]",
        ),
        (
            "RNN",
            "",
            vec![text("direction", "bidirectional")],
            "input 1 (weights) is a float32 constant of shape [1, 4, 3]",
        ),
    ] {
        let error = compiled(&over_pixels(operator, more, &attributes)).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(reason), "{message:?} lacks {reason:?}");
    }
}

#[test]
fn zeros_around_a_convolution_are_its_padding() {
    let padded = |pads: &[i64]| {
        let onnx = Onnx::new()
            .floats("w", &[4, 3, 3, 3])
            .ints("pads", pads)
            .node("Pad", "image pads", "wide", &[])
            .node("Conv", "wide w", "c", &[])
            .head("c", 4, "exit_0");
        let network = network(&onnx);
        let mut operators = network.stages[0].operators.iter();
        operators.any(|operator| matches!(operator.kind, OperatorKind::Copy(_)))
    };
    assert!(!padded(&[0, 0, 1, 2, 0, 0, 2, 0]));
    // A window may not lie wholly in its padding, and channels have none.
    assert!(padded(&[0, 0, 3, 0, 0, 0, 0, 0]));
}
