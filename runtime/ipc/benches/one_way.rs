//! How long a message takes from thread to thread, one way, through the channel and through what
//! else there is. All ways take turns within one run, so that they suffer the same machine.
//!
//!     cargo bench -p punctual-ipc --bench one_way [ROUNDS]
//!
//! The receiver sleeps before each message, as on a board at camera rates. Two threads on cores of
//! their own, FIFO 80 where it is granted. Prints a table in Markdown, in microseconds.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use punctual_ipc::internals::pair;
use punctual_ipc::{
    ClientChannel, Crop, FrameSpec, OutputTerms, PixelFormat, ResultRecord, Rows, StreamTerms,
    Verdict,
};
use punctual_platform::Doorbell;
use punctual_platform::clock::{now_ns, sleep_until_ns};
use punctual_platform::poll::Poller;
use punctual_platform::thread::{ThreadSpec, spawn_realtime};

const ROUNDS: u64 = 10_000;
/// Long enough for the receiver to have gone to sleep.
const PAUSE_NS: u64 = 100_000;
const PRIORITY: u8 = 80;
const FRAME_STRIDE: usize = 640 * 3;
const FRAME_BYTES: usize = 480 * FRAME_STRIDE;

/// What the receiver copies out of a frame.
const NOTHING: Rows = rows(0, 0);
const CROP: Rows = rows(192 * 3, 192);
const WHOLE: Rows = rows(FRAME_BYTES, 1);

const fn rows(bytes: usize, rows: usize) -> Rows {
    Rows {
        offset: 0,
        bytes,
        stride: FRAME_STRIDE,
        rows,
    }
}

/// One way from the sending to the receiving thread.
struct Way {
    name: &'static str,
    /// Sends the time. Returns how long the answer took to come back, if it comes by this way.
    send: Box<dyn FnMut() -> Option<u64> + Send>,
    /// Waits for the message. Returns when it was sent and when it was here.
    receive: Box<dyn FnMut() -> (u64, u64) + Send>,
}

fn main() {
    // `cargo bench` itself adds "--bench".
    let rounds = std::env::args().find_map(|argument| argument.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    let ways = [
        channel("channel: submission", NOTHING),
        eventfd(),
        socket("Unix socket: 64 bytes", 64),
        channel("channel: frame in, 192x192 crop out", CROP),
        channel("channel: frame in, all of it out", WHOLE),
        socket("Unix socket: frame", FRAME_BYTES),
    ];
    let names = ways.each_ref().map(|way| way.name);
    let (sends, receives): (Vec<_>, Vec<_>) =
        ways.into_iter().map(|way| (way.send, way.receive)).unzip();
    let done = Arc::new(Doorbell::new());
    let bell = Arc::clone(&done);
    let receiver = thread(1, move || receive_all(receives, rounds, &bell));
    let sender = thread(0, move || send_all(sends, rounds, &done));
    let back = sender.join().expect("sender");
    let forth = receiver.join().expect("receiver");

    println!("| us, one way, {rounds} of each | p50 | p99 | p99.9 | max |\n|---|---|---|---|---|");
    for (name, histogram) in names.iter().zip(&forth) {
        print(name, histogram);
    }
    print("channel: result (futex)", &back[0]);
}

fn thread<T: Send + 'static>(
    core: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> punctual_platform::thread::RealtimeThread<T> {
    let spec = ThreadSpec::new("one-way", Some(core), Some(PRIORITY));
    let thread = spawn_realtime(spec, body).expect("thread");
    for missing in thread.missing() {
        eprintln!("without {missing}: {}", missing.how_to_grant());
    }
    thread
}

fn send_all(
    mut ways: Vec<Box<dyn FnMut() -> Option<u64> + Send>>,
    rounds: u64,
    done: &Doorbell,
) -> Vec<Histogram<u64>> {
    let mut back: Vec<_> = ways.iter().map(|_| histogram()).collect();
    let mut seen = done.count();
    for _ in 0..rounds {
        for (way, histogram) in ways.iter_mut().zip(&mut back) {
            sleep_until_ns(now_ns() + PAUSE_NS);
            if let Some(took) = way() {
                histogram.record(took).expect("within the bounds");
            }
            seen = done.wait(seen, None);
        }
    }
    back
}

fn receive_all(
    mut ways: Vec<Box<dyn FnMut() -> (u64, u64) + Send>>,
    rounds: u64,
    done: &Doorbell,
) -> Vec<Histogram<u64>> {
    let mut forth: Vec<_> = ways.iter().map(|_| histogram()).collect();
    for _ in 0..rounds {
        for (way, histogram) in ways.iter_mut().zip(&mut forth) {
            let (sent, here) = way();
            histogram.record(here - sent).expect("within the bounds");
            done.ring();
        }
    }
    forth
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 3).expect("a minute, three digits")
}

