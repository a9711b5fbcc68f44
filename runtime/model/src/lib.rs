//! The staged model: operators, static memory plans, the package file, profiles and calibration.
#![forbid(unsafe_code)]

mod calibration;
mod network;
mod profile;

pub use calibration::{Calibration, CalibrationExit, CalibrationSample};
pub use network::{
    Activation, Extent, InputSpec, Network, Operator, OperatorKind, Padding, PoolKind, Stage,
    Tensor, TensorId, WeightRange,
};
pub use profile::{PrepareProfile, Profile, ProfileKey, StageProfile};
