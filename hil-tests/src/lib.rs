//! The rig: black-box tests of the installed binaries on a named target, this machine or one
//! behind ssh. What it needs of the target is a POSIX shell, `setsid` and `/proc`; everything that
//! must be timed there is done by the agent, this same program copied over.
//!
//! The way of a run: `run` → `probe` (what the target has) → `stage` (files for all cases) → each
//! `case` in a fresh test `bed` → `report`.
#![deny(unsafe_code)]

pub mod account;
pub mod agent;
pub mod bed;
pub mod bounds;
pub mod case;
pub mod facts;
pub mod manifest;
pub mod outcome;
pub mod records;
pub mod report;
pub mod run;
pub mod stage;
pub mod suites;
pub mod target;
pub mod termination;
