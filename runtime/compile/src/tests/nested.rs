//! Branches of `If` and functions that a file defines: what is computed of them, and that hostile ones end.

use super::builder::{Onnx, float, int, ints_of, value};
use super::{compiled, compiled_for_outputs};
use crate::schema::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, TensorProto,
    attribute_type,
};
use crate::{CompileError, ParseError};
use punctual_model::reference;

fn node(operator: &str, inputs: &[&str], outputs: &[&str], more: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        name: None,
        ..NodeProto::of(operator, "", inputs, outputs, more)
    }
}

pub(super) fn graph_of(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        g: Some(Box::new(graph)),
        r#type: Some(attribute_type::GRAPH),
        ..AttributeProto::default()
    }
}

pub(super) fn branch(nodes: Vec<NodeProto>, output: &str) -> GraphProto {
    GraphProto {
        node: nodes,
        output: vec![value(output)],
        ..GraphProto::default()
    }
}

/// A network whose last node is an `If`: whether the picture has three channels.
fn with_branches(yes: GraphProto, no: GraphProto) -> Onnx {
    let mut onnx = Onnx::new()
        .ints("one", &[1])
        .ints("three", &[3])
        .node("Relu", "image", "r", &[])
        .node("Shape", "r", "shape", &[])
        .node("Gather", "shape one", "channels", &[])
        .node("Equal", "channels three", "is_three", &[]);
    let branches = vec![graph_of("then_branch", yes), graph_of("else_branch", no)];
    let last = NodeProto::of("If", "choice", &["is_three"], &["exit_0"], branches);
    onnx.graph().node.push(last);
    onnx.output("exit_0")
}

fn image() -> Vec<f32> {
    (0..192).map(|at| (at as f32).sin()).collect()
}

fn answer(onnx: &Onnx) -> Vec<f32> {
    let compiled = compiled_for_outputs(onnx).unwrap();
    let exits = reference::run_all(compiled.package.network(), &[&image()]);
    exits[0].as_ref().unwrap().outputs[0].clone()
}

#[track_caller]
fn refused(onnx: &Onnx, words: &[&str]) {
    let message = compiled_for_outputs(onnx).unwrap_err().to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
}

#[test]
fn only_the_branch_that_is_chosen_is_compiled() {
    let impossible = branch(vec![node("Loop", &["r"], &["y"], vec![])], "y");
    let mut halves = branch(vec![node("Mul", &["r", "half"], &["y"], vec![])], "y");
    let half = TensorProto::floats("half", &[], &[0.5]);
    halves.initializer.push(half);
    let onnx = with_branches(halves.clone(), impossible.clone());
    let expected: Vec<f32> = image().iter().map(|value| value.max(0.0) / 2.0).collect();
    assert_eq!(answer(&onnx), expected);
    // An error of the chosen branch names the node in it.
    let onnx = with_branches(impossible, halves);
    refused(
        &onnx,
        &["node \"y\" (Loop): this operator is not supported"],
    );
}

#[test]
fn a_branch_may_hand_on_what_was_computed_before_it_and_lie_in_another_one() {
    let same = branch(vec![], "r");
    let inner = vec![
        graph_of("then_branch", same.clone()),
        graph_of("else_branch", same.clone()),
    ];
    let outer = branch(vec![node("If", &["is_three"], &["inner"], inner)], "inner");
    let expected: Vec<f32> = image().iter().map(|value| value.max(0.0)).collect();
    assert_eq!(answer(&with_branches(outer, same)), expected);
}

#[test]
fn a_condition_that_is_known_only_when_running_is_refused() {
    let same = || branch(vec![], "r");
    let mut onnx = with_branches(same(), same());
    // Of the batch, then of the picture.
    onnx.graph().initializer[0] = TensorProto::ints("one", &[0]);
    refused(&onnx, &["batch"]);
    let mut onnx = with_branches(same(), same());
    onnx.graph().node[4].input[0] = "r".to_owned();
    refused(
        &onnx,
        &["node \"choice\" (If): its condition is known only when running"],
    );
    let mut onnx = with_branches(same(), same());
    onnx.graph().node[4].attribute.pop();
    refused(&onnx, &["(If): its attribute else_branch is missing"]);
    let mut two = same();
    two.output.push(value("r"));
    refused(
        &with_branches(two, same()),
        &["it has 1 outputs, and the branch that is chosen gives 2"],
    );
}

