//! The staged model: operators, static memory plans, the package file, profiles and calibration.
//!
//! ```
//! use punctual_model::Package;
//!
//! let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/signs/signs.punctual"))?;
//! let package = Package::decode(&file)?;
//! let network = package.network();
//! assert_eq!(network.stages.len(), 3);
//! // What is damaged is refused, and says where.
//! assert!(Package::decode(&file[..file.len() / 2]).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod border;
mod calibration;
mod contents;
mod exit;
mod floats;
mod footprint;
mod layout;
mod limits;
mod liveness;
pub mod memory;
mod network;
mod operators;
mod outputs;
mod package;
mod prefix;
mod profile;
mod quantised;
pub mod reference;
mod samples;
mod shape;
mod share;
mod solution;
mod tensor;
mod timing;
mod validate;

pub use border::Border;
pub use calibration::{
    Calibration, CalibrationError, CalibrationExit, CalibrationSample, ExitAccuracy, Labelled,
    RELIABILITY_BINS, Reliability, ReliabilityBin, TEMPERATURE_MAX, TEMPERATURE_MIN,
    TemperatureError, ThresholdEffect, bin_of, fit_temperature,
};
pub use contents::Contents;
pub use exit::{Exit, ONLY_OUTPUT, Output, ScoreForm, Scores};
pub use floats::Floats;
pub use footprint::{Footprint, Promises};
pub use layout::{
    IMAGE_FLOATS_MAX, ImageLayout, LANES, PACKED_ALIGNMENT, PLANNED_FLOATS_MAX, StageLayout,
};
pub use limits::{
    CLASSES_MAX, DIMENSION_MAX, GATHER_SOURCES_MAX, IMAGE_CHANNELS_MAX, KERNEL_MAX, NAME_BYTES_MAX,
    OPERATORS_MAX, OUTPUT_RANK_MAX, OUTPUTS_MAX, QUANTISED_PRODUCTS_MAX, TENSOR_ELEMENTS_MAX,
    VECTOR_LENGTH_MAX, VECTORS_MAX, WEIGHTS_MAX,
};
pub use liveness::TensorLifetime;
pub use network::{InputForm, InputSpec, Network, Stage, VectorSpec};
pub use operators::*;
pub use outputs::{OutputLayout, PlacedExit, PlacedOutput};
pub use package::{
    ContentHash, FORMAT_VERSION, ImageProblem, Origin, PAGE_BYTES, PAGE_FLOATS, Package,
    PackageError, PackageHash, SectionKind, SectionProblem, WeightImage,
};
pub use prefix::{DistinctWeights, PrefixHash, StagePrefix, same_stages};
pub use profile::{
    Disagreement, FieldFigure, FieldFigures, LaunchProfile, PreemptionProfile, PrepareOnDevice,
    PrepareProfile, Profile, ProfileError, ProfileKey, StageProfile, Verified,
};
pub use punctual_types::AnswerKind;
pub use quantised::Quantised;
pub use samples::{Quantiles, Samples};
pub use shape::{ShapeError, window_output};
pub use share::{Carried, cut_where_they_part};
pub use solution::{SolutionChoice, SolutionMemory};
pub use tensor::{Tensor, TensorId, WeightRange};
pub use timing::TimingHash;
pub use validate::{ExitError, NetworkError, OperatorError, StageError};
