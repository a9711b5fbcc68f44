//! Declared reductions: what they are made of, what clients get of them, and what is refused.

use prost::Message;
use punctual_model::{
    AnswerKind, Calibration, Detections, Exit, Network, Operator, OperatorKind, Output, TensorId,
    reference,
};
use punctual_types::{BoxForm, Element, Random};

use super::builder::{Onnx, int, ints_of};
use super::options;
use crate::schema::{ModelProto, ValueInfoProto};
use crate::{
    CompileOptions, Compiled, batch_to_onnx, compile, engine_to_onnx, stage_to_onnx, tensor_name,
};

/// The options of all tests here: what is declared, as on the command line.
fn declaring(reductions: &[&str], detections: Option<&str>) -> CompileOptions {
    let reduction = |text: &&str| text.parse().unwrap();
    CompileOptions {
        answer: (detections.is_none()).then_some(AnswerKind::None),
        reductions: reductions.iter().map(reduction).collect(),
        detections: detections.map(|text| text.parse().unwrap()),
        ..options()
    }
}

#[track_caller]
fn compiled_as(onnx: &Onnx, options: &CompileOptions) -> Compiled {
    compile(&onnx.bytes(), Calibration::default(), options).unwrap()
}

#[track_caller]
fn refused(onnx: &Onnx, options: &CompileOptions, words: &[&str]) {
    let result = compile(&onnx.bytes(), Calibration::default(), options);
    let message = result.unwrap_err().to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
}

fn only_exit(compiled: &Compiled) -> &Exit {
    let mut exits = compiled.package.network().exits();
    exits.next().unwrap().1
}

/// Name, shape and type of each output.
fn outputs(exit: &Exit) -> Vec<(&str, &[u32], &str)> {
    let outputs = exit.outputs.iter();
    let described = |output: &'_ Output| output.element.name();
    outputs
        .map(|output| (&output.name[..], &output.shape[..], described(output)))
        .collect()
}

fn kinds(network: &Network) -> Vec<&'static str> {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let name = |kind: &OperatorKind| match kind {
        OperatorKind::Copy(_) => "copy",
        OperatorKind::BestScore(_) => "best",
        OperatorKind::Detections(_) => "detections",
        OperatorKind::Softmax(_) => "softmax",
        OperatorKind::TopK(_) => "top",
        OperatorKind::Convert(_) => "convert",
        OperatorKind::Take(_) => "take",
        _ => "other",
    };
    operators.map(|operator| name(&operator.kind)).collect()
}

/// Values of a picture of 8 x 8, as the network gets it.
fn image() -> Vec<f32> {
    let mut random = Random::new(7);
    (0..3 * 64).map(|_| random.signed_unit()).collect()
}

fn run(compiled: &Compiled) -> reference::Exited {
    let network = compiled.package.network();
    let mut exits = reference::run_all(network, &[&image()]);
    exits.remove(0).unwrap()
}

fn mask() -> Onnx {
    Onnx::new()
        .node("Relu", "image", "mask", &[])
        .output("mask")
        .node("Sigmoid", "mask", "sure", &[])
        .output("sure")
}

#[test]
fn the_best_class_of_each_pixel_is_a_byte() {
    let compiled = compiled_as(&mask(), &declaring(&["mask=argmax"], None));
    let exit = only_exit(&compiled);
    assert_eq!(
        outputs(exit),
        [
            ("mask", &[8, 8][..], "uint8"),
            ("sure", &[3, 8, 8][..], "float32")
        ]
    );
    let one = Element::U8 {
        scale: 1.0,
        zero: 0,
    };
    assert_eq!(exit.outputs[0].element, one);
    let image = image();
    let relu = |class: usize, pixel: usize| image[class * 64 + pixel].max(0.0);
    let best = |pixel: usize| {
        (0..3).fold(0, |best, class| {
            if relu(class, pixel) > relu(best, pixel) {
                class
            } else {
                best
            }
        }) as f32
    };
    let expected: Vec<f32> = (0..64).map(best).collect();
    assert_eq!(run(&compiled).outputs[0], expected);
    let columns = compiled_as(&mask(), &declaring(&["mask=argmax:-1"], None));
    assert_eq!(
        outputs(only_exit(&columns))[0],
        ("mask", &[3, 8][..], "uint8")
    );
}

