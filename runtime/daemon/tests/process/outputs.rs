//! Networks whose answers are tensors, and whose frames come with vectors: from the manifest to the client.

use crate::support::{Daemon, Folder, LIMIT, profile};
use punctual_client::{
    Client, Crop, Failure, Options, PixelFormat, Rejection, Response, SubmitError, VectorError,
    Verdict, now_ns,
};
use punctual_model::{
    AnswerKind, Binary, Calibration, Exit, InputSpec, Linear, Network, Operator, Output, Package,
    Pool, Quantised, Stage, Tensor, TensorId, VectorSpec, WeightRange,
};
use punctual_types::{Activation, BinaryFunction, Element, Extent, View};

const MANIFEST: &str = r#"
[daemon]
board = "host"

[[model]]
name = "tones"
package = "signs.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "tones"
model = "tones"
partition = "main"
criticality = "real-time"
rate_hz = 10
deadline_ms = 500
slots = 3
queue_depth = 8
clients = 2
frame = { format = "rgb8", width = 320, height = 240, crop = [192, 192] }

[[task.vector]]
name = "offset"
length = 3
range = [-10.0, 10.0]
"#;

/// The mean of each colour, 0 to 1, plus the vector; its second exit doubles that. As floats and as whole numbers.
fn tones() -> Network {
    let output = |name: &str, tensor, element| Output {
        name: name.to_owned(),
        tensor: TensorId(tensor),
        shape: vec![3],
        view: View::plain([3, 1, 1]),
        element,
    };
    let exit = |tensor| Exit {
        outputs: vec![
            output("tones", tensor, Element::F32),
            output("whole", tensor, Element::I32),
        ],
        scores: None,
        confidence: None,
    };
    let mean = Pool::mean_of_all(Extent::square(4));
    let plus = Binary::new(BinaryFunction::Add);
    let double = Linear {
        activation: Activation::None,
    };
    let of_double = [(0, 9), (9, 3)].map(|(start, len)| WeightRange { start, len });
    let double = Operator::new("double", &[TensorId(3)], TensorId(4), double);
    let diagonal = |at: usize| if at.is_multiple_of(4) { 2.0 } else { 0.0 };
    let weights = (0..9).map(diagonal).chain([0.0; 3]);
    Network {
        name: "tones".to_owned(),
        input: InputSpec::rgb(4, 4, [0.0; 3], [1.0; 3]),
        vectors: vec![VectorSpec {
            name: "offset".to_owned(),
            length: 3,
        }],
        answer: AnswerKind::None,
        classes: vec![],
        tensors: vec![
            Tensor {
                channels: 3,
                height: 4,
                width: 4,
            },
            Tensor::features(3),
            Tensor::features(3),
            Tensor::features(3),
            Tensor::features(3),
        ],
        stages: vec![
            Stage {
                inputs: vec![TensorId(0), TensorId(1)],
                outputs: vec![TensorId(3)],
                operators: vec![
                    Operator::new("mean", &[TensorId(0)], TensorId(2), mean),
                    Operator::new("plus", &[2, 1].map(TensorId), TensorId(3), plus),
                ],
                exit: Some(exit(3)),
            },
            Stage {
                inputs: vec![TensorId(3)],
                outputs: vec![],
                operators: vec![double.with_weights(of_double)],
                exit: Some(exit(4)),
            },
        ],
        weights: weights.collect::<Vec<f32>>().into(),
        quantised: Quantised::default(),
    }
}

fn folder(manifest: &str) -> Folder {
    let folder = Folder::with(manifest);
    let package = Package::new(tones(), Calibration::default()).expect("a valid network");
    let host = punctual_daemon::host::detect().expect("a machine");
    folder.write("signs.punctual", &package.encode());
    let profile = profile(&host.machine, &host.clocks, &package);
    folder.write("signs.profile.json", profile.to_json().as_bytes());
    folder
}

fn connect(daemon: &Daemon) -> Client {
    let options = Options::new(daemon.socket(), "tones", PixelFormat::Rgb8);
    options.open(soon()).expect("a place")
}

fn soon() -> Option<u64> {
    Some(now_ns() + LIMIT.as_nanos() as u64)
}

/// The response to a frame of one grey with that vector.
fn ask(client: &mut Client, grey: u8, offset: [f32; 3]) -> Response {
    let mut slot = client.slot(soon()).expect("a daemon").expect("a slot");
    slot.pixels().fill(grey);
    slot.set_vector("offset", &offset).expect("three numbers");
    slot.submit(now_ns(), None, Crop { x: 0, y: 0 })
        .expect("in order");
    client.verdict(soon()).expect("a daemon").expect("in time")
}

