//! The least that a daemon can do: admits every client and answers for each frame what its first pixel
//! was. One thread does the work of port and intake.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use punctual_ipc::internals::terms_with_outputs;
use punctual_ipc::{
    Answer, AnswerKind, ChannelFault, Connection, Description, Descriptor, Element,
    ExitDescription, FrameSpec, Hello, InputDescription, Listener, OutputAreas, OutputDescription,
    OutputTerms, PayloadReader, PixelFormat, Refusal, Rejection, ResultRecord, Results, Rows,
    StreamTasks, StreamTerms, Submissions, Verdict,
};
use punctual_platform::clock::now_ns;
use punctual_platform::poll::{Poller, Readiness, Waker};

/// A stream of small frames.
pub fn terms() -> StreamTerms {
    StreamTerms {
        stream: 0,
        slots: 4,
        results: 8,
        frame: FrameSpec::packed(PixelFormat::Rgb8, 64, 48),
        crop_width: 32,
        crop_height: 32,
        outputs: OutputTerms::default(),
        vectors: 0,
        records: 1,
    }
}

/// A stream whose frames get a record from each of two exits, with `boxes` in a part of the area of its own.
pub fn each_exit(terms: StreamTerms) -> (StreamTerms, Description) {
    let (with, mut description) = terms_with_outputs();
    let mut deeper = description.exits[0].clone();
    deeper.outputs[0].offset += 64;
    description.exits.push(deeper);
    let outputs = OutputTerms {
        area_bytes: with.outputs.area_bytes + 64,
        ..with.outputs
    };
    let terms = StreamTerms {
        outputs,
        records: 2,
        ..terms
    };
    (terms, description)
}

/// What a network's exit gives that ends in the decoder of detections.
fn detections() -> (OutputTerms, Description) {
    let output = |name: &str, element, shape: &[u32], offset| OutputDescription {
        name: name.to_owned(),
        element,
        shape: shape.to_vec(),
        offset,
        bytes: 4 * shape.iter().product::<u32>(),
    };
    let outputs = vec![
        output("detections", Element::F32, &[ROWS.len() as u32, 6], 64),
        output("count", Element::I32, &[1], 192),
    ];
    let description = Description {
        tasks: None,
        answer: AnswerKind::Detections,
        classes: vec!["car".to_owned(), "tram".to_owned()],
        exits: vec![ExitDescription { outputs }],
        vectors: Vec::new(),
        input: Some(InputDescription {
            width: 80,
            height: 64,
            letterbox: true,
        }),
    };
    let terms = OutputTerms {
        areas: 4,
        area_bytes: DETECTIONS_BYTES as u32,
        description_bytes: 0,
    };
    (terms, description)
}

/// What the answers of two tasks consist of.
fn two_tasks() -> Description {
    let of = |class: &str| Description {
        classes: vec![class.to_owned()],
        ..Description::default()
    };
    let mut tasks = StreamTasks::default();
    tasks.add("any".to_owned(), of("car"));
    tasks.add("signs".to_owned(), of("stop"));
    Description {
        tasks: Some(Arc::new(tasks)),
        ..of("car")
    }
}

const DETECTIONS_BYTES: usize = 256;

/// The rows of detections: of a crop of 32x32 pixels, the input has a border of 8 columns and twice its size.
const ROWS: [[f32; 6]; 4] = [
    [8.0, 0.0, 40.0, 32.0, 0.75, 0.0],
    [24.0, 16.0, 72.0, 64.0, 0.5, 1.0],
    [0.0; 6],
    [0.0; 6],
];

/// A running daemon; stops when dropped or told to.
pub struct EchoDaemon {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<Account>>,
}

/// What it saw.
#[derive(Debug, Default)]
pub struct Account {
    pub answered: u64,
    /// Frames whose bytes were not all the same.
    pub torn: u64,
    /// Why clients ended, other than by hanging up.
    pub faults: Vec<ChannelFault>,
    /// How many clients wanted frames of another format.
    pub refused: u64,
    /// How many ended by hanging up.
    pub hung_up: u64,
    /// Slots that were still taken when their client had ended and its work was done.
    pub leaked: usize,
}

