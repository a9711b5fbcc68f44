//! The channel under a model checker: every interleaving of few steps (with at most three
//! preemptions) and every stale value that the memory model allows, of the code that ships.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p punctual-ipc --lib -- models::
//! ```
//!
//! The last tests are canaries: what the product must not do, which the checker must notice.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use punctual_platform::Doorbell;
use punctual_platform::areas::Area;
use punctual_platform::atomics::{AtomicU32, Ordering, fence};
use punctual_platform::futex::{self, Scope};
use punctual_platform::rt_log::RtLog;

use crate::client::{ClientChannel, Outputs};
use crate::description::Description;
use crate::descriptor::{Crop, Descriptor};
use crate::frame::{FrameSpec, PixelFormat};
use crate::handshake::{OutputTerms, StreamTerms};
use crate::internals::{pair, pair_over};
use crate::region::Region;
use crate::result::{Answer, ResultRecord, Verdict};
use crate::ring::{RingReader, RingSpec, RingWriter};
use crate::server::{OutputAreas, Results, Submissions};
use crate::slots::{FIRST_GENERATION, SlotTable};

const RING: RingSpec = RingSpec {
    tail: 0,
    cells: 64,
    capacity: 2,
};

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn terms(slots: u16, results: u32) -> StreamTerms {
    StreamTerms {
        stream: 3,
        slots,
        results,
        frame: FrameSpec::packed(PixelFormat::Rgb8, 2, 1),
        crop_width: 1,
        crop_height: 1,
        outputs: OutputTerms::default(),
        vectors: 0,
        records: 1,
    }
}

fn record(descriptor: &Descriptor) -> ResultRecord {
    ResultRecord {
        sequence: descriptor.sequence,
        slot: descriptor.slot,
        verdict: Verdict::OnTime,
        answer: None,
        part: None,
        left_out: 0,
        captured_ns: descriptor.captured_ns,
        deadline_ns: 0,
        finished_ns: 0,
        sent_ns: 0,
        is_final: true,
    }
}

/// As a client's port: sleeps until it is rung while there is nothing.
fn next(submissions: &mut Submissions) -> Descriptor {
    loop {
        if let Some(descriptor) = submissions.poll().expect("a good client") {
            return descriptor;
        }
        submissions.wait_for_ring();
        submissions.rung().expect("a good client");
    }
}

/// As the client library: sleeps on the bell while there is nothing.
fn verdict(client: &mut ClientChannel) -> ResultRecord {
    loop {
        let seen = client.bell();
        if let Some(record) = client.take().expect("a good daemon") {
            return record;
        }
        if client.wait(seen, None).is_err() {
            // The connection is closed; what was pushed before is there.
            let last = client.take().expect("a good daemon");
            return last.expect("pushed before the end");
        }
    }
}

fn submit(client: &mut ClientChannel, captured_ns: u64) {
    let slot = client.slot().expect("a free slot");
    slot.submit(captured_ns, None, Crop::default())
        .expect("a daemon");
}

/// One area, in whose place the checker's cell is: written for two submissions, read by the client. `reserve` is how the
/// second gets it, `read` what becomes of the first one's outputs.
fn hand_an_area_over(
    reserve: impl Fn(&Submissions, &mut OutputAreas) -> u16 + Copy + Sync + Send + 'static,
    read: fn(Outputs, Arc<UnsafeCell<u64>>),
) {
    check(2, move || {
        let terms = StreamTerms {
            outputs: OutputTerms {
                areas: 1,
                area_bytes: 64,
                description_bytes: 0,
            },
            ..terms(1, 2)
        };
        let (outputs, areas) = (Region::private(0), vec![Area::private(64)]);
        let (mut server, mut client) = pair_over(terms, Description::default(), outputs, areas);
        let mut areas = server.areas().expect("the terms have one");
        let (mut submissions, payload, mut results) = server.split();
        let values = Arc::new(UnsafeCell::new(0_u64));
        let written = Arc::clone(&values);
        submit(&mut client, 1);
        let daemon = thread::spawn(move || {
            let descriptor = next(&mut submissions);
            let area = areas.reserve().expect("it was never handed over");
            // SAFETY: the checker's cell: it reports a reader at the same time.
            written.with_mut(|values| unsafe { *values = 1 });
            let answer = Answer {
                outputs: Some(areas.hand_over(area)),
                ..Answer::of_class(0, 0, 0)
            };
            let record = ResultRecord {
                answer: Some(answer),
                ..record(&descriptor)
            };
            results.push(&record).expect("a good client");
            assert_eq!(reserve(&submissions, &mut areas), area);
            // SAFETY: as above.
            written.with_mut(|values| unsafe { *values = 2 });
            (submissions, payload, results, areas)
        });
        let record = verdict(&mut client);
        let outputs = client.outputs(&record).expect("there are some");
        read(outputs, values);
        drop(daemon.join().expect("no panic"));
    });
}

