//! A daemon with planted faults, for the canaries of the rig (`tests/canaries.rs`): it lets
//! everybody in and answers each frame after a while with nothing in particular.
//!
//!     fake-daemon FAULT MANIFEST --socket PATH --report FILE
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use punctual_ipc::internals::small_terms;
use punctual_ipc::{
    Answer, ChannelFault, Connection, Descriptor, FrameSpec, Listener, PixelFormat, ResultRecord,
    Results, StreamTerms, Submissions, Verdict,
};
use punctual_platform::clock::now_ns;
use punctual_platform::poll::{Poller, Readiness};
use punctual_platform::signals::TerminationSignals;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Loses,
    /// Answers come after the tasks' deadlines, and are called on time.
    Late,
    /// A hundred kilobytes are kept for every frame.
    Leaks,
    /// It never gets ready.
    Hangs,
    /// Its report has one frame more than there was.
    Invents,
    /// It ends with a code that is not 0.
    Falls,
    /// A process of its own stays behind.
    LeavesOne,
    /// Who asks at the metrics socket has no answer.
    Deaf,
    /// A descriptor of each connection is kept.
    Hoards,
    /// It spins while a connection sends nothing.
    Busy,
    /// An opening that is none ends it.
    FallsForGarbage,
    /// What was at its report's path is replaced, whatever it was.
    Replaces,
}

impl Fault {
    fn named(name: &str) -> Self {
        match name {
            "loses" => Self::Loses,
            "late" => Self::Late,
            "leaks" => Self::Leaks,
            "hangs" => Self::Hangs,
            "invents" => Self::Invents,
            "falls" => Self::Falls,
            "leaves-one" => Self::LeavesOne,
            "deaf" => Self::Deaf,
            "hoards" => Self::Hoards,
            "busy" => Self::Busy,
            "falls-for-garbage" => Self::FallsForGarbage,
            "replaces" => Self::Replaces,
            _ => Self::None,
        }
    }
}

/// An ordinary answer takes so long.
const ANSWER_NS: u64 = 1_000_000;

/// A late one: longer than any deadline of the rig's manifests.
const LATE_NS: u64 = 80_000_000;

/// Between two looks at the signals.
const TICK_NS: u64 = 5_000_000;

/// A leak a frame, in bytes.
const LEAK: usize = 100_000;

const LISTENER: u64 = 0;
const METRICS: u64 = 1;

enum Peer {
    Opening(Connection),
    Served(Box<Served>),
}

struct Served {
    task: String,
    submissions: Submissions,
    results: Results,
    /// Frames, each with the time at which it must be answered.
    waiting: VecDeque<(u64, Descriptor)>,
}

/// What it counts for its report.
#[derive(Default)]
struct Counts {
    submitted: u64,
    answered: u64,
}

struct Daemon {
    fault: Fault,
    listener: Listener,
    metrics: UnixListener,
    hoarded: Vec<OwnedFd>,
    poller: Poller,
    guests: BTreeMap<u64, Peer>,
    next: u64,
    tasks: BTreeMap<String, Counts>,
    leaked: Vec<Vec<u8>>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |key: &str| {
        let place = arguments.iter().position(|argument| argument == key);
        place
            .and_then(|place| arguments.get(place + 1))
            .expect("a value")
    };
    let signals = TerminationSignals::take_over().expect("signals");
    let fault = Fault::named(&arguments[1]);
    let listener = Listener::bind(Path::new(after("--socket"))).expect("a socket");
    let path = format!("{}.metrics", after("--socket"));
    let metrics = UnixListener::bind(&path).expect("a socket");
    metrics.set_nonblocking(true).expect("a socket");
    let mut daemon = Daemon {
        fault,
        listener,
        metrics,
        hoarded: Vec::new(),
        poller: Poller::new(16).expect("a poller"),
        guests: BTreeMap::new(),
        next: METRICS + 1,
        tasks: BTreeMap::new(),
        leaked: Vec::new(),
    };
    if fault != Fault::Hangs {
        let manager = std::env::var_os("NOTIFY_SOCKET").expect("a service manager");
        let socket = UnixDatagram::unbound().expect("a socket");
        socket
            .send_to(b"READY=1\nSTATUS=serving", manager)
            .expect("it listens");
    }
    daemon.serve(&signals);
    if fault == Fault::Replaces {
        std::fs::remove_file(after("--report")).expect("something is there");
    }
    std::fs::write(after("--report"), daemon.report()).expect("a report");
    std::fs::remove_file(&path).expect("it is there");
    match fault {
        Fault::Falls => std::process::exit(70),
        Fault::LeavesOne => {
            let mut shell = std::process::Command::new("sh");
            let left = shell
                .args(["-c", "setsid sleep 1000 >/dev/null 2>&1 &"])
                .status();
            left.expect("a process");
        }
        _ => {}
    }
}