impl EchoDaemon {
    /// Offers everybody the same terms.
    pub fn start(terms: StreamTerms) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual-echo-{}-{count}", std::process::id());
        Self::start_at(std::env::temp_dir().join(name), terms)
    }

    /// As [`start`](Self::start), at this path.
    pub fn start_at(path: PathBuf, terms: StreamTerms) -> Self {
        Self::start_with(path, Some((terms, Description::default())))
    }

    /// As [`start_at`](Self::start_at); answers come with `boxes`, eight floats: the first pixel, then the frame's two
    /// numbers of `speed`. Class 0 is a car, 1 a tram.
    pub fn start_giving_outputs(path: PathBuf, terms: StreamTerms) -> Self {
        let (with, description) = terms_with_outputs();
        let outputs = with.outputs;
        Self::start_with(path, Some((StreamTerms { outputs, ..terms }, description)))
    }

    /// As [`start_at`](Self::start_at); answers come with `detections`, rows of six floats in an input of 80x64 pixels with
    /// borders, and `count`. Of an even first pixel there is a car, of an odd one a tram too. Crops are 32x32.
    pub fn start_giving_detections(path: PathBuf, terms: StreamTerms) -> Self {
        let (outputs, description) = detections();
        Self::start_with(path, Some((StreamTerms { outputs, ..terms }, description)))
    }

    /// As [`start_giving_outputs`](Self::start_giving_outputs), with a record for each of two exits, whose number is
    /// the fourth float: the first exit's answer comes at once; the second's with the verdict at once too if the first
    /// pixel is odd, or else before the next frame's first answer.
    pub fn start_giving_each_exit(path: PathBuf, terms: StreamTerms) -> Self {
        Self::start_with(path, Some(each_exit(terms)))
    }

    /// As [`start_at`](Self::start_at), for a stream of two tasks: `any`, the one that is asked for, whose class 0 is a car,
    /// and `signs`, whose class 0 is a stop sign. The exit of an answer is the number of the task that the frame named.
    pub fn start_with_two_tasks(path: PathBuf, terms: StreamTerms) -> Self {
        Self::start_with(path, Some((terms, two_tasks())))
    }

    /// A daemon that has no task of anybody's.
    pub fn start_refusing(path: PathBuf) -> Self {
        Self::start_with(path, None)
    }

    fn start_with(path: PathBuf, terms: Option<(StreamTerms, Description)>) -> Self {
        let listener = Listener::bind(&path).unwrap();
        let poller = Poller::new(16).unwrap();
        let waker = poller.waker();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("echo".to_owned());
        let work = Work {
            terms,
            listener,
            poller,
            stop: Arc::clone(&stop),
            guests: BTreeMap::new(),
            next: LISTENER + 1,
            account: Account::default(),
        };
        Self {
            path,
            stop,
            waker,
            thread: Some(thread.spawn(|| work.serve()).unwrap()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes all connections.
    pub fn stop(mut self) -> Account {
        self.end().unwrap()
    }

    fn end(&mut self) -> Option<Account> {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.take()?.join().ok()
    }
}

impl Drop for EchoDaemon {
    fn drop(&mut self) {
        self.end();
    }
}

const LISTENER: u64 = 0;

enum Peer {
    Opening(Connection),
    Served(Box<Served>),
}

struct Served {
    submissions: Submissions,
    payload: PayloadReader,
    results: Results,
    areas: Option<OutputAreas>,
    gives_each_exit: bool,
    /// The verdict of a frame whose first answer was sent.
    held: Option<ResultRecord>,
}

struct Work {
    /// None: refuses everybody.
    terms: Option<(StreamTerms, Description)>,
    listener: Listener,
    poller: Poller,
    stop: Arc<AtomicBool>,
    guests: BTreeMap<u64, Peer>,
    next: u64,
    account: Account,
}

impl Work {
    fn serve(mut self) -> Account {
        self.poller.add(self.listener.as_fd(), LISTENER).unwrap();
        loop {
            // Events from before the stop are still handled.
            let stopping = self.stop.load(Ordering::Relaxed);
            let limit = stopping.then_some(0);
            let ready: Vec<Readiness> = self.poller.wait(limit).collect();
            for ready in ready {
                if ready.token == LISTENER {
                    self.accept();
                } else {
                    self.attend(ready);
                }
            }
            if stopping {
                return self.account;
            }
        }
    }

    fn accept(&mut self) {
        while let Some(connection) = self.listener.accept().unwrap() {
            self.poller.add(connection.as_fd(), self.next).unwrap();
            self.guests.insert(self.next, Peer::Opening(connection));
            self.next += 1;
        }
    }

    fn let_in(&mut self, connection: Connection, hello: Hello, token: u64) -> Option<Peer> {
        let Some((terms, description)) = &self.terms else {
            connection.refuse(Refusal::UnknownTask { task: hello.task });
            return None;
        };
        let expected = terms.frame.format;
        if hello.format.is_some_and(|format| format != expected) {
            connection.refuse(Refusal::Format { expected });
            self.account.refused += 1;
            return None;
        }
        self.poller.remove(connection.as_fd()).unwrap();
        let mut server = connection.admit_with(terms, description).ok()?;
        let areas = server.areas();
        let gives_each_exit = server.terms().records > 1;
        let (submissions, payload, results) = server.split();
        submissions.watch(&self.poller, token).unwrap();
        Some(Peer::Served(Box::new(Served {
            submissions,
            payload,
            results,
            areas,
            gives_each_exit,
            held: None,
        })))
    }

    /// A guest has said something, or is gone.
    fn attend(&mut self, ready: Readiness) {
        let token = ready.token;
        // One that is gone may be reported once more: a process that this one is just starting has its
        // descriptors too, until it runs a program of its own.
        let Some(guest) = self.guests.remove(&token) else {
            return;
        };
        let staying = match guest {
            Peer::Opening(connection) => match connection.hello() {
                Ok(None) => Some(Peer::Opening(connection)),
                Ok(Some(hello)) => self.let_in(connection, hello, token),
                Err(_) => None,
            },
            Peer::Served(mut served) => match self.account.answer_all(&mut served, ready) {
                Ok(()) => Some(Peer::Served(served)),
                Err(fault) => {
                    self.account.close(&served, fault);
                    None
                }
            },
        };
        // A guest that leaves takes its descriptor out of the poller by closing it.
        self.guests.extend(staying.map(|guest| (token, guest)));
    }
}

/// What a worker does: the outputs into an area.
fn give_outputs(record: &mut ResultRecord, areas: &mut OutputAreas, payload: &PayloadReader) {
    let Some(area) = areas.reserve() else {
        record.verdict = Verdict::Rejected(Rejection::NoArea);
        record.answer = None;
        return;
    };
    let answer = record.answer.as_mut().unwrap();
    let first_pixel = answer.class.unwrap();
    let mut memory = areas.lend(area).unwrap();
    let bytes = memory.as_mut_slice();
    if bytes.len() == DETECTIONS_BYTES {
        answer.class = None;
        write(&mut bytes[64..], ROWS.as_flattened());
        let count = 1 + i32::from(first_pixel % 2);
        bytes[192..196].copy_from_slice(&count.to_ne_bytes());
    } else {
        let mut values = [0.0; 8];
        values[0] = f32::from(first_pixel);
        // Released with the result at the latest, which comes after this.
        payload
            .read_vectors(record.slot, record.sequence, &mut values[1..3])
            .unwrap();
        for (exit, part) in (0_u8..).zip(bytes[64..].chunks_exact_mut(64)) {
            values[3] = f32::from(exit);
            write(part, &values);
        }
    }
    areas.put_back(area, memory);
    answer.outputs = Some(areas.hand_over(area));
}

fn write(bytes: &mut [u8], values: &[f32]) {
    for (value, to) in values.iter().zip(bytes.chunks_exact_mut(4)) {
        to.copy_from_slice(&value.to_ne_bytes());
    }
}

impl Account {
    fn answer_all(&mut self, served: &mut Served, ready: Readiness) -> Result<(), ChannelFault> {
        if ready.readable {
            served.submissions.rung()?;
        }
        while let Some(descriptor) = served.submissions.poll()? {
            let mut record = self.answer(&descriptor, &served.payload);
            if let Some(areas) = &mut served.areas {
                give_outputs(&mut record, areas, &served.payload);
            }
            if let Some(held) = served.held.take() {
                self.push(served, &held)?;
            }
            self.push_each_exit(served, record)?;
        }
        if ready.hung_up {
            Err(ChannelFault::HungUp)
        } else {
            Ok(())
        }
    }

    /// The verdict; where the stream has an answer of each exit, after the first of them.
    fn push_each_exit(
        &mut self,
        served: &mut Served,
        mut record: ResultRecord,
    ) -> Result<(), ChannelFault> {
        if let Some(answer) = record.answer.as_mut().filter(|_| served.gives_each_exit) {
            let is_odd = answer.class.is_some_and(|class| class % 2 == 1);
            let first = ResultRecord {
                answer: Some(*answer),
                is_final: false,
                ..record
            };
            answer.exit = 1;
            self.push(served, &first)?;
            if !is_odd {
                served.held = Some(record);
                return Ok(());
            }
        }
        self.push(served, &record)
    }

    fn push(&mut self, served: &mut Served, record: &ResultRecord) -> Result<(), ChannelFault> {
        served.results.push(record)?;
        self.answered += u64::from(record.is_final);
        Ok(())
    }

    fn answer(&mut self, descriptor: &Descriptor, payload: &PayloadReader) -> ResultRecord {
        let bytes = payload.frame().bytes() as usize;
        let rows = Rows {
            offset: 0,
            bytes,
            stride: 0,
            rows: 1,
        };
        let mut copy = vec![0; bytes];
        let Descriptor { slot, sequence, .. } = *descriptor;
        payload.read(slot, sequence, rows, &mut copy).unwrap();
        self.torn += u64::from(copy.iter().any(|&byte| byte != copy[0]));
        ResultRecord {
            sequence,
            slot,
            verdict: Verdict::OnTime,
            answer: Some(Answer::of_class(
                descriptor.task as u8,
                u16::from(copy[0]),
                u16::MAX,
            )),
            part: None,
            left_out: 0,
            captured_ns: descriptor.captured_ns,
            deadline_ns: descriptor.deadline_ns.unwrap_or(u64::MAX),
            finished_ns: now_ns(),
            sent_ns: now_ns(),
            is_final: true,
        }
    }

    fn close(&mut self, served: &Served, fault: ChannelFault) {
        self.leaked += served.submissions.slots_in_use();
        if fault.is_violation() {
            self.faults.push(fault);
        } else {
            self.hung_up += 1;
        }
    }
}
