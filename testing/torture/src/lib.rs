//! Tortures the channel between sensor processes and the daemon.
//!
//! The parent plays the daemon's side over the real `punctual-ipc` (or leaves that to a daemon that
//! runs already); its children are client processes. They are killed (SIGKILL) and stopped (SIGSTOP)
//! at points drawn from a seed, in the handshake, in a submission, asleep; some are hostile. Every
//! frame proves whose and which it is, and every verdict is a function of its frame, so that a frame
//! or a verdict that is lost, doubled, stale, mixed or another's is noticed. Both sides keep counters:
//! the child's lie in a file that outlives it, and each connection's must agree when it ends.
//!
//! | module | what |
//! |---|---|
//! | [`rig`] | the run: keeps clients coming, kills, stops, compares counters |
//! | [`crowd`] | a client process, and the audit of its counters |
//! | [`orders`], [`child`], `healthy`, `hostile` | what the client processes are told, and do |
//! | [`acceptor`], [`server`] | the daemon's side |
//! | [`ledger`], [`payload`], [`report`] | counters, frames, results |
#![forbid(unsafe_code)]

pub mod acceptor;
pub mod child;
pub mod crowd;
pub mod error;
mod healthy;
mod hostile;
pub mod ledger;
pub mod orders;
pub mod payload;
pub mod report;
pub mod rig;
pub mod server;