#[test]
fn more_positions_than_a_byte_has_are_integers() {
    let onnx = Onnx::new()
        .floats("w", &[300, 3, 1, 1])
        .node("Conv", "image w", "mask", &[])
        .output("mask");
    let compiled = compiled_as(&onnx, &declaring(&["output=argmax"], None));
    let exit = only_exit(&compiled);
    assert_eq!(outputs(exit), [("output", &[8, 8][..], "int32")]);
}

#[test]
fn the_class_comes_from_the_raw_scores_and_clients_get_the_best_few() {
    let onnx = Onnx::new()
        .scores("image", 3, "logits")
        .node("Softmax", "logits", "exit_0", &[]);
    let onnx = onnx.output("exit_0");
    let whole = CompileOptions {
        answer: Some(AnswerKind::Classes),
        ..declaring(&[], None)
    };
    let reduced = CompileOptions {
        answer: Some(AnswerKind::Classes),
        ..declaring(&["output=topk:2"], None)
    };
    let (whole, reduced) = (compiled_as(&onnx, &whole), compiled_as(&onnx, &reduced));
    let exit = only_exit(&reduced);
    assert_eq!(
        outputs(exit),
        [
            ("output", &[2][..], "float32"),
            ("output_index", &[2][..], "int32")
        ]
    );
    let (all, few) = (run(&whole), run(&reduced));
    assert_eq!(all.scores, few.scores);
    let (best, _) = reference::classify(&all.scores);
    assert_eq!(few.outputs[1][0], best as f32);
    assert_eq!(few.outputs[0][0], all.outputs[0][best]);
}

/// Boxes and scores of 64 places as convolutions give them, (N, values, places), and the scores turned.
fn detector() -> Onnx {
    Onnx::new()
        .floats("four", &[4, 3, 1, 1])
        .exactly("middles", &[4], vec![0.5, 0.5, 0.4, 0.3])
        .exactly(
            "three",
            &[3, 3, 1, 1],
            vec![2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0],
        )
        .floats("one", &[1, 3, 1, 1])
        .node("Conv", "image four middles", "b", &[])
        .node("Conv", "image three", "s", &[])
        .node("Conv", "image one", "o", &[])
        .ints("flat", &[0, 0, -1])
        .node("Reshape", "b flat", "boxes", &[])
        .node("Reshape", "s flat", "turned", &[])
        .node("Reshape", "o flat", "objectness", &[])
        .node(
            "Transpose",
            "turned",
            "scores",
            &[ints_of("perm", &[0, 2, 1])],
        )
        .node("Concat", "boxes turned", "joined", &[int("axis", 1)])
}

const RULES: &str = "form=cxcywh,unit=fractions,values=logits,threshold=0.1,rows=5,candidates=20";

#[test]
fn a_stages_file_ends_where_its_reductions_begin() {
    let onnx = detector().output("boxes").output("scores");
    let text = format!("{RULES},overlap=0.5,confidence=3");
    let compiled = compiled_as(&onnx, &declaring(&[], Some(&text)));
    let network = compiled.package.network();
    let file = stage_to_onnx(network, 0).expect("reductions run behind it");
    let operators = &network.stages[0].operators;
    let first = operators.len() - 3;
    assert_eq!(kinds(network)[first..], ["best", "detections", "copy"]);
    let behind: Vec<&Operator> = operators[first..].iter().collect();
    assert_eq!(file.behind, behind);
    let read = [behind[0].input, behind[1].others[0]];
    assert_eq!(file.read_behind(), read);
    let model = ModelProto::decode(&*file.onnx).expect("a model");
    let outputs = model.graph.expect("a graph").output.into_iter();
    let outputs: Vec<String> = outputs.filter_map(|output| output.name).collect();
    assert_eq!(outputs, read.map(tensor_name));
}

