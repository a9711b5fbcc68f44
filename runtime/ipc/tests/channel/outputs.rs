//! Outputs and vectors: over a real handshake, and with a client and a daemon that write what they like.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_ipc::internals::{Fields, files, pair_with_outputs, terms_with_outputs};
use punctual_ipc::{
    Answer, ClientChannel, ConnectError, Crop, Description, Disconnected, HandedOver, Hello,
    Listener, OutputAreas, OutputTerms, PixelFormat, ResultRecord, ServerChannel, StreamTerms,
    SubmitError, VectorDescription, VectorError, Verdict,
};
use punctual_platform::poll::wait_readable;
use punctual_platform::shared_memory::{Access, MemoryFile};

const CORNER: Crop = Crop { x: 0, y: 0 };

fn record(sequence: u64, slot: u16, handed: HandedOver, not_finite: bool) -> ResultRecord {
    ResultRecord {
        sequence,
        slot,
        verdict: Verdict::OnTime,
        answer: Some(Answer {
            exit: 0,
            class: None,
            confidence: Some(9),
            outputs: Some(handed),
            not_finite,
        }),
        part: None,
        left_out: 0,
        captured_ns: 0,
        deadline_ns: u64::MAX,
        finished_ns: 0,
        sent_ns: 0,
        is_final: true,
    }
}

/// What a worker writes: eight floats from `first` on.
fn fill(areas: &mut OutputAreas, area: u16, first: f32) {
    let mut memory = areas.lend(area).expect("it is here");
    let bytes = memory.as_mut_slice()[64..96].chunks_exact_mut(4);
    for (at, to) in (0..).zip(bytes) {
        to.copy_from_slice(&(first + f32::from(at as u8)).to_ne_bytes());
    }
    areas.put_back(area, memory);
}

fn submit(client: &mut ClientChannel) -> Result<u64, SubmitError> {
    let mut slot = client.slot().expect("a free slot");
    slot.set_vector("speed", &[1.5, -0.5]).expect("in order");
    slot.submit(0, None, CORNER)
}

#[test]
fn outputs_are_the_clients_until_it_lets_go_of_them() {
    let (mut server, mut client) = pair_with_outputs();
    let mut areas = server.areas().expect("the terms have areas");
    let (mut submissions, payload, mut results) = server.split();
    let mut kept = Vec::new();
    for turn in 0..20_u8 {
        let sequence = submit(&mut client).unwrap();
        let descriptor = submissions.poll().unwrap().unwrap();
        let mut speed = [0.0; 2];
        let slot = descriptor.slot;
        payload.read_vectors(slot, sequence, &mut speed).unwrap();
        assert_eq!(speed, [1.5, -0.5]);
        let area = areas.reserve().expect("the client keeps three at most");
        fill(&mut areas, area, f32::from(turn));
        let handed = areas.hand_over(area);
        let record = record(sequence, slot, handed, turn == 3);
        results.push(&record).unwrap();
        assert_eq!(client.take(), Ok(Some(record)));
        let outputs = client.outputs(&record).expect("there are some");
        assert!(client.outputs(&record).is_none(), "once");
        assert_eq!(outputs.is_finite(), turn != 3);
        kept.push((turn, outputs));
        if kept.len() > 3 {
            kept.remove(usize::from(turn) % 4);
        }
        for (turn, outputs) in &kept {
            let boxes = outputs.get("boxes").expect("the only one");
            assert_eq!((outputs.len(), boxes.shape()), (1, &[2, 4][..]));
            let values = boxes.as_f32().expect("floats");
            assert_eq!(values[0], f32::from(*turn));
            assert_eq!(values[7], f32::from(*turn) + 7.0);
            assert!(boxes.is_finite() && boxes.as_i32().is_err());
            assert!(outputs.get("masks").is_none());
        }
    }
    // They outlive both ends.
    drop((client, submissions, payload, results, areas));
    assert!(kept[0].1.at(0).is_some_and(|boxes| boxes.is_finite()));
}

