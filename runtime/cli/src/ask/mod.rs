//! What `punctual ask` does: a file becomes a frame, and what a daemon answers words, drawings and files.

pub mod answer;
pub mod daemon;
pub mod drawing;
pub mod files;
pub mod frame;
pub mod npy;
pub mod vectors;
pub mod written;
