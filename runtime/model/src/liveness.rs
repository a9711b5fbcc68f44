//! Which operators of a stage need which of its tensors.

use crate::memory::Lifetime;
use crate::{Exit, Stage, TensorId};

/// How long a tensor is in use inside its stage, in operators of that stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorLifetime {
    pub tensor: TensorId,
    pub first: u32,
    /// The last operator that reads it. What the exit reads is read after the last operator: its number is that of the
    /// operators.
    pub last: u32,
}

impl TensorLifetime {
    /// The same with the tensor's size in the device's layout, for [`memory::plan`](crate::memory::plan).
    #[must_use]
    pub fn with_size(&self, size: usize) -> Lifetime {
        Lifetime {
            first: self.first,
            last: self.last,
            size,
        }
    }
}

impl Stage {
    /// The lifetimes of the stage's local tensors, in the order in which they are written: all
    /// that it writes but its `outputs`, which go to the request buffer.
    #[must_use]
    pub fn lifetimes(&self) -> Vec<TensorLifetime> {
        let last_read = |tensor: TensorId| {
            let mut exit = self.exit.iter().flat_map(Exit::reads);
            if exit.any(|read| read == tensor) {
                return Some(self.operators.len());
            }
            self.operators
                .iter()
                .rposition(|operator| operator.reads().any(|read| read == tensor))
        };
        let written = self
            .operators
            .iter()
            .map(|operator| operator.output)
            .enumerate();
        written
            .filter(|(_, tensor)| self.outputs.binary_search(tensor).is_err())
            .map(|(first, tensor)| TensorLifetime {
                tensor,
                first: first as u32,
                last: last_read(tensor).unwrap_or(first) as u32,
            })
            .collect()
    }
}
