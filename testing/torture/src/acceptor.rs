//! Accepts clients, on terms under which a client is rarely right by accident.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use punctual_ipc::{
    Connection, Description, FrameSpec, HelloError, ListenError, Listener, PixelFormat, Refusal,
    ServerChannel, StreamTerms,
};
use punctual_platform::OsError;
use punctual_platform::poll::Poller;

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
}

/// A client that was admitted.
#[derive(Debug)]
pub struct AdmittedClient {
    pub token: u64,
    pub pid: i32,
    pub channel: ServerChannel,
}

impl Acceptor {
    /// Listens at `path`; clients get so many slots of square frames with this side.
    pub fn open(path: &Path, slots: u16, side: u32) -> Result<Self, ListenError> {
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
        };
        Ok(Self {
            listener: Listener::bind(path)?,
            waiting: BTreeMap::new(),
            next: 1,
            terms,
            description,
        })
    }

    /// Has `poller` report new connections.
    pub fn watch(&self, poller: &Poller) -> Result<(), OsError> {
        poller.add(self.listener.as_fd(), 0)
    }

    /// Admits connections that have sent an opening; drops those that sent none in time.
    pub fn answer(&mut self, poller: &Poller, now_ns: u64) -> Result<Vec<AdmittedClient>, OsError> {
        while let Some(connection) = self.listener.accept()? {
            poller.add(connection.as_fd(), self.next)?;
            self.waiting.insert(self.next, connection);
            self.next += 1;
        }
        let mut admitted = Vec::new();
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
                Ok(Some(_)) => admitted.extend(self.admit(token, connection)),
                Err(HelloError::Os(error)) => return Err(error),
                Err(_) => connection.refuse(Refusal::Malformed),
                Ok(None) => {}
            }
        }
        Ok(admitted)
    }

    /// Whether no connection waits for its handshake.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn admit(&self, token: u64, connection: Connection) -> Option<AdmittedClient> {
        let pid = connection.peer().pid;
        let terms = StreamTerms {
            stream: token as u32,
            ..self.terms
        };
        // It may have died during its handshake.
        let channel = connection.admit_with(&terms, &self.description).ok()?;
        Some(AdmittedClient {
            token,
            pid,
            channel,
        })
    }
}
