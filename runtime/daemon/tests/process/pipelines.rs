//! Tasks after a detector: their crops, their verdicts, and that on the whole frame.

use crate::support::{self, Daemon, Folder, LIMIT, assert_accounts};
use punctual_client::{
    Client, ConnectError, Crop, Options, PixelFormat, Refusal, Response, ResultRecord, Verdict,
    now_ns,
};
use punctual_daemon::Report;

const MANIFEST: &str = r#"
[daemon]
board = "host"

[[partition]]
name = "main"
units = 1

[[task]]
name = "streets"
package = "streets.punctual"
rate_hz = 2
deadline_ms = 400
slots = 3
frame = { format = "rgb8", width = 640, height = 480 }

[[task]]
name = "signs"
package = "signs.punctual"
after = "streets"
crops = { at_most = 2, score = 0.3, grow = 1.2, fit = "letterbox" }
"#;

fn soon() -> Option<u64> {
    Some(now_ns() + LIMIT.as_nanos() as u64)
}

fn connect(daemon: &Daemon) -> Client {
    let options = Options::new(daemon.socket(), "streets", PixelFormat::Rgb8);
    options.reconnect(false).open(soon()).expect("a place")
}

/// Centres of signs that do not touch.
const PLACES: [(f32, f32); 4] = [
    (110.0, 130.0),
    (330.0, 130.0),
    (530.0, 320.0),
    (200.0, 350.0),
];
const RADIUS: f32 = 50.0;

/// Red rings around white on grey: signs that prohibit.
fn paint(pixels: &mut [u8], signs: usize) {
    for (at, pixel) in pixels.chunks_exact_mut(3).enumerate() {
        let (x, y) = ((at % 640) as f32, (at / 640) as f32);
        let far = |(left, top): &(f32, f32)| (x - left).hypot(y - top);
        let nearest = PLACES[..signs]
            .iter()
            .map(far)
            .fold(f32::INFINITY, f32::min);
        pixel.copy_from_slice(match nearest {
            near if near < 40.0 => &[255, 255, 255],
            near if near < RADIUS => &[255, 0, 0],
            _ => &[126, 126, 126],
        });
    }
}

fn submit(client: &mut Client, signs: usize) {
    let mut slot = client.slot(soon()).expect("a daemon").expect("a slot");
    paint(slot.pixels(), signs);
    let whole = Crop { x: 0, y: 0 };
    slot.submit(now_ns(), None, whole).expect("in order");
}

/// The verdict on a frame with that number of signs.
fn ask(client: &mut Client, signs: usize) -> Response {
    submit(client, signs);
    client.verdict(soon()).expect("a daemon").expect("in time")
}

/// How many boxes the detector gives that are good enough.
fn boxes(response: &Response) -> usize {
    let outputs = response.outputs().expect("the detector's");
    let count = outputs
        .get("count")
        .expect("one")
        .as_i32()
        .expect("a number")[0];
    let rows = outputs
        .get("detections")
        .expect("rows")
        .as_f32()
        .expect("floats");
    let rows = rows.chunks_exact(6).take(count as usize);
    rows.filter(|row| row[4] >= 0.3).count()
}

fn task<'r>(report: &'r Report, name: &str) -> &'r punctual_daemon::TaskReport {
    report
        .tasks
        .iter()
        .find(|task| task.name == name)
        .expect("a task of the manifest")
}

#[test]
fn each_sign_that_a_detector_finds_is_looked_at_and_the_frame_has_one_verdict() {
    let daemon = Daemon::start_in(Folder::with_detector(MANIFEST));
    let mut client = connect(&daemon);
    let response = ask(&mut client, 1);
    assert_eq!(response.verdict, Verdict::OnTime, "{response:?}");
    assert_eq!(
        (response.task_name(), response.part),
        (Some("streets"), None)
    );
    let [part] = response.parts() else {
        panic!("one sign: {:?}", response.parts());
    };
    assert_eq!(
        (part.verdict, part.task_name()),
        (Verdict::OnTime, Some("signs"))
    );
    assert!(
        part.class_name().is_some() && part.confidence().is_some(),
        "{part:?}"
    );
    assert_eq!(
        (part.sequence, part.captured_ns),
        (response.sequence, response.captured_ns)
    );
    let seen = part.view().expect("what it saw").bounds();
    let (x, y) = PLACES[0];
    assert!(
        seen.left < x && x < seen.right && seen.top < y && y < seen.bottom,
        "{seen:?}"
    );
    assert!(
        seen.right - seen.left < 3.0 * RADIUS,
        "about the sign: {seen:?}"
    );
    drop((response, client));
    let report = daemon.stop();
    assert_accounts(&report);
    assert_eq!(
        (
            task(&report, "streets").on_time,
            task(&report, "signs").on_time
        ),
        (1, 1)
    );
}

#[test]
fn a_frame_without_signs_has_its_verdict_with_the_detectors_answer() {
    let daemon = Daemon::start_in(Folder::with_detector(MANIFEST));
    let mut client = connect(&daemon);
    for _ in 0..8 {
        let response = ask(&mut client, 0);
        assert_eq!((response.verdict, boxes(&response)), (Verdict::OnTime, 0));
        assert!(response.parts().is_empty());
    }
    drop(client);
    let report = daemon.stop();
    assert_accounts(&report);
    assert_eq!(
        (
            task(&report, "streets").on_time,
            task(&report, "signs").submitted
        ),
        (8, 0)
    );
}