fn reserve_when_free(submissions: &Submissions, areas: &mut OutputAreas) -> u16 {
    loop {
        submissions.see_released();
        match areas.reserve() {
            Some(area) => return area,
            None => thread::yield_now(),
        }
    }
}

fn read(outputs: Outputs, values: Arc<UnsafeCell<u64>>) {
    // SAFETY: the checker's cell: it reports a writer at the same time.
    values.with(|values| assert_eq!(unsafe { *values }, 1));
    drop(outputs);
}

fn read_on_two_threads(outputs: Outputs, values: Arc<UnsafeCell<u64>>) {
    let (also, theirs) = (outputs.clone(), Arc::clone(&values));
    let other = thread::spawn(move || read(also, theirs));
    read(outputs, values);
    other.join().expect("no panic");
}

#[test]
fn an_area_is_written_again_only_after_its_client_has_let_go_of_it() {
    hand_an_area_over(reserve_when_free, read);
}

#[test]
fn an_area_that_two_threads_hold_is_written_again_only_after_both_have_let_go_of_it() {
    hand_an_area_over(reserve_when_free, read_on_two_threads);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn canary_an_area_that_is_written_before_its_client_has_let_go_of_it_is_noticed() {
    // Planted: it does not wait.
    hand_an_area_over(|_, _| 0, read);
}

#[test]
fn a_ring_carries_whole_cells_in_order_across_its_end() {
    check(4, || {
        let region = Region::private(RING.end() + 8);
        let head_at = RING.end();
        let (shared, mut writer) = (region.clone(), RingWriter::new(region.clone(), RING));
        let writing = thread::spawn(move || {
            for i in 1..=3 {
                let head = || shared.word32(head_at).load(Ordering::Acquire);
                while !writer.push(&[i; 8], head()).expect("a good reader") {
                    thread::yield_now();
                }
            }
        });
        let mut reader = RingReader::new(region.clone(), RING);
        for i in 1..=3 {
            let cell = loop {
                match reader.pop().expect("a good writer") {
                    Some(cell) => break cell,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(cell, [i; 8]);
            region
                .word32(head_at)
                .store(reader.head(), Ordering::Release);
        }
        writing.join().expect("no panic");
    });
}

#[test]
fn of_two_that_give_a_slot_back_exactly_one_does_and_the_next_use_is_not_theirs() {
    check(3, || {
        let table = Arc::new(SlotTable::new(1));
        let submission = |sequence| Descriptor {
            sequence,
            captured_ns: 0,
            deadline_ns: None,
            slot: 0,
            crop: Crop::default(),
            egress_ns: 0,
            task: 0,
        };
        table.take(&submission(1), FIRST_GENERATION).expect("free");
        let released = |table: Arc<SlotTable>| move || u32::from(table.release(0, 1).is_some());
        let intake = thread::spawn(released(Arc::clone(&table)));
        let port = thread::spawn(released(Arc::clone(&table)));
        // A port takes it again as soon as it is free.
        let again = table.take(&submission(2), FIRST_GENERATION + 1).is_ok();
        let count = intake.join().expect("no panic") + port.join().expect("no panic");
        assert_eq!(count, 1);
        assert_eq!(table.holds(0, 2), again);
        assert!(!table.holds(0, 1));
    });
}

#[test]
fn a_slot_is_never_in_two_hands_and_no_submission_sleeps_through() {
    check(3, || {
        let (server, mut client) = pair(terms(1, 2));
        let (mut submissions, payload, results) = server.split();
        // In the place of the slot's pixels.
        let pixels = Arc::new(UnsafeCell::new(0));
        let read = Arc::clone(&pixels);
        let daemon = thread::spawn(move || {
            for sequence in 1..=2 {
                let descriptor = next(&mut submissions);
                assert_eq!(descriptor.sequence, sequence);
                // SAFETY: the checker's cell: it reports a writer at the same time.
                read.with(|pixels| assert_eq!(unsafe { *pixels }, sequence));
                assert!(payload.release(descriptor.slot, sequence));
            }
            submissions
        });
        for sequence in 1..=2 {
            while !client.has_slot() {
                thread::yield_now();
            }
            // SAFETY: as above.
            pixels.with_mut(|pixels| unsafe { *pixels = sequence });
            submit(&mut client, sequence);
        }
        daemon.join().expect("no panic");
        drop(results);
    });
}

#[test]
fn a_port_that_looks_by_itself_and_then_falls_asleep_misses_nothing() {
    check(3, || {
        let (server, mut client) = pair(terms(2, 2));
        let (mut submissions, payload, results) = server.split();
        let daemon = thread::spawn(move || {
            submissions.attend(true);
            let mut taken = u64::from(submissions.poll().expect("a good client").is_some());
            submissions.attend(false);
            while taken < 2 {
                taken = next(&mut submissions).sequence;
            }
            submissions
        });
        submit(&mut client, 11);
        submit(&mut client, 12);
        daemon.join().expect("no panic");
        drop((payload, results));
    });
}

fn push_two(results: &mut Results, submissions: &mut Submissions) {
    for _ in 0..2 {
        let descriptor = next(submissions);
        results.push(&record(&descriptor)).expect("a good client");
    }
}

#[test]
fn no_verdict_sleeps_through_and_each_comes_once_in_order() {
    check(3, || {
        let (server, mut client) = pair(terms(2, 2));
        let (mut submissions, _payload, mut results) = server.split();
        submit(&mut client, 11);
        submit(&mut client, 12);
        let daemon = thread::spawn(move || {
            push_two(&mut results, &mut submissions);
            (results, submissions)
        });
        for sequence in 1..=2 {
            let record = verdict(&mut client);
            assert_eq!(
                (record.sequence, record.captured_ns),
                (sequence, 10 + sequence)
            );
        }
        assert_eq!(client.take(), Ok(None));
        daemon.join().expect("no panic");
    });
}

#[test]
fn a_thread_that_waits_for_verdicts_sleeps_through_none_that_comes_after_an_answer() {
    check(3, || {
        let terms = StreamTerms {
            records: 2,
            ..terms(1, 2)
        };
        let (server, mut client) = pair(terms);
        let (mut submissions, _payload, mut results) = server.split();
        submit(&mut client, 11);
        let daemon = thread::spawn(move || {
            let verdict = record(&next(&mut submissions));
            let answer = ResultRecord {
                answer: Some(Answer::of_class(0, 0, 0)),
                is_final: false,
                ..verdict
            };
            for record in [answer, verdict] {
                results.push(&record).expect("a good client");
            }
            (results, submissions)
        });
        loop {
            let seen = client.bell();
            match client.take().expect("a good daemon") {
                Some(record) if record.is_final => break,
                Some(_) => {}
                None => assert_eq!(client.wait_for_verdict(seen, None), Ok(true)),
            }
        }
        daemon.join().expect("no panic");
    });
}

#[test]
fn a_thread_that_turns_the_bell_into_something_else_sleeps_through_no_verdict() {
    check(3, || {
        let (server, mut client) = pair(terms(1, 2));
        let (mut submissions, _payload, mut results) = server.split();
        let watch = client.watch();
        submit(&mut client, 11);
        let daemon = thread::spawn(move || {
            let descriptor = next(&mut submissions);
            results.push(&record(&descriptor)).expect("a good client");
            (results, submissions)
        });
        let seen = client.bell();
        if client.take().expect("a good daemon").is_none() {
            // In the place of the thread behind a client's descriptor.
            while watch.count() == seen {
                watch.wait(seen, u64::MAX);
            }
            let record = client.take().expect("a good daemon");
            assert_eq!(record.expect("it was rung for").captured_ns, 11);
        }
        daemon.join().expect("no panic");
    });
}

#[test]
fn the_death_of_a_connection_wakes_its_client_after_the_last_verdict() {
    check(3, || {
        let (server, mut client) = pair(terms(1, 2));
        let (mut submissions, _payload, mut results) = server.split();
        submit(&mut client, 11);
        let daemon = thread::spawn(move || {
            let descriptor = next(&mut submissions);
            results.push(&record(&descriptor)).expect("a good client");
            drop(results);
        });
        assert_eq!(verdict(&mut client).sequence, 1);
        // Rung once more at the end, or its connection is closed: it does not wait for ever.
        let seen = 1;
        let woken = client.wait(seen, None);
        assert!(woken != Ok(false), "{woken:?}");
        daemon.join().expect("no panic");
    });
}

#[test]
fn no_ring_of_the_daemons_own_doorbell_is_slept_through() {
    check(3, || {
        let bell = Arc::new(Doorbell::new());
        let word = Arc::new(AtomicU32::new(0));
        let ringers = [1, 2].map(|bit| {
            let (bell, word) = (Arc::clone(&bell), Arc::clone(&word));
            thread::spawn(move || {
                word.fetch_add(bit, Ordering::Relaxed);
                bell.ring();
            })
        });
        let mut seen = bell.count();
        // What was written before a ring is visible after it.
        while word.load(Ordering::Relaxed) != 3 {
            seen = bell.wait(seen, None);
        }
        for ringer in ringers {
            ringer.join().expect("no panic");
        }
    });
}

#[test]
fn a_log_of_real_time_threads_has_whole_records_or_has_counted_them() {
    check(2, || {
        let log = Arc::new(RtLog::<u64, 2>::new());
        let writing = [1, 2].map(|number| {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                log.write(number);
                log.write(10 + number);
            })
        });
        let mut seen = Vec::from_iter(log.take());
        for writing in writing {
            writing.join().expect("no panic");
        }
        seen.extend(std::iter::from_fn(|| log.take()));
        let mut numbers: Vec<u64> = seen.iter().map(|record| record.value).collect();
        assert_eq!(numbers.len() as u64 + log.dropped(), 4);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), seen.len(), "none twice");
    });
}

