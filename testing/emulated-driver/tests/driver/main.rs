//! The driver through `cudarc`'s raw interface, as the device uses it.
mod asynchrony;
mod copies;
mod devices;
mod faults;
mod gpu;
mod images;
mod launches;
mod masks;
mod modules;