#[test]
fn signs_beyond_the_bound_are_left_out_and_counted() {
    let daemon = Daemon::start_in(Folder::with_detector(MANIFEST));
    let mut client = connect(&daemon);
    let response = ask(&mut client, 4);
    let found = boxes(&response);
    assert!(found > 2, "{found} boxes");
    assert_eq!(
        (response.parts().len(), usize::from(response.left_out)),
        (2, found - 2)
    );
    drop((response, client));
    let report = daemon.stop();
    assert_accounts(&report);
    assert_eq!(task(&report, "signs").rejected.fan_out, found as u64 - 2);
}

#[test]
fn the_detectors_answer_comes_before_those_of_the_signs() {
    let daemon = Daemon::start_in(Folder::with_detector(MANIFEST));
    let mut client = support::connect(&daemon.socket(), "streets", PixelFormat::Rgb8);
    let mut slot = client.slot().expect("a free slot");
    paint(slot.pixels(), 2);
    slot.submit(now_ns(), None, Crop { x: 0, y: 0 })
        .expect("in order");
    let mut records = Vec::new();
    while records
        .last()
        .is_none_or(|last: &ResultRecord| !last.is_final)
    {
        let seen = client.bell();
        match client.take().expect("the daemon lives") {
            Some(record) => records.push(record),
            None => assert!(client.wait(seen, soon()).expect("the daemon lives")),
        }
    }
    let numbers = records
        .iter()
        .map(|it| it.part.map_or(0, |part| part.number));
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 0]);
    let [first, .., whole] = &records[..] else {
        panic!("{records:?}");
    };
    let outputs = |record: &ResultRecord| record.answer.expect("an answer").outputs;
    assert!(outputs(first).is_some() && outputs(first) == outputs(whole));
    assert!(first.finished_ns <= whole.finished_ns, "of all parts");
    drop(client);
    assert_accounts(&daemon.stop());
}

#[test]
fn frames_beyond_the_rate_have_a_verdict_each_and_each_slot_comes_back() {
    let daemon = Daemon::start_in(Folder::with_detector(MANIFEST));
    let mut client = connect(&daemon);
    let mut verdicts = 0;
    for _ in 0..20 {
        submit(&mut client, 2);
        submit(&mut client, 2);
        for _ in 0..2 {
            let response = client.verdict(soon()).expect("a daemon").expect("in time");
            assert!(response.parts().len() <= 2);
            verdicts += 1;
        }
    }
    assert_eq!((verdicts, client.unanswered()), (40, 0));
    let slots = std::array::from_fn::<_, 3, _>(|_| client.claim(Some(0)).expect("a daemon"));
    assert!(slots.iter().all(Option::is_some), "three slots, all free");
    drop((slots, client));
    let report = daemon.stop();
    assert_accounts(&report);
    assert_eq!(task(&report, "streets").submitted, 40);
}

#[test]
fn clients_that_leave_amid_their_frames_leave_nothing_behind() {
    let daemon = Daemon::start_in(Folder::with_detector(MANIFEST));
    for turn in 0..20 {
        let mut client = connect(&daemon);
        (0..2).for_each(|_| submit(&mut client, turn % 4));
        if turn % 2 == 0 {
            client.answer(soon()).expect("a daemon");
        }
    }
    let mut client = connect(&daemon);
    let response = ask(&mut client, 1);
    assert_eq!(response.parts().len(), boxes(&response).min(2));
    drop(response);
    drop(client);
    let report = daemon.stop();
    assert_accounts(&report);
}

#[test]
fn a_daemon_that_is_told_to_end_gives_each_frame_its_verdict() {
    let daemon = Daemon::start_in(Folder::with_detector(MANIFEST));
    let mut client = connect(&daemon);
    (0..3).for_each(|_| submit(&mut client, 3));
    daemon.signal("TERM");
    for _ in 0..3 {
        let response = client
            .verdict(soon())
            .expect("its last words")
            .expect("in time");
        assert!(response.is_final, "{response:?}");
    }
    let (status, report) = daemon.end();
    assert!(status.success(), "{status}");
    assert_accounts(&report);
}

#[test]
fn nobody_submits_to_a_task_after_another() {
    let daemon = Daemon::start_in(Folder::with_detector(MANIFEST));
    let options = Options::new(daemon.socket(), "signs", PixelFormat::Rgb8);
    let refused = options.connect().expect_err("it has no clients");
    let ConnectError::Refused(Refusal::NotSubmittedTo { task, first }) = refused else {
        panic!("{refused}");
    };
    assert_eq!((&task[..], &first[..]), ("signs", "streets"));
    let mut client = connect(&daemon);
    let mut claim = client.claim(soon()).expect("a daemon").expect("a slot");
    assert!(claim.set_task("streets").is_ok() && claim.set_task("signs").is_err());
    client.give_back(claim);
}
