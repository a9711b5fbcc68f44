//! Clients in and out: handshakes, places, the pieces of a client that is gone.
//!
//! Nothing in here receives a descriptor of a client's or closes one: that is for the pools, which
//! may block. A connection is dropped here only once it is clean.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::os::fd::AsFd;
use std::sync::Arc;

use punctual_core::{ClientId, TaskId};
use punctual_device::frames::{FramesCopied, SharedPreparer};
use punctual_events::{DaemonEvent, say};
use punctual_ipc::{
    AdmitError, Connection, Description, FrameSpec, Hello, Listener, OutputTerms, PeerCredentials,
    Refusal, ServerChannel, StreamTerms,
};
use punctual_plan::{Plan, TaskPlan};
use punctual_platform::clock;
use punctual_platform::poll::Poller;

use crate::admission::{self, Peer};
use crate::channels::{HousekeepingClientEnds, Newcomer};
use crate::client_places::ClientPlaces;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::openings::{Openings, UNFINISHED_MIB_MAX};
use crate::pools::{Done, Pools};
use crate::rate_limit::{REPEATS_NS, RateLimit, Repeats, Who};
use crate::report::ClientsReport;

/// Connections that may be in their handshake at once; further ones wait to be accepted.
pub const VISITORS_MAX: usize = 32;

/// How long a handshake may take, in ns.
const HANDSHAKE_NS: u64 = 2_000_000_000;

/// How long it may take while there is no room for another connection, in ns: silent connections must not keep
/// others out for longer.
const HANDSHAKE_HURRIED_NS: u64 = 250_000_000;

/// How long the daemon's end waits for the pools to refuse those in their handshake, in ns. A client can make a
/// pool slow, and must not delay the end by more.
const SETTLE_NS: u64 = 500_000_000;

/// The pieces that a client's channel is shared out in: submissions, payload, results. One that gets outputs has a
/// fourth: their areas.
const PIECES: u8 = 3;

/// Admits clients, one for each place of the plan, and notices when a place is free again.
pub struct Acceptor {
    plan: Arc<Plan>,
    /// By task: what its clients are told of their answers.
    descriptions: Box<[Arc<Description>]>,
    listener: Option<Listener>,
    gate: Gate,
    /// Position is the poller's token less [`Acceptor::token`]'s base.
    visitors: [Option<Connection>; VISITORS_MAX],
    pub places: ClientPlaces,
    pub pools: Pools,
    /// By place.
    ends: Vec<HousekeepingClientEnds>,
    accepted: u64,
    refused: u64,
    gone: u64,
    /// Tasks of which it was said that the GPU reads copies of their frames.
    copying: BTreeSet<TaskId>,
    openings: Openings,
    log: RateLimit,
    refusals: Repeats,
    /// The poller's token of the first visitor; the listener's is one less.
    base: u64,
}

/// What reads a client's frames, of which a device may know.
struct Reading<R> {
    _reader: R,
    frames: Option<SharedPreparer>,
}

impl<R> Drop for Reading<R> {
    fn drop(&mut self) {
        if let Some(frames) = &self.frames {
            frames.detach();
        }
    }
}

impl Acceptor {
    /// It accepts no connection before [`open`](Self::open).
    pub fn new(
        plan: Arc<Plan>,
        metrics: Arc<Metrics>,
        descriptions: Vec<Description>,
        pools: Pools,
        ends: Vec<HousekeepingClientEnds>,
        base: u64,
    ) -> Self {
        Self {
            places: ClientPlaces::new(Arc::clone(&plan), metrics),
            plan,
            descriptions: descriptions.into_iter().map(Arc::new).collect(),
            listener: None,
            gate: Gate::new(base),
            visitors: [const { None }; VISITORS_MAX],
            pools,
            ends,
            accepted: 0,
            refused: 0,
            gone: 0,
            copying: BTreeSet::new(),
            openings: Openings::default(),
            log: RateLimit::default(),
            refusals: Repeats::default(),
            base: base + 1,
        }
    }

    /// Clients may come.
    pub fn open(&mut self, listener: Listener, poller: &Poller) {
        self.listener = Some(listener);
        self.attend(poller);
    }

