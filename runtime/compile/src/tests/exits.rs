//! What exits give: named tensors, the kind of the answer, the author's confidence; and what is refused of them.

use punctual_model::{
    AnswerKind, Calibration, Exit, Network, ONLY_OUTPUT, ScoreForm, Tensor, TensorId,
};

use super::builder::{Onnx, image_of, int, ints_of, value};
use super::options;
use crate::{CompileError, CompileOptions, Compiled, ConfidenceSource, Note, compile};

/// The options of all tests here, but for the kind of the answer.
fn answering(answer: impl Into<Option<AnswerKind>>) -> CompileOptions {
    CompileOptions {
        answer: answer.into(),
        ..options()
    }
}

fn compiled(onnx: &Onnx, answer: impl Into<Option<AnswerKind>>) -> Result<Compiled, CompileError> {
    compile(&onnx.bytes(), Calibration::default(), &answering(answer))
}

#[track_caller]
fn exits(onnx: &Onnx, answer: AnswerKind) -> Vec<Exit> {
    let package = compiled(onnx, answer).unwrap().package;
    package
        .network()
        .exits()
        .map(|(_, exit)| exit.clone())
        .collect()
}

#[track_caller]
fn refused(onnx: &Onnx, answer: impl Into<Option<AnswerKind>>, words: &[&str]) {
    let message = compiled(onnx, answer).unwrap_err().to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
}

fn shape(network: &Network, tensor: TensorId) -> Tensor {
    network.tensors[tensor.index()]
}

impl Onnx {
    /// An output of another name for a value.
    fn alias(self, from: &str, output: &str) -> Self {
        self.node("Identity", from, output, &[]).output(output)
    }

    /// One number a request, as `f(mean of the channels)`, under this name.
    fn number(self, from: &str, channels: i64, name: &str) -> Self {
        let (mean, flat, weights) = (
            format!("mean_{name}"),
            format!("flat_{name}"),
            format!("w_{name}"),
        );
        self.floats(&weights, &[1, channels])
            .node("GlobalAveragePool", from, &mean, &[])
            .node("Flatten", &mean, &flat, &[])
            .node(
                "Gemm",
                &format!("{flat} {weights}"),
                name,
                &[int("transB", 1)],
            )
    }
}

/// Two exits of a map and a vector each: the second map is smaller.
fn two_exits() -> Onnx {
    let half = [
        ints_of("kernel_shape", &[2, 2]),
        ints_of("strides", &[2, 2]),
    ];
    Onnx::new()
        .node("Relu", "image", "exit_0/map", &[])
        .output("exit_0/map")
        .head("exit_0/map", 3, "exit_0/pose")
        .node("MaxPool", "exit_0/map", "exit_1/map", &half)
        .output("exit_1/map")
        .head("exit_1/map", 3, "exit_1/pose")
}

#[test]
fn each_exit_has_its_outputs_by_name_in_the_order_of_the_file() {
    let onnx = two_exits();
    let compiled = compiled(&onnx, AnswerKind::None).unwrap();
    let network = compiled.package.network();
    assert_eq!(compiled.exits, ["exit_0", "exit_1"]);
    for (at, (_, exit)) in network.exits().enumerate() {
        let outputs: Vec<_> = exit
            .outputs
            .iter()
            .map(|o| (o.name.as_str(), o.shape.clone()))
            .collect();
        let side = [8, 4][at];
        assert_eq!(outputs, [("map", vec![3, side, side]), ("pose", vec![5])]);
        assert_eq!((exit.scores, exit.confidence), (None, None));
    }
    // Without a confidence, time alone decides on the depth.
    let alone = |exit: &str| Note::NoConfidence {
        exit: exit.to_owned(),
    };
    let notes = &compiled.report.notes;
    assert!(
        notes.contains(&alone("exit_0")) && notes.contains(&alone("exit_1")),
        "{notes:?}"
    );
}

#[test]
fn the_report_lists_what_a_client_gets_at_each_exit() {
    let onnx = two_exits()
        .number("exit_0/map", 3, "exit_0/confidence")
        .output("exit_0/confidence");
    let report = compiled(&onnx, AnswerKind::None).unwrap().report;
    let exit = &report.exits[0];
    assert_eq!(
        (exit.stage, exit.confidence),
        (0, Some(ConfidenceSource::Author))
    );
    assert_eq!(
        (exit.outputs[0].element, exit.outputs[0].bytes),
        ("float32", 4 * 3 * 8 * 8)
    );
    assert_eq!(report.exits[1].confidence, None);
    let text = report.to_string();
    for words in [
        "input, answer none\n",
        "map     float32  3x8x8  768 B  the network's own output\n",
        "pose    float32  5       20 B\n",
        "map     float32  3x4x4  192 B  none\n",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["answer"], "none");
    assert_eq!(json["exits"][0]["confidence"], "author");
    assert_eq!(
        json["exits"][1]["outputs"][0]["shape"],
        serde_json::json!([3, 4, 4])
    );
}

