//! One module a subcommand. Each has `Options`, which is its command line, and `run`.

pub mod ask;
pub mod board;
pub mod calibrate;
pub mod camera;
pub mod check;
pub mod compile;
pub mod daemon;
pub mod doctor;
pub mod explain;
pub mod init;
pub mod inspect;
pub mod load;
pub mod manuals;
pub mod metrics;
pub mod profile;
pub mod record;
pub mod share;
pub mod status;
pub mod top;
pub mod trace;