#[test]
fn an_engine_of_a_stage_is_one_node_with_the_tensors_of_its_file() {
    let compiled = compiled_as(
        &detector().output("boxes").output("scores"),
        &declaring(&[], None),
    );
    let network = compiled.package.network();
    let file = batch_to_onnx(network, 0, 2).expect("it can be written");
    let engine = engine_to_onnx(network, 0, 2, b"an engine".to_vec()).expect("it can be written");
    let graph = |onnx: &[u8]| {
        let model = ModelProto::decode(onnx).expect("a model");
        (model.graph.expect("a graph"), model.opset_import)
    };
    let ((of_file, _), (of_engine, opsets)) = (graph(&file.onnx), graph(&engine));
    assert_eq!(of_engine.input, of_file.input);
    assert_eq!(of_engine.output, of_file.output);
    assert!(of_engine.initializer.is_empty());
    let [node] = &of_engine.node[..] else {
        panic!("one node");
    };
    assert_eq!(node.op_type.as_deref(), Some("EPContext"));
    assert_eq!(node.domain.as_deref(), Some("com.microsoft"));
    let names = |of: &[ValueInfoProto]| of.iter().filter_map(|v| v.name.clone()).collect();
    let inputs: Vec<String> = names(&of_file.input);
    let outputs: Vec<String> = names(&of_file.output);
    assert_eq!((&node.input, &node.output), (&inputs, &outputs));
    let held = node
        .attribute
        .iter()
        .filter_map(|a| Some((a.name.as_deref()?, a.i, a.s.as_deref())));
    let expected = [
        ("main_context", Some(1), None),
        ("embed_mode", Some(1), None),
        ("ep_cache_context", None, Some(&b"an engine"[..])),
        ("source", None, Some(&b"TensorrtExecutionProvider"[..])),
    ];
    assert_eq!(held.collect::<Vec<_>>(), expected);
    let versions = opsets
        .iter()
        .filter(|of| of.domain.as_deref() == Some("com.microsoft"));
    assert_eq!(
        versions.filter_map(|of| of.version).collect::<Vec<_>>(),
        [1]
    );
}

#[test]
fn boxes_and_scores_become_a_list_without_being_copied() {
    let onnx = detector().output("boxes").output("scores");
    let text = format!("{RULES},overlap=0.5,confidence=3");
    let compiled = compiled_as(&onnx, &declaring(&[], Some(&text)));
    let network = compiled.package.network();
    assert_eq!(network.answer, AnswerKind::Detections);
    let exit = only_exit(&compiled);
    assert_eq!(
        outputs(exit),
        [
            ("detections", &[5, 6][..], "float32"),
            ("count", &[1][..], "int32")
        ]
    );
    let report = compiled.report.to_string();
    let limits = "exit 0 lists at most 5 detections of 20 candidates, scores above 0.1, overlap within a class at most 0.5";
    assert!(report.contains(limits), "{report}");
    // The copy is of one value, the confidence.
    let kinds = kinds(network);
    assert_eq!(kinds, ["other", "other", "best", "detections", "copy"]);
    let found = run(&compiled);
    let (list, count) = (&found.outputs[0], found.outputs[1][0] as usize);
    assert!((1..=5).contains(&count), "{count}");
    let rows: Vec<&[f32]> = list.chunks(6).collect();
    assert!(rows[..count].iter().all(|row| row[4] > 0.1 && row[5] < 3.0));
    assert!(
        rows[..count]
            .windows(2)
            .all(|pair| pair[0][4] >= pair[1][4])
    );
    assert!(
        rows[..count]
            .iter()
            .all(|row| row[2] <= 8.0 && row[0] >= 0.0)
    );
    assert!(rows[count..].iter().all(|row| *row == [0.0; 6]));
    let confidence = found.confidence.unwrap();
    assert!(confidence > 0.1 && confidence <= rows[0][4], "{confidence}");
}

#[test]
fn parts_of_a_joined_output_are_read_where_they_were_made() {
    let parted = detector().output("joined");
    let whole = detector().output("boxes").output("scores");
    let text = format!("{RULES},boxes=output[0:4],scores=output[4:7]");
    let parted = compiled_as(&parted, &declaring(&[], Some(&text)));
    let whole = compiled_as(&whole, &declaring(&[], Some(RULES)));
    assert_eq!(run(&parted), run(&whole));
    assert_eq!(
        kinds(parted.package.network()),
        ["other", "other", "best", "detections"]
    );
}

