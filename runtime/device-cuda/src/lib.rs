//! The CUDA device: stages as static lists of launches on partitions of TPCs.

pub mod driver;
pub mod lower;
pub mod padding;
pub mod partition;
pub mod queue;
pub mod structures;
