//! The ways that are compared. A message says when it was due; the answer, when it was there.

mod channel;
mod eventfd;
mod iceoryx;
mod seqpacket;

use crate::Result;
use crate::child::Orders;

/// What a message carries at least, like a descriptor.
pub const HEADER_BYTES: usize = 64;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Ours, with all its checks.
    Channel,
    /// Publish and subscribe, with events for waking.
    Iceoryx2,
    /// A Unix socket that keeps messages apart.
    Seqpacket,
    /// 64 bits in an eventfd, unchecked: what waking costs, without a message.
    Eventfd,
}

impl Way {
    /// All of them, in the order in which they take turns.
    pub const ALL: [Self; 4] = [
        Self::Channel,
        Self::Iceoryx2,
        Self::Seqpacket,
        Self::Eventfd,
    ];

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel, validating",
            Self::Iceoryx2 => "iceoryx2 0.10",
            Self::Seqpacket => "Unix SEQPACKET",
            Self::Eventfd => "eventfd, 8 bytes",
        }
    }

    /// Whether it can carry that much.
    pub fn carries(self, bytes: usize) -> bool {
        self != Self::Eventfd || bytes <= HEADER_BYTES
    }
}

/// A client's side.
pub trait Client {
    /// Sends the message that was due at this time and waits for the answer: when it was there.
    fn exchange(&mut self, due_ns: u64) -> Result<u64>;
}

/// Answers until killed.
pub fn serve(orders: &Orders) -> Result<()> {
    match orders.way {
        Way::Channel => channel::serve(orders),
        Way::Iceoryx2 => iceoryx::serve(orders),
        Way::Seqpacket => seqpacket::serve(orders),
        Way::Eventfd => eventfd::serve(orders),
    }
}

/// A client that is ready to send.
pub fn connect(orders: &Orders) -> Result<Box<dyn Client>> {
    Ok(match orders.way {
        Way::Channel => Box::new(channel::connect(orders)?),
        Way::Iceoryx2 => Box::new(iceoryx::connect(orders)?),
        Way::Seqpacket => Box::new(seqpacket::connect(orders)?),
        Way::Eventfd => Box::new(eventfd::connect(orders)?),
    })
}