    /// Accepts no further connections. The listener's path is gone afterwards, once this has
    /// [settled](Self::settle).
    pub fn close(&mut self, poller: &Poller) {
        if let Some(listener) = self.listener.take() {
            self.gate.attend(poller, listener.as_fd(), false, 0);
            // On a pool: dropping it closes connections that were not accepted, and a client can make that slow.
            self.pools.strangers.run(move || {
                drop(listener);
                None
            });
        }
        for visitor in 0..VISITORS_MAX {
            if let Some(connection) = self.leave(visitor, poller) {
                self.refuse(connection, Refusal::Draining);
            }
        }
        self.tell_untold_refusals(u64::MAX);
        self.places.tell_untold(u64::MAX);
    }

    /// Waits, within bounds, until every client in a handshake has its refusal.
    pub fn settle(&mut self, poller: &mut Poller) {
        let limit_ns = clock::now_ns() + SETTLE_NS;
        while self.pools.strangers.pending() > 0 && clock::now_ns() < limit_ns {
            // The pools wake it.
            let _ = poller.wait(Some(limit_ns)).count();
            while self.pools.strangers.outcome().is_some() {}
        }
    }

    /// Whether `token` is one of the acceptor's.
    pub fn owns(&self, token: u64) -> bool {
        (self.base - 1..self.base + VISITORS_MAX as u64).contains(&token)
    }

    /// Something happened to the acceptor's descriptor `token`.
    pub fn answer(&mut self, token: u64, poller: &Poller) {
        match token.checked_sub(self.base) {
            None => self.accept(poller),
            Some(visitor) => self.listen_to(visitor as usize, poller),
        }
    }

    /// Takes back the pieces of clients that are gone, and closes connections that say nothing.
    pub fn look_after(&mut self, poller: &Poller) {
        for client in 0..self.ends.len() {
            self.take_back(client);
        }
        while let Some(done) = self.pools.done() {
            match done {
                Done::Dropped(client) => self.places.drop_piece(client, &mut self.log),
                Done::Admitted {
                    client,
                    pid,
                    channel,
                    copied,
                } => {
                    if let Some(reason) = copied {
                        self.tell_copied(client, &reason);
                    }
                    match channel {
                        Ok(channel) => self.let_in(client, channel),
                        Err(error) => self.not_admitted(client, pid, &error),
                    }
                }
            }
        }
        let now_ns = clock::now_ns();
        self.tell_untold_refusals(now_ns);
        self.places.tell_untold(now_ns);
        self.places.tell_unanswered(now_ns);
        self.send_away_the_slow(poller);
        self.accept(poller);
    }

    /// The pieces of a client that is gone.
    fn take_back(&mut self, client: usize) {
        let (id, ends) = (ClientId(client as u16), &mut self.ends[client]);
        let (submissions, results) = (ends.submissions.pop(), ends.results.pop());
        let (reader, areas) = (ends.from_intake.pop(), ends.from_scheduler.pop());
        if let Ok(submissions) = submissions {
            self.gone += 1;
            if !submissions.has_submitted() {
                self.came_to_nothing(id);
            }
            self.drop_piece(id, submissions);
        }
        if let Ok(results) = results {
            self.drop_piece(id, results);
        }
        if let Ok(reader) = reader {
            let reading = Reading {
                _reader: reader,
                frames: self.ends[client].frames.clone(),
            };
            self.drop_piece(id, reading);
        }
        if let Ok(areas) = areas {
            self.drop_piece(id, areas);
        }
    }

    pub fn report(&self) -> ClientsReport {
        ClientsReport {
            slots: self.plan.client_slots.len() as u64,
            in_use: self.places.in_use() as u64,
            accepted: self.accepted,
            refused: self.refused,
            gone: self.gone,
            connected: self.places.reports(),
        }
    }

    /// The place is free once all are dropped: until then their memory is taken.
    fn drop_piece(&mut self, client: ClientId, piece: impl Send + 'static) {
        self.pools.places.run(move || {
            drop(piece);
            Some(Done::Dropped(client))
        });
    }

