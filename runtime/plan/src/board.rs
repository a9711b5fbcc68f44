//! Board files: facts of a board, each with its source.

use serde::Serialize;

/// A board.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Board {
    /// The name that manifests say.
    pub name: String,
    /// Number of processor cores; none when it is detected at run time.
    pub cores: Option<u16>,
    /// Memory in bytes, shared by processor and accelerator; none when it is detected at run time.
    pub memory_bytes: Option<u64>,
    /// Power modes; the first is the default.
    pub power_modes: Vec<String>,
}
