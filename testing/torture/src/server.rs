//! The daemon's side, over the real channel: one thread takes submissions in, one reads payloads
//! and answers, as the daemon's ports and intakes do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use punctual_ipc::{
    Answer, ChannelFault, Descriptor, Failure, FrameSpec, HandedOver, OutputAreas, PayloadReader,
    Rejection, ResultRecord, Results, Rows, ServerChannel, Submissions, Verdict,
};
use punctual_platform::clock::now_ns;
use punctual_platform::poll::{Poller, Readiness, Waker};
use punctual_platform::thread::{ThreadError, spawn_ordinary};
use punctual_types::Random;

use crate::payload::{self, Name};

/// Submissions of one client that are taken in before the next one's turn.
const TURN: usize = 8;
/// Turns of a client that has gone: more than it has slots for.
const LAST_TURNS: usize = 16;
/// Submissions that may wait for an answer before some are answered.
const HELD: usize = 64;
/// Descriptors that the ingress is told of at a time.
const READY: usize = 64;

/// The daemon's counters of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    pub accepted: u64,
    pub answered: u64,
    /// Answers before their verdicts.
    pub early: u64,
    /// Submissions whose verdict could not be delivered.
    pub gone: u64,
    /// Frames that were not, byte by byte, what their submission said.
    pub damaged: u64,
    /// Slots that could not be given back.
    pub leaked: u64,
}

/// A connection that has come to its end, slots and all.
#[derive(Debug)]
pub struct Ended {
    pub token: u64,
    pub counts: ConnectionCounts,
    pub fault: ChannelFault,
    /// When the last of its slots was free, in monotonic ns.
    pub freed_ns: u64,
    /// Unmapped by the thread that drops them: milliseconds.
    _parts: (Submissions, PayloadReader, Results, Option<OutputAreas>),
}

#[derive(Debug)]
pub struct Server {
    newcomers: Option<Sender<Newcomer>>,
    waker: Waker,
    ended: Receiver<Ended>,
    accepted: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// An admitted client: its number, its channel, whether its submissions count.
type Newcomer = (u64, ServerChannel, bool);

/// From the first thread to the second.
enum Work {
    Came(u64, PayloadReader, Results, Option<OutputAreas>),
    Frame(u64, Descriptor),
    Gone(u64, ChannelFault, Submissions),
}

impl Server {
    /// Starts both threads. Wakes `acceptor` whenever a connection has ended; random choices come from `seed`.
    pub fn start(seed: u64, poller: Poller, acceptor: Waker) -> Result<Self, ThreadError> {
        let (newcomers, come) = unbounded();
        let (work, worked) = unbounded();
        let (over, ended) = unbounded();
        let (break_off, broken) = unbounded();
        let accepted = Arc::new(AtomicU64::new(0));
        let waker = poller.waker();
        let woken = waker.clone();
        let count = Arc::clone(&accepted);
        let ingress = spawn_ordinary("torture-in", move || {
            let ingress = Ingress {
                poller,
                clients: BTreeMap::new(),
                unread: Vec::new(),
                work,
                broken,
                accepted: count,
            };
            ingress.run(&come);
        })?;
        let answerer = spawn_ordinary("torture-out", move || {
            let answerer = Answerer {
                random: Random::new(seed).stream("server", 0),
                clients: BTreeMap::new(),
                held: Vec::with_capacity(2 * HELD),
                over,
                acceptor,
                ingress: woken,
                break_off,
                copy: Vec::new(),
            };
            answerer.run(&worked);
        })?;
        Ok(Self {
            newcomers: Some(newcomers),
            waker,
            ended,
            accepted,
            threads: vec![ingress, answerer],
        })
    }

    /// Serves an admitted client under this number; `counts` for a healthy one's.
    pub fn serve(&self, token: u64, channel: ServerChannel, counts: bool) {
        if let Some(newcomers) = &self.newcomers {
            // The thread ends only after this sender is gone.
            let _ = newcomers.send((token, channel, counts));
            self.waker.wake();
        }
    }

    /// A connection that has ended, if one has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended.try_recv().ok()
    }

    /// Submissions that were taken in, of healthy clients.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        // Relaxed: a count for progress only.
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.newcomers.take());
        self.waker.wake();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && !std::thread::panicking() {
                panic!("a thread of the daemon's side has panicked");
            }
        }
    }
}

struct Ingress {
    poller: Poller,
    /// By number, with whether its submissions count.
    clients: BTreeMap<u64, (Submissions, bool)>,
    /// Clients that were not read to the end.
    unread: Vec<u64>,
    work: Sender<Work>,
    /// Clients whose results could not be written.
    broken: Receiver<u64>,
    accepted: Arc<AtomicU64>,
}

