//! The channel from outside; what counts descriptors has a process of its own.

mod client_side;
mod corpus;
mod each_exit;
mod garbage;
mod handshake;
#[path = "../../../../testing/fuzz/ipc/hostile_client.rs"]
mod hostile_client;
mod outputs;
mod sealed_memory;
