//! Which of several kernels an operator is to use.

use serde::{Deserialize, Serialize};

/// That an operator is computed fastest by one of its *solutions*, as somebody has measured. It
/// changes no result beyond rounding, so it is no part of the network. A device may also have solutions for a whole stage,
/// which are chosen for its first operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolutionChoice {
    /// Its position among all operators in order of execution.
    pub operator: u32,
    /// At which batch size. Between two sizes the larger one's choice holds, beyond all of them the largest one's.
    pub batch: u8,
    /// On how many compute units. Between two numbers the smaller one's choice holds.
    pub units: u8,
    /// The solution's name. The general one answers for a name that a device does not know.
    pub solution: String,
}

/// What the solutions chosen for a network take in addition to its packed weights, on the machine that they were measured on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolutionMemory {
    /// Bytes of the weights that they derive from the packed ones, once a network.
    pub weight_bytes: u64,
    /// Bytes that each compute unit needs while it runs one of them, enough for any batch.
    pub scratch_bytes: u64,
}
