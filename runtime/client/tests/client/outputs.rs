//! Tensors of answers and vectors of frames, across connections and in every way to get verdicts.

use std::process::Command;

use crate::echo_daemon::{EchoDaemon, terms};
use punctual_client::{
    Client, Crop, Options, PixelFormat, Rejection, Response, Stream, Verdict, now_ns,
};

const CORNER: Crop = Crop { x: 0, y: 0 };

fn daemon(test: &str) -> EchoDaemon {
    let name = format!("punctual-giving-{}-{test}", std::process::id());
    EchoDaemon::start_giving_outputs(std::env::temp_dir().join(name), terms())
}

fn daemon_of_detections(test: &str) -> EchoDaemon {
    let name = format!("punctual-detecting-{}-{test}", std::process::id());
    EchoDaemon::start_giving_detections(std::env::temp_dir().join(name), terms())
}

fn options(daemon: &EchoDaemon) -> Options {
    Options::new(daemon.path(), "any", PixelFormat::Rgb8)
}

fn soon() -> Option<u64> {
    Some(now_ns() + 20_000_000_000)
}

fn ask(client: &mut Client, pixel: u8) -> Response {
    let mut slot = client.slot(soon()).unwrap().unwrap();
    slot.pixels().fill(pixel);
    slot.set_vector("speed", &[1.5, -0.5]).unwrap();
    slot.submit(0, None, CORNER).unwrap();
    client.verdict(soon()).unwrap().unwrap()
}

fn first(response: &Response) -> f32 {
    let boxes = response.outputs().unwrap().get("boxes").unwrap();
    boxes.as_f32().unwrap()[0]
}

#[test]
fn a_response_that_is_dropped_gives_its_area_back() {
    let daemon = daemon("dropped");
    let mut client = options(&daemon).connect().unwrap();
    for turn in 0..100 {
        let response = ask(&mut client, turn % 2);
        assert_eq!(first(&response), f32::from(turn % 2));
        let name = ["car", "tram"][usize::from(turn % 2)];
        assert_eq!(response.class_name(), Some(name));
        assert_eq!(response.confidence(), Some(1.0));
    }
    assert_eq!(daemon.stop().answered, 100);
}

#[test]
fn outputs_outlive_their_daemon_and_do_not_touch_the_next_ones_areas() {
    let first_daemon = daemon("next");
    let path = first_daemon.path().to_owned();
    let mut client = options(&first_daemon).connect().unwrap();
    let kept: Vec<Response> = (0..4).map(|pixel| ask(&mut client, pixel)).collect();
    let rejected = ask(&mut client, 9);
    assert_eq!(rejected.verdict, Verdict::Rejected(Rejection::NoArea));
    first_daemon.stop();
    assert_eq!(client.verdict(Some(0)).unwrap(), None, "it notices");
    let _daemon = EchoDaemon::start_giving_outputs(path, terms());
    let newer: Vec<Response> = (4..8).map(|pixel| ask(&mut client, pixel)).collect();
    for (pixel, response) in (0_u8..).zip(kept.iter().chain(&newer)) {
        assert_eq!(first(response), f32::from(pixel));
    }
    // Releases of areas of the old daemon free none of the new one's.
    drop(kept);
    let rejected = ask(&mut client, 9);
    assert_eq!(rejected.verdict, Verdict::Rejected(Rejection::NoArea));
    drop(newer);
    assert_eq!(first(&ask(&mut client, 9)), 9.0);
}

#[test]
fn callbacks_of_a_stream_get_outputs() {
    let daemon = daemon("stream");
    let stream: Stream = options(&daemon).stream(None).unwrap();
    let (told, responses) = std::sync::mpsc::channel();
    for pixel in 0..50_u8 {
        let mut slot = stream.slot(soon()).unwrap().unwrap();
        slot.pixels().fill(pixel);
        slot.set_vector_at(0, &[0.0, 0.0]).unwrap();
        let told = told.clone();
        slot.submit_then(0, None, CORNER, move |mut response| {
            told.send((first(&response), response.take_outputs()))
                .unwrap();
        })
        .unwrap();
        let (value, outputs) = responses.recv().unwrap();
        assert_eq!(value, f32::from(pixel));
        assert!(outputs.is_some_and(|outputs| outputs.is_finite()));
    }
}

/// What an example prints.
fn run(example: &str, daemon: &EchoDaemon) -> String {
    let test = std::env::current_exe().unwrap();
    let programs = test.parent().unwrap().join("../examples");
    let output = Command::new(programs.join(example))
        .arg(daemon.path())
        .arg("any")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_response_says_what_the_network_saw() {
    let daemon = daemon_of_detections("view");
    let mut client = options(&daemon).connect().unwrap();
    let crops = [Crop { x: 0, y: 0 }, Crop { x: 32, y: 16 }];
    for crop in crops {
        let mut slot = client.slot(soon()).unwrap().unwrap();
        slot.pixels().fill(1);
        slot.submit(0, None, crop).unwrap();
    }
    for crop in crops {
        let response = client.verdict(soon()).unwrap().unwrap();
        let view = response.view().unwrap();
        assert_eq!(view.corner(), (crop.x, crop.y));
        assert_eq!((view.input().width, view.input().height), (80, 64));
        // The crop lies between borders of 8 columns, at twice its size.
        let (x, y) = (crop.x as f32, crop.y as f32);
        assert_eq!(view.to_frame(8.0, 0.0), (x, y));
        assert_eq!(view.to_frame(72.0, 64.0), (x + 32.0, y + 32.0));
    }
}

#[test]
fn the_detector_prints_its_boxes() {
    let daemon = daemon_of_detections("detector");
    let text = run("detector", &daemon);
    let second = "frame 2: car 0.75: 16.0 8.0 32.0 24.0\nframe 2: tram 0.50: 24.0 16.0 48.0 40.0\n";
    assert!(text.contains(second), "{text}");
    let counts = ["car", "tram"].map(|class| text.matches(class).count());
    assert_eq!(counts, [30, 15], "{text}");
}

#[test]
fn vectors_go_with_frames_and_tensors_come_back() {
    let daemon = daemon("vectors");
    let text = run("vectors", &daemon);
    let third = "frame 3: car, boxes: [0.0, 1.5, 1.0, 0.0] [0.0, 0.0, 0.0, 0.0]\n";
    assert!(text.contains(third), "{text}");
    assert_eq!(text.matches("tram, boxes").count(), 15, "{text}");
}