    fn send_away_the_slow(&mut self, poller: &Poller) {
        let full = self.room().is_none();
        let patience_ns = if full {
            HANDSHAKE_HURRIED_NS
        } else {
            HANDSHAKE_NS
        };
        let now_ns = clock::now_ns();
        for visitor in 0..VISITORS_MAX {
            let since_ns = self.visitors[visitor].as_ref().map(Connection::since_ns);
            if since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) > patience_ns)
                && let Some(connection) = self.leave(visitor, poller)
            {
                self.refused += 1;
                self.pools.strangers.run(move || {
                    drop(connection);
                    None
                });
            }
        }
    }

    /// The connection is in its handshake no longer.
    fn leave(&mut self, visitor: usize, poller: &Poller) -> Option<Connection> {
        let connection = self.visitors[visitor].take()?;
        let _ = poller.remove(connection.as_fd());
        Some(connection)
    }

    fn accept(&mut self, poller: &Poller) {
        while let Some(listener) = &self.listener
            && let Some(free) = self.room()
        {
            match listener.accept() {
                Ok(Some(connection)) => {
                    if self.gate.succeeded() {
                        self.log.say(&DaemonEvent::AcceptingAgain);
                    }
                    self.receive(connection, free, poller);
                }
                Ok(None) => break,
                Err(error) => {
                    if self.gate.failed(clock::now_ns()) {
                        let error = error.to_string();
                        self.log.say(&DaemonEvent::AcceptingFailed { error });
                    }
                    break;
                }
            }
        }
        self.attend(poller);
    }

    fn receive(&mut self, connection: Connection, free: usize, poller: &Poller) {
        let token = self.base + free as u64;
        if poller.add(connection.as_fd(), token).is_ok() {
            self.visitors[free] = Some(connection);
        } else {
            self.refuse(connection, Refusal::Resources);
        }
    }

    /// Where the next visitor would be; none if there is no room for one.
    fn room(&self) -> Option<usize> {
        let in_handshake = self.visitors.iter().flatten().count();
        let free = self.visitors.iter().position(Option::is_none);
        free.filter(|_| self.pools.have_room_beside(in_handshake))
    }

    fn attend(&mut self, poller: &Poller) {
        let room = self.room().is_some();
        if let Some(listener) = &self.listener {
            let now_ns = clock::now_ns();
            self.gate.attend(poller, listener.as_fd(), room, now_ns);
        }
    }

    fn listen_to(&mut self, visitor: usize, poller: &Poller) {
        let Some(connection) = &self.visitors[visitor] else {
            return;
        };
        let hello = match connection.hello() {
            Ok(None) => return,
            Ok(Some(hello)) => Ok(hello),
            Err(error) => Err(error),
        };
        let Some(connection) = self.leave(visitor, poller) else {
            return;
        };
        match hello {
            Ok(hello) => self.admit(connection, &hello),
            Err(error) => {
                self.tell_refusal(connection.peer(), None, &error);
                self.refuse(connection, Refusal::Malformed);
            }
        }
        self.attend(poller);
    }

    fn refuse(&mut self, connection: Connection, refusal: Refusal) {
        self.refused += 1;
        // Not here, even if nothing is in its queue: closing a socket wakes all who wait for it, and there may be thousands.
        self.pools.strangers.run(move || {
            connection.refuse(refusal);
            None
        });
    }

    /// `asked` is the task that the client named, if its opening could be read.
    fn tell_refusal(&mut self, peer: PeerCredentials, asked: Option<&str>, why: &dyn Display) {
        let PeerCredentials { pid, uid, .. } = peer;
        let known = asked.and_then(|name| self.plan.task_named(name));
        let task = known.map(|(id, _)| id);
        let who = Who { uid, task };
        if !self.refusals.permits(who, clock::now_ns()) {
            return;
        }
        let (client_pid, reason) = (pid, why.to_string());
        self.log.say(&match asked.map(str::to_owned) {
            Some(task) if known.is_some() => DaemonEvent::ClientRefused {
                client_pid,
                uid,
                task,
                reason,
            },
            Some(asked) => DaemonEvent::StrangerRefused {
                client_pid,
                uid,
                asked,
                reason,
            },
            None => DaemonEvent::OpeningRefused {
                client_pid,
                uid,
                reason,
            },
        });
    }

    /// How many refusals were not told, of those that began long enough before `now_ns`.
    fn tell_untold_refusals(&mut self, now_ns: u64) {
        while let Some((Who { uid, task }, count)) = self.refusals.untold(now_ns) {
            let within_s = REPEATS_NS / 1_000_000_000;
            say(&match task {
                Some(task) => DaemonEvent::ClientsRefused {
                    uid,
                    task: self.plan.tasks[task.index()].name.clone(),
                    count,
                    within_s,
                },
                None => DaemonEvent::StrangersRefused {
                    uid,
                    count,
                    within_s,
                },
            });
        }
    }

    fn admit(&mut self, connection: Connection, hello: &Hello) {
        let peer = connection.peer();
        let pid = peer.pid;
        let (client, terms, task) = match self.place_for(&connection, hello) {
            Ok(found) => found,
            Err(refusal) => {
                self.tell_refusal(peer, Some(&hello.task), &refusal);
                return self.refuse(connection, refusal);
            }
        };
        self.places.reserve(client, task, PIECES, peer);
        let description = Arc::clone(&self.descriptions[task.index()]);
        let frames = self.ends[client.index()].frames.clone();
        // A client decides how much memory is made for it, and when it maps that.
        self.pools.places.run(move || {
            let channel = connection.admit_with(&terms, &description);
            let copied = match (frames, &channel) {
                (Some(frames), Ok(channel)) => frames.attach(channel.frame_memory()),
                _ => None,
            };
            Some(Done::Admitted {
                client,
                pid,
                channel,
                copied,
            })
        });
    }

    fn came_to_nothing(&mut self, client: ClientId) {
        let task = self.places.task(client);
        let bytes = self.plan.tasks[task.index()].channel.bytes();
        let uid = self.places.uid_of(client);
        self.openings.unfinished(uid, bytes, clock::now_ns());
    }

    /// Once a task: it is the machine's doing, not the client's.
    fn tell_copied(&mut self, client: ClientId, reason: &FramesCopied) {
        let id = self.places.task(client);
        if self.copying.insert(id) {
            let task = self.plan.task(id).name.clone();
            let reason = reason.to_string();
            say(&DaemonEvent::FramesCopied { task, reason });
        }
    }

    fn not_admitted(&mut self, client: ClientId, pid: i32, error: &AdmitError) {
        self.refused += 1;
        // Memory was made for it in vain. Errors of the system are not the client's doing.
        if matches!(error, AdmitError::NotMapped | AdmitError::Sealed) {
            self.came_to_nothing(client);
        }
        self.places.free_unused(client);
        self.log.say(&DaemonEvent::ClientNotAdmitted {
            client_pid: pid,
            error: error.to_string(),
        });
    }

    /// Shares a client's channel out among the threads that serve it.
    fn let_in(&mut self, client: ClientId, mut channel: ServerChannel) {
        let areas = channel.areas();
        let (submissions, reader, results) = channel.split();
        // The port last: frames and verdicts of this client exist only after it has its pieces, and then the others have
        // theirs.
        const FREE: &str = "a free place has room for its pieces";
        let ends = &mut self.ends[client.index()];
        assert!(ends.to_intake.push(reader).is_ok(), "{FREE}");
        if let Some(areas) = areas {
            self.places.add_piece(client);
            assert!(ends.to_scheduler.push(areas).is_ok(), "{FREE}");
        }
        let newcomer = Newcomer {
            submissions,
            results,
            asked: self.places.task(client),
        };
        assert!(ends.to_port.push(newcomer).is_ok(), "{FREE}");
        ends.port.wake();
        self.accepted += 1;
        self.places.came(client, &mut self.log);
    }

    /// A free place of the task that the client wants to feed.
    fn place_for(
        &mut self,
        connection: &Connection,
        hello: &Hello,
    ) -> Result<(ClientId, StreamTerms, TaskId), Refusal> {
        let credentials = connection.peer();
        let uid = credentials.uid;
        if self.openings.must_wait(uid, clock::now_ns()) {
            let limit_mib = UNFINISHED_MIB_MAX;
            return Err(Refusal::Unfinished { uid, limit_mib });
        }
        let peer = Peer {
            credentials,
            groups: &connection.groups(),
            streams: self.places.streams_of(credentials.pid),
        };
        let (id, task, frame) = admission::admit(&self.plan, hello, &peer)?;
        match self.places.free(&task.client_slots) {
            Some(client) => {
                let mut terms = terms(task, client.0, frame);
                if hello.buffers > 0 {
                    terms.slots = hello.buffers;
                    let a_slot = terms.outputs.areas / task.channel.slots;
                    terms.outputs.areas = a_slot * hello.buffers;
                }
                Ok((client, terms, id))
            }
            None => Err(Refusal::Full {
                clients: task.client_slots.len() as u16,
            }),
        }
    }
}

/// What the plan gives for a task's streams.
fn terms(task: &TaskPlan, place: u16, frame: FrameSpec) -> StreamTerms {
    StreamTerms {
        stream: u32::from(place),
        slots: task.channel.slots,
        results: u32::from(task.channel.results),
        frame,
        crop_width: task.frame.crop.width,
        crop_height: task.frame.crop.height,
        outputs: OutputTerms {
            areas: match task.channel.area_bytes {
                0 => 0,
                _ => task.channel.areas,
            },
            // The plan has a limit far below.
            area_bytes: task.channel.area_bytes as u32,
            // Filled in with the description.
            description_bytes: 0,
        },
        vectors: 0,
        records: task.channel.records,
    }
}