#[test]
fn nodes_in_any_order_are_computed_behind_those_that_they_read() {
    let double = || branch(vec![node("Add", &["r", "r"], &["own"], vec![])], "own");
    let mut onnx = with_branches(double(), double());
    let in_order = answer(&onnx);
    onnx.graph().node.reverse();
    assert_eq!(answer(&onnx), in_order);
}

#[test]
fn names_of_a_branch_are_not_seen_outside() {
    let own = || branch(vec![node("Neg", &["r"], &["own"], vec![])], "own");
    let onnx = with_branches(own(), own());
    answer(&onnx);
    let outside = onnx.node("Relu", "own", "exit_1", &[]);
    refused(
        &outside,
        &["uses the value \"own\", which is not defined before"],
    );
    let same = branch(vec![node("Neg", &["r"], &["r"], vec![])], "r");
    refused(&with_branches(same, own()), &["\"r\" is defined twice"]);
    refused(
        &with_branches(branch(vec![], "no"), own()),
        &["the then_branch of node \"choice\" uses the value \"no\""],
    );
}

#[test]
fn branches_lie_only_so_deep_in_each_other() {
    let mut nested = branch(vec![], "r");
    for depth in 0..40 {
        let branches = vec![
            graph_of("then_branch", nested),
            graph_of("else_branch", branch(vec![], "r")),
        ];
        let name = format!("y{depth}");
        let inner = node("If", &["is_three"], &[&name], branches);
        nested = branch(vec![inner], &name);
        let onnx = with_branches(nested.clone(), branch(vec![], "r"));
        let error = compiled_for_outputs(&onnx).map(|_| ());
        match depth {
            ..15 => error.unwrap(),
            15..31 => assert!(matches!(
                error,
                Err(CompileError::Parse(ParseError::Nesting { .. }))
            )),
            _ => assert!(error.is_err()),
        }
    }
}

fn reference_to(argument: &str, name: &str, kind: i32) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        ref_attr_name: Some(argument.to_owned()),
        r#type: Some(kind),
        ..AttributeProto::default()
    }
}

fn function(name: &str, inputs: &[&str], outputs: &[&str], node: Vec<NodeProto>) -> FunctionProto {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    FunctionProto {
        name: Some(name.to_owned()),
        domain: Some("here".to_owned()),
        input: owned(inputs),
        output: owned(outputs),
        node,
        ..FunctionProto::default()
    }
}

fn call(name: &str, inputs: &[&str], outputs: &[&str], more: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        domain: Some("here".to_owned()),
        ..node(name, inputs, outputs, more)
    }
}

fn with_functions(functions: Vec<FunctionProto>, last: NodeProto) -> Onnx {
    let mut onnx = Onnx::new();
    onnx.0.functions = functions;
    onnx.graph().node.push(last);
    onnx.output("exit_0")
}

/// A slope, and perhaps something added.
fn leaky() -> FunctionProto {
    let slope = reference_to("slope", "alpha", attribute_type::FLOAT);
    let nodes = vec![
        node("LeakyRelu", &["x"], &["y"], vec![slope]),
        // Its second operand is left out where the call leaves it out.
        node("Clip", &["y", "least"], &["z"], vec![]),
    ];
    FunctionProto {
        attribute_proto: vec![float("slope", 0.5)],
        ..function("Leaky", &["x", "least"], &["z", "y"], nodes)
    }
}

#[test]
fn a_call_becomes_the_nodes_of_its_function() {
    let leaks = |slope: f32| move |value: &f32| value.max(0.0) + slope * value.min(0.0);
    let expected = |slope| image().iter().map(leaks(slope)).collect::<Vec<_>>();
    let plain = with_functions(
        vec![leaky()],
        call("Leaky", &["image"], &["exit_0"], vec![]),
    );
    assert_eq!(answer(&plain), expected(0.5));
    let slope = vec![float("slope", 0.25)];
    let second = call("Leaky", &["image"], &["", "exit_0"], slope.clone());
    assert_eq!(
        answer(&with_functions(vec![leaky()], second)),
        expected(0.25)
    );
    // Functions call each other, in any order of their definitions, and use the same names.
    let inner = call("Leaky", &["z"], &["y"], slope);
    let outer = function("Twice", &["z"], &["y"], vec![inner]);
    let twice = call("Twice", &["image"], &["exit_0"], vec![]);
    let onnx = with_functions(vec![outer, leaky()], twice);
    assert_eq!(answer(&onnx), expected(0.25));
}

