//! What a list of detections is, and what a package states about it, broken once each.

use punctual_model::{
    AnswerKind, BestScore, Detections, Exit, InputForm, InputSpec, Network, Operator, OperatorKind,
    Output, Quantised, Stage, Tensor, TensorId, reference,
};
use punctual_types::{BoxForm, DETECTION_VALUES, Decoder, Element, Scoring, View};

const ROWS: u32 = 3;

type Change = fn(&mut Scoring, &mut Decoder);

/// A prepared tensor of 4 values at 6 places, which are boxes and scores at once.
fn network() -> Network {
    let input = Tensor {
        channels: 4,
        height: 2,
        width: 3,
    };
    let list = Tensor {
        channels: DETECTION_VALUES,
        height: 1,
        width: ROWS + 1,
    };
    let scoring = Scoring {
        first: 1,
        classes: 3,
        logits: false,
    };
    let decoder = Decoder {
        form: BoxForm::CentreAndSize,
        unit: [3.0, 2.0],
        size: [3, 2],
        threshold: 0.25,
        rows: ROWS,
        candidates: 6,
        overlap: Some(0.5),
        by_class: true,
        averaged: 2,
    };
    let detections = Detections { scoring, decoder };
    let [input_tensor, best, list_tensor] = [0, 1, 2].map(TensorId);
    let output = Output {
        name: "detections".to_owned(),
        tensor: TensorId(2),
        shape: list.sides().to_vec(),
        view: View::plain(list.sides()),
        element: Element::F32,
    };
    Network {
        name: "detector".to_owned(),
        input: InputSpec {
            channels: 4,
            height: 2,
            width: 3,
            form: InputForm::Prepared,
        },
        vectors: vec![],
        answer: AnswerKind::Detections,
        classes: vec![],
        tensors: vec![input, Tensor::features(6), list],
        stages: vec![Stage {
            inputs: vec![TensorId(0)],
            outputs: vec![],
            operators: vec![
                Operator::new("best", &[input_tensor], best, BestScore { scoring }),
                Operator::new(
                    "list",
                    &[best, input_tensor, input_tensor],
                    list_tensor,
                    detections,
                ),
            ],
            exit: Some(Exit {
                outputs: vec![output],
                scores: None,
                confidence: None,
            }),
        }],
        weights: vec![1.0].into(),
        quantised: Quantised::default(),
    }
}

#[track_caller]
fn breaks(expected: &str, damage: impl FnOnce(&mut Network)) {
    let mut network = network();
    damage(&mut network);
    let message = network.validate().unwrap_err().to_string();
    assert!(message.contains(expected), "{message:?} lacks {expected:?}");
}

fn change(network: &mut Network, change: impl FnOnce(&mut Scoring, &mut Decoder)) {
    let kind = &mut network.stages[0].operators[1].kind;
    let OperatorKind::Detections(Detections { scoring, decoder }) = kind else {
        panic!("a list");
    };
    change(scoring, decoder);
}

