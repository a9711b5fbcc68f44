//! Clients in and out: handshakes, places, the pieces of a client that is gone.

use std::os::fd::AsFd;
use std::sync::Arc;

use punctual_core::ClientId;
use punctual_ipc::{Connection, FrameSpec, Hello, Listener, Refusal, StreamTerms};
use punctual_plan::{Plan, TaskPlan};
use punctual_platform::clock;
use punctual_platform::poll::{Poller, Waker};

use crate::admission::{self, Peer};
use crate::report::ClientsReport;
use crate::say::{Line, Moderated};
use crate::wiring::HousekeepingEnds;

/// Connections that may be in their handshake at once; further ones wait to be accepted.
pub const VISITORS_MAX: usize = 32;

/// How long a handshake may take, in ns.
const HANDSHAKE_NS: u64 = 2_000_000_000;

/// The pieces that a client's channel is shared out in: submissions, payload, results.
const PIECES: u8 = 3;

/// A place of the plan, as the door sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Pieces of its client that real-time threads hold; 0: the place is free.
    pieces: u8,
    /// Whose it is or was.
    pid: i32,
}

/// Lets clients in, one for each place of the plan, and notices when a place is free again.
pub struct Door {
    plan: Arc<Plan>,
    listener: Option<Listener>,
    /// Position is the poller's token less [`Door::token`]'s base.
    visitors: [Option<Connection>; VISITORS_MAX],
    places: Box<[Place]>,
    ends: HousekeepingEnds,
    ingress: Waker,
    accepted: u64,
    refused: u64,
    gone: u64,
    log: Moderated,
    /// The poller's token of the first visitor; the listener's is one less.
    base: u64,
}

impl Door {
    /// A door that is still closed to everybody: [`open`](Self::open) it.
    pub fn new(plan: Arc<Plan>, ends: HousekeepingEnds, ingress: Waker, base: u64) -> Self {
        Self {
            places: vec![Place::default(); plan.client_slots.len()].into(),
            plan,
            listener: None,
            visitors: [const { None }; VISITORS_MAX],
            ends,
            ingress,
            accepted: 0,
            refused: 0,
            gone: 0,
            log: Moderated::default(),
            base: base + 1,
        }
    }

