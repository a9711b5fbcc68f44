//! Plans, as their callers get them.
#![forbid(unsafe_code)]

mod boards;
mod corpus;
mod defaults;
mod demo;
mod elsewhere;
mod engine;
mod files;
mod fill;
#[path = "../fixture/mod.rs"]
mod fixture;
mod gpu;
mod hostile;
mod inputs;
mod manifests;
mod ort;
mod patterns;
mod pictures;
mod places;
mod power_modes;
mod preemption;
mod prepare;
mod profiles;
mod properties;
mod ranges;
mod real_time;
mod reference;
mod tensors;
mod verified;
