//! Answers before their verdicts: several records for one submission, in one area.

use punctual_ipc::internals::{pair, pair_with_outputs, small_terms};
use punctual_ipc::{
    Answer, ClientChannel, Crop, Descriptor, HandedOver, OutputAreas, ResultRecord, StreamTerms,
    Submissions, SubmitError, Verdict,
};
use punctual_platform::clock::now_ns;
use punctual_platform::thread::current_tid;

const CORNER: Crop = Crop { x: 0, y: 0 };

/// The answer of an exit, before the verdict or with it.
fn record(of: &Descriptor, exit: u8, outputs: Option<HandedOver>, is_final: bool) -> ResultRecord {
    ResultRecord {
        sequence: of.sequence,
        slot: of.slot,
        verdict: Verdict::OnTime,
        answer: Some(Answer {
            outputs,
            ..Answer::of_class(exit, 1, 2)
        }),
        part: None,
        left_out: 0,
        captured_ns: 0,
        deadline_ns: u64::MAX,
        finished_ns: 0,
        sent_ns: now_ns(),
        is_final,
    }
}

fn submitted(client: &mut ClientChannel, submissions: &mut Submissions) -> Descriptor {
    let slot = client.slot().expect("a free slot");
    slot.submit(0, None, CORNER).expect("room for its records");
    submissions
        .poll()
        .expect("a good client")
        .expect("it is there")
}

#[test]
fn the_ring_holds_all_records_of_all_submissions_that_have_no_verdict_read() {
    let terms = StreamTerms {
        records: 3,
        ..small_terms()
    };
    let (server, mut client) = pair(terms);
    let (mut submissions, _payload, mut results) = server.split();
    for _ in 0..3 {
        let open: Vec<_> = (0..4)
            .map(|_| submitted(&mut client, &mut submissions))
            .collect();
        for descriptor in &open {
            for exit in 0..3 {
                let record = record(descriptor, exit, None, exit == 2);
                results.push(&record).expect("there is room");
            }
        }
        // The slots are free again, but no verdict was read.
        let refused = client.slot().unwrap().submit(0, None, CORNER);
        assert_eq!(refused, Err(SubmitError::ResultsUnread(4)));
        let read: Vec<_> = std::iter::from_fn(|| client.take().unwrap()).collect();
        assert_eq!(read.len(), 12);
        assert_eq!(client.unanswered(), 0);
    }
}

#[test]
fn an_answer_before_the_verdict_leaves_the_slot_with_the_daemon() {
    let (server, mut client) = pair(small_terms());
    let (mut submissions, _payload, mut results) = server.split();
    let open: Vec<_> = (0..4)
        .map(|_| submitted(&mut client, &mut submissions))
        .collect();
    results.push(&record(&open[0], 0, None, false)).unwrap();
    assert!(!client.take().unwrap().unwrap().is_final);
    assert_eq!((client.unanswered(), client.has_slot()), (4, false));
    results.push(&record(&open[0], 0, None, true)).unwrap();
    assert!(client.take().unwrap().unwrap().is_final);
    assert_eq!((client.unanswered(), client.has_slot()), (3, true));
}

/// Whether the daemon may write to its first area again.
fn is_back(areas: &mut OutputAreas, submissions: &Submissions) -> bool {
    submissions.see_released();
    let reserved = areas.reserve();
    if let Some(area) = reserved {
        areas.cancel(area);
    }
    reserved == Some(0)
}

