//! Accepts clients, on terms under which a client is rarely right by accident.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use crossbeam_channel::{Receiver, Sender, unbounded};
use punctual_ipc::{
    Connection, Description, FrameSpec, HelloError, Listener, PixelFormat, Refusal, ServerChannel,
    StreamTerms,
};
use punctual_platform::poll::{Poller, Waker};
use punctual_platform::thread::{ThreadError, spawn_ordinary};

use crate::error::RigError;
use crate::payload;

/// How long a connection may stay without an opening, in ns.
const OPENING_NS: u64 = 500_000_000;

/// Accepts connections and answers handshakes, in the daemon's place.
#[derive(Debug)]
pub struct Acceptor {
    listener: Listener,
    /// Connections whose opening has not arrived, by token.
    waiting: BTreeMap<u64, Connection>,
    next: u64,
    terms: StreamTerms,
    description: Description,
    /// Handshakes whose client has not mapped its memory yet.
    mapping: usize,
    /// Ends of such handshakes.
    ends: (
        Sender<Option<AdmittedClient>>,
        Receiver<Option<AdmittedClient>>,
    ),
    waker: Waker,
}

#[derive(Debug)]
pub struct AdmittedClient {
    pub token: u64,
    pub pid: i32,
    pub channel: ServerChannel,
}

impl Acceptor {
    /// Listens at `path`; clients get `slots` slots of square frames with this side. `poller` is woken for each.
    pub fn open(path: &Path, slots: u16, side: u32, poller: &Poller) -> Result<Self, RigError> {
        let (outputs, description) = payload::outputs(slots);
        let terms = StreamTerms {
            stream: 0,
            slots,
            // More than slots, so that slots come back before their results were read.
            results: u32::from(slots).next_power_of_two() * 2,
            frame: FrameSpec::packed(PixelFormat::Rgb8, side, side),
            crop_width: side,
            crop_height: side,
            outputs,
            vectors: 0,
            records: payload::RECORDS,
        };
        let listener = Listener::bind(path)?;
        poller.add(listener.as_fd(), 0)?;
        Ok(Self {
            listener,
            waiting: BTreeMap::new(),
            next: 1,
            terms,
            description,
            mapping: 0,
            ends: unbounded(),
            waker: poller.waker(),
        })
    }

    /// The clients admitted since the last call. Begins the handshake of connections that have sent an opening; drops those that sent none in time.
    pub fn answer(
        &mut self,
        poller: &Poller,
        now_ns: u64,
    ) -> Result<Vec<AdmittedClient>, RigError> {
        while let Some(connection) = self.listener.accept()? {
            poller.add(connection.as_fd(), self.next)?;
            self.waiting.insert(self.next, connection);
            self.next += 1;
        }
        let tokens: Vec<u64> = self.waiting.keys().copied().collect();
        for token in tokens {
            let said = self.waiting[&token].hello();
            let old = now_ns.saturating_sub(self.waiting[&token].since_ns()) > OPENING_NS;
            if matches!(said, Ok(None)) && !old {
                continue;
            }
            let Some(connection) = self.waiting.remove(&token) else {
                continue;
            };
            poller.remove(connection.as_fd())?;
            match said {
                Ok(Some(_)) => self.admit(token, connection)?,
                Err(HelloError::Os(error)) => return Err(error.into()),
                Err(_) => connection.refuse(Refusal::Malformed),
                Ok(None) => {}
            }
        }
        let ends: Vec<_> = self.ends.1.try_iter().collect();
        self.mapping -= ends.len();
        Ok(ends.into_iter().flatten().collect())
    }

    /// Whether no connection waits for its handshake.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.mapping == 0
    }

    /// The client decides when it maps its memory, and the rig may have stopped it: only the rig lets it go on.
    fn admit(&mut self, token: u64, connection: Connection) -> Result<(), ThreadError> {
        let pid = connection.peer().pid;
        let terms = StreamTerms {
            stream: token as u32,
            ..self.terms
        };
        let description = self.description.clone();
        let (end, waker) = (self.ends.0.clone(), self.waker.clone());
        spawn_ordinary("handshake", move || {
            // It may have died during its handshake.
            let channel = connection.admit_with(&terms, &description).ok();
            let client = channel.map(|channel| AdmittedClient {
                token,
                pid,
                channel,
            });
            // The rig may have ended.
            let _ = end.send(client);
            waker.wake();
        })?;
        self.mapping += 1;
        Ok(())
    }
}