fn print(name: &str, histogram: &Histogram<u64>) {
    let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    let (p50, p99, p999) = (us(0.5), us(0.99), us(0.999));
    let max = histogram.max() as f64 / 1e3;
    println!("| {name} | {p50:.1} | {p99:.1} | {p999:.1} | {max:.1} |");
}

/// The channel, validation and all: descriptor (and frame, if rows of it are wanted) forth, result back.
fn channel(name: &'static str, wanted: Rows) -> Way {
    let terms = StreamTerms {
        stream: 0,
        slots: 4,
        results: 8,
        frame: FrameSpec::packed(PixelFormat::Rgb8, 640, 480),
        crop_width: 640,
        crop_height: 480,
        outputs: OutputTerms::default(),
        vectors: 0,
        records: 1,
    };
    let (server, mut client) = pair(terms);
    let (mut submissions, reader, mut results) = server.split();
    let mut poller = Poller::new(2).expect("poller");
    submissions.watch(&poller, 0).expect("poller");
    let frame = vec![7; if wanted.rows > 0 { FRAME_BYTES } else { 0 }];
    let mut copy = vec![0; wanted.bytes * wanted.rows];
    Way {
        name,
        send: Box::new(move || {
            let sent = now_ns();
            let mut slot = client.slot().expect("the last was answered");
            slot.pixels()[..frame.len()].copy_from_slice(&frame);
            slot.submit(sent, None, Crop::default()).expect("submit");
            Some(answer_took(&mut client))
        }),
        receive: Box::new(move || {
            let descriptor = loop {
                if let Some(descriptor) = submissions.poll().expect("a good client") {
                    break descriptor;
                }
                if poller.wait(None).count() > 0 {
                    submissions.rung().expect("a good client");
                }
            };
            let (slot, sequence) = (descriptor.slot, descriptor.sequence);
            reader
                .read(slot, sequence, wanted, &mut copy)
                .expect("copy");
            let here = now_ns();
            // So that the client sleeps when its answer comes.
            sleep_until_ns(here + PAUSE_NS);
            let record = ResultRecord {
                sequence,
                slot,
                verdict: Verdict::OnTime,
                answer: None,
                part: None,
                left_out: 0,
                captured_ns: descriptor.captured_ns,
                deadline_ns: 0,
                finished_ns: now_ns(),
                sent_ns: now_ns(),
                is_final: true,
            };
            results.push(&record).expect("a good client");
            (descriptor.captured_ns, here)
        }),
    }
}

fn answer_took(client: &mut ClientChannel) -> u64 {
    loop {
        let seen = client.bell();
        if let Some(result) = client.take().expect("a good daemon") {
            return now_ns() - result.finished_ns;
        }
        client.wait(seen, None).expect("a daemon");
    }
}

/// A word of memory and an eventfd, read through epoll: nothing is checked.
fn eventfd() -> Way {
    let mut poller = Poller::new(1).expect("poller");
    let waker = poller.waker();
    let word = Arc::new(AtomicU64::new(0));
    let sent = Arc::clone(&word);
    Way {
        name: "memory and eventfd, unchecked",
        send: Box::new(move || {
            sent.store(now_ns(), Ordering::Release);
            waker.wake();
            None
        }),
        receive: Box::new(move || {
            loop {
                poller.wait(None).for_each(drop);
                let sent = word.swap(0, Ordering::Acquire);
                if sent != 0 {
                    return (sent, now_ns());
                }
            }
        }),
    }
}

/// A stream socket, read through epoll.
fn socket(name: &'static str, bytes: usize) -> Way {
    let (mut near, mut far) = UnixStream::pair().expect("sockets");
    let mut poller = Poller::new(1).expect("poller");
    poller.add(far.as_fd(), 0).expect("poller");
    let mut message = vec![7; bytes];
    let mut copy = vec![0; bytes];
    Way {
        name,
        send: Box::new(move || {
            message[..8].copy_from_slice(&now_ns().to_le_bytes());
            near.write_all(&message).expect("write");
            None
        }),
        receive: Box::new(move || {
            poller.wait(None).for_each(drop);
            far.read_exact(&mut copy).expect("read");
            let here = now_ns();
            let sent = copy.first_chunk().copied().expect("eight bytes");
            (u64::from_le_bytes(sent), here)
        }),
    }
}