#[test]
fn a_client_gets_the_tensors_of_its_answers_and_keeps_them_as_long_as_it_likes() {
    let daemon = Daemon::start_in(folder(MANIFEST));
    let mut client = connect(&daemon);
    let vector = &client.description().vectors[0];
    assert_eq!((vector.name.as_str(), vector.length), ("offset", 3));
    assert_eq!((vector.low, vector.high), (-10.0, 10.0));
    let mut kept = Vec::new();
    for turn in 0..30_u8 {
        let grey = turn * 8;
        let mut response = ask(&mut client, grey, [0.0, -4.0, f32::from(turn) / 8.0]);
        assert_eq!(response.verdict, Verdict::OnTime, "{response:?}");
        let answer = response.answer.expect("an answer");
        assert_eq!(
            (answer.exit, answer.class, answer.confidence),
            (1, None, None)
        );
        assert_eq!(response.class_name(), None);
        let outputs = response.take_outputs().expect("by default all");
        assert!(outputs.is_finite());
        kept.push((turn, outputs));
        // Two of three areas are kept.
        if kept.len() > 2 {
            kept.remove(0);
        }
        for (turn, outputs) in &kept {
            let mean = f32::from(turn * 8) / 255.0;
            let expected = [0.0, -4.0, f32::from(*turn) / 8.0].map(|x| 2.0 * (mean + x));
            let tones = outputs.get("tones").expect("an output");
            assert_eq!(tones.shape(), [3]);
            let tones = tones.as_f32().expect("floats");
            for (tone, expected) in tones.iter().zip(expected) {
                assert!((tone - expected).abs() < 1e-3, "{tones:?} {expected}");
            }
            let whole = outputs.get("whole").expect("an output");
            let whole = whole.as_i32().expect("whole numbers");
            assert!(whole.iter().zip(tones).all(|(&w, &t)| w == t as i32));
        }
    }
    drop(client);
    let kept = kept.pop().expect("they outlive the connection").1;
    assert_eq!(kept.at(0).map(|tensor| tensor.name()), Some("tones"));
    let report = daemon.stop();
    assert_eq!(report.tasks[0].on_time, 30);
}

#[test]
fn a_client_that_never_lets_go_is_rejected_and_others_are_not() {
    let daemon = Daemon::start_in(folder(MANIFEST));
    let (mut hoarder, mut other) = (connect(&daemon), connect(&daemon));
    let mut hoard: Vec<Response> = (0..3).map(|_| ask(&mut hoarder, 9, [0.0; 3])).collect();
    for _ in 0..10 {
        let rejected = ask(&mut hoarder, 9, [0.0; 3]);
        assert_eq!(rejected.verdict, Verdict::Rejected(Rejection::NoArea));
        assert_eq!(ask(&mut other, 9, [0.0; 3]).verdict, Verdict::OnTime);
    }
    hoard.pop();
    let again = ask(&mut hoarder, 9, [0.0; 3]);
    assert_eq!(again.verdict, Verdict::OnTime);
    // It dies with its hoard: its place is another's, with areas of its own.
    drop(hoarder);
    let mut next = connect(&daemon);
    for _ in 0..3 {
        hoard.push(ask(&mut next, 9, [0.0; 3]));
    }
    assert!(hoard.iter().all(|response| response.outputs().is_some()));
    drop((next, other));
    let report = daemon.stop();
    assert_eq!(report.tasks[0].rejected.no_area, 10);
}

#[test]
fn numbers_out_of_range_fail_with_a_reason_of_their_own_and_disturb_nothing() {
    let daemon = Daemon::start_in(folder(MANIFEST));
    let mut client = connect(&daemon);
    for bad in [10.1, -11.0, f32::MAX] {
        let failed = ask(&mut client, 9, [0.0, bad, 0.0]);
        assert_eq!(failed.verdict, Verdict::Failed(Failure::Vector));
        assert!(failed.outputs().is_none());
        let fine = ask(&mut client, 9, [10.0, -10.0, 0.0]);
        assert_eq!(fine.verdict, Verdict::OnTime);
    }
    let mut slot = client.slot(soon()).expect("a daemon").expect("a slot");
    let refused = slot.set_vector("offset", &[0.0, f32::NAN, 0.0]);
    assert!(matches!(refused, Err(VectorError::NotFinite { .. })));
    let refused = slot.submit(now_ns(), None, Crop::default());
    assert_eq!(refused, Err(SubmitError::VectorNotSet(0)));
    let report = daemon.stop();
    assert_eq!(
        (report.tasks[0].failed.vector, report.tasks[0].on_time),
        (3, 3)
    );
}