    /// Clients may come.
    ///
    /// # Errors
    /// If the listener cannot be waited for.
    pub fn open(
        &mut self,
        listener: Listener,
        poller: &Poller,
    ) -> Result<(), punctual_platform::OsError> {
        poller.add(listener.as_fd(), self.base - 1)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Nobody new may come. The listener's path is gone afterwards.
    pub fn close(&mut self, poller: &Poller) {
        if let Some(listener) = self.listener.take() {
            let _ = poller.remove(listener.as_fd());
        }
        for visitor in &mut self.visitors {
            if let Some(connection) = visitor.take() {
                let _ = poller.remove(connection.as_fd());
                self.refused += 1;
                connection.refuse(Refusal::Draining);
            }
        }
    }

    /// Whether `token` is one of the door's.
    pub fn owns(&self, token: u64) -> bool {
        (self.base - 1..self.base + VISITORS_MAX as u64).contains(&token)
    }

    /// Something happened to the door's descriptor `token`.
    pub fn answer(&mut self, token: u64, poller: &Poller) {
        match token.checked_sub(self.base) {
            None => self.accept(poller),
            Some(visitor) => self.listen_to(visitor as usize, poller),
        }
    }

    /// Takes back the pieces of clients that are gone, and sends away who says nothing.
    pub fn look_after(&mut self, poller: &Poller) {
        while let Ok((client, submissions)) = self.ends.from_ingress.pop() {
            drop(submissions);
            self.gone += 1;
            self.piece_back(client);
        }
        while let Ok((client, results)) = self.ends.from_egress.pop() {
            drop(results);
            self.piece_back(client);
        }
        for client in 0..self.ends.intakes.len() {
            if let Ok(reader) = self.ends.intakes[client].from_intake.pop() {
                drop(reader);
                self.piece_back(ClientId(client as u16));
            }
        }
        let now = clock::now_ns();
        for visitor in &mut self.visitors {
            let slow = |c: &mut Connection| now.saturating_sub(c.since_ns()) > HANDSHAKE_NS;
            if let Some(connection) = visitor.take_if(slow) {
                let _ = poller.remove(connection.as_fd());
                self.refused += 1;
            }
        }
        self.accept(poller);
    }

    /// Connections so far.
    pub fn report(&self) -> ClientsReport {
        ClientsReport {
            slots: self.places.len() as u64,
            in_use: self.places.iter().filter(|place| place.pieces > 0).count() as u64,
            accepted: self.accepted,
            refused: self.refused,
            gone: self.gone,
        }
    }

    fn piece_back(&mut self, client: ClientId) {
        self.places[client.index()].pieces -= 1;
    }

    fn accept(&mut self, poller: &Poller) {
        let Some(listener) = &self.listener else {
            return;
        };
        while let Some(free) = self.visitors.iter().position(Option::is_none) {
            match listener.accept() {
                Ok(Some(connection)) => {
                    let token = self.base + free as u64;
                    if poller.add(connection.as_fd(), token).is_ok() {
                        self.visitors[free] = Some(connection);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    return self
                        .log
                        .say(&format!("a client could not be accepted: {error}"));
                }
            }
        }
    }

    fn listen_to(&mut self, visitor: usize, poller: &Poller) {
        let Some(connection) = &self.visitors[visitor] else {
            return;
        };
        let hello = connection.hello();
        if matches!(hello, Ok(None)) {
            return;
        }
        let Some(connection) = self.visitors[visitor].take() else {
            return;
        };
        let _ = poller.remove(connection.as_fd());
        match hello {
            Ok(Some(hello)) => self.admit(connection, &hello),
            Ok(None) => {}
            Err(error) => {
                self.refused += 1;
                let pid = connection.peer().pid;
                let line = Line::warning(format!("pid {pid}: {error}"));
                self.log.say(line.client_pid(pid));
            }
        }
    }

    fn admit(&mut self, connection: Connection, hello: &Hello) {
        let pid = connection.peer().pid;
        let (place, terms) = match self.place_for(&connection, hello) {
            Ok(found) => found,
            Err(refusal) => {
                self.refused += 1;
                let line = Line::warning(format!("pid {pid} was refused: {refusal}"));
                self.log.say(line.client_pid(pid));
                return connection.refuse(refusal);
            }
        };
        let channel = match connection.admit(&terms) {
            Ok(channel) => channel,
            Err(error) => {
                self.refused += 1;
                return self
                    .log
                    .say(&format!("pid {pid} could not be let in: {error}"));
            }
        };
        let client = ClientId(place as u16);
        let (submissions, reader, results) = channel.split();
        // The ingress last: whoever has a verdict or a frame of this client has its piece then.
        const FREE: &str = "a free place has room for its pieces";
        let intake = &mut self.ends.intakes[place];
        assert!(intake.to_intake.push(reader).is_ok(), "{FREE}");
        assert!(
            self.ends.to_egress.push((client, results)).is_ok(),
            "{FREE}"
        );
        assert!(
            self.ends.to_ingress.push((client, submissions)).is_ok(),
            "{FREE}"
        );
        self.places[place] = Place {
            pieces: PIECES,
            pid,
        };
        self.accepted += 1;
        self.ingress.wake();
    }

    /// A free place of the task that the client wants to feed.
    fn place_for(
        &self,
        connection: &Connection,
        hello: &Hello,
    ) -> Result<(usize, StreamTerms), Refusal> {
        let credentials = connection.peer();
        let peer = Peer {
            credentials,
            groups: &connection.groups(),
            streams: self.streams_of(credentials.pid),
        };
        let (task, frame) = admission::admit(&self.plan, hello, &peer)?;
        let free = |place: &&u16| self.places[usize::from(**place)].pieces == 0;
        match task.client_slots.iter().find(free) {
            Some(&place) => {
                let mut terms = terms(task, place, frame);
                if hello.buffers > 0 {
                    terms.slots = hello.buffers;
                }
                Ok((usize::from(place), terms))
            }
            None => Err(Refusal::Full {
                clients: task.client_slots.len() as u16,
            }),
        }
    }

    /// The process of the last client in this place, whose pieces may be back already: 0 if there was
    /// none.
    pub fn pid(&self, client: ClientId) -> i32 {
        self.places.get(client.index()).map_or(0, |place| place.pid)
    }

    /// How many places a process holds.
    fn streams_of(&self, pid: i32) -> usize {
        let held = |place: &&Place| place.pieces > 0 && place.pid == pid;
        self.places.iter().filter(held).count()
    }
}

/// What the plan says of a task's streams.
fn terms(task: &TaskPlan, place: u16, frame: FrameSpec) -> StreamTerms {
    StreamTerms {
        stream: u32::from(place),
        slots: task.channel.slots,
        results: u32::from(task.channel.results),
        frame,
        crop_width: task.frame.crop.width,
        crop_height: task.frame.crop.height,
    }
}
