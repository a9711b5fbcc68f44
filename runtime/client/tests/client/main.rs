//! Clients and a daemon that echoes, in one process.

mod answers;
#[path = "../echo_daemon/mod.rs"]
mod echo_daemon;
mod end_to_end;
mod outputs;
mod reconnection;
mod replies;
