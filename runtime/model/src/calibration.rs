//! Calibration: what each exit said of held-out samples, and whether it was right. Expected
//! accuracy comes from this, never from a guess.

use serde::{Deserialize, Serialize};

/// Records of a held-out (tuning) set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// One record a sample.
    pub samples: Vec<CalibrationSample>,
}

/// One sample, run through all exits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibrationSample {
    /// One entry an exit.
    pub exits: Vec<CalibrationExit>,
}

/// What one exit said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibrationExit {
    /// Largest softmax output in units of 1/65535.
    pub confidence: u16,
    /// Whether that class was the label.
    pub correct: bool,
}
