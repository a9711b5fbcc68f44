//! The channel between a sensor process and the daemon: frames and deadlines one way through
//! shared memory, results the other way.
//!
//! The daemon trusts nothing that a client can write. The three memory files of a client are made by the daemon
//! and sealed; the daemon's ring positions and slot states are private; what comes from shared memory is
//! copied once and validated afterwards; no Rust reference but to an atomic ever points into it. A client
//! that breaks the protocol earns a [`ChannelFault`] and loses its connection, and no other client notices.
//!
//! | side | module | used by |
//! |---|---|---|
//! | daemon | [`Listener`], [`Connection`] | an ordinary thread: accepts, shakes hands, maps |
//! | daemon | [`Submissions`] | the client's port, a thread: validated [`Descriptor`]s |
//! | daemon | [`PayloadReader`] | the client's intake thread: copies payload bytes out |
//! | daemon | [`OutputAreas`] | the scheduler's thread: which area an answer's outputs go to; looks at no memory of the client |
//! | daemon | [`Results`] | the client's port: [`ResultRecord`]s in, client woken |
//! | client | [`ClientChannel`] | the sensor process (through `punctual-client`) |
//!
//! The way of a slot: free (client's stack) → submitted → released, by the daemon, once the
//! payload is copied in or the result is pushed, whichever is first. A slot's generation goes up
//! with each release, so a stale handle is noticed.
//!
//! The way of an output area: free → reserved for a submission → written by the worker that runs its stages → handed over
//! with the result → released, by the client.
//!
//! Beyond `cargo test`: `models.rs` has loom try every interleaving and every stale value of the rings,
//! slots and wake-ups (`RUSTFLAGS="--cfg loom" cargo test --release -p punctual-ipc --lib -- models::`),
//! `testing/torture` kills and besets client processes (docs/results/channel-torture.md), `testing/fuzz` runs the hostile client of `tests/channel/garbage.rs` guided by coverage,
//! `benches/one_way.rs` compares with sockets and eventfd (docs/results/channel.md), and the parts
//! that share memory between threads pass Miri:
//! `MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p punctual-ipc --lib -- slots:: region:: tests::two tests::cells`

#[cfg(not(loom))]
mod bell;
#[cfg(loom)]
#[path = "bell_model.rs"]
mod bell;
mod client;
mod description;
mod descriptor;
mod frame;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzed;
mod handshake;
#[doc(hidden)]
pub mod internals;
mod layout;
mod listener;
mod memory;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
mod region;
#[cfg(loom)]
#[path = "region_model.rs"]
mod region;
mod result;
mod ring;
mod server;
mod slots;
mod socket;
#[cfg(loom)]
mod socket_model;

pub use client::{
    BellWatch, Claim, ClientChannel, ConnectError, Disconnected, ElementError, NoSuchTask, Opening,
    Outputs, Progress, Slot, SlotMemory, SubmitError, Tensor, VectorError,
};
pub use description::{
    Description, DescriptionError, ExitDescription, InputDescription, OutputDescription,
    StreamTask, StreamTasks, VectorDescription,
};
pub use descriptor::{Crop, Descriptor, DescriptorError};
pub use frame::{FrameError, FrameSpec, Layout, PixelFormat};
pub use handshake::{
    Agreement, BufferRefusal, Features, Hello, MessageError, OutputTerms, PROTOCOL_VERSIONS,
    Refusal, StreamTerms, TermsError, VersionRange,
};
pub use listener::{AdmitError, Connection, HelloError, ListenError, Listener, PeerCredentials};
pub use punctual_types::{AnswerKind, Element};
pub use result::{
    Answer, Failure, HandedOver, Part, PartCrop, RecordError, Rejection, ResultRecord, Verdict,
};
pub use ring::PositionError;
pub use server::{
    ChannelFault, OutputAreas, PayloadError, PayloadReader, Results, Rows, ServerChannel,
    Submissions,
};