#[test]
fn vectors_of_other_names_lengths_or_values_are_refused_before_they_are_submitted() {
    let (_server, mut client) = pair_with_outputs();
    let mut slot = client.slot().unwrap();
    let unknown = slot.set_vector("sped", &[1.0, 2.0]).unwrap_err();
    assert!(unknown.to_string().contains("speed"), "{unknown}");
    let long = slot.set_vector("speed", &[1.0; 3]);
    assert!(matches!(long, Err(VectorError::Length { found: 3, .. })));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let refused = slot.set_vector("speed", &[0.0, bad]);
        assert!(matches!(
            refused,
            Err(VectorError::NotFinite { position: 1, .. })
        ));
    }
    let refused = slot.submit(0, None, CORNER);
    assert_eq!(refused, Err(SubmitError::VectorNotSet(0)));
    assert!(submit(&mut client).is_ok());
    // Those of the slot's last use do not count for the next.
    let again = client.slot().unwrap().submit(0, None, CORNER);
    assert_eq!(again, Err(SubmitError::VectorNotSet(0)));
}

#[test]
fn a_record_with_an_area_that_does_not_exist_ends_the_connection() {
    let (server, mut client) = pair_with_outputs();
    let (mut submissions, _payload, mut results) = server.split();
    let sequence = submit(&mut client).unwrap();
    let descriptor = submissions.poll().unwrap().unwrap();
    let handed = HandedOver {
        area: 4,
        generation: 1,
    };
    results
        .push(&record(sequence, descriptor.slot, handed, false))
        .unwrap();
    assert!(matches!(client.take(), Err(Disconnected::Record(_))));
}

#[test]
fn an_exit_that_the_description_does_not_know_has_no_outputs() {
    let (mut server, mut client) = pair_with_outputs();
    let mut areas = server.areas().unwrap();
    let (mut submissions, _payload, mut results) = server.split();
    let sequence = submit(&mut client).unwrap();
    let descriptor = submissions.poll().unwrap().unwrap();
    let area = areas.reserve().unwrap();
    let mut record = record(sequence, descriptor.slot, areas.hand_over(area), false);
    record.answer.as_mut().unwrap().exit = 200;
    results.push(&record).unwrap();
    client.take().unwrap();
    let outputs = client.outputs(&record).unwrap();
    assert!(outputs.is_empty() && outputs.at(0).is_none());
}

#[test]
fn released_words_of_any_value_free_at_most_the_liars_own_areas_early() {
    let (mut server, client) = pair_with_outputs();
    let mut areas = server.areas().unwrap();
    let (submissions, _payload, _results) = server.split();
    let fields = Fields::of(&client);
    for value in [0, 1, 2, u32::MAX] {
        for area in 0..4 {
            let word = fields.requests.word32(fields.released + 4 * area);
            word.store(value, Ordering::Relaxed);
        }
        submissions.see_released();
        let mut held = Vec::new();
        while let Some(area) = areas.reserve() {
            assert!(!held.contains(&area), "an area was given away twice");
            held.push(area);
        }
        for area in held {
            areas.hand_over(area);
        }
    }
    assert!(areas.are_all_back());
}

fn path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("punctual-outputs-{}-{count}", std::process::id()))
}

/// Both ends over a real handshake; `connect` is the client's.
fn shake<T: Send>(
    terms: &StreamTerms,
    description: &Description,
    connect: impl FnOnce(&std::path::Path) -> T + Send,
) -> (T, ServerChannel) {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| connect(&path));
        assert!(wait_readable(std::os::fd::AsFd::as_fd(&listener), None));
        let connection = listener.accept().unwrap().unwrap();
        assert!(wait_readable(std::os::fd::AsFd::as_fd(&connection), None));
        connection.hello().unwrap().unwrap();
        let server = connection.admit_with(terms, description).unwrap();
        (client.join().unwrap(), server)
    })
}

fn hello() -> Hello {
    Hello::new("boxes", PixelFormat::Rgb8)
}