#[test]
fn outputs_that_are_no_exits_by_name_are_those_of_the_only_exit() {
    let plain = Onnx::new()
        .node("Relu", "image", "r", &[])
        .output("r")
        .head("r", 3, "pose");
    let [exit] = &exits(&plain, AnswerKind::None)[..] else {
        panic!("one exit");
    };
    let names: Vec<_> = exit
        .outputs
        .iter()
        .map(|output| output.name.as_str())
        .collect();
    assert_eq!(names, ["r", "pose"]);
    let only = exits(&Onnx::new().head("image", 3, "pose"), AnswerKind::None);
    assert_eq!(only[0].outputs[0].name, ONLY_OUTPUT);
}

#[test]
fn outputs_beside_exits_and_numbers_left_out_are_asked_about() {
    let other = Onnx::new()
        .head("image", 3, "exit_0")
        .node("Relu", "image", "r", &[])
        .output("r");
    let message = |onnx: &Onnx| {
        let error = compiled(onnx, AnswerKind::Classes).unwrap_err();
        error.to_string()
    };
    let beside = message(&other);
    assert!(
        beside.contains("the output \"r\" belongs to no exit") && beside.contains("--exits"),
        "{beside}"
    );
    let gap = Onnx::new()
        .head("image", 3, "exit_0")
        .head("image", 3, "exit_2");
    let gap = message(&gap);
    assert!(
        gap.contains("no output is named \"exit_1\"") && gap.contains("--exits"),
        "{gap}"
    );
    // Those that are listed count, and what the others are is said.
    let listed = CompileOptions {
        exits: vec!["exit_0".to_owned()],
        ..super::options()
    };
    let compiled = compile(&other.bytes(), Calibration::default(), &listed).unwrap();
    let output = "r".to_owned();
    let notes = compiled.report.notes;
    assert!(notes.contains(&Note::OutputIgnored { output }), "{notes:?}");
}

#[test]
fn a_confidence_is_one_number_a_request_of_one_or_two_dimensions_and_no_output() {
    let base = || {
        Onnx::new()
            .node("Relu", "image", "exit_0/map", &[])
            .output("exit_0/map")
    };
    let flat = base()
        .number("exit_0/map", 3, "exit_0/confidence")
        .output("exit_0/confidence");
    let squeezed = base()
        .number("exit_0/map", 3, "sure")
        .ints("one", &[1])
        .node("Squeeze", "sure one", "exit_0/confidence", &[])
        .output("exit_0/confidence");
    for onnx in [flat, squeezed] {
        let package = compiled(&onnx, AnswerKind::Detections).unwrap().package;
        let network = package.network();
        let (_, exit) = network.exits().next().unwrap();
        let confidence = exit.confidence.expect("the author's");
        assert_eq!(shape(network, confidence), Tensor::features(1));
        assert_eq!(exit.outputs.len(), 1);
        assert!(exit.has_confidence());
    }
}

#[test]
fn a_confidence_takes_precedence_over_the_scores_which_stay() {
    let onnx = Onnx::new()
        .head("image", 3, "exit_0/scores")
        .number("image", 3, "exit_0/confidence")
        .output("exit_0/confidence");
    let report = compiled(&onnx, AnswerKind::Classes).unwrap().report;
    assert_eq!(report.exits[0].confidence, Some(ConfidenceSource::Author));
    let exit = &exits(&onnx, AnswerKind::Classes)[0];
    assert!(exit.scores.is_some() && exit.confidence.is_some());
}

#[test]
fn a_confidence_of_another_shape_is_refused_with_the_shape() {
    let base = || {
        Onnx::new()
            .node("Relu", "image", "exit_0/map", &[])
            .output("exit_0/map")
    };
    let remedy = "exit_0/confidence is ";
    let shape = "with shape (batch) or (batch, 1)";
    let scores = base().head("exit_0/map", 3, "exit_0/confidence");
    refused(&scores, AnswerKind::None, &[remedy, "(N, 5)", shape]);
    let map = base().alias("exit_0/map", "exit_0/confidence");
    refused(&map, AnswerKind::None, &[remedy, "(N, 3, 8, 8)", shape]);
    let constant = base()
        .floats("exit_0/confidence", &[1])
        .output("exit_0/confidence");
    refused(
        &constant,
        AnswerKind::None,
        &[remedy, "constant of shape [1]", shape],
    );
    let alone = Onnx::new()
        .number("image", 3, "exit_0/confidence")
        .output("exit_0/confidence");
    refused(
        &alone,
        AnswerKind::None,
        &["stage 0", "it has 0 outputs; there must be 1 to 16"],
    );
}

