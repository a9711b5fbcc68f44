//! Boxes, key points and masks from what detectors give.
//!
//! Each head has a structure that says what the network is like, with a `decode` that takes the tensors of one frame.
//! What comes out is in pixels of the network's input; a [`View`] maps it to the camera's frame. `docs/decode.md` lists
//! the shapes.
#![forbid(unsafe_code)]

/// Its examples are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/decode.md")]
struct Page;

mod boxes;
mod detection;
mod detections;
mod distribution;
mod error;
mod frame;
mod keypoints;
mod peaks;
mod prototypes;
mod rows;
mod scores;
mod sets;
mod ssd;
mod suppression;

pub use boxes::{BoxForm, BoxHead};
pub use detection::{Detection, Rect};
pub use detections::{Candidates, Detections, Keep};
pub use distribution::{DistributionHead, Level, LevelTensors};
pub use error::DecodeError;
pub use frame::View;
pub use keypoints::{Alignment, HeatMaps, KeyPoint, Refinement};
pub use peaks::PeakHead;
pub use prototypes::{Mask, Prototypes};
pub use punctual_types::Size;
pub use rows::{ROW_VALUES, Rows};
pub use scores::{Activation, Layout};
pub use sets::{SetHead, SetScores};
pub use ssd::{AnchorHead, Anchors, DefaultBoxes, GridAnchors};
pub use suppression::Suppression;