#[test]
fn an_area_goes_back_after_the_verdict_with_the_last_of_its_outputs() {
    let (mut server, mut client) = pair_with_outputs();
    let mut areas = server.areas().expect("the terms have areas");
    let (mut submissions, _payload, mut results) = server.split();
    let mut slot = client.slot().unwrap();
    slot.set_vector("speed", &[0.0, 0.0]).unwrap();
    slot.submit(0, None, CORNER).unwrap();
    let of = submissions.poll().unwrap().unwrap();
    let area = areas.reserve().unwrap();
    let handed = Some(areas.hand_over(area));
    let mut outputs_of = |exit, is_final| {
        let record = record(&of, exit, handed, is_final);
        results.push(&record).unwrap();
        assert_eq!(client.take(), Ok(Some(record)));
        client.outputs(&record).expect("there are some")
    };
    let first = outputs_of(0, false);
    drop(first);
    assert!(!is_back(&mut areas, &submissions), "no verdict yet");
    let second = outputs_of(1, false);
    let third = outputs_of(1, true);
    drop(third);
    assert!(
        !is_back(&mut areas, &submissions),
        "an earlier answer is kept"
    );
    let again = second.clone();
    drop(second);
    assert!(!is_back(&mut areas, &submissions), "and a copy of it");
    drop(again);
    assert!(is_back(&mut areas, &submissions));
}

#[test]
fn a_thread_that_waits_for_verdicts_gets_them_whatever_comes_before() {
    let (server, mut client) = pair(small_terms());
    let (mut submissions, _payload, mut results) = server.split();
    let of = submitted(&mut client, &mut submissions);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for exit in 0..2 {
                results.push(&record(&of, exit, None, false)).unwrap();
            }
            results.push(&record(&of, 2, None, true)).unwrap();
        });
        let mut exits = Vec::new();
        while client.unanswered() > 0 {
            let seen = client.bell();
            match client.take().unwrap() {
                Some(record) => exits.push(record.answer.unwrap().exit),
                None => assert_eq!(client.wait_for_verdict(seen, None), Ok(true)),
            }
        }
        assert_eq!(exits, [0, 1, 2]);
    });
}

/// Comes back once the thread sleeps.
fn wait_until_asleep(thread: i32) {
    let status = format!("/proc/self/task/{thread}/status");
    let asleep = |status: String| status.contains("State:\tS");
    while !std::fs::read_to_string(&status).is_ok_and(asleep) {
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_behind_a_descriptor_hears_of_answers_while_another_waits_for_verdicts() {
    const SOON_NS: u64 = 5_000_000_000;
    let (server, mut client) = pair(small_terms());
    let (mut submissions, _payload, mut results) = server.split();
    let of = submitted(&mut client, &mut submissions);
    let (watch, seen) = (client.watch(), client.bell());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let also = tell.clone();
        scope.spawn(move || {
            also.send(current_tid()).unwrap();
            client.wait_for_verdict(seen, Some(now_ns() + SOON_NS))
        });
        let watching = scope.spawn(move || {
            tell.send(current_tid()).unwrap();
            let limit_ns = now_ns() + SOON_NS;
            watch.wait(seen, limit_ns);
            now_ns() < limit_ns
        });
        told.iter().take(2).for_each(wait_until_asleep);
        results.push(&record(&of, 0, None, false)).unwrap();
        assert!(watching.join().unwrap(), "it slept through");
    });
}

#[test]
fn a_client_says_how_long_the_records_took_that_it_waited_for() {
    let (server, mut client) = pair(small_terms());
    let (mut submissions, _payload, mut results) = server.split();
    let of = submitted(&mut client, &mut submissions);
    assert_eq!(of.egress_ns, 0, "it has read nothing");
    results.push(&record(&of, 0, None, true)).unwrap();
    client.take().unwrap();
    let of = submitted(&mut client, &mut submissions);
    assert_eq!(of.egress_ns, 0, "it has not waited");
    client.begin_to_wait();
    let sent_ns = now_ns();
    let late = ResultRecord {
        sent_ns,
        ..record(&of, 0, None, true)
    };
    results.push(&late).unwrap();
    client.take().unwrap();
    let of = submitted(&mut client, &mut submissions);
    assert!((1..=now_ns() - sent_ns).contains(&of.egress_ns));
    results.push(&record(&of, 0, None, true)).unwrap();
    client.take().unwrap();
    let of = submitted(&mut client, &mut submissions);
    assert_eq!(of.egress_ns, 0, "it is said once");
}
