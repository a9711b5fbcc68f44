//! Calibration: labelled pictures through all exits of a package.

pub mod pictures;
pub mod plot;
pub mod report;
pub mod run;
pub mod samples;