#[test]
fn a_function_has_the_operators_of_its_own_version() {
    let softmax = || {
        let (relu, softmax) = (["r"], ["y"]);
        vec![
            node("Relu", &["x"], &relu, vec![]),
            node("Softmax", &relu, &softmax, vec![]),
        ]
    };
    let version = |version| OperatorSetIdProto {
        domain: None,
        version: Some(version),
    };
    let of = |set: i64| FunctionProto {
        opset_import: vec![version(set)],
        ..function("F", &["x"], &["y"], softmax())
    };
    let onnx = |set| with_functions(vec![of(set)], call("F", &["image"], &["exit_0"], vec![]));
    answer(&onnx(13));
    refused(&onnx(12), &["the last dimension before opset 13"]);
    refused(&onnx(10), &["operator set 10"]);
}

#[test]
fn calls_that_do_not_fit_their_function_are_refused() {
    let onnx = |call| with_functions(vec![leaky()], call);
    let inputs = call("Leaky", &["image"; 3], &["exit_0"], vec![]);
    refused(
        &onnx(inputs),
        &["node \"exit_0\" gives the function \"Leaky\" more operands"],
    );
    let outputs = call("Leaky", &["image"], &["exit_0", "b", "c"], vec![]);
    refused(&onnx(outputs), &["or asks for more results"]);
    let other = call("Other", &["image"], &["exit_0"], vec![]);
    refused(
        &onnx(other),
        &["operators of the domain \"here\" are not supported"],
    );
    let nothing = function("Nothing", &["x"], &["y"], vec![]);
    let nothing = with_functions(
        vec![nothing],
        call("Nothing", &["image"], &["exit_0"], vec![]),
    );
    refused(&nothing, &["the function \"Nothing\" uses the value \"y\""]);
    let outside = function(
        "Outside",
        &[],
        &["y"],
        vec![node("Relu", &["image"], &["y"], vec![])],
    );
    let outside = with_functions(vec![outside], call("Outside", &[], &["exit_0"], vec![]));
    refused(
        &outside,
        &["uses the value \"image\", which is not defined before"],
    );
}

#[test]
fn functions_that_call_themselves_or_double_at_each_level_are_refused() {
    let itself = function("F", &["x"], &["y"], vec![call("F", &["x"], &["y"], vec![])]);
    let itself = with_functions(vec![itself], call("F", &["image"], &["exit_0"], vec![]));
    refused(&itself, &["more than 16 deep, or a function calls itself"]);
    let mut functions = vec![function(
        "F0",
        &["x"],
        &["y"],
        vec![node("Relu", &["x"], &["y"], vec![])],
    )];
    for level in 1..15 {
        let of = format!("F{}", level - 1);
        let names: Vec<String> = (0..8).map(|at| format!("y{at}")).collect();
        let calls = names.iter().map(|name| call(&of, &["x"], &[name], vec![]));
        functions.push(function(
            &format!("F{level}"),
            &["x"],
            &["y7"],
            calls.collect(),
        ));
    }
    let doubling = with_functions(functions, call("F14", &["image"], &["exit_0"], vec![]));
    refused(
        &doubling,
        &["the functions that are called come to more than 64 MiB"],
    );
    // An argument that a function copies a thousand times is counted as often.
    let copies = (0..1000).map(|at| {
        let pads = reference_to("pads", "pads", attribute_type::INTS);
        node("Relu", &["x"], &[&format!("y{at}")], vec![pads])
    });
    let copying = function("F", &["x"], &["y0"], copies.collect());
    let long = ints_of("pads", &vec![1; 100_000]);
    let copying = with_functions(
        vec![copying],
        call("F", &["image"], &["exit_0"], vec![long]),
    );
    refused(&copying, &["come to more than 64 MiB"]);
}

#[test]
fn a_function_that_is_never_called_is_no_matter() {
    let mut onnx = Onnx::new().head("image", 3, "exit_0");
    onnx.0.functions = vec![function(
        "F",
        &[],
        &[],
        vec![call("F", &[], &[], vec![int("a", 1)])],
    )];
    compiled(&onnx).unwrap();
}