#[test]
fn what_an_answer_is_must_be_said_unless_it_is_beyond_doubt() {
    let scores = Onnx::new().head("image", 3, "exit_0");
    let outputs = "exit_0/output: a vector of features (N, 5)";
    refused(
        &scores,
        None,
        &["say what an answer is: --answer classes", outputs],
    );
    refused(
        &two_exits(),
        None,
        &["exit_0/map: ", "(N, 3, 8, 8)", "exit_1/pose: "],
    );
    let softmax = scores
        .clone()
        .node("Softmax", "exit_0", "exit_1", &[int("axis", 1)])
        .output("exit_1");
    refused(&softmax, None, &["exit_0/output: ", "exit_1/output: "]);

    let only = Onnx::new().scores("image", 3, "logits");
    let only = only
        .node("Softmax", "logits", "exit_0", &[int("axis", 1)])
        .output("exit_0");
    let taken = compiled(&only, None).unwrap();
    let note = |why| Note::Answer {
        kind: AnswerKind::Classes,
        why,
    };
    let notes = taken.report.notes;
    assert!(
        notes.contains(&note("each exit ends in a softmax")),
        "{notes:?}"
    );
    let named = CompileOptions {
        classes: ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec(),
        ..answering(None)
    };
    let taken = compile(&scores.bytes(), Calibration::default(), &named).unwrap();
    assert_eq!(taken.package.network().answer, AnswerKind::Classes);
    let notes = taken.report.notes;
    assert!(
        notes.contains(&note("each exit has one score for each name of a class")),
        "{notes:?}"
    );
}

#[test]
fn labels_have_the_logistic_function_once() {
    let scores = Onnx::new().head("image", 3, "exit_0");
    let form = |onnx: &Onnx| {
        exits(onnx, AnswerKind::Labels)[0]
            .scores
            .map(|scores| scores.form)
    };
    assert_eq!(form(&scores), Some(ScoreForm::Sigmoid));
    let sigmoid = Onnx::new().scores("image", 3, "logits");
    let sigmoid = sigmoid
        .node("Sigmoid", "logits", "exit_0", &[])
        .output("exit_0");
    assert_eq!(form(&sigmoid), Some(ScoreForm::Probability));
    let classes = &exits(&scores, AnswerKind::Classes)[0];
    assert_eq!(
        classes.scores.map(|scores| scores.form),
        Some(ScoreForm::Softmax)
    );
}

#[test]
fn classes_and_labels_need_scores_and_say_where_from() {
    let two = Onnx::new()
        .node("Relu", "image", "exit_0/map", &[])
        .output("exit_0/map")
        .head("exit_0/map", 3, "exit_0/other");
    for kind in [AnswerKind::Classes, AnswerKind::Labels] {
        let words = [
            "exit_0 has the outputs [\"map\", \"other\"]",
            "exit_0/scores",
            "--answer detections or none",
        ];
        refused(&two, kind, &words);
    }
    let named = two.head("exit_0/map", 3, "exit_0/scores");
    let package = compiled(&named, AnswerKind::Labels).unwrap().package;
    let network = package.network();
    let (_, exit) = network.exits().next().unwrap();
    let scores = exit.scores.expect("those of that name");
    let output = exit.outputs.iter().find(|output| output.name == "scores");
    assert_eq!(output.map(|output| output.tensor), Some(scores.tensor));
    assert_eq!(
        network.classes,
        ["class_0", "class_1", "class_2", "class_3", "class_4"]
    );
    let map = Onnx::new()
        .node("Relu", "image", "exit_0", &[])
        .output("exit_0");
    refused(
        &map,
        AnswerKind::Labels,
        &[
            "the scores of exit_0 are",
            "(N, 3, 8, 8)",
            "(batch, classes)",
        ],
    );
}

#[test]
fn detections_and_other_answers_have_no_class_and_only_the_names_that_are_given() {
    let onnx = two_exits();
    for (kind, names) in [
        (AnswerKind::Detections, vec!["car", "person"]),
        (AnswerKind::None, vec![]),
    ] {
        let options = CompileOptions {
            classes: names.iter().map(|&name| name.to_owned()).collect(),
            ..answering(kind)
        };
        let compiled = compile(&onnx.bytes(), Calibration::default(), &options).unwrap();
        let network = compiled.package.network();
        assert_eq!((network.answer, &network.classes), (kind, &options.classes));
        assert!(network.exits().all(|(_, exit)| exit.scores.is_none()));
    }
}