#[test]
fn a_background_a_softmax_and_objectness_change_the_scores() {
    let onnx = || {
        detector()
            .output("boxes")
            .output("scores")
            .output("objectness")
    };
    let with = |more: &str| {
        let text = format!("{}{more}", RULES.replace("threshold=0.1", "threshold=0"));
        let compiled = compiled_as(&onnx(), &declaring(&[], Some(&text)));
        (run(&compiled), compiled)
    };
    let (plain, compiled) = with("");
    // What is not read stays an output.
    assert_eq!(outputs(only_exit(&compiled))[2].0, "objectness");
    let (no_first, _) = with(",background=first");
    let classes = |found: &reference::Exited| -> Vec<f32> {
        let rows = found.outputs[0]
            .chunks(6)
            .take(found.outputs[1][0] as usize);
        rows.map(|row| row[5]).collect()
    };
    assert!(classes(&plain).contains(&0.0));
    assert!(classes(&no_first).iter().all(|class| *class > 0.0));
    let (no_last, _) = with(",background=last");
    assert!(classes(&no_last).iter().all(|class| *class < 2.0));
    let (weighed, compiled) = with(",objectness=objectness");
    assert_eq!(outputs(only_exit(&compiled)).len(), 2);
    assert!(weighed.outputs[0][4] < plain.outputs[0][4]);
    let text = RULES.replace("logits", "softmax");
    let compiled = compiled_as(&onnx(), &declaring(&[], Some(&text)));
    assert!(kinds(compiled.package.network()).contains(&"softmax"));
    let softmax = run(&compiled);
    assert!(softmax.outputs[0][4] > 1.0 / 3.0);
}

#[test]
fn every_exit_is_reduced() {
    let onnx = Onnx::new()
        .node("Relu", "image", "exit_0/mask", &[])
        .output("exit_0/mask")
        .node("Sigmoid", "exit_0/mask", "exit_1/mask", &[])
        .output("exit_1/mask");
    let compiled = compiled_as(&onnx, &declaring(&["mask=argmax"], None));
    let exits = compiled.package.network().exits();
    let elements = exits.map(|(_, exit)| exit.outputs[0].element.name());
    assert_eq!(elements.collect::<Vec<_>>(), ["uint8", "uint8"]);
}

#[test]
fn reductions_of_what_is_not_there_are_refused() {
    let mask = || mask();
    for (reductions, words) in [
        (
            vec!["map=argmax"],
            vec!["no output \"map\"", "\"mask\", \"sure\""],
        ),
        (vec!["mask=argmax", "mask=topk:1"], vec!["named twice"]),
        (
            vec!["mask=argmax:0"],
            vec!["the output exit_0/mask", "not the batch"],
        ),
        (vec!["mask=argmax:4"], vec!["its attribute axis is 4"]),
        (vec!["mask=topk:4"], vec!["its attribute topk is 4"]),
    ] {
        refused(&mask(), &declaring(&reductions, None), &words);
    }
    let detector = detector().output("boxes").output("scores").output("joined");
    for (more, words) in [
        ("boxes=frames", vec!["no output \"frames\""]),
        (
            "boxes=joined",
            vec!["given as boxes is (N, 7, 64)", "(batch, places, 4)"],
        ),
        ("boxes=joined[4:9]", vec!["more than 8 values a place"]),
        ("scores=joined[7:8]", vec!["more than 7 values a place"]),
        (
            "objectness=scores",
            vec!["given as objectness", "(batch, 64, 1)"],
        ),
        (
            "confidence=21",
            vec!["scores of the confidence is 21", "1 to the candidates"],
        ),
        ("overlap=1.5", vec!["the overlap is 1.5; it must be 0 to 1"]),
    ] {
        let declared = declaring(&[], Some(&format!("{RULES},{more}")));
        refused(&detector, &declared, &words);
    }
    let many = RULES.replace("candidates=20", "candidates=65");
    let words = ["the candidates is 65", "at most the places"];
    refused(&detector, &declaring(&[], Some(&many)), &words);
    let read = declaring(&["scores=argmax"], Some(RULES));
    refused(
        &detector,
        &read,
        &["no output \"scores\" that could be reduced"],
    );
}

