//! The `punctual` command, as it is typed.
#![forbid(unsafe_code)]

mod board;
mod calibrate;
mod calibrate_kinds;
mod check_host;
#[path = "../documented/mod.rs"]
mod documented;
mod documented_commands;
mod drawings;
mod explain;
mod inspect;
mod manuals;
mod profile_gpu;
mod share;
mod sibling;
mod special_files;
mod standard_output;