#[test]
fn names_of_classes_may_repeat_and_must_be_as_many_as_scores() {
    let onnx = Onnx::new().head("image", 3, "exit_0");
    let with = |names: [&str; 5]| CompileOptions {
        classes: names.map(str::to_owned).to_vec(),
        ..answering(AnswerKind::Classes)
    };
    // ImageNet has two classes "crane".
    let twice = with(["crane", "crane", "a", "b", "c"]);
    let compiled = compile(&onnx.bytes(), Calibration::default(), &twice).unwrap();
    assert_eq!(compiled.package.network().classes, twice.classes);
    let empty = compile(
        &onnx.bytes(),
        Calibration::default(),
        &with(["", "a", "b", "c", "d"]),
    );
    let message = empty.unwrap_err().to_string();
    assert!(message.contains("a name (class) has 0 bytes"), "{message}");
    let fewer = CompileOptions {
        classes: vec!["a".to_owned(); 4],
        ..answering(AnswerKind::Labels)
    };
    let message = compile(&onnx.bytes(), Calibration::default(), &fewer)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("exit_0 has 5 scores; there are 4 classes"),
        "{message}"
    );
}

#[test]
fn exits_that_disagree_on_their_outputs_are_refused_by_the_output() {
    let base = || {
        Onnx::new()
            .node("Relu", "image", "exit_0/map", &[])
            .output("exit_0/map")
            .node("Relu", "exit_0/map", "r", &[])
    };
    let rule = "is not at each exit with the same number of dimensions and the same type";
    let other_name = base()
        .node("Sigmoid", "r", "exit_1/mask", &[])
        .output("exit_1/mask");
    refused(&other_name, AnswerKind::None, &["stage 1", "`map`", rule]);
    let other_rank = base().head("r", 3, "exit_1/map");
    refused(&other_rank, AnswerKind::None, &["stage 1", "`map`", rule]);
    let one_more = base()
        .node("Sigmoid", "r", "exit_1/map", &[])
        .output("exit_1/map")
        .head("r", 3, "exit_1/angle");
    refused(&one_more, AnswerKind::None, &["stage 1", "`angle`", rule]);
}

#[test]
fn an_output_whose_size_depends_on_the_batch_is_refused_with_its_dimensions() {
    let turned = Onnx::new().head("image", 3, "scores").node(
        "Transpose",
        "scores",
        "exit_0/turned",
        &[ints_of("perm", &[1, 0])],
    );
    let mut turned = turned;
    turned.graph().output = vec![value("exit_0/turned")];
    let rule = "its first dimension must be the batch, and no other may depend on it";
    refused(
        &turned,
        AnswerKind::None,
        &["the output exit_0/turned is (5, N)", rule],
    );
}

#[test]
fn an_output_of_more_than_64_mebibytes_is_refused_with_its_size() {
    let mut onnx = Onnx::new()
        .node("Relu", "image", "exit_0/map", &[])
        .output("exit_0/map");
    onnx.graph().input[0] = image_of("image", &[3, 2400, 2400]);
    let mut large = answering(AnswerKind::None);
    large.input.size = None;
    let error = compile(&onnx.bytes(), Calibration::default(), &large).unwrap_err();
    let message = error.to_string();
    for words in [
        "`map` of shape [3, 2400, 2400] has 69120000 bytes",
        "the limit is 67108864. Make it smaller",
    ] {
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn more_outputs_than_a_client_can_have_are_refused() {
    let mut onnx = Onnx::new();
    for at in 0..17 {
        onnx = onnx.head("image", 3, &format!("exit_0/o{at}"));
    }
    refused(
        &onnx,
        AnswerKind::None,
        &["stage 0", "it has 17 outputs; there must be 1 to 16"],
    );
}

#[test]
fn what_an_exit_gives_may_be_read_and_given_again_by_later_stages() {
    // The second exit refines the scores of the first, and gives its map as it is.
    let onnx = Onnx::new()
        .node("Relu", "image", "exit_0/map", &[])
        .output("exit_0/map")
        .head("exit_0/map", 3, "exit_0/scores")
        .floats("again", &[5, 5])
        .node("Gemm", "exit_0/scores again", "exit_1/scores", &[])
        .output("exit_1/scores")
        .alias("exit_0/map", "exit_1/map");
    let package = compiled(&onnx, AnswerKind::Classes).unwrap().package;
    let network = package.network();
    let [(first, early), (second, late)] = &network.exits().collect::<Vec<_>>()[..] else {
        panic!("two exits");
    };
    let tensor = |exit: &Exit, name: &str| {
        exit.outputs
            .iter()
            .find(|output| output.name == name)
            .map(|output| output.tensor)
    };
    let (map, scores) = (
        tensor(early, "map").unwrap(),
        tensor(early, "scores").unwrap(),
    );
    assert_eq!(tensor(late, "map"), Some(map));
    assert_ne!(tensor(late, "scores"), Some(scores));
    for carried in [map, scores] {
        assert!(
            first.outputs.contains(&carried) && second.inputs.contains(&carried),
            "{network:#?}"
        );
    }
}
