//! The driver through `cudarc`'s raw interface, as the device uses it.
mod gpu;
mod launches;