impl Daemon {
    fn serve(&mut self, signals: &TerminationSignals) {
        self.poller
            .add(self.listener.as_fd(), LISTENER)
            .expect("added");
        self.poller
            .add(self.metrics.as_fd(), METRICS)
            .expect("added");
        while signals.next(Some(0)).is_none() {
            let silent = |guest: &Peer| matches!(guest, Peer::Opening(_));
            let tick_ns = if self.fault == Fault::Busy && self.guests.values().any(silent) {
                0
            } else {
                TICK_NS
            };
            let until_ns = self.due_ns().unwrap_or(u64::MAX).min(now_ns() + tick_ns);
            let ready: Vec<Readiness> = self.poller.wait(Some(until_ns)).collect();
            for ready in ready {
                match ready.token {
                    LISTENER => self.accept(),
                    METRICS => self.tell(),
                    _ => self.attend(ready),
                }
            }
            self.answer();
        }
    }

    fn tell(&self) {
        while let Ok((mut reader, _)) = self.metrics.accept() {
            if self.fault != Fault::Deaf {
                // One that went away is its own loss.
                let _ = reader.write_all(self.report().as_bytes());
            }
        }
    }

    fn accept(&mut self) {
        while let Ok(Some(connection)) = self.listener.accept() {
            if self.fault == Fault::Hoards {
                let copy = connection.as_fd().try_clone_to_owned();
                self.hoarded.extend(copy);
            }
            self.poller
                .add(connection.as_fd(), self.next)
                .expect("added");
            self.guests.insert(self.next, Peer::Opening(connection));
            self.next += 1;
        }
    }

    fn attend(&mut self, ready: Readiness) {
        let token = ready.token;
        let Some(guest) = self.guests.remove(&token) else {
            return;
        };
        let staying = match guest {
            Peer::Opening(connection) => admit(connection, self.fault, &self.poller, token),
            Peer::Served(_) if ready.hung_up => None,
            Peer::Served(mut served) => {
                let taken = self.take(&mut served);
                taken.is_ok().then_some(Peer::Served(served))
            }
        };
        self.guests.extend(staying.map(|guest| (token, guest)));
    }

    fn take(&mut self, served: &mut Served) -> Result<(), ChannelFault> {
        let takes_ns = if self.fault == Fault::Late {
            LATE_NS
        } else {
            ANSWER_NS
        };
        served.submissions.rung()?;
        while let Some(descriptor) = served.submissions.poll()? {
            let counts = self.tasks.entry(served.task.clone()).or_default();
            counts.submitted += 1;
            if self.fault == Fault::Leaks {
                self.leaked.push(vec![1; LEAK]);
            }
            if self.fault == Fault::Loses && counts.submitted.is_multiple_of(20) {
                continue;
            }
            served.waiting.push_back((now_ns() + takes_ns, descriptor));
        }
        Ok(())
    }

    /// When the next answer is due.
    fn due_ns(&self) -> Option<u64> {
        let due = self.guests.values().filter_map(|guest| match guest {
            Peer::Served(served) => served.waiting.front().map(|(due_ns, _)| *due_ns),
            Peer::Opening(_) => None,
        });
        due.min()
    }

    fn answer(&mut self) {
        for guest in self.guests.values_mut() {
            let Peer::Served(served) = guest else {
                continue;
            };
            while served
                .waiting
                .front()
                .is_some_and(|(due_ns, _)| *due_ns <= now_ns())
            {
                let Some((_, descriptor)) = served.waiting.pop_front() else {
                    break;
                };
                if served.results.push(&record(&descriptor)).is_ok() {
                    self.tasks.entry(served.task.clone()).or_default().answered += 1;
                }
            }
        }
    }

    fn report(&self) -> String {
        let invented = u64::from(self.fault == Fault::Invents);
        let tasks = self.tasks.iter().map(|(name, counts)| {
            let (submitted, answered) = (counts.submitted + invented, counts.answered + invented);
            serde_json::json!({ "name": name, "submitted": submitted, "on_time": answered })
        });
        serde_json::json!({ "version": "0", "tasks": tasks.collect::<Vec<_>>() }).to_string()
    }
}

fn admit(connection: Connection, fault: Fault, poller: &Poller, token: u64) -> Option<Peer> {
    let hello = match connection.hello() {
        Ok(None) => return Some(Peer::Opening(connection)),
        Ok(Some(hello)) => hello,
        Err(_) if fault == Fault::FallsForGarbage => std::process::exit(8),
        Err(_) => return None,
    };
    let terms = StreamTerms {
        slots: 16,
        results: 16,
        frame: FrameSpec::packed(hello.format.unwrap_or(PixelFormat::Rgb8), 64, 48),
        ..small_terms()
    };
    poller.remove(connection.as_fd()).ok()?;
    let (submissions, _, results) = connection.admit(&terms).ok()?.split();
    submissions.watch(poller, token).ok()?;
    let waiting = VecDeque::new();
    let served = Served {
        task: hello.task,
        submissions,
        results,
        waiting,
    };
    Some(Peer::Served(Box::new(served)))
}

fn record(descriptor: &Descriptor) -> ResultRecord {
    ResultRecord {
        sequence: descriptor.sequence,
        slot: descriptor.slot,
        verdict: Verdict::OnTime,
        answer: Some(Answer::of_class(0, 0, u16::MAX)),
        part: None,
        left_out: 0,
        captured_ns: descriptor.captured_ns,
        // 25 ms, as the task `fast` has.
        deadline_ns: descriptor.captured_ns + 25_000_000,
        finished_ns: now_ns(),
        sent_ns: now_ns(),
        is_final: true,
    }
}