#[test]
fn what_a_manifest_may_not_want_is_refused_with_what_there_is() {
    let wanted = |outputs: &str| {
        let key = format!("slots = 3\noutputs = {outputs}");
        MANIFEST.replace("slots = 3", &key)
    };
    let (code, words) = folder(&wanted("[\"tone\"]")).refusal(&[]);
    assert_eq!(code, Some(3), "{words}");
    assert!(
        words.contains("tones (float32 [3]), whole (int32 [3])"),
        "{words}"
    );
    let threshold = MANIFEST.replace("slots = 3", "slots = 3\nthreshold = 0.5");
    let (_, words) = folder(&threshold).refusal(&[]);
    assert!(words.contains("remove `threshold`"), "{words}");
    let longer = MANIFEST.replace("length = 3", "length = 4");
    let (_, words) = folder(&longer).refusal(&[]);
    assert!(words.contains("set length = 3"), "{words}");
    let (without, _) = MANIFEST.split_once("[[task.vector]]").expect("a vector");
    let (_, words) = folder(without).refusal(&[]);
    assert!(
        words.contains("add [[task.vector]] with name = \"offset\""),
        "{words}"
    );
}

#[test]
fn a_task_that_wants_nothing_gets_nothing() {
    let manifest = MANIFEST.replace("slots = 3", "slots = 3\noutputs = []");
    let daemon = Daemon::start_in(folder(&manifest));
    let mut client = connect(&daemon);
    let hoard: Vec<Response> = (0..10).map(|_| ask(&mut client, 9, [0.0; 3])).collect();
    assert!(hoard.iter().all(|response| response.outputs().is_none()));
    assert_eq!(client.terms().outputs.areas, 0);
    drop(client);
    daemon.stop();
}

#[test]
fn each_exits_answer_comes_as_it_is_there_and_all_stay_readable_side_by_side() {
    let manifest = MANIFEST.replace("slots = 3", "slots = 3\nanswers = \"each-exit\"");
    let daemon = Daemon::start_in(folder(&manifest));
    let mut client = connect(&daemon);
    assert_eq!(client.terms().records, 2, "a network of two exits");
    let (mut early, mut frames) = (0, 0);
    let limit = soon();
    // A client that gets no processor for a while sees no answer before the verdict.
    while frames < 40 || (early == 0 && Some(now_ns()) < limit) {
        frames += 1;
        let grey = (frames % 40) as u8 * 6;
        let mut slot = client.slot(soon()).expect("a daemon").expect("a slot");
        slot.pixels().fill(grey);
        slot.set_vector("offset", &[0.0; 3]).expect("three numbers");
        let sequence = slot.submit(now_ns(), None, Crop::default());
        let sequence = sequence.expect("in order");
        let mut answers = Vec::new();
        while answers.last().is_none_or(|last: &Response| !last.is_final) {
            let answer = client.answer(soon()).expect("a daemon").expect("in time");
            assert_eq!(answer.verdict, Verdict::OnTime, "{answer:?}");
            assert_eq!(answer.sequence, sequence);
            if !answer.is_final {
                let latest = client.latest().expect("an answer");
                assert_eq!(latest.sequence, sequence);
            }
            answers.push(answer);
        }
        assert!(client.latest().is_none(), "nothing newer than the verdict");
        // A client that is slow to look finds the deeper answer alone.
        early += usize::from(answers.len() > 1);
        for response in &answers {
            let answer = response.answer.expect("an answer");
            assert_eq!(answer.exit, u8::from(response.is_final));
            let tones = response.outputs().and_then(|all| all.get("tones"));
            let tones = tones.expect("an output").as_f32().expect("floats");
            let expected = f32::from(grey) / 255.0 * (1.0 + f32::from(answer.exit));
            assert!((tones[0] - expected).abs() < 1e-3, "{tones:?} {expected}");
        }
    }
    assert!(
        early > 0,
        "no first answer was ever seen before the verdict"
    );
    drop(client);
    let report = daemon.stop();
    assert_eq!(report.tasks[0].on_time, frames);
}

#[test]
fn a_client_that_asks_for_verdicts_alone_gets_no_other_record() {
    let manifest = MANIFEST.replace("slots = 3", "slots = 3\nanswers = \"each-exit\"");
    let daemon = Daemon::start_in(folder(&manifest));
    let mut client = connect(&daemon);
    for _ in 0..20 {
        let response = ask(&mut client, 9, [0.0; 3]);
        assert!(response.is_final && response.answer.is_some_and(|answer| answer.exit == 1));
    }
    drop(client);
    daemon.stop();
}
