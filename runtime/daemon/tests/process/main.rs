//! The daemon as a process, and its parts from outside.
#![forbid(unsafe_code)]

mod admission;
#[path = "../support/division.rs"]
mod division;
#[path = "../support/emulated_gpu.rs"]
mod emulated_gpu;
mod filling;
mod frames;
mod gpu;
mod gpu_division;
mod gpu_frames;
mod gpu_loss;
mod granted;
mod last_good;
mod limits;
mod log_levels;
mod memory;
mod offload;
mod ort;
mod outputs;
mod patterns;
mod pipelines;
mod places;
mod policies;
mod reconnection;
mod recorder;
mod service_manager;
mod signals;
mod socket_paths;
mod standard_error;
mod standard_output;
mod start_and_stop;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
mod tensors;
mod verified;
mod versions;
mod virtual_time;
mod watchdog;
mod weight_cache;