#[test]
fn the_undamaged_network_is_valid_and_makes_a_list() {
    let network = network();
    assert_eq!(network.validate(), Ok(()));
    // Of six places the second is a box in the middle, the others are none.
    let mut image = [0.0; 24];
    [0.5, 0.5, 0.5, 0.75]
        .into_iter()
        .enumerate()
        .for_each(|(value, number)| image[value * 6 + 1] = number);
    let exits = reference::run_all(&network, &[&image]);
    let list = &exits[0].as_ref().unwrap().outputs[0];
    let column = |at: usize| -> Vec<f32> { (0..6).map(|value| list[value * 4 + at]).collect() };
    assert_eq!(column(0), [0.75, 0.25, 2.25, 1.75, 0.75, 3.0]);
    assert_eq!(column(1), [0.0; 6]);
    assert_eq!(column(3), [1.0, 0.375, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_box_gives_way_to_a_better_one_of_its_class() {
    let scoring = Scoring {
        first: 0,
        classes: 2,
        logits: false,
    };
    let decoder = Decoder {
        form: BoxForm::Corners,
        unit: [1.0, 1.0],
        size: [10, 10],
        threshold: 0.25,
        rows: 3,
        candidates: 3,
        overlap: Some(0.5),
        by_class: true,
        averaged: 2,
    };
    // The first and the second overlap by 0.8, the third is the second again, of another class.
    let boxes = [
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [8.0, 10.0, 10.0],
        [10.0, 10.0, 10.0],
    ]
    .concat();
    let best = [0.5, 0.75, 0.5];
    let scores = [0.5, 0.75, 0.0, 0.0, 0.0, 0.5];
    let rows = |&decoder: &Decoder| {
        let list = punctual_conformance::Alone::new(Detections { scoring, decoder });
        let list = list.reads([3, 1, 1], &best).reads([4, 1, 3], &boxes);
        let list = list.reads([2, 1, 3], &scores).run();
        let columns = decoder.rows as usize + 1;
        let column = |at: usize| (0..6).map(|value| list[value * columns + at]).collect();
        (0..columns).map(column).collect::<Vec<Vec<f32>>>()
    };
    let [first, second, third] = [
        [0.0, 0.0, 8.0, 10.0, 0.5, 0.0],
        [0.0, 0.0, 10.0, 10.0, 0.75, 0.0],
        [0.0, 0.0, 10.0, 10.0, 0.5, 1.0],
    ];
    let count = |count: f32| [count, 0.625, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(rows(&decoder), [second, third, [0.0; 6], count(2.0)]);
    let all_classes = Decoder {
        by_class: false,
        ..decoder
    };
    assert_eq!(rows(&all_classes), [second, [0.0; 6], [0.0; 6], count(1.0)]);
    let none_suppressed = Decoder {
        overlap: None,
        ..decoder
    };
    assert_eq!(rows(&none_suppressed), [second, first, third, count(3.0)]);
    let sure = Decoder {
        threshold: 0.5,
        ..decoder
    };
    assert_eq!(rows(&sure), [second, [0.0; 6], [0.0; 6], count(1.0)]);
}

#[test]
fn figures_out_of_range_are_refused() {
    let cases: [(&str, Change); 12] = [
        ("its rows is 1001; it must be 1 to 1000", |_, it| {
            it.rows = 1001
        }),
        ("its candidates is 0", |_, it| it.candidates = 0),
        ("its candidates is 7", |_, it| it.candidates = 7),
        ("its scores of the confidence is 0", |_, it| it.averaged = 0),
        ("its scores of the confidence is 7", |_, it| it.averaged = 7),
        ("its threshold is NaN", |_, it| it.threshold = f32::NAN),
        ("its threshold is 1;", |_, it| it.threshold = 1.0),
        ("its overlap is -0.5", |_, it| it.overlap = Some(-0.5)),
        ("its overlap is NaN", |_, it| it.overlap = Some(f32::NAN)),
        ("its unit is inf", |_, it| it.unit[0] = f32::INFINITY),
        ("its side of the picture is 0", |_, it| it.size[1] = 0),
        ("from class 4294967295 on", |scoring, _| {
            scoring.first = u32::MAX
        }),
    ];
    for (expected, with) in cases {
        breaks(expected, |network| {
            change(network, with);
            if expected.contains("1001") {
                network.tensors[2].width = 1002;
                let shape = network.tensors[2].sides();
                let output = &mut network.stages[0].exit.as_mut().unwrap().outputs[0];
                (output.shape, output.view) = (shape.to_vec(), View::plain(shape));
            }
        });
    }
    breaks("its result is 6x1x1000", |network| {
        change(network, |_, decoder| decoder.rows = 999);
    });
    breaks("its result is 6x1x4294967295", |network| {
        change(network, |_, decoder| decoder.rows = u32::MAX);
    });
    breaks("of the scores 4x2x3 it takes 0 classes", |network| {
        change(network, |scoring, _| scoring.classes = 0);
    });
}

#[test]
fn places_that_differ_are_refused() {
    breaks(
        "its result is 6x1x1, its output tensor is 5x1x1",
        |network| {
            network.tensors[1] = Tensor::features(5);
        },
    );
    let with = |tensors: [u32; 2]| {
        move |network: &mut Network| {
            network.stages[0].operators[1].others = tensors.map(TensorId).to_vec();
        }
    };
    breaks("of the places 6x1x1 and of 6x1x1", with([1, 0]));
    breaks("of the places 6x1x1 and of 6x1x1", with([0, 1]));
    breaks("tensor 9 does not exist", with([9, 0]));
    breaks("of the places 4x2x3", |network| {
        network.stages[0].operators[1].input = TensorId(0);
    });
    breaks("of the places 6x1x1 and of 4x2x3", |network| {
        network.stages[0].operators[0].others = vec![TensorId(0)];
    });
}
