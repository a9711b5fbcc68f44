//! The model from outside: packages, validation, memory. One binary, since all share a network.
#![forbid(unsafe_code)]

mod agreement;
mod detections;
mod documented;
mod files;
mod fixture;
mod memory;
mod package;
mod prefix;
mod quantised;
mod scratch;
mod share;
mod temperature;
mod timing;
mod validate;
