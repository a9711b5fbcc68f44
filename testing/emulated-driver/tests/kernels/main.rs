//! The CUDA kernels, their PTX interpreted on the processor, against what the operators mean
//! (`punctual_model::reference`).
//!
//! Inputs and weights are halves, so products are exact in `f32`. What is allowed is what rounding can do:
//! see [`error`].
mod buffer;
mod convolution;
mod dense;
mod detections;
mod elementwise;
mod error;
mod eviction;
mod frames;
mod grouped;
mod launch;
mod linear;
mod machines;
mod members;
mod mutations;
mod pools;
mod probes;
mod recurrent;
mod samples;
mod sampling;
mod tensor;
