//! Clients and a daemon over real sockets and shared memory, in threads of one process.

use crate::echo_daemon::{EchoDaemon, terms};
use punctual_client::{
    Client, Crop, Failure, FrameSpec, Lost, PixelFormat, StreamTerms, SubmitError, Verdict, now_ns,
};

const CORNER: Crop = Crop { x: 0, y: 0 };

fn connect(daemon: &EchoDaemon) -> Client {
    Client::connect(daemon.path(), "any", PixelFormat::Rgb8).unwrap()
}

/// Submits `count` frames as fast as slots come back; each must be answered as what it was.
fn stream(mut client: Client, count: u64) {
    let mut answered = 0;
    for sequence in 1..=count {
        while client.unanswered() == 8 {
            answered += 1;
            expect(&mut client, answered);
        }
        let mut slot = client.slot(None).unwrap().unwrap();
        slot.pixels().fill(sequence as u8);
        assert_eq!(slot.submit(sequence, None, CORNER), Ok(sequence));
    }
    while client.unanswered() > 0 {
        answered += 1;
        expect(&mut client, answered);
    }
    assert_eq!(answered, count);
    assert_eq!(client.try_verdict().unwrap(), None);
}

fn expect(client: &mut Client, sequence: u64) {
    let result = client.verdict(None).unwrap().unwrap();
    assert_eq!(result.verdict, Verdict::OnTime);
    assert_eq!((result.sequence, result.captured_ns), (sequence, sequence));
    let class = result.class();
    assert_eq!(class, Some(u16::from(sequence as u8)));
}

#[test]
fn every_frame_of_three_clients_arrives_whole_and_is_answered() {
    const FRAMES: u64 = 2_000;
    let daemon = EchoDaemon::start(terms());
    std::thread::scope(|scope| {
        for spin_ns in [0, 0, Client::SPIN_NS_MAX] {
            let client = connect(&daemon).with_spin_ns(spin_ns);
            scope.spawn(move || stream(client, FRAMES));
        }
    });
    let account = daemon.stop();
    assert_eq!((account.answered, account.torn), (3 * FRAMES, 0));
    assert_eq!(account.faults, []);
}

#[test]
fn a_tensor_is_written_into_its_slot_as_little_endian_floats_and_taken_whole() {
    let daemon = EchoDaemon::start(StreamTerms {
        frame: FrameSpec::packed(PixelFormat::Tensor, 4, 6),
        crop_width: 4,
        crop_height: 2,
        ..terms()
    });
    let mut client = Client::connect(daemon.path(), "any", PixelFormat::Tensor).unwrap();
    let values: [f32; 24] = std::array::from_fn(|at| at as f32 - 3.25);
    let mut slot = client.slot(None).unwrap().unwrap();
    slot.write_tensor(&values);
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    assert_eq!(slot.pixels(), bytes);
    let second_channel = Crop { x: 0, y: 2 };
    assert!(matches!(
        slot.submit(1, None, second_channel),
        Err(SubmitError::Crop { .. })
    ));
    let slot = client.slot(None).unwrap().unwrap();
    assert_eq!(slot.submit(1, None, CORNER), Ok(1));
    assert!(client.verdict(None).unwrap().unwrap().answer.is_some());
}

#[test]
fn slots_run_out_and_come_back_with_their_verdicts() {
    let daemon = EchoDaemon::start(StreamTerms {
        slots: 1,
        ..terms()
    });
    let mut client = connect(&daemon);
    for _ in 0..100 {
        let slot = client.slot(None).unwrap().unwrap();
        slot.submit(0, None, CORNER).unwrap();
        // Waits, without reading a verdict, until the daemon has released the only slot.
        assert!(client.slot(None).unwrap().is_some());
        client.verdict(None).unwrap().unwrap();
    }
}

#[test]
fn unread_verdicts_stop_the_client_before_they_cost_it_its_connection() {
    let daemon = EchoDaemon::start(terms());
    let mut client = connect(&daemon);
    for _ in 0..8 {
        let slot = client.slot(None).unwrap().unwrap();
        slot.submit(0, None, CORNER).unwrap();
    }
    let slot = client.slot(None).unwrap().unwrap();
    let refused = slot.submit(0, None, CORNER);
    assert_eq!(refused, Err(SubmitError::ResultsUnread(8)));
    client.verdict(None).unwrap().unwrap();
    let slot = client.slot(None).unwrap().unwrap();
    assert_eq!(slot.submit(0, None, CORNER), Ok(9));
}

#[test]
fn a_crop_beyond_the_frame_is_not_even_submitted() {
    let daemon = EchoDaemon::start(terms());
    let mut client = connect(&daemon);
    for crop in [Crop { x: 33, y: 0 }, Crop { x: 0, y: 17 }] {
        let slot = client.slot(None).unwrap().unwrap();
        let refused = slot.submit(0, None, crop).unwrap_err();
        assert!(matches!(refused, SubmitError::Crop { .. }), "{refused}");
    }
    assert_eq!(client.unanswered(), 0);
    let slot = client.slot(None).unwrap().unwrap();
    assert_eq!(slot.submit(0, None, Crop { x: 32, y: 16 }), Ok(1));
}

#[test]
fn waiting_for_a_verdict_ends_at_its_limit() {
    let daemon = EchoDaemon::start(terms());
    let mut client = connect(&daemon);
    let limit = now_ns() + 2_000_000;
    assert_eq!(client.verdict(Some(limit)).unwrap(), None);
    assert!(now_ns() >= limit);
    assert_eq!(client.verdict(Some(0)).unwrap(), None);
}

#[test]
fn verdicts_given_before_the_daemon_left_are_read_before_its_absence_is_noticed() {
    let daemon = EchoDaemon::start(terms());
    let mut client = connect(&daemon);
    for _ in 0..3 {
        let slot = client.slot(None).unwrap().unwrap();
        slot.submit(0, None, CORNER).unwrap();
    }
    while daemon_has_answered(&mut client) < 3 {}
    let claim = client.claim(Some(0)).unwrap().unwrap();
    daemon.stop();
    assert!(!client.is_connected());
    for sequence in 1..=3 {
        let result = client.verdict(None).unwrap().unwrap();
        assert_eq!(result.sequence, sequence);
        assert_eq!(result.verdict, Verdict::OnTime);
    }
    assert_eq!(client.submit(claim, 7, None, CORNER), Ok(4));
    let result = client.verdict(None).unwrap().unwrap();
    assert_eq!(result.verdict, Verdict::Failed(Failure::DaemonGone));
    assert_eq!((result.sequence, result.captured_ns), (4, 7));
    let lost = client.verdict(None).unwrap_err();
    assert!(matches!(lost, Lost::Disconnected(_)), "{lost}");
    assert!(client.slot(Some(0)).is_err());
}

/// How many verdicts wait, unread: as many as slots have come back.
fn daemon_has_answered(client: &mut Client) -> u32 {
    std::thread::yield_now();
    client.waiting_verdicts()
}