#[test]
fn two_confidences_are_refused() {
    let onnx = Onnx::new()
        .floats("four", &[4, 3, 1, 1])
        .node("Conv", "image four", "b", &[])
        .ints("flat", &[0, 0, -1])
        .node("Reshape", "b flat", "exit_0/boxes", &[])
        .node("Reshape", "image flat", "exit_0/scores", &[])
        .node("Relu", "exit_0/scores", "s", &[])
        .output("exit_0/boxes")
        .floats("w", &[1, 3])
        .node("GlobalAveragePool", "image", "m", &[])
        .node("Flatten", "m", "f", &[])
        .node("Gemm", "f w", "exit_0/confidence", &[int("transB", 1)])
        .output("exit_0/confidence");
    let onnx = onnx
        .node("Relu", "s", "exit_0/sure", &[])
        .output("exit_0/sure");
    let text = format!("{RULES},scores=sure,confidence=2");
    let words = ["exit_0 has a confidence of its own"];
    refused(&onnx, &declaring(&[], Some(&text)), &words);
    let text = format!("{RULES},scores=sure");
    let compiled = compiled_as(&onnx, &declaring(&[], Some(&text)));
    assert!(only_exit(&compiled).confidence.is_some());
}

#[test]
fn suppression_in_the_file_is_refused_and_the_refusal_says_what_to_do() {
    let onnx = detector()
        .node("NonMaxSuppression", "boxes turned", "x", &[])
        .output("x");
    refused(
        &onnx,
        &declaring(&[], None),
        &["(NonMaxSuppression)", "--detections"],
    );
}

#[test]
fn places_on_other_axes_are_brought_to_rows_of_pixels() {
    // Each row of the picture is a place, its columns are the values.
    let onnx = Onnx::new()
        .node("Relu", "image", "r", &[])
        .ints("flat", &[0, 24, 8])
        .node("Reshape", "r flat", "rows", &[])
        .output("rows");
    let text = RULES.replace(
        "candidates=20",
        "boxes=output[0:4],scores=output[4:8],candidates=20",
    );
    let compiled = compiled_as(&onnx, &declaring(&[], Some(&text)));
    let network = compiled.package.network();
    let mut operators = network.stages[0].operators.iter();
    let found = operators.find_map(|operator| match &operator.kind {
        OperatorKind::Detections(Detections { decoder, .. }) => {
            Some((&operator.others[..], decoder))
        }
        _ => None,
    });
    let Some((&[boxes, _], decoder)) = found else {
        panic!("{found:?}");
    };
    let shape = |id: TensorId| network.tensors[id.index()].sides();
    assert_eq!(shape(boxes), [4, 1, 24]);
    assert_eq!(
        (decoder.form, decoder.unit),
        (BoxForm::CentreAndSize, [8.0; 2])
    );
    let found = run(&compiled);
    let best = image()
        .chunks(8)
        .map(|row| row[4..].iter().copied().fold(0.0, f32::max))
        .fold(0.0, f32::max);
    let score = 1.0 / (1.0 + (-best).exp());
    let has_best = found.outputs[0]
        .chunks(6)
        .any(|row| (row[4] - score).abs() < 1e-6);
    assert!(has_best || found.outputs[1][0] > 0.0);
}

#[test]
fn what_has_no_length_stays_zero_when_it_is_normalised() {
    for order in [1, 2] {
        let attributes = [int("axis", 1), int("p", order)];
        let onnx = Onnx::new()
            .node("LpNormalization", "image", "exit_0", &attributes)
            .output("exit_0");
        let compiled = compiled_as(&onnx, &declaring(&[], None));
        let image = [0.0; 3 * 64];
        let exits = reference::run_all(compiled.package.network(), &[&image]);
        let outputs = &exits[0].as_ref().unwrap().outputs;
        assert_eq!(outputs, &[image.to_vec()]);
    }
}
