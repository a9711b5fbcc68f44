//! The driver itself: what a process finds behind the names of `libcuda.so`.
//!
//! All of it is one state behind one lock, and one condition that is notified whenever anything changes;
//! blocks of kernels and copies run outside the lock, on a thread for each stream. A driver for tests needs
//! no better, and a reader can say what happens.
mod allocation;
mod api;
mod attributes;
mod connections;
mod context;
mod control;
mod copy;
mod descriptor;
mod device;
mod event;
mod external;
mod fault;
mod fragile;
mod gate;
mod green;
mod image;
mod launch;
mod mask;
mod memory;
mod module;
mod objects;
mod state;
mod stream;
mod timed;
mod worker;

pub(crate) use api::exports;
