//! The `punctual` command, as it is typed.
#![forbid(unsafe_code)]

mod ask;
mod board;
mod bytes;
mod calibrate;
mod calibrate_kinds;

mod doctor;
#[path = "../documented/mod.rs"]
mod documented;
mod documented_commands;
mod drawings;
#[path = "../../../daemon/tests/support/emulated_gpu.rs"]
mod emulated_gpu;
mod explain;
mod explained;
mod init;
mod inspect;
mod interrupted;
mod load;
mod manuals;
mod metrics;
mod profile_gpu;
mod prometheus;
mod record;
mod share;
mod sibling;
mod special_files;
mod standard_output;
#[path = "../../../daemon/tests/support/mod.rs"]
mod support;
mod top;
mod trace;
mod tutorial;
mod typist;
mod updates;
mod verified;
