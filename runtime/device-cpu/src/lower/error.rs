//! Why the CPU device cannot run a network.

use punctual_kernels::KernelError;
use punctual_model::Network;
use thiserror::Error;

use crate::checker::Violation;

/// A network that the CPU device cannot run.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LowerError {
    #[error("operator `{operator}` of model `{model}` cannot be prepared: {source}")]
    Kernel {
        /// The network's name.
        model: String,
        operator: String,
        /// What the kernel says.
        source: KernelError,
    },
    #[error("stage {stage} of model `{model}` would be computed wrongly: {source}")]
    Wrong {
        /// The network's name.
        model: String,
        stage: usize,
        source: Box<Violation>,
    },
}

pub(super) fn error(network: &Network, operator: &str, source: KernelError) -> LowerError {
    LowerError::Kernel {
        model: network.name.clone(),
        operator: operator.to_owned(),
        source,
    }
}