#[test]
fn two_readers_of_a_log_never_have_the_same_record() {
    check(3, || {
        let log = Arc::new(RtLog::<u64, 2>::new());
        assert!(log.write(1));
        let theirs = Arc::clone(&log);
        let reading = thread::spawn(move || theirs.take().map(|record| record.value));
        let ours = log.take().map(|record| record.value);
        assert!(log.write(2), "there was room for both");
        let theirs = reading.join().expect("no panic");
        let rest = std::iter::from_fn(|| log.take()).map(|record| record.value);
        let mut all: Vec<u64> = ours.into_iter().chain(theirs).chain(rest).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// Looks twice, as other threads go on.
fn two_looks() -> impl FnMut() -> bool {
    let mut looks = 0;
    move || {
        thread::yield_now();
        looks += 1;
        looks == 2
    }
}

#[test]
fn a_ring_that_is_left_to_an_attendant_wakes_the_thread_that_waits() {
    check(3, || {
        let bell = Arc::new(Doorbell::new());
        let (waited_on, attended) = (Arc::clone(&bell), Arc::clone(&bell));
        let waiting = thread::spawn(move || waited_on.wait(0, None));
        let attending = thread::spawn(move || attended.attend(two_looks()));
        bell.ring_attended();
        attending.join().expect("no panic");
        // One that slept through the ring sleeps for ever, which the checker reports.
        assert_eq!(waiting.join().expect("no panic"), 1);
    });
}

#[test]
fn rings_of_both_kinds_meet_an_attendant_and_a_thread_that_waits_for_each() {
    check(2, || {
        let bell = Arc::new(Doorbell::new());
        let (waited_on, attended) = (Arc::clone(&bell), Arc::clone(&bell));
        let waiting = thread::spawn(move || {
            let mut seen = 0;
            while seen < 2 {
                seen = waited_on.wait(seen, None);
            }
        });
        let attending = thread::spawn(move || attended.attend(two_looks()));
        bell.ring();
        bell.ring_attended();
        attending.join().expect("no panic");
        waiting.join().expect("no panic");
    });
}

#[test]
#[should_panic(expected = "left == right")]
fn canary_a_position_that_is_published_too_weakly_is_noticed() {
    check(3, || {
        let region = Region::private(RING.end());
        let shared = region.clone();
        let writing = thread::spawn(move || {
            shared.word64(RING.cells).store(7, Ordering::Relaxed);
            // Planted: `RingWriter::push` has Release.
            shared.word32(RING.tail).store(1, Ordering::Relaxed);
        });
        if let Some(cell) = RingReader::new(region, RING).pop().expect("in range") {
            assert_eq!(cell[0], 7);
        }
        writing.join().expect("no panic");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn canary_a_bell_without_its_fence_is_slept_through() {
    check(3, || {
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let theirs = Arc::clone(&words);
        let ringing = thread::spawn(move || {
            let (bell, sleeping) = &*theirs;
            bell.store(1, Ordering::Release);
            // Planted: `Results::ring_bell` has a fence here.
            if sleeping.load(Ordering::Relaxed) != 0 {
                futex::wake(bell, 1, Scope::Machine);
            }
        });
        let (bell, sleeping) = &*words;
        sleeping.store(1, Ordering::Relaxed);
        while bell.load(Ordering::Acquire) == 0 {
            futex::wait(bell, 0, None, Scope::Machine);
        }
        ringing.join().expect("no panic");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn canary_an_attendant_that_leaves_without_a_last_look_is_slept_through() {
    check(3, || {
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let theirs = Arc::clone(&words);
        let ringing = thread::spawn(move || {
            let (bell, attendants) = &*theirs;
            bell.store(1, Ordering::Release);
            fence(Ordering::SeqCst);
            if attendants.load(Ordering::Relaxed) == 0 {
                futex::wake(bell, 1, Scope::Process);
            }
        });
        let theirs = Arc::clone(&words);
        let attending = thread::spawn(move || {
            let (bell, attendants) = &*theirs;
            attendants.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if bell.load(Ordering::Acquire) == 1 {
                futex::wake(bell, 1, Scope::Process);
            }
            attendants.store(0, Ordering::Relaxed);
            // Planted: `Doorbell::attend` has a fence and another look here.
        });
        let (bell, _) = &*words;
        while bell.load(Ordering::Acquire) == 0 {
            futex::wait(bell, 0, None, Scope::Process);
        }
        ringing.join().expect("no panic");
        attending.join().expect("no panic");
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn canary_a_slot_that_is_used_after_it_was_given_back_is_noticed() {
    check(3, || {
        let (server, mut client) = pair(terms(1, 2));
        let (mut submissions, payload, results) = server.split();
        let pixels = Arc::new(UnsafeCell::new(0_u64));
        let read = Arc::clone(&pixels);
        submit(&mut client, 1);
        let daemon = thread::spawn(move || {
            let descriptor = next(&mut submissions);
            payload.release(descriptor.slot, 1);
            // Planted: the intake reads before it releases.
            // SAFETY: the checker's cell: it reports a writer at the same time.
            read.with(|pixels| unsafe { *pixels });
        });
        while !client.has_slot() {
            thread::yield_now();
        }
        // SAFETY: as above.
        pixels.with_mut(|pixels| unsafe { *pixels = 2 });
        daemon.join().expect("no panic");
        drop(results);
    });
}