#[test]
fn a_client_learns_the_description_and_reads_what_the_workers_write() {
    let (terms, description) = terms_with_outputs();
    let connect = |path: &std::path::Path| ClientChannel::connect(path, &hello()).unwrap();
    let (mut client, mut server) = shake(&terms, &description, connect);
    assert_eq!(**client.description(), description);
    assert_eq!(client.terms().vectors, 2);
    let mut areas = server.areas().unwrap();
    let (mut submissions, payload, mut results) = server.split();
    let sequence = submit(&mut client).unwrap();
    let slot = submissions.poll().unwrap().unwrap().slot;
    let mut speed = [0.0; 2];
    payload.read_vectors(slot, sequence, &mut speed).unwrap();
    assert_eq!(speed, [1.5, -0.5]);
    let area = areas.reserve().unwrap();
    fill(&mut areas, area, 40.0);
    let record = record(sequence, slot, areas.hand_over(area), false);
    results.push(&record).unwrap();
    client.take().unwrap().unwrap();
    let outputs = client.outputs(&record).unwrap();
    let boxes = outputs.get("boxes").unwrap().as_f32().unwrap();
    assert_eq!(boxes, [40.0, 41.0, 42.0, 43.0, 44.0, 45.0, 46.0, 47.0]);
}

#[test]
fn the_longest_vectors_arrive_whole_in_every_slot() {
    let (terms, mut description) = terms_with_outputs();
    let long = |name: &str| VectorDescription {
        name: name.to_owned(),
        length: 4096,
        low: 0.0,
        high: 1e6,
    };
    description.vectors = ["goal", "state", "history", "words"].map(long).to_vec();
    let connect = |path: &std::path::Path| ClientChannel::connect(path, &hello()).unwrap();
    let (mut client, server) = shake(&terms, &description, connect);
    let (mut submissions, payload, _results) = server.split();
    for first in (0..terms.slots).map(|slot| 100_000 * u32::from(slot)) {
        let sent: Vec<f32> = (first..first + 16_384)
            .map(|number| number as f32)
            .collect();
        let mut slot = client.slot().unwrap();
        for (vector, numbers) in description.vectors.iter().zip(sent.chunks(4096)) {
            slot.set_vector(&vector.name, numbers).unwrap();
        }
        let sequence = slot.submit(0, None, CORNER).unwrap();
        let slot = submissions.poll().unwrap().unwrap().slot;
        let mut arrived = vec![0.0; sent.len()];
        payload.read_vectors(slot, sequence, &mut arrived).unwrap();
        assert_eq!(arrived, sent);
    }
}

#[test]
fn nobody_but_the_daemon_can_write_to_areas_not_even_by_way_of_proc() {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    let (terms, description) = terms_with_outputs();
    let (client, mut server) = shake(&terms, &description, |path| files(path, &hello()).unwrap());
    let (_socket, mut files) = client;
    let outputs = files.remove(2);
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", outputs.as_raw_fd()));
    for file in opened.into_iter().chain([outputs.into()]) {
        assert!(file.write_all_at(&[9], 4096 + 64).is_err());
        assert!(file.set_len(0).is_err(), "its size is sealed");
        let file = MemoryFile::received(file.into()).unwrap();
        assert!(file.map(Access::ReadWrite).is_err());
    }
    let mut areas = server.areas().unwrap();
    let area = areas.reserve().unwrap();
    let memory = areas.lend(area).unwrap();
    assert!(memory.as_slice().iter().all(|&byte| byte == 0));
}

#[test]
fn a_daemon_that_describes_what_cannot_be_is_refused() {
    let (terms, good) = terms_with_outputs();
    let terms = StreamTerms {
        outputs: OutputTerms {
            description_bytes: good.encode().len() as u32,
            ..terms.outputs
        },
        ..terms
    };
    let good = good.encode();
    let mut bad_text = good.clone();
    let tram = bad_text.windows(4).position(|w| w == b"tram").unwrap();
    bad_text[tram] = 0xC3;
    let mut far = good.clone();
    // The offset, a varint, behind rank and sides.
    let at = far.windows(3).position(|w| w == [2, 2, 4]).unwrap() + 3;
    far[at] = 127;
    let mut many = good.clone();
    many[2] = 0x7F;
    for bad in [bad_text, far, many] {
        assert!(Description::decode(&bad, &terms).is_err());
    }
    assert!(Description::decode(&good, &terms).is_ok());
    let error = ConnectError::from(Description::decode(&[1], &terms).unwrap_err());
    assert!(error.to_string().contains("description"), "{error}");
}
