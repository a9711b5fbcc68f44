//! The commands of `punctual`, for its own program and for `punctual-lab`, whose `daemon`, `check` and `profile` know more
//! policies.
#![forbid(unsafe_code)]

mod ask;
mod cache;
mod calibrate;
pub mod commands;
pub mod demo;
mod folder;
mod host;
mod init;
mod interruption;
mod live;
mod load;
mod measure;
mod metrics;
mod picture;
mod pixel_classes;
mod recorded;
mod report;
mod spans;
mod top;

/// For the fuzz targets in `testing/fuzz`, not for users.
#[doc(hidden)]
pub mod fuzzed {
    pub use crate::calibrate::annotations::exercise as annotations;
}