impl Ingress {
    fn run(mut self, come: &Receiver<Newcomer>) {
        let mut ready = Vec::with_capacity(READY);
        loop {
            loop {
                match come.try_recv() {
                    Ok((token, channel, counts)) => self.welcome(token, channel, counts),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            ready.clear();
            // A client that was not read to the end is not reported again.
            let limit = (!self.unread.is_empty()).then_some(0);
            ready.extend(self.poller.wait(limit));
            for token in std::mem::take(&mut self.unread) {
                self.turn(token);
            }
            while let Ok(token) = self.broken.try_recv() {
                self.end(token, ChannelFault::HungUp);
            }
            for &event in &ready {
                self.hear(event);
            }
        }
    }

    fn welcome(&mut self, token: u64, mut channel: ServerChannel, counts: bool) {
        let areas = channel.areas();
        let (submissions, payload, results) = channel.split();
        let added = submissions.watch(&self.poller, token);
        added.expect("memory for one more descriptor");
        self.clients.insert(token, (submissions, counts));
        self.tell(Work::Came(token, payload, results, areas));
    }

    fn hear(&mut self, event: Readiness) {
        let Some((submissions, _)) = self.clients.get_mut(&event.token) else {
            return;
        };
        if event.hung_up {
            return self.read_last(event.token);
        }
        match submissions.rung() {
            Ok(()) => self.turn(event.token),
            Err(fault) => self.end(event.token, fault),
        }
    }

    /// What a client submitted before it went counts; one that has its memory still may go on submitting.
    fn read_last(&mut self, token: u64) {
        for _ in 0..LAST_TURNS {
            self.turn(token);
            if self.unread.pop_if(|unread| *unread == token).is_none() {
                break;
            }
        }
        self.end(token, ChannelFault::HungUp);
    }

    fn turn(&mut self, token: u64) {
        for _ in 0..TURN {
            let Some((submissions, counts)) = self.clients.get_mut(&token) else {
                return;
            };
            match submissions.poll() {
                Ok(Some(descriptor)) => {
                    self.accepted
                        .fetch_add(u64::from(*counts), Ordering::Relaxed);
                    self.tell(Work::Frame(token, descriptor));
                }
                Ok(None) => return,
                Err(fault) => return self.end(token, fault),
            }
        }
        self.unread.push(token);
    }

    fn end(&mut self, token: u64, fault: ChannelFault) {
        if let Some((submissions, _)) = self.clients.remove(&token) {
            submissions.unwatch(&self.poller);
            self.tell(Work::Gone(token, fault, submissions));
        }
    }

    fn tell(&self, work: Work) {
        // The other thread ends after this one only.
        let _ = self.work.send(work);
    }
}

struct Client {
    payload: PayloadReader,
    results: Results,
    areas: Option<OutputAreas>,
    /// Of its first frame; all of a connection have the same.
    nonce: Option<u64>,
    counts: ConnectionCounts,
}

/// A submission that waits for its answer.
struct Held {
    token: u64,
    descriptor: Descriptor,
    /// Its payload was read, and this is what it says.
    record: ResultRecord,
    /// Answers that come before the verdict.
    before: VecDeque<Answer>,
    /// Where the outputs of all its answers are, if it has any.
    area: Option<u16>,
    /// Once the first of them was sent.
    handed: Option<HandedOver>,
}

impl Held {
    /// What its client is told next; the verdict at last.
    fn next_record(&mut self) -> ResultRecord {
        let before = self.before.pop_front();
        let answer = before.or(self.record.answer);
        ResultRecord {
            answer: answer.map(|answer| Answer {
                outputs: self.handed,
                ..answer
            }),
            sent_ns: now_ns(),
            is_final: before.is_none(),
            ..self.record
        }
    }
}

struct Answerer {
    random: Random,
    clients: BTreeMap<u64, Client>,
    held: Vec<Held>,
    over: Sender<Ended>,
    acceptor: Waker,
    ingress: Waker,
    break_off: Sender<u64>,
    copy: Vec<u8>,
}

impl Answerer {
    fn run(mut self, worked: &Receiver<Work>) {
        loop {
            match worked.try_recv() {
                Ok(work) => self.take(work),
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) if self.held.is_empty() => match worked.recv() {
                    Ok(work) => self.take(work),
                    Err(_) => return,
                },
                Err(TryRecvError::Empty) => self.answer_down_to(0),
            }
            if self.held.len() > HELD {
                self.answer_down_to(HELD / 2);
            }
        }
    }

    fn take(&mut self, work: Work) {
        match work {
            Work::Came(token, payload, results, areas) => {
                let client = Client {
                    payload,
                    results,
                    areas,
                    nonce: None,
                    counts: ConnectionCounts::default(),
                };
                self.clients.insert(token, client);
            }
            Work::Frame(token, descriptor) => self.read(token, descriptor),
            Work::Gone(token, fault, submissions) => self.end(token, fault, submissions),
        }
    }

    /// Copies the frame out, checks it against its submission, and keeps what it says.
    fn read(&mut self, token: u64, descriptor: Descriptor) {
        let Some(client) = self.clients.get_mut(&token) else {
            return;
        };
        client.counts.accepted += 1;
        let rows = whole(client.payload.frame());
        self.copy.resize(rows.bytes * rows.rows, 0);
        let (slot, sequence) = (descriptor.slot, descriptor.sequence);
        let read = client.payload.read(slot, sequence, rows, &mut self.copy);
        let name = payload::read(&self.copy).filter(|name| {
            read.is_ok()
                && name.sequence == sequence
                && *client.nonce.get_or_insert(name.nonce) == name.nonce
        });
        client.counts.damaged += u64::from(name.is_none());
        let failed = (Verdict::Failed(Failure::Payload), None);
        let (mut verdict, mut answer) = name.map_or(failed, |name| name.outcome());
        let mut area = None;
        if let (Some(name), Some(_), Some(areas)) = (name, answer, &mut client.areas) {
            area = areas.reserve();
            match area {
                Some(area) => {
                    let mut memory = areas.lend(area).expect("it was just reserved");
                    payload::write_outputs(&name, memory.as_mut_slice());
                    areas.put_back(area, memory);
                }
                None => (verdict, answer) = (Verdict::Rejected(Rejection::NoArea), None),
            }
        }
        // Either thread of a daemon may give the slot back first.
        if self.random.one_in(2) {
            client.payload.release(slot, sequence);
        }
        let record = ResultRecord {
            sequence,
            slot,
            verdict,
            answer,
            part: None,
            left_out: 0,
            captured_ns: descriptor.captured_ns,
            deadline_ns: descriptor.deadline_ns.unwrap_or(0),
            finished_ns: now_ns(),
            sent_ns: now_ns(),
            is_final: true,
        };
        let before = name.filter(|_| record.answer.is_some());
        self.held.push(Held {
            token,
            descriptor,
            record,
            before: before.iter().flat_map(Name::answers_before).collect(),
            area,
            handed: None,
        });
    }

    /// In any order, until `left` wait.
    fn answer_down_to(&mut self, left: usize) {
        while self.held.len() > left {
            let at = self.random.below(self.held.len() as u64) as usize;
            let mut held = self.held.swap_remove(at);
            let Some(client) = self.clients.get_mut(&held.token) else {
                continue;
            };
            if let (Some(area), Some(areas), None) = (held.area, &mut client.areas, held.handed) {
                held.handed = Some(areas.hand_over(area));
            }
            let record = held.next_record();
            match client.results.push(&record) {
                Ok(()) if record.is_final => client.counts.answered += 1,
                Ok(()) => {
                    client.counts.early += 1;
                    self.held.push(held);
                }
                Err(_) => {
                    client.counts.gone += 1;
                    // It ends the client.
                    let _ = self.break_off.send(held.token);
                    self.ingress.wake();
                }
            }
        }
    }

    fn end(&mut self, token: u64, fault: ChannelFault, submissions: Submissions) {
        let Some(mut client) = self.clients.remove(&token) else {
            return;
        };
        let counts = &mut client.counts;
        self.held.retain(|held| {
            if held.token != token {
                return true;
            }
            client
                .payload
                .release(held.descriptor.slot, held.descriptor.sequence);
            counts.gone += 1;
            false
        });
        counts.leaked = submissions.slots_in_use() as u64;
        let areas = client.areas.as_ref();
        counts.leaked += u64::from(areas.is_some_and(|areas| !areas.are_all_back()));
        let ended = Ended {
            token,
            counts: client.counts,
            fault,
            freed_ns: now_ns(),
            _parts: (submissions, client.payload, client.results, client.areas),
        };
        // At the end the receiver may be gone.
        let _ = self.over.send(ended);
        self.acceptor.wake();
    }
}

fn whole(frame: &FrameSpec) -> Rows {
    let bytes = frame.bytes() as usize;
    Rows {
        offset: 0,
        bytes,
        stride: bytes,
        rows: 1,
    }
}
